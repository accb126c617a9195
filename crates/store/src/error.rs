//! SlateDB's and object_store's errors as the project's.

use cadastre_types::{Code, Error};
use slatedb::{CloseReason, ErrorKind};

/// What a failed call to a region's database means to its caller.
pub(crate) fn from_slatedb(error: &slatedb::Error) -> Error {
    // What the object store says is final is damage: an object that was cut off.
    let is_cut_off = slatedb_common::retry::NonRetryable::find(error).is_some();
    let code = match error.kind() {
        _ if is_cut_off => Code::Corrupt,
        ErrorKind::Closed(CloseReason::Fenced) => Code::Fenced,
        // Closed cleanly, or after a fault: either way it is not served here any more.
        ErrorKind::Closed(_) => Code::NotServingRegion,
        ErrorKind::Unavailable => Code::Io,
        ErrorKind::Data => Code::Corrupt,
        _ => Code::Internal,
    };
    Error::new(code, describe(error))
}

/// An error and its causes in one line.
fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

/// A failed call to the object store.
pub(crate) fn from_object_store(error: &object_store::Error) -> Error {
    Error::new(Code::Io, describe(error))
}

/// A failed operation on a file of the log.
pub(crate) fn from_io(what: &str, error: &std::io::Error) -> Error {
    Error::new(Code::Io, format!("{what}: {error}"))
}
