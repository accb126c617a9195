//! Requests: operation codes and their bodies.

use bytes::{Bytes, BytesMut};

use super::{Acl, Malformed, Reader, Writer, frame};

/// Operation codes.
pub mod op {
    #![allow(missing_docs, reason = "the names are ZooKeeper's own")]
    pub const CREATE: i32 = 1;
    pub const DELETE: i32 = 2;
    pub const EXISTS: i32 = 3;
    pub const GET_DATA: i32 = 4;
    pub const SET_DATA: i32 = 5;
    pub const GET_ACL: i32 = 6;
    pub const SET_ACL: i32 = 7;
    pub const GET_CHILDREN: i32 = 8;
    pub const SYNC: i32 = 9;
    pub const PING: i32 = 11;
    pub const GET_CHILDREN2: i32 = 12;
    pub const CHECK: i32 = 13;
    pub const MULTI: i32 = 14;
    pub const CREATE2: i32 = 15;
    pub const RECONFIG: i32 = 16;
    pub const REMOVE_WATCHES: i32 = 18;
    pub const CREATE_CONTAINER: i32 = 19;
    pub const CREATE_TTL: i32 = 21;
    pub const MULTI_READ: i32 = 22;
    pub const AUTH: i32 = 100;
    pub const SET_WATCHES: i32 = 101;
    pub const SASL: i32 = 102;
    pub const GET_EPHEMERALS: i32 = 103;
    pub const GET_ALL_CHILDREN_NUMBER: i32 = 104;
    pub const SET_WATCHES2: i32 = 105;
    pub const ADD_WATCH: i32 = 106;
    pub const WHO_AM_I: i32 = 107;
    pub const CLOSE_SESSION: i32 = -11;
    /// Of an error inside a multi's reply, and of its end.
    pub const ERROR: i32 = -1;
}

/// Stands before every request but the connect request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestHeader {
    /// Chosen by the client, copied into the reply.
    pub xid: i32,
    /// One of [`op`].
    pub opcode: i32,
}

impl RequestHeader {
    /// Reads it; the body follows in the reader.
    pub fn decode(reader: &mut Reader) -> Result<Self, Malformed> {
        Ok(Self {
            xid: reader.int()?,
            opcode: reader.int()?,
        })
    }
}

/// Which of the four operations that create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateForm {
    /// `create`: answers the path.
    Plain,
    /// `create2`: and the Stat.
    WithStat,
    /// `createContainer`.
    Container,
    /// `createTTL`, ms.
    Ttl(i64),
}

/// A creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Create {
    /// Which operation.
    pub form: CreateForm,
    /// Path; a number is appended when sequential.
    pub path: String,
    /// Data; null and empty are kept apart.
    pub data: Option<Bytes>,
    /// Access control list.
    pub acl: Vec<Acl>,
    /// 0 persistent, 1 ephemeral, 2 persistent sequential, 3 ephemeral sequential, 4 container, 5 and 6 TTL.
    pub flags: i32,
}

/// Watches set again after a reconnect.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SetWatches {
    /// Last zxid seen in any reply.
    pub relative_zxid: i64,
    /// Paths with a data watch.
    pub data: Vec<String>,
    /// Paths of missing znodes with an exists watch.
    pub exist: Vec<String>,
    /// Paths with a child watch.
    pub child: Vec<String>,
    /// `setWatches2` only: persistent and recursive watches.
    pub persistent: Option<(Vec<String>, Vec<String>)>,
}

/// A request without its header.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "the fields are ZooKeeper's own, explained in fact sheet section 3"
)]
pub enum Request {
    /// create, create2, createContainer, createTTL.
    Create(Create),
    /// delete; version -1 is any.
    Delete { path: String, version: i32 },
    /// check; version -1 is any.
    Check { path: String, version: i32 },
    /// exists.
    Exists { path: String, watch: bool },
    /// getData.
    GetData { path: String, watch: bool },
    /// setData; version -1 is any.
    SetData {
        path: String,
        data: Option<Bytes>,
        version: i32,
    },
    /// getACL.
    GetAcl { path: String },
    /// setACL.
    SetAcl {
        path: String,
        acl: Vec<Acl>,
        version: i32,
    },
    /// getChildren.
    GetChildren { path: String, watch: bool },
    /// getChildren2: and the Stat.
    GetChildren2 { path: String, watch: bool },
    /// sync.
    Sync { path: String },
    /// multi: create, create2, container, delete, setData, check; all or none.
    Multi(Vec<Request>),
    /// multiRead: getData, getChildren; each by itself.
    MultiRead(Vec<Request>),
    /// ping.
    Ping,
    /// closeSession.
    CloseSession,
    /// whoAmI.
    WhoAmI,
    /// removeWatches; kind 1 children, 2 data, 3 any.
    RemoveWatches { path: String, kind: i32 },
    /// setWatches, setWatches2.
    SetWatches(SetWatches),
    /// addWatch; mode 0 persistent, 1 recursive.
    AddWatch { path: String, mode: i32 },
    /// auth.
    Auth { scheme: String, auth: Option<Bytes> },
    /// sasl.
    Sasl { token: Option<Bytes> },
    /// getEphemerals below a prefix.
    GetEphemerals { path: String },
    /// getAllChildrenNumber: all descendants.
    GetAllChildrenNumber { path: String },
}

