//! What the master does in several steps, as pure machines: `(procedure, event) → procedure`, and of a procedure the command
//! to do next. No clock, no I/O: the driver (`executor`) does commands and tells what happened.
//!
//! How a procedure survives a crash (C21):
//! 1. Its intent, with every region name and family id fixed, is written to the master's store together with what
//!    [`Operation::begin`] says.
//! 2. Commands follow. Each may be done again at any time before the end: opening what is open, closing what is closed and writing
//!    the same rows again change nothing. So no step is recorded; a new master starts at the first one.
//! 3. [`Command::Commit`] is one batch on `hbase:meta`. What clients see changes there, at once.
//! 4. [`Command::Finish`] writes the outcome and what [`Operation::end`] says in one batch of the master's store.
//!
//! Only what has not committed can fail: then [`Procedure::on`] turns to the way back. A new master does not know of that and tries
//! the way forward again.

use std::collections::BTreeMap;

use bytes::Bytes;
use cadastre_types::{EncodedName, Error, RegionInfo, ServerName, TableName, TableState};

use crate::catalog::{Change, MetaChange, Placement};
use crate::namespace_table::NamespaceChange;
use crate::schema::{Namespace, TableRecord};

/// Number of a procedure; clients ask for its result by it. Never used twice, over restarts too.
pub type ProcedureId = u64;

/// What is wanted, with everything fixed that a second run must find the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Makes a table.
    CreateTable {
        /// Schema with family ids.
        record: TableRecord,
        /// Its regions.
        regions: Vec<RegionInfo>,
    },
    /// Opens a disabled table.
    EnableTable {
        /// Name.
        table: TableName,
        /// Its regions.
        regions: Vec<RegionInfo>,
    },
    /// Closes an enabled table.
    DisableTable {
        /// Name.
        table: TableName,
        /// Its regions.
        regions: Vec<RegionInfo>,
    },
    /// Removes a disabled table.
    DeleteTable {
        /// Name.
        table: TableName,
        /// Its regions.
        regions: Vec<RegionInfo>,
    },
    /// Replaces the regions of a disabled table by empty ones and enables it.
    TruncateTable {
        /// Name.
        table: TableName,
        /// Regions that go.
        old: Vec<RegionInfo>,
        /// Regions that come.
        new: Vec<RegionInfo>,
    },
    /// Gives a table another schema.
    AlterTable {
        /// Which alteration a client asked for.
        form: AlterForm,
        /// Schema with family ids.
        record: TableRecord,
        /// Regions that must be opened anew with it; none for a disabled table.
        reopen: Vec<RegionInfo>,
    },
    /// Makes a namespace.
    CreateNamespace(Namespace),
    /// Changes a namespace's settings.
    ModifyNamespace(Namespace),
    /// Removes an empty namespace.
    DeleteNamespace(String),
    /// Flushes a table's regions.
    FlushTable {
        /// Name.
        table: TableName,
        /// Only these families; empty for all.
        families: Vec<Bytes>,
        /// Its regions.
        regions: Vec<RegionInfo>,
    },
    /// Replaces a region of an enabled table by an empty one.
    TruncateRegion {
        /// Region that goes.
        old: RegionInfo,
        /// Region that comes: the same keys, a new id, so that nobody who still holds the old one can write to it.
        new: RegionInfo,
        /// What the old one was merged from, if that data still waits to be deleted.
        ancestors: Vec<RegionInfo>,
    },
    /// Makes two regions of one of an enabled table.
    SplitRegion {
        /// Region that goes.
        parent: RegionInfo,
        /// Regions that come, in the order of their keys.
        daughters: [RegionInfo; 2],
    },
    /// Makes one region of neighbours of an enabled table.
    MergeRegions {
        /// Regions that go, in the order of their keys.
        parents: Vec<RegionInfo>,
        /// Region that comes.
        child: RegionInfo,
        /// The parents, and what they were merged from themselves if that data still waits to be deleted.
        ancestors: Vec<RegionInfo>,
    },
    /// Forgets regions that were split or merged and whose files nobody reads any more.
    ForgetParents {
        /// The region in whose row of `hbase:meta` they stand.
        region: RegionInfo,
        /// It is a split parent itself, and goes, row and all.
        split: bool,
        /// What it was merged from.
        ancestors: Vec<RegionInfo>,
    },
    /// Closes a region; it stays so until it is assigned.
    UnassignRegion {
        /// The region.
        region: RegionInfo,
    },
    /// Closes a region where it is and opens it elsewhere.
    MoveRegion {
        /// The region.
        region: RegionInfo,
        /// Where to; `None` for any other server.
        to: Option<ServerName>,
    },
}

