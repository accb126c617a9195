//! Values of HBase's znodes (hbase-protocol.md 7.1): their prefix, their magic, and the messages behind. Knows nothing of
//! ZooKeeper.

use bytes::{BufMut, Bytes, BytesMut};
use cadastre_types::{Error, Result, ServerName, TableState};

use crate::{convert, decode, encode, pb};

/// First byte of every value.
const PREFIX: u8 = 0xff;

/// What stands before every message.
const PBUF: &[u8; 4] = b"PBUF";

/// Longest writer's name read, bytes, salt included: gohbase's bound.
const ID_MAX: usize = 65_000;

/// Puts the magic before a message.
pub fn pbuf(message: &[u8]) -> Bytes {
    [PBUF, message].concat().into()
}

/// Takes the magic from a message.
///
/// # Errors
/// [`Code::Corrupt`](cadastre_types::Code::Corrupt) without it.
pub fn strip_pbuf(value: Bytes) -> Result<Bytes> {
    if !value.starts_with(PBUF) {
        return Err(Error::corrupt("a value without PBUF before it"));
    }
    Ok(value.slice(PBUF.len()..))
}

/// Who writes a value. All readers skip it; Java's writers add a salt so that no two writes are alike.
#[derive(Debug, Clone, Copy)]
pub struct Writer<'a> {
    /// Such as `master:16000`.
    pub id: &'a str,
    /// Random.
    pub salt: u64,
}

impl Writer<'_> {
    fn wrap(self, message: &[u8]) -> Bytes {
        wrap(self.id, self.salt, message)
    }
}

/// A value: prefix, writer, magic, message.
///
/// # Panics
/// If the writer's name is longer than clients read.
pub fn wrap(id: &str, salt: u64, message: &[u8]) -> Bytes {
    prefixed(id, salt, &[PBUF, message])
}

/// The prefix that names the writer, and what comes behind it.
fn prefixed(id: &str, salt: u64, parts: &[&[u8]]) -> Bytes {
    let id_len = id.len() + 8;
    assert!(id_len <= ID_MAX, "a writer's name is host and port");
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = BytesMut::with_capacity(1 + 4 + id_len + len);
    out.put_u8(PREFIX);
    out.put_u32(id_len as u32);
    out.put_slice(id.as_bytes());
    out.put_u64(salt);
    parts.iter().for_each(|part| out.put_slice(part));
    out.freeze()
}

/// The message inside a value. Like Java it takes a value without prefix as it is; the magic must be there.
///
/// # Errors
/// [`Code::Corrupt`](cadastre_types::Code::Corrupt) for anything else.
pub fn unwrap(value: &[u8]) -> Result<Bytes> {
    let message = without_prefix(value)?
        .strip_prefix(PBUF)
        .ok_or_else(|| Error::corrupt("a znode's value without PBUF"))?;
    Ok(Bytes::copy_from_slice(message))
}

fn without_prefix(value: &[u8]) -> Result<&[u8]> {
    match value.split_first() {
        Some((&PREFIX, rest)) => {
            let (len, rest) = rest
                .split_first_chunk::<4>()
                .ok_or_else(|| Error::corrupt("a znode's value is cut short"))?;
            let len = u32::from_be_bytes(*len) as usize;
            if len > ID_MAX || len > rest.len() {
                return Err(Error::corrupt("a znode's writer is longer than its value"));
            }
            Ok(&rest[len..])
        }
        _ => Ok(value),
    }
}

fn server(name: &pb::ServerName) -> Result<ServerName> {
    convert::server_name(name).map_err(|error| Error::corrupt(error.message()))
}

/// Value of `hbaseid`.
pub fn cluster_id(writer: Writer<'_>, cluster_id: &str) -> Bytes {
    writer.wrap(&encode(&pb::ClusterId {
        cluster_id: cluster_id.to_owned(),
    }))
}

/// Reads `hbaseid`.
///
/// # Errors
/// [`Code::Corrupt`](cadastre_types::Code::Corrupt).
pub fn read_cluster_id(value: &[u8]) -> Result<String> {
    let message: pb::ClusterId = decode(unwrap(value)?)?;
    Ok(message.cluster_id)
}

/// Value of `master` and of the children of `backup-masters`; `info_port` is the port of the web page, 0 for none.
pub fn master(writer: Writer<'_>, name: &ServerName, info_port: u16) -> Bytes {
    writer.wrap(&encode(&pb::Master {
        master: convert::server_name_pb(name),
        rpc_version: Some(0),
        info_port: Some(u32::from(info_port)),
    }))
}