/// Why a body could not be read; the server answers each differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// No such operation.
    Unknown,
    /// The operation's body is not what it should be.
    Malformed(Malformed),
}

impl From<Malformed> for Unreadable {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl Request {
    /// Reads the body of an operation.
    pub fn decode(opcode: i32, reader: &mut Reader) -> Result<Self, Unreadable> {
        Ok(match opcode {
            op::CREATE | op::CREATE2 | op::CREATE_CONTAINER | op::CREATE_TTL => {
                Self::Create(decode_create(opcode, reader)?)
            }
            op::DELETE => Self::Delete {
                path: reader.string()?,
                version: reader.int()?,
            },
            op::CHECK => Self::Check {
                path: reader.string()?,
                version: reader.int()?,
            },
            op::SET_DATA => Self::SetData {
                path: reader.string()?,
                data: reader.buffer()?,
                version: reader.int()?,
            },
            op::SET_ACL => Self::SetAcl {
                path: reader.string()?,
                acl: Acl::decode_list(reader)?,
                version: reader.int()?,
            },
            op::MULTI => Self::Multi(decode_multi(reader, |opcode| {
                matches!(
                    opcode,
                    op::CREATE
                        | op::CREATE2
                        | op::CREATE_CONTAINER
                        | op::CREATE_TTL
                        | op::DELETE
                        | op::SET_DATA
                        | op::CHECK
                )
            })?),
            op::MULTI_READ => Self::MultiRead(decode_multi(reader, |opcode| {
                matches!(opcode, op::GET_DATA | op::GET_CHILDREN)
            })?),
            op::PING => Self::Ping,
            op::CLOSE_SESSION => Self::CloseSession,
            op::WHO_AM_I => Self::WhoAmI,
            op::AUTH => {
                reader.int()?;
                Self::Auth {
                    scheme: reader.string()?,
                    auth: reader.buffer()?,
                }
            }
            op::SASL => Self::Sasl {
                token: reader.buffer()?,
            },
            // A standalone server answers so whatever is asked (recorded).
            op::RECONFIG => return Err(Malformed("reconfig on a standalone server").into()),
            _ => return Self::decode_read(opcode, reader),
        })
    }

    fn decode_read(opcode: i32, reader: &mut Reader) -> Result<Self, Unreadable> {
        Ok(match opcode {
            op::EXISTS => Self::Exists {
                path: reader.string()?,
                watch: reader.bool()?,
            },
            op::GET_DATA => Self::GetData {
                path: reader.string()?,
                watch: reader.bool()?,
            },
            op::GET_ACL => Self::GetAcl {
                path: reader.string()?,
            },
            op::GET_CHILDREN => Self::GetChildren {
                path: reader.string()?,
                watch: reader.bool()?,
            },
            op::GET_CHILDREN2 => Self::GetChildren2 {
                path: reader.string()?,
                watch: reader.bool()?,
            },
            op::SYNC if reader.remaining() == 0 => Self::Sync {
                path: String::new(),
            },
            op::SYNC => Self::Sync {
                path: reader.string()?,
            },
            op::REMOVE_WATCHES => Self::RemoveWatches {
                path: reader.string()?,
                kind: reader.int()?,
            },
            op::SET_WATCHES | op::SET_WATCHES2 => Self::SetWatches(SetWatches {
                relative_zxid: reader.long()?,
                data: reader.strings()?,
                exist: reader.strings()?,
                child: reader.strings()?,
                persistent: (opcode == op::SET_WATCHES2)
                    .then(|| Ok::<_, Malformed>((reader.strings()?, reader.strings()?)))
                    .transpose()?,
            }),
            op::ADD_WATCH => Self::AddWatch {
                path: reader.string()?,
                mode: reader.int()?,
            },
            op::GET_EPHEMERALS => Self::GetEphemerals {
                path: reader.string()?,
            },
            op::GET_ALL_CHILDREN_NUMBER => Self::GetAllChildrenNumber {
                path: reader.string()?,
            },
            _ => return Err(Unreadable::Unknown),
        })
    }

