//! Regions of the table that everybody uses are split, merged, moved and compacted while the server crashes: no row may be lost,
//! doubled or hidden by it (INV-3), which the other clients' answers show, and at the end the regions must tile the key space.
//!
//! Nothing is assumed of a call that failed: it was done, is being done, or was not.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use futures::channel::oneshot;
use rand::Rng as _;

use cadastre_client::Admin;
use cadastre_env::{Clock, Env, Rng};
use cadastre_types::{Result, TableName};

use crate::cluster::workload::{Worker, random_key};
use crate::env::SimEnv;
use crate::hub::locked;

/// Longest pause between two changes, ms: each costs some flushes, and the other clients wait for it.
const PAUSE_MS: u64 = 600;

/// Beyond as many regions none is split.
const REGIONS_MAX: usize = 10;

/// The task that does it.
pub(super) struct Reshape {
    env: SimEnv,
    rng: Rng,
    admin: Admin<SimEnv>,
    table: TableName,
}

impl Reshape {
    /// Begins on the worker's node; the answer comes when the faults are over and the last change has ended.
    pub(super) fn begin(worker: &Worker) -> impl Future<Output = ()> + use<> {
        let mut reshape = Self {
            rng: worker.env.rng("reshape"),
            env: worker.env.clone(),
            admin: worker.client.admin(),
            table: worker.table.clone(),
        };
        let shared = worker.shared.clone();
        let (tell, told) = oneshot::channel();
        worker.env.spawn("reshape", async move {
            while !locked(&shared).calm {
                let pause = reshape.rng.random_range(0..PAUSE_MS);
                reshape
                    .env
                    .clock()
                    .sleep(Duration::from_millis(pause))
                    .await;
                match reshape.change().await {
                    Ok(done) => {
                        reshape.env.note(format_args!("{done}"));
                        *locked(&shared).reshaped.entry(done).or_default() += 1;
                    }
                    Err(error) => reshape.env.note(format_args!("reshape: {error}")),
                }
            }
            // Refused only if the node has ended.
            let _ = tell.send(());
        });
        async move {
            if told.await.is_err() {
                std::future::pending().await
            }
        }
    }

    /// One change; gives what it was.
    async fn change(&mut self) -> Result<&'static str> {
        let row = random_key(&mut self.rng);
        match self.rng.random_range(0..10) {
            0..4 => self.split(&row).await,
            4..7 => self.merge().await,
            7..9 => {
                self.admin.move_region(&self.table, &row, None).await?;
                Ok("moved")
            }
            _ => {
                self.admin
                    .compact_region(&self.table, &row, None, true)
                    .await?;
                Ok("compacted")
            }
        }
    }

    async fn split(&mut self, row: &Bytes) -> Result<&'static str> {
        if self.admin.table_regions(&self.table).await?.len() >= REGIONS_MAX {
            return self.merge().await;
        }
        self.admin.split_region(&self.table, row, false).await?;
        Ok("split")
    }

    /// Two or three neighbours become one.
    async fn merge(&mut self) -> Result<&'static str> {
        let regions = self.admin.table_regions(&self.table).await?;
        let count = self.rng.random_range(2..=3);
        if regions.len() < count {
            return Ok("nothing to merge");
        }
        let first = self.rng.random_range(0..=regions.len() - count);
        let start = |at: usize| regions[at].region.start_key.clone();
        let (from, to) = (start(first), start(first + count - 1));
        self.admin.merge_regions(&self.table, &from, &to).await?;
        Ok("merged")
    }
}
