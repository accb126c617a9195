//! One error for the whole project: a [`Code`] with HBase's meaning, grouped by what the caller must do.

use std::fmt;

/// Shorthand.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the caller must do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Try again here after a pause.
    Retry,
    /// The location is wrong: look it up again.
    Relocate,
    /// This server cannot serve now: try another one of the same kind.
    Failover,
    /// Somebody newer owns what we thought we own: drop it.
    Fenced,
    /// The request can never succeed as it is.
    Invalid,
    /// Over a limit: make it smaller.
    TooBig,
    /// Stored or received bytes are damaged.
    Corrupt,
    /// A fault of ours.
    Internal,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident => $kind:ident,)*) => {
        /// What went wrong, named as HBase names it where it has a name. `wire` holds the table of Java classes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code { $($(#[$doc])* $name,)* }

        impl Code {
            /// Every code, for tables that must be complete.
            pub const ALL: &[Code] = &[$(Code::$name,)*];

            /// What the caller must do.
            pub fn kind(self) -> ErrorKind {
                match self { $(Code::$name => ErrorKind::$kind,)* }
            }
        }
    };
}

codes! {
    /// The region is not here.
    NotServingRegion => Relocate,
    /// The region moved; [`Detail::Moved`] says where to.
    RegionMoved => Relocate,
    /// The region is opening here.
    RegionOpening => Retry,
    /// The row lies outside the region.
    WrongRegion => Relocate,
    /// The region is offline (its table disabled, or a split parent).
    RegionOffline => Relocate,
    /// The region takes no more writes for now.
    RegionTooBusy => Retry,
    /// The server is stopping.
    RegionServerStopped => Relocate,
    /// The server is aborting.
    RegionServerAborted => Relocate,
    /// The server, or a standby master, does not serve yet.
    ServerNotRunningYet => Failover,
    /// The master is initialising.
    PleaseHold => Retry,
    /// There is no master.
    MasterNotRunning => Failover,
    /// The master stops.
    MasterStopped => Failover,
    /// Too many calls wait.
    CallQueueTooBig => Retry,
    /// The call was shed.
    CallDropped => Retry,
    /// What is left of the batch is to be sent again at once.
    MultiActionResultTooLarge => Retry,
    /// A row lock or a scan did not get done before its deadline.
    TimeoutIo => Retry,
    /// Try again: anything of ours that may pass.
    Io => Retry,
    /// The scanner's id is unknown, or its lease has run out.
    UnknownScanner => Invalid,
    /// A scanner call came out of order.
    OutOfOrderScannerNext => Invalid,
    /// The scanner broke in the middle; open a new one behind the last row.
    ScannerReset => Invalid,
    /// A second call while one is running on the scanner.
    LeaseException => Invalid,
    /// The family does not exist.
    NoSuchColumnFamily => Invalid,
    /// The table does not exist.
    TableNotFound => Invalid,
    /// The table exists.
    TableExists => Invalid,
    /// The table is not enabled.
    TableNotEnabled => Invalid,
    /// The table is not disabled.
    TableNotDisabled => Invalid,
    /// The namespace does not exist.
    NamespaceNotFound => Invalid,
    /// The namespace exists.
    NamespaceExist => Invalid,
    /// A family operation that cannot be.
    InvalidFamilyOperation => Invalid,
    /// A rule about names or reserved things is broken.
    Constraint => Invalid,
    /// A mutation or descriptor that makes no sense.
    FailedSanityCheck => Invalid,
    /// The frame is over the limit.
    RequestTooBig => TooBig,
    /// The row is over the limit.
    RowTooBig => TooBig,
    /// A coprocessor or a call form that does not exist.
    UnknownProtocol => Invalid,
    /// A region that does not exist was named to the master.
    UnknownRegion => Invalid,
    /// The region is not in the state that the call is for.
    RegionState => Invalid,
    /// The regions cannot be merged.
    MergeRegion => Invalid,
    /// The caller may not.
    AccessDenied => Invalid,
    /// Anything final.
    DoNotRetryIo => Invalid,
    /// The call is not supported: DoNotRetryIOException caused by UnsupportedOperationException.
    Unsupported => Invalid,
    /// The connection's start was wrong; fails every pending call.
    FatalConnection => Invalid,
    /// The preamble's version is unknown.
    WrongVersion => Invalid,
    /// The preamble's authentication method is unknown.
    BadAuth => Invalid,
    /// The named service does not exist here.
    UnknownService => Invalid,
    /// The named cell codec is unknown.
    UnsupportedCellCodec => Invalid,
    /// The named compressor is unknown.
    UnsupportedCompressionCodec => Invalid,
    /// Security is off.
    SecurityNotEnabled => Invalid,
    /// Somebody newer writes to the store.
    Fenced => Fenced,
    /// A newer master has taken over from the one that asks.
    MasterDeposed => Fenced,
    /// Bytes on disk or from the peer are damaged.
    Corrupt => Corrupt,
    /// What is asked for of a log is not kept any more: begin again from the data.
    LogTruncated => Invalid,
    /// The connection broke before the call was sent.
    NotSent => Failover,
    /// The connection broke, or the time ran out, after the call was sent: it may have been executed.
    OutcomeUnknown => Retry,
    /// No location could be found for the row.
    NoServerForRegion => Retry,
    /// Another exception of the peer's; [`Detail::Remote`] has its class.
    Remote => Retry,
    /// A fault of ours.
    Internal => Internal,
}

/// Where a region went (`RegionMovedException`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedTo {
    /// The server it went to.
    pub server: crate::ServerName,
    /// The open sequence number of the location we know of.
    pub sequence_number: u64,
}

/// What some codes carry beside their message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detail {
    /// With [`Code::RegionMoved`].
    Moved(MovedTo),
    /// With [`Code::Remote`]: an exception that has no code here.
    Remote {
        /// Java class.
        class: String,
        /// Whether the peer said never to retry.
        do_not_retry: bool,
    },
}

/// The error of every crate's public interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    code: Code,
    message: String,
    detail: Option<Box<Detail>>,
}

impl Error {
    /// An error with a message that says what happened, and where it helps, what to do.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            detail: None,
        }
    }

    /// The same with details.
    pub fn with_detail(mut self, detail: Detail) -> Self {
        self.detail = Some(Box::new(detail));
        self
    }

    /// Anything final: `DoNotRetryIOException`.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::DoNotRetryIo, message)
    }

    /// A call that is not supported, refused as HBase refuses an unknown one.
    pub fn unsupported(what: impl fmt::Display) -> Self {
        Self::new(
            Code::Unsupported,
            format!("{what} is not supported by Cadastre"),
        )
    }

    /// Damaged bytes.
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(Code::Corrupt, message)
    }

    /// What happened.
    pub fn code(&self) -> Code {
        self.code
    }

    /// What the caller must do. A remote exception that its server marked so is final.
    pub fn kind(&self) -> ErrorKind {
        match self.detail.as_deref() {
            Some(Detail::Remote {
                do_not_retry: true, ..
            }) => ErrorKind::Invalid,
            _ => self.code.kind(),
        }
    }

    /// The message alone.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What the code carries.
    pub fn detail(&self) -> Option<&Detail> {
        self.detail.as_deref()
    }

    /// The same error with words before its message that say what was being done.
    pub fn context(mut self, doing: impl fmt::Display) -> Self {
        self.message = format!("{doing}: {}", self.message);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.detail.as_deref() {
            Some(Detail::Remote { class, .. }) => write!(f, "{class}: {}", self.message),
            _ => write!(f, "{:?}: {}", self.code, self.message),
        }
    }
}

impl std::error::Error for Error {}
