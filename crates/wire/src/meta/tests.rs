//! Tests of meta rows.
