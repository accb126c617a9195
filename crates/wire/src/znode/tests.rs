//! Tests of znode values.