/// The forms of [`Operation::AlterTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlterForm {
    /// `ModifyTable`.
    Table,
    /// `AddColumn`.
    AddFamily,
    /// `DeleteColumn`.
    DeleteFamily,
    /// `ModifyColumn`.
    ModifyFamily,
}

/// What must not run at the same time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lock {
    /// Of a table, against all else on it; shared of its namespace, which must stay.
    Table(TableName),
    /// Of a namespace, against all else on it and on its tables.
    Namespace(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Close,
    Clone,
    Discard,
    Open,
    Flush,
    Namespace,
    Commit,
    Finish,
}

impl Operation {
    fn steps(&self) -> &'static [Step] {
        match self {
            Self::CreateTable { .. } | Self::EnableTable { .. } | Self::TruncateTable { .. } => {
                &[Step::Open, Step::Commit, Step::Finish]
            }
            Self::DisableTable { .. } | Self::UnassignRegion { .. } => {
                &[Step::Close, Step::Commit, Step::Finish]
            }
            Self::DeleteTable { .. } => &[Step::Commit, Step::Finish],
            Self::AlterTable { reopen, .. } if reopen.is_empty() => &[Step::Finish],
            Self::AlterTable { .. } | Self::MoveRegion { .. } | Self::TruncateRegion { .. } => {
                &[Step::Close, Step::Open, Step::Commit, Step::Finish]
            }
            // Flushed before it is closed: what was written in between is all that the closing has to flush (C11).
            Self::SplitRegion { .. } | Self::MergeRegions { .. } => &[
                Step::Flush,
                Step::Close,
                Step::Clone,
                Step::Open,
                Step::Commit,
                Step::Finish,
            ],
            Self::ForgetParents { .. } => &[Step::Commit, Step::Finish],
            Self::FlushTable { .. } => &[Step::Flush, Step::Finish],
            Self::CreateNamespace(_) | Self::ModifyNamespace(_) | Self::DeleteNamespace(_) => {
                &[Step::Namespace, Step::Finish]
            }
        }
    }

    /// The way back of what failed before its commit.
    fn steps_back(&self) -> &'static [Step] {
        match self {
            Self::SplitRegion { .. } | Self::MergeRegions { .. } => &[
                Step::Close,
                Step::Discard,
                Step::Open,
                Step::Commit,
                Step::Finish,
            ],
            _ => &[Step::Close, Step::Finish],
        }
    }

    /// The regions that others are made of.
    pub fn sources(&self) -> &[RegionInfo] {
        match self {
            Self::SplitRegion { parent, .. } => std::slice::from_ref(parent),
            Self::MergeRegions { parents, .. } => parents,
            _ => &[],
        }
    }

    /// What changes in `hbase:namespace`.
    fn namespace_change(&self) -> Option<NamespaceChange> {
        match self {
            Self::CreateNamespace(namespace) | Self::ModifyNamespace(namespace) => {
                Some(NamespaceChange::Put(namespace.clone()))
            }
            Self::DeleteNamespace(name) => Some(NamespaceChange::Delete(name.clone())),
            _ => None,
        }
    }

    /// The regions that the steps work on.
    fn regions(&self) -> &[RegionInfo] {
        match self {
            Self::CreateTable { regions, .. }
            | Self::EnableTable { regions, .. }
            | Self::DisableTable { regions, .. }
            | Self::DeleteTable { regions, .. }
            | Self::FlushTable { regions, .. } => regions,
            Self::TruncateTable { new, .. } => new,
            Self::AlterTable { reopen, .. } => reopen,
            Self::MoveRegion { region, .. } | Self::UnassignRegion { region } => {
                std::slice::from_ref(region)
            }
            Self::TruncateRegion { new, .. } => std::slice::from_ref(new),
            Self::SplitRegion { daughters, .. } => daughters,
            Self::MergeRegions { child, .. } => std::slice::from_ref(child),
            Self::ForgetParents { .. } => &[],
            Self::CreateNamespace(_) | Self::ModifyNamespace(_) | Self::DeleteNamespace(_) => &[],
        }
    }

    /// The regions that are closed, where they are not those that are worked on.
    fn closing(&self) -> &[RegionInfo] {
        match self {
            Self::TruncateRegion { old, .. } => std::slice::from_ref(old),
            Self::SplitRegion { .. } | Self::MergeRegions { .. } => self.sources(),
            _ => self.regions(),
        }
    }

    /// Whether it can be taken back before its commit. What cannot is tried until it succeeds, as in HBase.
    fn can_fail(&self) -> bool {
        matches!(
            self,
            Self::CreateTable { .. }
                | Self::TruncateTable { .. }
                | Self::SplitRegion { .. }
                | Self::MergeRegions { .. }
        )
    }

    /// Whether all of it is one write of the master's store.
    pub fn is_single_write(&self) -> bool {
        self.steps() == [Step::Finish]
    }

    /// The table it is about.
    pub fn table(&self) -> Option<&TableName> {
        match self {
            Self::CreateTable { record, .. } | Self::AlterTable { record, .. } => {
                Some(&record.descriptor.name)
            }
            Self::EnableTable { table, .. }
            | Self::DisableTable { table, .. }
            | Self::DeleteTable { table, .. }
            | Self::TruncateTable { table, .. }
            | Self::FlushTable { table, .. } => Some(table),
            Self::MoveRegion { region, .. }
            | Self::UnassignRegion { region }
            | Self::SplitRegion { parent: region, .. }
            | Self::MergeRegions { child: region, .. }
            | Self::ForgetParents { region, .. }
            | Self::TruncateRegion { old: region, .. } => Some(&region.table),
            Self::CreateNamespace(_) | Self::ModifyNamespace(_) | Self::DeleteNamespace(_) => None,
        }
    }

    /// What must not run beside it.
    pub fn lock(&self) -> Lock {
        match (self, self.table()) {
            (_, Some(table)) => Lock::Table(table.clone()),
            (Self::CreateNamespace(namespace) | Self::ModifyNamespace(namespace), None) => {
                Lock::Namespace(namespace.name.clone())
            }
            (Self::DeleteNamespace(name), None) => Lock::Namespace(name.clone()),
            (_, None) => unreachable!("every other operation is about a table"),
        }
    }

    /// HBase's class of the procedure, shown by the shell's `list_procedures`.
    pub fn class_name(&self) -> String {
        let name = match self {
            Self::CreateTable { .. } => "procedure.CreateTableProcedure",
            Self::EnableTable { .. } => "procedure.EnableTableProcedure",
            Self::DisableTable { .. } => "procedure.DisableTableProcedure",
            Self::DeleteTable { .. } => "procedure.DeleteTableProcedure",
            Self::TruncateTable { .. } => "procedure.TruncateTableProcedure",
            Self::AlterTable { .. } => "procedure.ModifyTableProcedure",
            Self::CreateNamespace(_) => "procedure.CreateNamespaceProcedure",
            Self::ModifyNamespace(_) => "procedure.ModifyNamespaceProcedure",
            Self::DeleteNamespace(_) => "procedure.DeleteNamespaceProcedure",
            Self::FlushTable { .. } => "procedure.FlushTableProcedure",
            Self::TruncateRegion { .. } => "procedure.TruncateRegionProcedure",
            Self::SplitRegion { .. } => "assignment.SplitTableRegionProcedure",
            Self::MergeRegions { .. } => "assignment.MergeTableRegionsProcedure",
            Self::ForgetParents { split: true, .. } => "assignment.GCRegionProcedure",
            Self::ForgetParents { split: false, .. } => {
                "assignment.GCMultipleMergedRegionsProcedure"
            }
            Self::MoveRegion { .. } | Self::UnassignRegion { .. } => {
                "assignment.TransitRegionStateProcedure"
            }
        };
        format!("org.apache.hadoop.hbase.master.{name}")
    }

    /// Changes of the master's store that are written with the intent.
    pub fn begin(&self) -> Vec<Change> {
        match self {
            Self::CreateTable { record, .. } | Self::AlterTable { record, .. } => {
                vec![Change::PutTable(record.clone())]
            }
            _ => Vec::new(),
        }
    }

    /// Changes of the master's store that are written with the outcome.
    pub fn end(&self, failed: bool) -> Vec<Change> {
        let garbage = |regions: &[RegionInfo]| -> Vec<Change> {
            regions.iter().cloned().map(Change::Garbage).collect()
        };
        match self {
            Self::CreateTable { record, regions } if failed => {
                let mut changes = garbage(regions);
                changes.push(Change::DeleteTable(record.descriptor.name.clone()));
                changes
            }
            Self::DeleteTable { table, regions } => {
                let mut changes = garbage(regions);
                changes.push(Change::DeleteTable(table.clone()));
                changes
            }
            Self::TruncateTable { old, new, .. } => garbage(if failed { new } else { old }),
            Self::TruncateRegion { old, ancestors, .. } => {
                let mut changes = garbage(std::slice::from_ref(old));
                changes.extend(garbage(ancestors));
                changes
            }
            // The way back has deleted them; whoever has opened one of them by an order that came late closes it.
            Self::SplitRegion { .. } | Self::MergeRegions { .. } if failed => {
                garbage(self.regions())
            }
            // Nobody will open them, and their data goes when nobody reads it.
            Self::SplitRegion { .. } | Self::MergeRegions { .. } => {
                let sources = self.sources().iter();
                sources.map(|s| Change::NoEpoch(s.encoded_name())).collect()
            }
            Self::ForgetParents {
                region,
                split,
                ancestors,
            } => {
                let mut changes = garbage(ancestors);
                if *split {
                    changes.extend(garbage(std::slice::from_ref(region)));
                }
                changes
            }
            Self::CreateNamespace(namespace) | Self::ModifyNamespace(namespace) => {
                vec![Change::PutNamespace(namespace.clone())]
            }
            Self::DeleteNamespace(name) => vec![Change::DeleteNamespace(name.clone())],
            _ => Vec::new(),
        }
    }

    /// The one batch on `hbase:meta`. Every region that was opened has a placement.
    fn commit(&self, placements: &BTreeMap<EncodedName, Placement>) -> Vec<MetaChange> {
        let opened = |regions: &[RegionInfo]| opened(regions, placements);
        let deleted = |regions: &[RegionInfo]| -> Vec<MetaChange> {
            regions
                .iter()
                .cloned()
                .map(MetaChange::DeleteRegion)
                .collect()
        };
        let (mut changes, state) = match self {
            Self::CreateTable { record, regions } => (
                opened(regions),
                Some((&record.descriptor.name, TableState::Enabled)),
            ),
            Self::EnableTable { table, regions } => {
                (opened(regions), Some((table, TableState::Enabled)))
            }
            Self::DisableTable { table, regions } => {
                let closed = regions.iter().cloned().map(MetaChange::Closed).collect();
                (closed, Some((table, TableState::Disabled)))
            }
            Self::DeleteTable { table, regions } => {
                let mut changes = deleted(regions);
                changes.push(MetaChange::DeleteTableState(table.clone()));
                (changes, None)
            }
            Self::TruncateTable { table, old, new } => {
                let mut changes = deleted(old);
                changes.extend(opened(new));
                (changes, Some((table, TableState::Enabled)))
            }
            Self::AlterTable { reopen, .. } => (opened(reopen), None),
            Self::MoveRegion { region, .. } => (opened(std::slice::from_ref(region)), None),
            Self::UnassignRegion { region } => (vec![MetaChange::Closed(region.clone())], None),
            Self::SplitRegion { parent, daughters } => {
                let mut changes = vec![MetaChange::Split(parent.clone(), daughters.clone())];
                changes.extend(opened(daughters));
                (changes, None)
            }
            Self::MergeRegions {
                parents,
                child,
                ancestors,
            } => {
                let mut changes = deleted(parents);
                changes.extend(opened(std::slice::from_ref(child)));
                changes.push(MetaChange::Merged(child.clone(), ancestors.clone()));
                (changes, None)
            }
            Self::ForgetParents {
                region,
                split: true,
                ..
            } => (deleted(std::slice::from_ref(region)), None),
            Self::ForgetParents {
                region, ancestors, ..
            } => {
                let forgotten = MetaChange::Unmerged(region.clone(), ancestors.len());
                (vec![forgotten], None)
            }
            Self::TruncateRegion { old, new, .. } => {
                let mut changes = deleted(std::slice::from_ref(old));
                changes.extend(opened(std::slice::from_ref(new)));
                (changes, None)
            }
            Self::CreateNamespace(_)
            | Self::ModifyNamespace(_)
            | Self::DeleteNamespace(_)
            | Self::FlushTable { .. } => (Vec::new(), None),
        };
        changes.extend(state.map(|(table, state)| MetaChange::TableState(table.clone(), state)));
        changes
    }
}

