//! The records of ZooKeeper's protocol that are neither a request nor a reply body, and its error codes.

use bytes::{Bytes, BytesMut};

use super::{Malformed, Reader, ReplyHeader, Writer, XID_EVENT, frame};

/// All permissions: read 1, write 2, create 4, delete 8, admin 16.
pub const OPEN_ACL_PERMS: i32 = 31;

/// First frame of a connection, from the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectRequest {
    /// 0; 1 is taken too.
    pub protocol_version: i32,
    /// Highest zxid in any reply the client ever had.
    pub last_zxid_seen: i64,
    /// Session timeout asked for, ms.
    pub timeout_ms: i32,
    /// 0 for a new session.
    pub session_id: i64,
    /// 16 bytes; zeros for a new session.
    pub password: Bytes,
    /// Missing with clients that do not know of read-only servers (Go, Node).
    pub read_only: Option<bool>,
}

impl ConnectRequest {
    /// Reads a frame without its length.
    pub fn decode(frame: Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader::new(frame);
        Ok(Self {
            protocol_version: reader.int()?,
            last_zxid_seen: reader.long()?,
            timeout_ms: reader.int()?,
            session_id: reader.long()?,
            password: reader.buffer()?.unwrap_or_default(),
            read_only: (reader.remaining() > 0)
                .then(|| reader.bool())
                .transpose()?,
        })
    }

    /// Appends the whole frame.
    pub fn encode(&self, out: &mut BytesMut) {
        frame(out, |out| {
            out.int(self.protocol_version);
            out.long(self.last_zxid_seen);
            out.int(self.timeout_ms);
            out.long(self.session_id);
            out.buffer(Some(&self.password));
            if let Some(read_only) = self.read_only {
                out.bool(read_only);
            }
        });
    }
}

/// First frame of a connection, from the server. Session 0 with timeout 0 says: unknown or expired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectResponse {
    /// Always 0.
    pub protocol_version: i32,
    /// Session timeout that holds, ms.
    pub timeout_ms: i32,
    /// The session.
    pub session_id: i64,
    /// To be sent back on reconnects.
    pub password: Bytes,
    /// Sent only to clients that sent theirs.
    pub read_only: Option<bool>,
}

impl ConnectResponse {
    /// Reads a frame without its length.
    pub fn decode(frame: Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader::new(frame);
        Ok(Self {
            protocol_version: reader.int()?,
            timeout_ms: reader.int()?,
            session_id: reader.long()?,
            password: reader.buffer()?.unwrap_or_default(),
            read_only: (reader.remaining() > 0)
                .then(|| reader.bool())
                .transpose()?,
        })
    }

    /// Appends the whole frame.
    pub fn encode(&self, out: &mut BytesMut) {
        frame(out, |out| {
            out.int(self.protocol_version);
            out.int(self.timeout_ms);
            out.long(self.session_id);
            out.buffer(Some(&self.password));
            if let Some(read_only) = self.read_only {
                out.bool(read_only);
            }
        });
    }
}

/// What is known of a znode besides its data (68 bytes).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stat {
    /// Zxid of the creation.
    pub czxid: i64,
    /// Zxid of the last setData.
    pub mzxid: i64,
    /// Creation, ms since 1970.
    pub ctime: i64,
    /// Last setData, ms since 1970.
    pub mtime: i64,
    /// Number of setData.
    pub version: i32,
    /// Number of creations and deletions of children.
    pub cversion: i32,
    /// Number of setACL.
    pub aversion: i32,
    /// Session of an ephemeral znode, else 0.
    pub ephemeral_owner: i64,
    /// Length of the data, bytes.
    pub data_length: i32,
    /// Number of children.
    pub num_children: i32,
    /// Zxid of the last creation or deletion of a child.
    pub pzxid: i64,
}

impl Stat {
    pub(super) fn decode(reader: &mut Reader) -> Result<Self, Malformed> {
        Ok(Self {
            czxid: reader.long()?,
            mzxid: reader.long()?,
            ctime: reader.long()?,
            mtime: reader.long()?,
            version: reader.int()?,
            cversion: reader.int()?,
            aversion: reader.int()?,
            ephemeral_owner: reader.long()?,
            data_length: reader.int()?,
            num_children: reader.int()?,
            pzxid: reader.long()?,
        })
    }

    pub(super) fn encode(&self, out: &mut BytesMut) {
        out.long(self.czxid);
        out.long(self.mzxid);
        out.long(self.ctime);
        out.long(self.mtime);
        out.int(self.version);
        out.int(self.cversion);
        out.int(self.aversion);
        out.long(self.ephemeral_owner);
        out.int(self.data_length);
        out.int(self.num_children);
        out.long(self.pzxid);
    }
}

