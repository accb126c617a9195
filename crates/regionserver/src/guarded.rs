//! The master's batches on `hbase:meta` (C19): several rows at once, all or nothing, and only if no newer master has written there.
//!
//! The epoch of the newest master stands in a cell of `hbase:meta` itself, so the check and the write are one atomic step under row
//! locks, in one batch of the store: a master that was deposed between its read and its write is refused, whichever server it
//! reaches. The cell only ever grows; a batch of a newer master raises it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use cadastre_env::Env;
use cadastre_store::RowLocks;
use cadastre_types::{Code, Durability, Error, Mutation, Query, Result};
use cadastre_wire::meta;

use crate::apply::{self, Terms};
use crate::regions::Hosted;

/// Writes puts and deletes of rows of `hbase:meta` for the master of this epoch; without any it only raises the epoch.
///
/// # Errors
/// `MasterDeposed` if a newer master has written; `DoNotRetryIo` for another region or what needs a read; the store's.
pub(crate) async fn write<E: Env>(
    hosted: &Arc<Hosted<E>>,
    mutations: Vec<Mutation>,
    epoch: u64,
    terms: Terms,
) -> Result<()> {
    if !hosted.region.info().is_meta() {
        return Err(Error::invalid("a master writes to hbase:meta only"));
    }
    let mutations = mutations
        .into_iter()
        .map(|mutation| match apply::prepare(hosted, mutation, true)? {
            mutation if apply::is_blind(&mutation) => Ok(mutation),
            _ => Err(Error::invalid("a master's batch has puts and deletes only")),
        })
        .collect::<Result<Vec<_>>>()?;
    let guard = meta::master_epoch_row();
    let mut rows: BTreeSet<Bytes> = mutations.iter().map(|m| m.row.clone()).collect();
    rows.insert(guard.clone());
    let locks = hosted.region.lock_rows(rows, terms.deadline).await?;
    let newest = read_epoch(&locks, &guard).await?;
    if newest > epoch {
        // Not before what was seen is durable (C1).
        locks.settle().await?;
        return Err(Error::new(
            Code::MasterDeposed,
            format!(
                "hbase:meta belongs to the master of epoch {newest}, and this one has epoch {epoch}"
            ),
        ));
    }
    let written = mutations.len() as u64;
    hosted.writes.fetch_add(written, Ordering::Relaxed);
    let mut cells = Vec::new();
    for mut mutation in mutations {
        apply::stamp(&mut mutation.cells, locks.timestamp(&mutation.row));
        cells.append(&mut mutation.cells);
    }
    if newest < epoch {
        let mut raised = vec![meta::master_epoch_cell(epoch)];
        apply::stamp(&mut raised, locks.timestamp(&guard));
        cells.append(&mut raised);
    }
    locks.write(cells, &[], Durability::SyncWal).await?;
    Ok(())
}

async fn read_epoch<E: Env>(locks: &RowLocks<E>, guard: &Bytes) -> Result<u64> {
    let cells = locks.read(guard, &Query::default()).await?;
    meta::master_epoch_from_cells(&cells)
}
