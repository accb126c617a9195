//! Messages to the nouns of `types`, and back: server and client need both.
//!
//! Names: `x(&pb) -> Result<X>` reads and checks what a peer sent, `x_pb(&X) -> pb` writes it; where HBase's name of the message
//! differs from ours, that name tells the direction (`table_descriptor` reads, `table_schema` writes). Knows nothing of regions
//! being here or rows being there: only whether a message makes sense by itself.

mod mutation;
mod names;
mod read;
mod result;
mod schema;

pub use mutation::{compare_op, condition, condition_pb, mutation, mutation_pb, mutation_pb_cells};
pub use names::{
    region_info, region_info_pb, region_specifier, server_name, server_name_pb, table_name,
    table_name_pb,
};
pub use read::{
    comparator_pb, encoded_comparator, encoded_filter, filter_pb, get, get_pb, scan, scan_pb,
    time_range, time_range_pb,
};
pub use result::{cell, cell_pb, result, result_by_count, result_pb};
pub use schema::{family_descriptor, family_schema, table_descriptor, table_schema};
pub use schema::{table_state, table_state_pb};

use bytes::Bytes;
use cadastre_types::{Error, Result, limits};

use crate::pb;

/// A row key as a client may send it.
fn row_key(row: &Bytes) -> Result<Bytes> {
    if row.is_empty() {
        return Err(Error::invalid("Row length is 0"));
    }
    row_bound(row)
}

/// A row key or an open end.
fn row_bound(row: &Bytes) -> Result<Bytes> {
    if row.len() > limits::ROW_MAX {
        return Err(Error::invalid(format!(
            "Row length {} is > {}",
            row.len(),
            limits::ROW_MAX
        )));
    }
    Ok(row.clone())
}

/// Value of an attribute; the last one of a name counts, as in Java's map.
fn attribute<'a>(attributes: &'a [pb::NameBytesPair], name: &str) -> Option<&'a Bytes> {
    attributes
        .iter()
        .rev()
        .find(|pair| pair.name == name)
        .and_then(|pair| pair.value.as_ref())
}

#[cfg(test)]
mod tests;