/// Reads `master`.
///
/// # Errors
/// [`Code::Corrupt`](cadastre_types::Code::Corrupt).
pub fn read_master(value: &[u8]) -> Result<ServerName> {
    let message: pb::Master = decode(unwrap(value)?)?;
    server(&message.master)
}

/// Value of `meta-region-server`. Clients use it only in state `Open`.
pub fn meta_region_server(
    writer: Writer<'_>,
    name: &ServerName,
    state: pb::region_state::State,
) -> Bytes {
    writer.wrap(&encode(&pb::MetaRegionServer {
        server: convert::server_name_pb(name),
        rpc_version: Some(0),
        state: Some(state as i32),
    }))
}

/// Reads `meta-region-server`: where `hbase:meta` is, and in which state. An absent state counts as open, as in Java.
///
/// # Errors
/// [`Code::Corrupt`](cadastre_types::Code::Corrupt).
pub fn read_meta_region_server(value: &[u8]) -> Result<(ServerName, pb::region_state::State)> {
    use pb::region_state::State;
    let message: pb::MetaRegionServer = decode(unwrap(value)?)?;
    let state = match message.state.map(State::try_from) {
        None => State::Open,
        Some(Ok(state)) => state,
        Some(Err(_)) => return Err(Error::corrupt("hbase:meta is in an unknown state")),
    };
    Ok((server(&message.server)?, state))
}

/// Value of a child of `rs`; its name is the server's. `info_port` is the port of the web page, 0 for none.
pub fn region_server(writer: Writer<'_>, info_port: u16, version: &str) -> Bytes {
    writer.wrap(&encode(&pb::RegionServerInfo {
        info_port: Some(i32::from(info_port)),
        version_info: Some(version_info(version)),
    }))
}

/// Reads a child of `rs`.
///
/// # Errors
/// [`Code::Corrupt`](cadastre_types::Code::Corrupt).
pub fn read_region_server(value: &[u8]) -> Result<pb::RegionServerInfo> {
    decode(unwrap(value)?)
}

/// A version as HBase's messages carry it, with the numbers clients compare taken out of its text.
pub fn version_info(version: &str) -> pb::VersionInfo {
    let mut numbers = version.split(['.', '-']).map(|part| part.parse().ok());
    pb::VersionInfo {
        version: version.to_owned(),
        version_major: numbers.next().flatten(),
        version_minor: numbers.next().flatten(),
        ..Default::default()
    }
}

/// Value of `running`: since when the cluster is up, as text.
pub fn running(writer: Writer<'_>, start_date: &str) -> Bytes {
    writer.wrap(&encode(&pb::ClusterUp {
        start_date: start_date.to_owned(),
    }))
}

/// Reads `running`.
///
/// # Errors
/// [`Code::Corrupt`](cadastre_types::Code::Corrupt).
pub fn read_running(value: &[u8]) -> Result<String> {
    let message: pb::ClusterUp = decode(unwrap(value)?)?;
    Ok(message.start_date)
}

/// Value of a child of `table`, which clients of HBase 1 read.
pub fn table(writer: Writer<'_>, state: TableState) -> Bytes {
    // The two kinds of table state have the same numbers.
    writer.wrap(&encode(&pb::DeprecatedTableState {
        state: convert::table_state_pb(state).state,
    }))
}

/// Reads a child of `table`.
///
/// # Errors
/// [`Code::Corrupt`](cadastre_types::Code::Corrupt).
pub fn read_table(value: &[u8]) -> Result<TableState> {
    let message: pb::DeprecatedTableState = decode(unwrap(value)?)?;
    convert::table_state(&pb::TableState {
        state: message.state,
    })
}

/// Value of a child of `namespace`: the one kind without `PBUF` (zookeeper-protocol.md 10).
pub fn namespace(writer: Writer<'_>, namespace: &pb::NamespaceDescriptor) -> Bytes {
    prefixed(writer.id, writer.salt, &[&encode(namespace)])
}

/// Reads a child of `namespace`.
///
/// # Errors
/// [`Code::Corrupt`](cadastre_types::Code::Corrupt).
pub fn read_namespace(value: &[u8]) -> Result<pb::NamespaceDescriptor> {
    decode(Bytes::copy_from_slice(without_prefix(value)?))
}

#[cfg(test)]
mod tests;