    /// The operation code.
    pub fn opcode(&self) -> i32 {
        match self {
            Self::Create(create) => match create.form {
                CreateForm::Plain => op::CREATE,
                CreateForm::WithStat => op::CREATE2,
                CreateForm::Container => op::CREATE_CONTAINER,
                CreateForm::Ttl(_) => op::CREATE_TTL,
            },
            Self::Delete { .. } => op::DELETE,
            Self::Check { .. } => op::CHECK,
            Self::Exists { .. } => op::EXISTS,
            Self::GetData { .. } => op::GET_DATA,
            Self::SetData { .. } => op::SET_DATA,
            Self::GetAcl { .. } => op::GET_ACL,
            Self::SetAcl { .. } => op::SET_ACL,
            Self::GetChildren { .. } => op::GET_CHILDREN,
            Self::GetChildren2 { .. } => op::GET_CHILDREN2,
            Self::Sync { .. } => op::SYNC,
            Self::Multi(_) => op::MULTI,
            Self::MultiRead(_) => op::MULTI_READ,
            Self::Ping => op::PING,
            Self::CloseSession => op::CLOSE_SESSION,
            Self::WhoAmI => op::WHO_AM_I,
            Self::RemoveWatches { .. } => op::REMOVE_WATCHES,
            Self::SetWatches(watches) if watches.persistent.is_some() => op::SET_WATCHES2,
            Self::SetWatches(_) => op::SET_WATCHES,
            Self::AddWatch { .. } => op::ADD_WATCH,
            Self::Auth { .. } => op::AUTH,
            Self::Sasl { .. } => op::SASL,
            Self::GetEphemerals { .. } => op::GET_EPHEMERALS,
            Self::GetAllChildrenNumber { .. } => op::GET_ALL_CHILDREN_NUMBER,
        }
    }

    /// Appends the whole frame, header included.
    pub fn encode(&self, xid: i32, out: &mut BytesMut) {
        frame(out, |out| {
            out.int(xid);
            out.int(self.opcode());
            self.encode_body(out);
        });
    }

    fn encode_body(&self, out: &mut BytesMut) {
        match self {
            Self::Create(create) => {
                out.string(&create.path);
                out.buffer(create.data.as_deref());
                Acl::encode_list(&create.acl, out);
                out.int(create.flags);
                if let CreateForm::Ttl(ttl_ms) = create.form {
                    out.long(ttl_ms);
                }
            }
            Self::Delete { path, version } | Self::Check { path, version } => {
                out.string(path);
                out.int(*version);
            }
            Self::SetData {
                path,
                data,
                version,
            } => {
                out.string(path);
                out.buffer(data.as_deref());
                out.int(*version);
            }
            Self::SetAcl { path, acl, version } => {
                out.string(path);
                Acl::encode_list(acl, out);
                out.int(*version);
            }
            Self::Exists { path, watch }
            | Self::GetData { path, watch }
            | Self::GetChildren { path, watch }
            | Self::GetChildren2 { path, watch } => {
                out.string(path);
                out.bool(*watch);
            }
            Self::GetAcl { path }
            | Self::Sync { path }
            | Self::GetEphemerals { path }
            | Self::GetAllChildrenNumber { path } => out.string(path),
            Self::Multi(items) | Self::MultiRead(items) => encode_multi(items, out),
            Self::Ping | Self::CloseSession | Self::WhoAmI => {}
            Self::RemoveWatches { path, kind: number } | Self::AddWatch { path, mode: number } => {
                out.string(path);
                out.int(*number);
            }
            Self::SetWatches(watches) => {
                out.long(watches.relative_zxid);
                out.strings(&watches.data);
                out.strings(&watches.exist);
                out.strings(&watches.child);
                if let Some((persistent, recursive)) = &watches.persistent {
                    out.strings(persistent);
                    out.strings(recursive);
                }
            }
            Self::Auth { scheme, auth } => {
                out.int(0);
                out.string(scheme);
                out.buffer(auth.as_deref());
            }
            Self::Sasl { token } => out.buffer(token.as_deref()),
        }
    }
}

fn decode_create(opcode: i32, reader: &mut Reader) -> Result<Create, Malformed> {
    let path = reader.string()?;
    let data = reader.buffer()?;
    let acl = Acl::decode_list(reader)?;
    let flags = reader.int()?;
    let form = match opcode {
        op::CREATE => CreateForm::Plain,
        op::CREATE2 => CreateForm::WithStat,
        op::CREATE_CONTAINER => CreateForm::Container,
        _ => CreateForm::Ttl(reader.long()?),
    };
    Ok(Create {
        form,
        path,
        data,
        acl,
        flags,
    })
}

/// Items up to the end marker. Multis do not nest, so the depth is bounded.
fn decode_multi(
    reader: &mut Reader,
    allowed: impl Fn(i32) -> bool,
) -> Result<Vec<Request>, Malformed> {
    let mut items = Vec::new();
    loop {
        let opcode = reader.int()?;
        let done = reader.bool()?;
        reader.int()?;
        if done {
            return Ok(items);
        }
        if !allowed(opcode) {
            return Err(Malformed("operation inside a multi"));
        }
        match Request::decode(opcode, reader) {
            Ok(item) => items.push(item),
            Err(Unreadable::Malformed(malformed)) => return Err(malformed),
            Err(Unreadable::Unknown) => return Err(Malformed("operation inside a multi")),
        }
    }
}

fn encode_multi(items: &[Request], out: &mut BytesMut) {
    for item in items {
        out.int(item.opcode());
        out.bool(false);
        out.int(-1);
        item.encode_body(out);
    }
    out.int(op::ERROR);
    out.bool(true);
    out.int(-1);
}
