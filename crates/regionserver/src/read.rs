//! Reads of rows as requests want them: checks of the query, filters, limits per family, and the cells' way into an answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{Bytes, BytesMut};
use cadastre_env::Env;
use cadastre_rpc::Peer;
use cadastre_store::{Choice, Found, RowLocks};
use cadastre_types::{Cell, EncodedFilter, Error, Get, Query, Result, TableDescriptor, TimeRange};
use cadastre_wire::{cells, convert, pb};

use crate::filter::{self, Filter, Filtered, PerFamily, Skips, Start};
use crate::regions::Hosted;

/// Checks that the families of a query exist and that its form is one HBase takes.
pub(crate) fn check_query(descriptor: &TableDescriptor, query: &Query) -> Result<()> {
    for (family, qualifiers) in &query.columns {
        descriptor.family(family)?;
        if query.raw && matches!(qualifiers, cadastre_types::Qualifiers::These(_)) {
            return Err(Error::invalid("Cannot specify any column for a raw scan"));
        }
    }
    Ok(())
}

/// A filter with the versions of a column, and the cells of a family, that it may let through.
pub(crate) struct RowFilter {
    filter: Box<dyn Filter>,
    max_versions: u32,
    per_family: PerFamily,
}

impl RowFilter {
    /// Decodes a filter and makes the query read what the filter must see: every version that the family keeps.
    pub(crate) fn take_over<E: Env>(
        env: &E,
        encoded: Option<&EncodedFilter>,
        query: &mut Query,
        per_family: PerFamily,
        reversed: bool,
    ) -> Result<Option<Self>> {
        let Some(encoded) = encoded else {
            return Ok(None);
        };
        let filter = filter::decode(encoded, reversed, &mut env.rng("filters"))?;
        let max_versions = std::mem::replace(&mut query.max_versions, u32::MAX);
        Ok(Some(Self {
            filter,
            max_versions,
            per_family,
        }))
    }

    /// How many columns of each family it looks at, at most.
    pub(crate) fn columns_wanted(&self) -> Option<u32> {
        self.filter.columns_wanted()
    }

    /// Whether it lets nothing more through, whatever comes.
    pub(crate) fn is_over(&self) -> bool {
        self.filter.all_remaining_filtered()
    }

    /// Whether the row by whose key it ends counts as read.
    pub(crate) fn reads_its_last_row(&self) -> bool {
        self.filter.reads_its_last_row()
    }

    /// Whether it must see whole rows.
    pub(crate) fn needs_whole_row(&self) -> bool {
        self.filter.needs_whole_row()
    }

    /// Whether a row must be read, by its key, and what the filter says of it.
    pub(crate) fn choose(&mut self, row: &[u8]) -> (Choice, Start) {
        match self.filter.skips(row) {
            Skips::No => {}
            Skips::Until(next) => return (Choice::PassUntil(next), Start::Drop),
            Skips::Rest => return (Choice::Pass, Start::End),
        }
        match filter::begin_row(&mut *self.filter, row) {
            Start::Pass => (Choice::Read, Start::Pass),
            dropped => (Choice::Pass, dropped),
        }
    }

    /// What passes of a row that was chosen.
    pub(crate) fn rest(&mut self, row: Vec<Cell>) -> Filtered {
        filter::rest_of_row(&mut *self.filter, row, self.max_versions, self.per_family)
    }

    /// What passes of a row.
    pub(crate) fn apply(&mut self, row: Vec<Cell>) -> Filtered {
        filter::apply(&mut *self.filter, row, self.max_versions, self.per_family)
    }
}

/// The cells of a row that a filter lets through, read under the row's lock.
pub(crate) async fn locked_row_with_filter<E: Env>(
    env: &E,
    locks: &RowLocks<E>,
    row: &Bytes,
    encoded: &EncodedFilter,
    time_range: TimeRange,
) -> Result<Vec<Cell>> {
    let mut query = Query {
        time_range,
        ..Query::default()
    };
    let all = PerFamily::default();
    let filter = RowFilter::take_over(env, Some(encoded), &mut query, all, false)?;
    Ok(pass(filter, all, locks.read(row, &query).await?))
}

fn pass(filter: Option<RowFilter>, per_family: PerFamily, row: Vec<Cell>) -> Vec<Cell> {
    let Some(mut filter) = filter else {
        return per_family.keep(row);
    };
    match filter.apply(row) {
        Filtered::Row(cells) => cells,
        Filtered::Nothing | Filtered::End => Vec::new(),
    }
}

/// What an answer says of how much was read, if that was asked for: bytes of stored keys and values, wherever they lay, before filters.
/// HBase counts the blocks that they lie in.
pub(crate) fn query_metrics(asked: bool, bytes_read: u64) -> Option<pb::QueryMetrics> {
    asked.then_some(pb::QueryMetrics {
        block_bytes_scanned: Some(bytes_read),
    })
}

/// One get. Runs anywhere; best on the region's core.
///
/// # Errors
/// HBase's: wrong region, unknown family, the old look-up form.
pub(crate) async fn get<E: Env>(env: &E, hosted: &Arc<Hosted<E>>, get: &Get) -> Result<Found> {
    if get.closest_row_before {
        return Err(Error::new(
            cadastre_types::Code::UnknownProtocol,
            "Is this a pre-hbase-1.0.0 or asynchbase client? Client is invoking getClosestRowBefore removed in hbase-2.0.0 replaced by reverse Scan.",
        ));
    }
    crate::apply::check_row_length(&get.row)?;
    hosted.check_row(&get.row, "Get")?;
    check_query(&hosted.region.descriptor(), &get.query)?;
    let mut query = get.query.clone();
    let per_family = PerFamily {
        limit: get.store_limit,
        offset: get.store_offset,
    };
    let filter = RowFilter::take_over(env, get.filter.as_ref(), &mut query, per_family, false)?;
    hosted.reads.fetch_add(1, Ordering::Relaxed);
    let first = filter.as_ref().and_then(RowFilter::columns_wanted);
    let found = hosted.region.get_first(&get.row, &query, first).await?;
    Ok(Found {
        cells: pass(filter, per_family, found.cells),
        ..found
    })
}

/// Puts the cells of results into an answer the way the peer can read them: a cell block, or inside the messages.
pub(crate) struct CellSink<'a> {
    peer: &'a Peer,
    block: BytesMut,
}

impl<'a> CellSink<'a> {
    pub(crate) fn new(peer: &'a Peer) -> Self {
        Self {
            peer,
            block: BytesMut::new(),
        }
    }

    /// Whether cells go into a block.
    pub(crate) fn uses_block(&self) -> bool {
        self.peer.codec.is_some()
    }

    /// Appends cells to the block. Only with a codec.
    pub(crate) fn push(&mut self, row: &[Cell]) {
        if let Some(codec) = self.peer.codec {
            for cell in row {
                cells::write_cell(&mut self.block, cell, codec);
            }
        }
    }

    /// A result of these cells: in the block if there is one, else inline.
    pub(crate) fn result(&mut self, row: &[Cell]) -> pb::Result {
        if !self.uses_block() {
            return convert::result_pb(row);
        }
        self.push(row);
        pb::Result {
            associated_cell_count: Some(row.len() as i32),
            ..Default::default()
        }
    }

    /// The block.
    pub(crate) fn finish(self) -> Bytes {
        self.block.freeze()
    }
}
