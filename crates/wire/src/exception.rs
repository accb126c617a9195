//! The one table between our error codes and HBase's Java classes (hbase-protocol.md 9.1), and the two forms exceptions travel
//! in. Knows nothing of retries: who receives an error asks its [`kind`](cadastre_types::Error::kind).

use cadastre_types::{Code, Detail, Error, MovedTo, ServerName};

use crate::pb;

/// What every class of HBase's own starts with.
const HBASE: &str = "org.apache.hadoop.hbase.";

const IO_EXCEPTION: &str = "java.io.IOException";

/// Java class behind [`Code::Unsupported`]: the cause inside a `DoNotRetryIOException`.
const UNSUPPORTED_OPERATION: &str = "java.lang.UnsupportedOperationException";

/// What a code becomes in Java.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Java {
    /// Class without [`HBASE`], or a whole one that starts with `java.`.
    class: &'static str,
    /// Whether it is a `DoNotRetryIOException` or below.
    do_not_retry: bool,
}

const fn retried(class: &'static str) -> Option<Java> {
    Some(Java {
        class,
        do_not_retry: false,
    })
}

const fn last(class: &'static str) -> Option<Java> {
    Some(Java {
        class,
        do_not_retry: true,
    })
}

/// The table. `None` only for codes it does not know (a new one), which a test forbids.
fn java(code: Code) -> Option<Java> {
    match code {
        // A fenced server has lost its region: the client must look for the new owner.
        Code::NotServingRegion | Code::Fenced => retried("NotServingRegionException"),
        Code::RegionMoved => retried("exceptions.RegionMovedException"),
        Code::RegionOpening => retried("exceptions.RegionOpeningException"),
        Code::WrongRegion => retried("regionserver.WrongRegionException"),
        Code::RegionOffline => retried("client.RegionOfflineException"),
        Code::RegionTooBusy => retried("RegionTooBusyException"),
        Code::RegionServerStopped => retried("regionserver.RegionServerStoppedException"),
        Code::RegionServerAborted => retried("regionserver.RegionServerAbortedException"),
        // Java cannot build a MasterStoppedException from text, and would fail the call where it should ask the next master.
        Code::ServerNotRunningYet | Code::MasterStopped => {
            retried("ipc.ServerNotRunningYetException")
        }
        Code::PleaseHold => retried("PleaseHoldException"),
        Code::MasterNotRunning => retried("MasterNotRunningException"),
        // HBase says so to a server that was declared dead; only our own masters ever read it.
        Code::MasterDeposed => retried("YouAreDeadException"),
        Code::CallQueueTooBig => retried("CallQueueTooBigException"),
        Code::CallDropped => retried("CallDroppedException"),
        Code::MultiActionResultTooLarge => retried("MultiActionResultTooLarge"),
        Code::TimeoutIo => retried("exceptions.TimeoutIOException"),
        Code::UnknownScanner => last("UnknownScannerException"),
        Code::OutOfOrderScannerNext => last("exceptions.OutOfOrderScannerNextException"),
        Code::ScannerReset => last("exceptions.ScannerResetException"),
        Code::LeaseException => last("regionserver.LeaseException"),
        Code::NoSuchColumnFamily => last("regionserver.NoSuchColumnFamilyException"),
        Code::TableNotFound => last("TableNotFoundException"),
        Code::TableExists => last("TableExistsException"),
        Code::TableNotEnabled => last("TableNotEnabledException"),
        Code::TableNotDisabled => last("TableNotDisabledException"),
        Code::NamespaceNotFound => last("NamespaceNotFoundException"),
        Code::NamespaceExist => last("NamespaceExistException"),
        Code::InvalidFamilyOperation => last("InvalidFamilyOperationException"),
        Code::Constraint => last("constraint.ConstraintException"),
        Code::FailedSanityCheck => last("exceptions.FailedSanityCheckException"),
        Code::RequestTooBig => last("exceptions.RequestTooBigException"),
        Code::RowTooBig => last("client.RowTooBigException"),
        Code::UnknownProtocol => last("exceptions.UnknownProtocolException"),
        Code::UnknownRegion => last("UnknownRegionException"),
        Code::RegionState => last("client.DoNotRetryRegionException"),
        Code::MergeRegion => last("exceptions.MergeRegionException"),
        Code::AccessDenied => last("security.AccessDeniedException"),
        // Damage and our own faults do not go away by asking again, so the caller hears of them at once.
        Code::DoNotRetryIo
        | Code::Unsupported
        | Code::Corrupt
        | Code::LogTruncated
        | Code::Internal => last("DoNotRetryIOException"),
        Code::FatalConnection => last("ipc.FatalConnectionException"),
        Code::WrongVersion => last("ipc.WrongVersionException"),
        Code::BadAuth => last("ipc.BadAuthException"),
        Code::UnknownService => last("ipc.UnknownServiceException"),
        Code::UnsupportedCellCodec => last("ipc.UnsupportedCellCodecException"),
        Code::UnsupportedCompressionCodec => last("ipc.UnsupportedCompressionCodecException"),
        Code::SecurityNotEnabled => last("ipc.SecurityNotEnabledException"),
        // These arise on the asking side; a server that passes one on reports trouble that may pass.
        Code::Io
        | Code::Remote
        | Code::NotSent
        | Code::OutcomeUnknown
        | Code::NoServerForRegion => retried(IO_EXCEPTION),
        _ => None,
    }
}

