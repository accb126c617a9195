//! The master's batches on `hbase:meta` and `hbase:namespace` (C19): several rows at once, all or nothing, and only if no newer
//! master has written there.
//!
//! The epoch of the newest master stands in a cell of `hbase:meta` itself, so the check and the write are one atomic step under row
//! locks, in one batch of the store: a master that was deposed between its read and its write is refused, whichever server it
//! reaches. The cell only ever grows; a batch of a newer master raises it.
//!
//! `hbase:namespace` has rows of namespaces only, since clients read them all. There the epoch is the highest that this server has
//! heard, looked at under the row locks: with the order to open the region, a question, or a row a new master tells its epoch to
//! whichever server has it. Every row that an older master may still want to write, the new one writes too, since what was begun
//! is in the journal.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use cadastre_env::Env;
use cadastre_store::RowLocks;
use cadastre_types::{Cell, Code, Durability, Error, Mutation, Query, Result};
use cadastre_wire::meta;

use crate::apply::{self, Terms};
use crate::regions::Hosted;
use crate::server::Server;

/// Writes puts and deletes of rows of `hbase:meta` or `hbase:namespace` for the master of this epoch; without any it only raises
/// the epoch.
///
/// # Errors
/// `MasterDeposed` if a newer master has written; `DoNotRetryIo` for another region or what needs a read; the store's.
pub(crate) async fn write<E: Env>(
    server: &Arc<Server<E>>,
    hosted: &Arc<Hosted<E>>,
    mutations: Vec<Mutation>,
    epoch: u64,
    terms: Terms,
) -> Result<()> {
    let is_meta = hosted.region.info().is_meta();
    if !is_meta && !hosted.is_masters_own {
        return Err(Error::invalid(
            "a master writes to hbase:meta and hbase:namespace only",
        ));
    }
    let mutations = mutations
        .into_iter()
        .map(|mutation| match apply::complete(hosted, mutation, true)? {
            mutation if apply::is_blind(&mutation) => Ok(mutation),
            _ => Err(Error::invalid("a master's batch has puts and deletes only")),
        })
        .collect::<Result<Vec<_>>>()?;
    if is_meta {
        return write_meta(hosted, mutations, epoch, terms).await;
    }
    let rows = mutations.iter().map(|m| m.row.clone()).collect();
    let locks = hosted.region.lock_rows(rows, terms.deadline).await?;
    server.check_master_epoch(Some(epoch))?;
    let cells = stamped(hosted, &locks, mutations);
    locks.write(cells, &[], Durability::SyncWal).await?;
    Ok(())
}

async fn write_meta<E: Env>(
    hosted: &Arc<Hosted<E>>,
    mutations: Vec<Mutation>,
    epoch: u64,
    terms: Terms,
) -> Result<()> {
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
    let mut cells = stamped(hosted, &locks, mutations);
    if newest < epoch {
        let mut raised = vec![meta::master_epoch_cell(epoch)];
        apply::stamp(&mut raised, locks.timestamp(&guard));
        cells.append(&mut raised);
    }
    locks.write(cells, &[], Durability::SyncWal).await?;
    Ok(())
}

/// Their cells, with times given under the locks.
fn stamped<E: Env>(
    hosted: &Arc<Hosted<E>>,
    locks: &RowLocks<E>,
    mutations: Vec<Mutation>,
) -> Vec<Cell> {
    let written = mutations.len() as u64;
    hosted.writes.fetch_add(written, Ordering::Relaxed);
    let mut cells = Vec::new();
    for mut mutation in mutations {
        apply::stamp(&mut mutation.cells, locks.timestamp(&mutation.row));
        cells.append(&mut mutation.cells);
    }
    cells
}

async fn read_epoch<E: Env>(locks: &RowLocks<E>, guard: &Bytes) -> Result<u64> {
    let cells = locks.read(guard, &Query::default()).await?;
    meta::master_epoch_from_cells(&cells)
}