/// Rows of regions that were opened.
fn opened(
    regions: &[RegionInfo],
    placements: &BTreeMap<EncodedName, Placement>,
) -> Vec<MetaChange> {
    regions
        .iter()
        .map(|region| {
            let placement = placements
                .get(&region.encoded_name())
                .expect("an opening ends only when every region has a place");
            MetaChange::Opened(region.clone(), placement.clone())
        })
        .collect()
}

/// A client's mark on a call: a repeated one is the same procedure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Nonce {
    /// The client's process.
    pub group: u64,
    /// The call.
    pub nonce: u64,
}

impl Nonce {
    /// Whether the client set one (0 means none).
    pub fn is_set(self) -> bool {
        self.nonce != 0
    }
}

/// Who wanted it and when: what of a procedure does not change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// Number.
    pub id: ProcedureId,
    /// When it was submitted, ms since 1970.
    pub submitted_ms: u64,
    /// The client's user.
    pub owner: String,
    /// The client's mark.
    pub nonce: Nonce,
}

/// What the driver has to do next. Doing a command twice is doing it once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Close regions wherever they are open.
    Close(Vec<RegionInfo>),
    /// Have the databases of closed regions cloned into others (a split or a merge); the sources are never opened again.
    Clone {
        /// Regions that go.
        sources: Vec<RegionInfo>,
        /// Regions that come.
        targets: Vec<RegionInfo>,
    },
    /// Take that back.
    Discard {
        /// Regions that stay.
        sources: Vec<RegionInfo>,
        /// Regions that do not come.
        targets: Vec<RegionInfo>,
    },
    /// Have each region open on some live server.
    Open {
        /// The regions.
        regions: Vec<RegionInfo>,
        /// Where, if the client said.
        on: Option<ServerName>,
    },
    /// Flush regions.
    Flush {
        /// The regions.
        regions: Vec<RegionInfo>,
        /// Only these families; empty for all.
        families: Vec<Bytes>,
    },
    /// Write a row of `hbase:namespace`.
    Namespace(NamespaceChange),
    /// One batch on `hbase:meta`.
    Commit(Vec<MetaChange>),
    /// Write the outcome and these changes in one batch of the master's store.
    Finish {
        /// The changes.
        changes: Vec<Change>,
        /// Why it failed, or nothing.
        failure: Option<Error>,
    },
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The command is done.
    Done,
    /// Every region is open.
    Opened(BTreeMap<EncodedName, Placement>),
    /// The driver gives the command up.
    Failed(Error),
}