/// Java class of a code, whole. A code outside the table is a plain `IOException`, as in HBase.
pub fn class(code: Code) -> String {
    whole(java(code).map_or(IO_EXCEPTION, |java| java.class))
}

fn whole(class: &str) -> String {
    if class.starts_with("java.") {
        class.to_owned()
    } else {
        format!("{HBASE}{class}")
    }
}

/// The code of a Java class. Where several codes share a class the plainest one is meant.
fn code(class: &str) -> Option<Code> {
    if class == IO_EXCEPTION {
        return Some(Code::Io);
    }
    let short = class.strip_prefix(HBASE)?;
    match short {
        "NotServingRegionException" => Some(Code::NotServingRegion),
        "ipc.ServerNotRunningYetException" => Some(Code::ServerNotRunningYet),
        "DoNotRetryIOException" => Some(Code::DoNotRetryIo),
        // Classes that we read but never send.
        "exceptions.MasterStoppedException" => Some(Code::MasterStopped),
        "client.NoServerForRegionException" => Some(Code::NoServerForRegion),
        _ => Code::ALL
            .iter()
            .copied()
            .find(|code| java(*code).is_some_and(|java| java.class == short)),
    }
}

/// Codes whose text goes without the class before it, since clients test how it begins (1.6).
fn is_bare(code: Code) -> bool {
    matches!(
        code,
        Code::FatalConnection | Code::WrongVersion | Code::BadAuth
    )
}

/// Class, text and whether it is final, as one error travels.
struct Text {
    class: String,
    stack_trace: String,
    do_not_retry: bool,
}

fn text(error: &Error) -> Text {
    let message = error.message();
    let (class, do_not_retry) = match error.detail() {
        Some(Detail::Remote {
            class,
            do_not_retry,
        }) => (class.clone(), *do_not_retry),
        // Java reads the place out of the message, so without a place it is only "not here".
        None if error.code() == Code::RegionMoved => (class(Code::NotServingRegion), false),
        _ => (
            class(error.code()),
            java(error.code()).is_some_and(|java| java.do_not_retry),
        ),
    };
    let stack_trace = match error.detail() {
        Some(Detail::Moved(moved)) => format!("{class}: {}", moved_message(moved)),
        _ if error.code() == Code::Unsupported => format!(
            "{class}: {UNSUPPORTED_OPERATION}: {message}\nCaused by: {UNSUPPORTED_OPERATION}: {message}"
        ),
        _ if is_bare(error.code()) => message.to_owned(),
        _ => format!("{class}: {message}"),
    };
    Text {
        class,
        stack_trace,
        do_not_retry,
    }
}

