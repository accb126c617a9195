//! What the coordination service is told of tables and namespaces.
//!
//! Old clients, tools and tests read it right after a procedure's answer, so a procedure is reported as done only when it shows what the
//! procedure did. But nothing of ours depends on it: a service that is away holds a procedure up for a bounded time, and is told later.
//! This module must not know how znodes look.

use std::collections::BTreeSet;
use std::time::Duration;

use cadastre_types::{TableName, TableState};
use futures::StreamExt;

use crate::active::Active;
use crate::procedure::{Lock, Operation};
use crate::world::{Notice, World};

/// Notices under way at one time when everything is told.
const TOLD_AT_ONCE: usize = 64;

/// How long the start waits until everything is told; what is left is told while the master already serves.
const TOLD_PATIENCE: Duration = Duration::from_secs(2);

/// How long those who watch the namespaces have before the procedure is reported as done. HBase tells them in the middle of a procedure whose
/// end its client learns by asking again after 100 ms; caches like its `ZKNamespaceManager` have caught up by then.
const NAMESPACE_WATCHERS: Duration = Duration::from_millis(100);

impl<W: World> Active<W> {
    /// Tells what an operation has changed. The caller holds the operation's lock.
    pub(crate) async fn announce(&self, operation: &Operation) {
        match operation {
            Operation::CreateNamespace(_)
            | Operation::ModifyNamespace(_)
            | Operation::DeleteNamespace(_) => {
                self.announce_one(operation.lock()).await;
                self.world().sleep(NAMESPACE_WATCHERS).await;
            }
            Operation::CreateTable { .. }
            | Operation::EnableTable { .. }
            | Operation::DisableTable { .. }
            | Operation::DeleteTable { .. }
            | Operation::TruncateTable { .. } => self.announce_one(operation.lock()).await,
            Operation::FlushTable { .. }
            | Operation::MoveRegion { .. }
            | Operation::UnassignRegion { .. }
            | Operation::TruncateRegion { .. }
            | Operation::SplitRegion { .. }
            | Operation::MergeRegions { .. }
            | Operation::ForgetParents { .. }
            | Operation::AlterTable { .. } => {}
        }
    }

    /// Tells how a table or a namespace is now. What could not be told is told again later.
    async fn announce_one(&self, subject: Lock) {
        let notice = self.notice(&subject);
        match self.heed(self.world().announce(notice).await).await {
            Ok(()) => {
                self.state().untold.remove(&subject);
            }
            Err(error) => {
                tracing::warn!(?subject, %error, "the coordination service was not told; told again later");
                self.state().untold.insert(subject);
            }
        }
    }

    fn notice(&self, subject: &Lock) -> Notice {
        self.with_catalog(|catalog| match subject {
            // It has no record, and is never anything else.
            Lock::Table(table) if *table == TableName::meta() => {
                Notice::Table(table.clone(), TableState::Enabled)
            }
            Lock::Table(table) => match catalog.table(table) {
                Ok(entry) => Notice::Table(table.clone(), entry.state),
                Err(_) => Notice::TableGone(table.clone()),
            },
            Lock::Namespace(name) => match catalog.namespace(name) {
                Ok(namespace) => Notice::Namespace(namespace.clone()),
                Err(_) => Notice::NamespaceGone(name.clone()),
            },
        })
    }

    /// Tells what could not be told before. Gives how much is left: what a procedure works on is told the next time.
    pub(crate) async fn announce_untold(&self) -> usize {
        let untold = self.state().untold.clone();
        self.announce_unlocked(untold).await;
        self.state().untold.len()
    }

    async fn announce_unlocked(&self, subjects: BTreeSet<Lock>) {
        // One after the other: a table's lock keeps its namespace.
        let (tables, namespaces): (Vec<Lock>, Vec<Lock>) = subjects
            .into_iter()
            .partition(|subject| matches!(subject, Lock::Table(_)));
        for subjects in [namespaces, tables] {
            futures::stream::iter(subjects)
                .for_each_concurrent(TOLD_AT_ONCE, |subject| async move {
                    match self.locks().try_now(&subject) {
                        Some(_held) => self.announce_one(subject).await,
                        None => {
                            self.state().untold.insert(subject);
                        }
                    }
                })
                .await;
        }
    }

    /// Tells everything, for what an earlier master did not get told; waits for that, but not for long.
    pub(crate) async fn announce_all(&self) {
        let (tell, told) = tokio::sync::oneshot::channel();
        let active = self.clone();
        self.world().spawn("announce", async move {
            let all = active.everything().await;
            active.announce_unlocked(all).await;
            // The start may not wait any more.
            let _ = tell.send(());
        });
        tokio::select! {
            biased;
            // A task that has ended without an answer is an end, too.
            _ = told => {}
            () = self.world().sleep(TOLD_PATIENCE) => {}
        }
    }

    /// What there is, and what the coordination service shows though it may be gone.
    async fn everything(&self) -> BTreeSet<Lock> {
        let mut all: BTreeSet<Lock> = self.with_catalog(|catalog| {
            let namespaces = catalog
                .namespaces()
                .map(|ns| Lock::Namespace(ns.name.clone()));
            let tables = catalog.tables().map(|(name, _)| Lock::Table(name.clone()));
            namespaces.chain(tables).collect()
        });
        all.insert(Lock::Table(TableName::meta()));
        match self.heed(self.world().announced().await).await {
            Ok(shown) => all.extend(shown),
            Err(error) => {
                tracing::warn!(%error, "the coordination service does not say what it shows");
            }
        }
        all
    }
}
