//! Tests of the exception table.
