//! Replies: the header and the bodies.

use bytes::{Bytes, BytesMut};

use super::{Acl, Malformed, Reader, Stat, Writer, frame, op};

/// Stands before every reply and event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyHeader {
    /// The request's.
    pub xid: i32,
    /// Reads: the last one applied; writes: their own.
    pub zxid: i64,
    /// 0, or an error code; then there is no body.
    pub err: i32,
}

impl ReplyHeader {
    /// Reads it; the body follows in the reader.
    pub fn decode(reader: &mut Reader) -> Result<Self, Malformed> {
        Ok(Self {
            xid: reader.int()?,
            zxid: reader.long()?,
            err: reader.int()?,
        })
    }

    pub(super) fn encode(&self, out: &mut BytesMut) {
        out.int(self.xid);
        out.long(self.zxid);
        out.int(self.err);
    }
}

/// One operation's part in the reply to a multi: its operation code and reply, or an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// Done.
    Done(i32, Response),
    /// Failed, or not done because another one failed; an error code, 0 before the culprit.
    Failed(i32),
}

/// A reply's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    /// Nothing.
    Empty,
    /// create, sync.
    Path(String),
    /// create2 and its like.
    PathStat(String, Stat),
    /// exists, setData, setACL.
    Stat(Stat),
    /// getData.
    Data(Option<Bytes>, Stat),
    /// getACL.
    Acl(Vec<Acl>, Stat),
    /// getChildren, getEphemerals.
    Names(Vec<String>),
    /// getChildren2.
    NamesStat(Vec<String>, Stat),
    /// multi, multiRead.
    Multi(Vec<Item>),
    /// whoAmI: scheme and id.
    Ids(Vec<(String, String)>),
    /// addWatch, getAllChildrenNumber.
    Number(i32),
    /// sasl.
    Token(Option<Bytes>),
}

impl Response {
    /// Reads the body of a reply without error to this operation.
    pub fn decode(opcode: i32, reader: &mut Reader) -> Result<Self, Malformed> {
        Ok(match opcode {
            op::CREATE | op::SYNC => Self::Path(reader.string()?),
            op::CREATE2 | op::CREATE_CONTAINER | op::CREATE_TTL => {
                Self::PathStat(reader.string()?, Stat::decode(reader)?)
            }
            op::EXISTS | op::SET_DATA | op::SET_ACL => Self::Stat(Stat::decode(reader)?),
            op::GET_DATA => Self::Data(reader.buffer()?, Stat::decode(reader)?),
            op::GET_ACL => Self::Acl(Acl::decode_list(reader)?, Stat::decode(reader)?),
            op::GET_CHILDREN | op::GET_EPHEMERALS => Self::Names(reader.strings()?),
            op::GET_CHILDREN2 => Self::NamesStat(reader.strings()?, Stat::decode(reader)?),
            op::MULTI | op::MULTI_READ => Self::Multi(decode_multi(reader)?),
            op::WHO_AM_I => {
                Self::Ids(reader.vector(8, |reader| Ok((reader.string()?, reader.string()?)))?)
            }
            op::ADD_WATCH | op::GET_ALL_CHILDREN_NUMBER => Self::Number(reader.int()?),
            op::SASL => Self::Token(reader.buffer()?),
            _ => Self::Empty,
        })
    }

    /// Appends the whole frame of a reply; a body only goes out when there is no error.
    pub fn encode_reply(header: ReplyHeader, body: Option<&Self>, out: &mut BytesMut) {
        frame(out, |out| {
            header.encode(out);
            if let (0, Some(body)) = (header.err, body) {
                body.encode_body(out);
            }
        });
    }

    fn encode_body(&self, out: &mut BytesMut) {
        match self {
            Self::Empty => {}
            Self::Path(path) => out.string(path),
            Self::PathStat(path, stat) => {
                out.string(path);
                stat.encode(out);
            }
            Self::Stat(stat) => stat.encode(out),
            Self::Data(data, stat) => {
                out.buffer(data.as_deref());
                stat.encode(out);
            }
            Self::Acl(acl, stat) => {
                Acl::encode_list(acl, out);
                stat.encode(out);
            }
            Self::Names(names) => out.strings(names),
            Self::NamesStat(names, stat) => {
                out.strings(names);
                stat.encode(out);
            }
            Self::Multi(items) => encode_multi(items, out),
            Self::Ids(ids) => {
                out.int(super::wire_length(ids.len()));
                for (scheme, id) in ids {
                    out.string(scheme);
                    out.string(id);
                }
            }
            Self::Number(number) => out.int(*number),
            Self::Token(token) => out.buffer(token.as_deref()),
        }
    }
}

fn decode_multi(reader: &mut Reader) -> Result<Vec<Item>, Malformed> {
    let mut items = Vec::new();
    loop {
        let opcode = reader.int()?;
        let done = reader.bool()?;
        reader.int()?;
        if done {
            return Ok(items);
        }
        items.push(match opcode {
            op::ERROR => Item::Failed(reader.int()?),
            // Multis do not nest; without this a crafted reply would recurse once per 9 bytes.
            op::MULTI | op::MULTI_READ => return Err(Malformed("multi inside a multi")),
            _ => Item::Done(opcode, Response::decode(opcode, reader)?),
        });
    }
}

fn encode_multi(items: &[Item], out: &mut BytesMut) {
    for item in items {
        match item {
            Item::Done(opcode, body) => {
                out.int(*opcode);
                out.bool(false);
                out.int(0);
                body.encode_body(out);
            }
            Item::Failed(code) => {
                out.int(op::ERROR);
                out.bool(false);
                // The error stands twice: in the item's header and as its body (recorded).
                out.int(*code);
                out.int(*code);
            }
        }
    }
    out.int(op::ERROR);
    out.bool(true);
    out.int(-1);
}
