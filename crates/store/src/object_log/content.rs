//! The bytes of an object of the log: one group as in the local log ([`crate::log`]), of one database, salted with its number.
//!
//! ```text
//! object: group header | name of the database, as number 0 | fence, or rows, of number 0
//! ```
//! A record's LSN is the object's number. All records of an object are of one epoch.

use bytes::Bytes;
use cadastre_types::{Error, Result};
use slatedb::RowEntry;

use crate::log::{Encoded, GroupBuilder, Record, group_at, records};

/// Largest object that is read, bytes: four times what is ever written.
pub(super) const OBJECT_MAX: u64 = 1 << 28;

/// The number of the one database.
const ID: u32 = 0;

/// Rows of an object.
#[derive(Debug, PartialEq)]
pub(super) struct Content {
    pub(super) epoch: u64,
    /// In the order of their sequence numbers.
    pub(super) rows: Vec<RowEntry>,
}

/// An object that takes a number for an epoch.
pub(super) fn fence(path: &str, epoch: u64, number: u64) -> Bytes {
    encode(path, number, &[Encoded::fence(epoch, number)])
}

/// An object of rows.
pub(super) fn encode(path: &str, number: u64, encoded: &[Encoded]) -> Bytes {
    let mut group = GroupBuilder::new();
    group.name(ID, path);
    for record in encoded {
        group.record(ID, record);
    }
    // Whatever has a lower number is there: numbers have no gaps.
    group
        .finish(number, number, number.saturating_sub(1))
        .into()
}

/// Reads an object.
pub(super) fn decode(path: &str, number: u64, bytes: &Bytes) -> Result<Content> {
    let damaged = |why: &str| {
        Error::corrupt(format!(
            "object {number} of the log of '{path}' is damaged: {why}"
        ))
    };
    let Some((header, body)) = group_at(number, bytes) else {
        return Err(damaged("its checksum is wrong"));
    };
    if header.total_len() != bytes.len() || header.last_lsn != number {
        return Err(damaged("it is another's, or cut off"));
    }
    let body = bytes.slice_ref(body);
    let mut content: Option<Content> = None;
    let mut named = false;
    let mut last = 0;
    for record in records(&header, body)? {
        let (epoch, rows) = match record {
            Record::Name { id: ID, path: of } if of == path => {
                named = true;
                continue;
            }
            Record::Fence { id: ID, epoch, lsn } if lsn == number => (epoch, Vec::new()),
            Record::Rows {
                id: ID,
                epoch,
                lsn,
                sequence,
                rows,
            } if lsn == number && sequence > last => {
                last = sequence;
                (epoch, rows.decode(sequence))
            }
            _ => return Err(damaged("it has a record that does not belong to it")),
        };
        let content = content.get_or_insert_with(|| Content {
            epoch,
            rows: Vec::new(),
        });
        if content.epoch != epoch || !named {
            return Err(damaged("its records are of several writers"));
        }
        content.rows.extend(rows);
    }
    content.ok_or_else(|| damaged("it has no record"))
}