/// A procedure under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Procedure {
    /// Who and when.
    pub ticket: Ticket,
    /// What.
    pub operation: Operation,
    at: usize,
    placements: BTreeMap<EncodedName, Placement>,
    failure: Option<Error>,
}

impl Procedure {
    /// At its first step: just submitted, or read by a new master.
    pub fn new(ticket: Ticket, operation: Operation) -> Self {
        Self {
            ticket,
            operation,
            at: 0,
            placements: BTreeMap::new(),
            failure: None,
        }
    }

    fn steps(&self) -> &'static [Step] {
        match self.failure {
            None => self.operation.steps(),
            Some(_) => self.operation.steps_back(),
        }
    }

    /// What to do now; `None` once it is finished.
    pub fn command(&self) -> Option<Command> {
        let regions = || self.operation.regions().to_vec();
        let sources = || self.operation.sources().to_vec();
        Some(match self.steps().get(self.at)? {
            // The way back closes what was opened.
            Step::Close if self.failure.is_none() => {
                Command::Close(self.operation.closing().to_vec())
            }
            Step::Close => Command::Close(regions()),
            Step::Clone => Command::Clone {
                sources: sources(),
                targets: regions(),
            },
            Step::Discard => Command::Discard {
                sources: sources(),
                targets: regions(),
            },
            Step::Open => Command::Open {
                regions: match self.failure {
                    None => regions(),
                    Some(_) => sources(),
                },
                on: match &self.operation {
                    Operation::MoveRegion { to, .. } => to.clone(),
                    _ => None,
                },
            },
            Step::Flush => Command::Flush {
                regions: match &self.operation {
                    Operation::FlushTable { regions, .. } => regions.clone(),
                    _ => sources(),
                },
                families: match &self.operation {
                    Operation::FlushTable { families, .. } => families.clone(),
                    _ => Vec::new(),
                },
            },
            Step::Namespace => Command::Namespace(self.operation.namespace_change()?),
            Step::Commit if self.failure.is_none() => {
                Command::Commit(self.operation.commit(&self.placements))
            }
            Step::Commit => Command::Commit(opened(self.operation.sources(), &self.placements)),
            Step::Finish => Command::Finish {
                changes: self.end(),
                failure: self.failure.clone(),
            },
        })
    }

    /// What is written with the outcome, the epochs of what was opened included; all there is if nothing was written before.
    fn end(&self) -> Vec<Change> {
        let begin = match self.operation.is_single_write() {
            true => self.operation.begin(),
            false => Vec::new(),
        };
        let epochs = self
            .placements
            .iter()
            .map(|(region, placement)| Change::Epoch(region.clone(), placement.epoch));
        let changes = self.operation.end(self.failure.is_some());
        begin.into_iter().chain(changes).chain(epochs).collect()
    }

    /// Whether the driver may give up the present command. Not once clients may have seen an effect.
    pub fn can_fail(&self) -> bool {
        self.failure.is_none()
            && self.operation.can_fail()
            && matches!(self.steps().get(self.at), Some(Step::Clone | Step::Open))
    }

    /// Whether it has failed and takes back what it did.
    pub fn goes_back(&self) -> bool {
        self.failure.is_some()
    }

    /// Where it stands, for people.
    pub fn step_name(&self) -> &'static str {
        match self.steps().get(self.at) {
            Some(Step::Close) => "CLOSE_REGIONS",
            Some(Step::Clone) => "CLONE_REGIONS",
            Some(Step::Discard) => "DISCARD_REGIONS",
            Some(Step::Open) => "OPEN_REGIONS",
            Some(Step::Flush) => "FLUSH_REGIONS",
            Some(Step::Namespace) => "UPDATE_NAMESPACE_TABLE",
            Some(Step::Commit) => "UPDATE_META",
            Some(Step::Finish) => "FINISH",
            None => "FINISHED",
        }
    }

    /// The next state.
    pub fn on(mut self, event: Event) -> Self {
        assert!(self.command().is_some(), "nothing happens after the end");
        match event {
            Event::Done => self.at += 1,
            Event::Opened(placements) => {
                self.placements = placements;
                self.at += 1;
            }
            Event::Failed(error) => {
                assert!(self.can_fail(), "only what can be taken back may fail");
                self.failure = Some(error);
                self.at = 0;
            }
        }
        self
    }
}

#[cfg(test)]
mod tests;
