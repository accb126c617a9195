//! Names of tables, regions and servers.

use bytes::Bytes;
use cadastre_types::{Error, RegionInfo, Result, ServerName, TableName};

use crate::pb;

/// Reads a table's name.
///
/// # Errors
/// [`Code::DoNotRetryIo`](cadastre_types::Code::DoNotRetryIo) for names that HBase refuses.
pub fn table_name(name: &pb::TableName) -> Result<TableName> {
    let text = |bytes: &'_ Bytes| {
        String::from_utf8(bytes.to_vec())
            .map_err(|_| Error::invalid("illegal table name: not UTF-8"))
    };
    TableName::new(&text(&name.namespace)?, &text(&name.qualifier)?)
}

/// Writes a table's name.
pub fn table_name_pb(name: &TableName) -> pb::TableName {
    pb::TableName {
        namespace: Bytes::copy_from_slice(name.namespace().as_bytes()),
        qualifier: Bytes::copy_from_slice(name.qualifier().as_bytes()),
    }
}

/// Reads a server's name.
///
/// # Errors
/// [`Code::DoNotRetryIo`](cadastre_types::Code::DoNotRetryIo) without a host, or with a port that is none.
pub fn server_name(name: &pb::ServerName) -> Result<ServerName> {
    if name.host_name.is_empty() {
        return Err(Error::invalid("a server name without a host"));
    }
    let port = name.port.unwrap_or(0);
    Ok(ServerName {
        host: name.host_name.clone(),
        port: u16::try_from(port)
            .map_err(|_| Error::invalid(format!("{port} is no port of a server")))?,
        start_code: name.start_code.unwrap_or(0),
    })
}

/// Writes a server's name.
pub fn server_name_pb(name: &ServerName) -> pb::ServerName {
    pb::ServerName {
        host_name: name.host.clone(),
        port: Some(u32::from(name.port)),
        start_code: Some(name.start_code),
    }
}

/// Reads a region.
///
/// # Errors
/// [`Code::DoNotRetryIo`](cadastre_types::Code::DoNotRetryIo) for a bad table name, too long keys or a negative replica.
pub fn region_info(info: &pb::RegionInfo) -> Result<RegionInfo> {
    let replica = info.replica_id();
    Ok(RegionInfo {
        table: table_name(&info.table_name)?,
        start_key: super::row_bound(info.start_key.as_ref().unwrap_or(&Bytes::new()))?,
        end_key: super::row_bound(info.end_key.as_ref().unwrap_or(&Bytes::new()))?,
        region_id: info.region_id,
        replica_id: u32::try_from(replica)
            .map_err(|_| Error::invalid(format!("{replica} is no replica of a region")))?,
        offline: info.offline(),
        split: info.split(),
    })
}

/// Writes a region, empty keys included: npm's client reads them without asking (hbase-protocol.md 6.3).
pub fn region_info_pb(info: &RegionInfo) -> pb::RegionInfo {
    pb::RegionInfo {
        region_id: info.region_id,
        table_name: table_name_pb(&info.table),
        start_key: Some(info.start_key.clone()),
        end_key: Some(info.end_key.clone()),
        offline: Some(info.offline),
        split: Some(info.split),
        // Replicas are numbered from 0 and few.
        replica_id: Some(i32::try_from(info.replica_id).unwrap_or(i32::MAX)),
    }
}

/// Names a region to a server: by full name, since HBase's region servers cannot resolve a bare encoded one (4.1, 11.7).
pub fn region_specifier(info: &RegionInfo) -> pb::RegionSpecifier {
    pb::RegionSpecifier {
        r#type: pb::region_specifier::RegionSpecifierType::RegionName as i32,
        value: info.name(),
    }
}
