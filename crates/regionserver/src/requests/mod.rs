//! One file per request kind; the call's decoding, its work, its answer.

pub(crate) mod close_region;
pub(crate) mod compact_region;
pub(crate) mod exec_service;
pub(crate) mod flush_region;
pub(crate) mod get;
pub(crate) mod meta_batch;
pub(crate) mod multi;
pub(crate) mod mutate;
pub(crate) mod open_region;
pub(crate) mod region_info;
pub(crate) mod region_load;
pub(crate) mod registry;
pub(crate) mod scan;
pub(crate) mod server_info;
pub(crate) mod upkeep;

use cadastre_rpc::{Call, Reply};
use cadastre_types::{EncodedName, Result};
use cadastre_wire::cells::CellReader;
use cadastre_wire::pb;

/// Decodes the parameter of a call.
pub(crate) fn param<M: Default + cadastre_wire::Message>(call: &Call) -> Result<M> {
    cadastre_wire::decode(call.param.clone())
}

/// An answer without cells.
pub(crate) fn reply<M: cadastre_wire::Message>(message: &M) -> Reply {
    Reply {
        body: cadastre_wire::encode(message),
        cells: bytes::Bytes::new(),
    }
}

/// The region that a client named.
pub(crate) fn encoded_name(region: &pb::RegionSpecifier) -> EncodedName {
    EncodedName::from_specifier(&region.value)
}

/// The cells that came behind a call, in its connection's codec.
pub(crate) fn cell_reader(call: &Call) -> CellReader {
    match call.peer.codec {
        Some(codec) => CellReader::new(call.cells.clone(), codec),
        None => CellReader::empty(),
    }
}
