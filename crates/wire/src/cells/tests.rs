//! Tests of cell blocks.