/// One entry of an access control list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acl {
    /// Sum of permissions.
    pub perms: i32,
    /// Scheme; `world` is the only one we have.
    pub scheme: String,
    /// Who, within the scheme; `anyone`.
    pub id: String,
}

impl Acl {
    /// Everybody may do everything: `world:anyone` 31.
    pub fn open() -> Vec<Self> {
        vec![Self {
            perms: OPEN_ACL_PERMS,
            scheme: "world".into(),
            id: "anyone".into(),
        }]
    }

    pub(super) fn decode_list(reader: &mut Reader) -> Result<Vec<Self>, Malformed> {
        reader.vector(12, |reader| {
            Ok(Self {
                perms: reader.int()?,
                scheme: reader.string()?,
                id: reader.string()?,
            })
        })
    }

    pub(super) fn encode_list(list: &[Self], out: &mut BytesMut) {
        out.int(super::wire_length(list.len()));
        for acl in list {
            out.int(acl.perms);
            out.string(&acl.scheme);
            out.string(&acl.id);
        }
    }
}

/// What happened to a watched znode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventType {
    /// It was made.
    Created = 1,
    /// It was deleted.
    Deleted = 2,
    /// Its data were set.
    DataChanged = 3,
    /// A child was made or deleted.
    ChildrenChanged = 4,
}

/// A watch event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatcherEvent {
    /// What happened.
    pub kind: EventType,
    /// The znode.
    pub path: String,
}

/// State in every event: connected.
const STATE_CONNECTED: i32 = 3;

impl WatcherEvent {
    /// Appends the whole frame, its header included.
    pub fn encode(&self, out: &mut BytesMut) {
        frame(out, |out| {
            ReplyHeader {
                xid: XID_EVENT,
                zxid: -1,
                err: 0,
            }
            .encode(out);
            out.int(self.kind as i32);
            out.int(STATE_CONNECTED);
            out.string(&self.path);
        });
    }

    /// Reads what stands behind the header; events of other types (session states) are `None`.
    pub fn decode(reader: &mut Reader) -> Result<Option<Self>, Malformed> {
        let kind = match reader.int()? {
            1 => EventType::Created,
            2 => EventType::Deleted,
            3 => EventType::DataChanged,
            4 => EventType::ChildrenChanged,
            _ => return Ok(None),
        };
        reader.int()?;
        Ok(Some(Self {
            kind,
            path: reader.string()?,
        }))
    }
}

macro_rules! error_codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal,)*) => {
        /// ZooKeeper's error codes, as far as our server gives them or our client tells them apart.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum ErrorCode { $($(#[$doc])* $name,)* }

        impl ErrorCode {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The number on the wire.
            pub fn code(self) -> i32 {
                match self { $(Self::$name => $code,)* }
            }

            /// From the number on the wire.
            pub fn from_code(code: i32) -> Option<Self> {
                match code { $($code => Some(Self::$name),)* _ => None }
            }

            /// The Java class of the exception that clients of the field see.
            pub fn class(self) -> &'static str {
                match self {
                    $(Self::$name => concat!(
                        "org.apache.zookeeper.KeeperException$", stringify!($name), "Exception"
                    ),)*
                }
            }

            /// From the Java class.
            pub fn from_class(class: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.class() == class)
            }
        }
    };
}

error_codes! {
    /// In a failed multi: not tried, because one before it failed.
    RuntimeInconsistency = -2,
    /// The connection broke; clients only.
    ConnectionLoss = -4,
    /// The request could not be read.
    MarshallingError = -5,
    /// No such operation here.
    Unimplemented = -6,
    /// A path or flag that cannot be.
    BadArguments = -8,
    /// The znode does not exist.
    NoNode = -101,
    /// The access control list forbids it.
    NoAuth = -102,
    /// The version is another one.
    BadVersion = -103,
    /// An ephemeral znode cannot have children.
    NoChildrenForEphemerals = -108,
    /// The znode exists.
    NodeExists = -110,
    /// The znode has children.
    NotEmpty = -111,
    /// The session is gone.
    SessionExpired = -112,
    /// An access control list that cannot be.
    InvalidACL = -114,
    /// Authentication failed.
    AuthFailed = -115,
    /// There is no such watch.
    NoWatcher = -121,
    /// A limit of the server is reached (3.6 and later know the code).
    QuotaExceeded = -125,
}