/// The text that Java takes the new place from (9.1), to the letter.
fn moved_message(moved: &MovedTo) -> String {
    format!(
        "Region moved to: hostname={} port={} startCode={}. As of locationSeqNum={}.",
        moved.server.host, moved.server.port, moved.server.start_code, moved.sequence_number
    )
}

/// The place inside a text made by [`moved_message`].
fn parse_moved(text: &str) -> Option<MovedTo> {
    let after = |mark: &str| text.find(mark).map(|at| &text[at + mark.len()..]);
    let word = |rest: &'_ str, end: char| rest.split(end).next().map(str::to_owned);
    Some(MovedTo {
        server: ServerName {
            host: word(after("hostname=")?, ' ').filter(|host| !host.is_empty())?,
            port: word(after("port=")?, ' ')?.parse().ok()?,
            start_code: word(after("startCode=")?, '.')?.parse().ok()?,
        },
        sequence_number: word(after("locationSeqNum=")?, '.')?.parse().ok()?,
    })
}

/// An error as the header of a response carries it. Both texts are always set: gohbase reads them without asking.
pub fn to_response(error: &Error) -> pb::ExceptionResponse {
    let text = text(error);
    let moved = match error.detail() {
        Some(Detail::Moved(moved)) => Some(&moved.server),
        _ => None,
    };
    pb::ExceptionResponse {
        exception_class_name: Some(text.class),
        stack_trace: Some(text.stack_trace),
        hostname: moved.map(|server| server.host.clone()),
        port: moved.map(|server| i32::from(server.port)),
        do_not_retry: Some(text.do_not_retry),
        server_overloaded: matches!(error.code(), Code::CallQueueTooBig | Code::CallDropped)
            .then_some(true),
    }
}

/// The error inside the header of a response.
pub fn from_response(response: &pb::ExceptionResponse) -> Error {
    read(
        response.exception_class_name.as_deref().unwrap_or_default(),
        response.stack_trace.as_deref().unwrap_or_default(),
        response.do_not_retry,
    )
}

/// An error as `Multi` carries it, for one action or one region: class and text.
pub fn to_pair(error: &Error) -> pb::NameBytesPair {
    let text = text(error);
    pb::NameBytesPair {
        name: text.class,
        value: Some(text.stack_trace.into()),
    }
}

/// The error of one action or one region.
pub fn from_pair(pair: &pb::NameBytesPair) -> Error {
    let text = String::from_utf8_lossy(pair.value.as_deref().unwrap_or_default());
    read(&pair.name, &text, None)
}

fn read(class: &str, stack_trace: &str, do_not_retry: Option<bool>) -> Error {
    let message = message(class, stack_trace);
    let known = code(class);
    if known == Some(Code::RegionMoved) {
        return match parse_moved(message) {
            Some(moved) => Error::new(Code::RegionMoved, message).with_detail(Detail::Moved(moved)),
            None => Error::new(Code::NotServingRegion, message),
        };
    }
    if known == Some(Code::DoNotRetryIo)
        && let Some(rest) = message.strip_prefix(UNSUPPORTED_OPERATION)
    {
        return Error::new(Code::Unsupported, rest.trim_start_matches(": "));
    }
    match known {
        Some(code) => Error::new(code, message),
        None => Error::new(Code::Remote, message).with_detail(Detail::Remote {
            class: class.to_owned(),
            do_not_retry: do_not_retry.unwrap_or(false),
        }),
    }
}

/// What was said, without the class before it and the lines of the stack after it.
fn message<'a>(class: &str, stack_trace: &'a str) -> &'a str {
    let end = ["\n\tat ", "\nCaused by: "]
        .iter()
        .filter_map(|mark| stack_trace.find(mark))
        .min()
        .unwrap_or(stack_trace.len());
    let said = &stack_trace[..end];
    match said.strip_prefix(class) {
        Some(rest) if !class.is_empty() => rest.strip_prefix(": ").unwrap_or(rest),
        _ => said,
    }
    .trim_end_matches('\n')
}

#[cfg(test)]
mod tests;
