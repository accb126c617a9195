//! The store through its public interface, one module for each subject. One program: each would link all of SlateDB again.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

mod clone;
mod common;
mod compactions;
mod crash;
mod fault;
mod fault_store;
mod files;
mod follow;
#[cfg(feature = "fuzzing")]
mod fuzzed;
mod golden;
mod keys;
mod model;
mod passing;
mod path;
#[cfg(feature = "planted-faults")]
mod planted;
mod row_cache;
mod rows;
mod scenarios;
mod shared;
mod storage_faults;
