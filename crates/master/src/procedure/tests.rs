//! Every procedure is run in a model world, cut after each effect, taken up again by a new master, and must end as an uncut
//! run does.

use std::collections::BTreeSet;

use cadastre_types::{Code, FamilyDescriptor, TableDescriptor};

use super::*;
use crate::catalog::{Catalog, RegionState};
use crate::schema::{covers, regions_of};

/// What lasts: the master's store and hbase:meta as lists of applied changes, and what servers do.
#[derive(Debug, Clone, Default)]
struct World {
    running: BTreeMap<ProcedureId, (Ticket, Operation)>,
    outcomes: BTreeMap<ProcedureId, Option<Code>>,
    store: Vec<Change>,
    meta: Vec<MetaChange>,
    rows: BTreeMap<String, Namespace>,
    open: BTreeSet<EncodedName>,
    openings: u64,
    refuse_to_open: bool,
    /// Regions that were cloned, with what they were cloned of and how often that had been opened by then.
    clones: BTreeMap<EncodedName, Vec<(EncodedName, u64)>>,
    sealed: BTreeSet<EncodedName>,
    opened: BTreeMap<EncodedName, u64>,
    /// Regions that may be opened though others are refused.
    refused_once: BTreeSet<EncodedName>,
}

impl World {
    fn catalog(&self) -> Catalog {
        let mut catalog = Catalog::new();
        self.store.iter().for_each(|change| catalog.apply(change));
        self.meta
            .iter()
            .for_each(|change| catalog.apply_meta(change));
        catalog
    }

    fn submit(&mut self, id: ProcedureId, operation: Operation) -> Procedure {
        let ticket = Ticket {
            id,
            submitted_ms: 1,
            owner: "me".into(),
            nonce: Nonce::default(),
        };
        if !operation.is_single_write() {
            self.store.extend(operation.begin());
        }
        self.running.insert(id, (ticket.clone(), operation.clone()));
        Procedure::new(ticket, operation)
    }

    fn execute(&mut self, id: ProcedureId, command: Command) -> Event {
        match command {
            Command::Close(regions) => {
                for region in regions {
                    self.open.remove(&region.encoded_name());
                }
                Event::Done
            }
            Command::Clone { sources, targets } => {
                let fresh = !sources
                    .iter()
                    .all(|source| self.sealed.contains(&source.encoded_name()));
                let mut states = Vec::new();
                for source in &sources {
                    let name = source.encoded_name();
                    assert!(!self.open.contains(&name), "only what is closed is cloned");
                    states.push((name.clone(), self.opened.get(&name).copied().unwrap_or(0)));
                    self.sealed.insert(name);
                }
                for target in targets {
                    let name = target.encoded_name();
                    if fresh {
                        self.clones.remove(&name);
                    }
                    let states = states.clone();
                    self.clones.entry(name).or_insert(states);
                }
                Event::Done
            }
            Command::Discard { sources, targets } => {
                for target in targets {
                    assert!(!self.open.contains(&target.encoded_name()));
                    self.clones.remove(&target.encoded_name());
                }
                for source in sources {
                    self.sealed.remove(&source.encoded_name());
                }
                Event::Done
            }
            Command::Open { regions, .. } => {
                let back = regions
                    .iter()
                    .any(|region| self.refused_once.contains(&region.encoded_name()));
                if self.refuse_to_open && !back {
                    let operation = &self.running[&id].1;
                    let sources = operation.sources().iter();
                    self.refused_once
                        .extend(sources.map(RegionInfo::encoded_name));
                    return Event::Failed(Error::new(Code::Io, "no"));
                }
                for region in &regions {
                    let name = region.encoded_name();
                    assert!(!self.sealed.contains(&name), "C20");
                    for (source, opened) in self.clones.get(&name).into_iter().flatten() {
                        assert_eq!(self.opened[source], *opened, "a stale clone");
                    }
                    *self.opened.entry(name).or_default() += 1;
                }
                self.openings += 1;
                let placement = Placement {
                    server: ServerName::parse("h,1,1").unwrap(),
                    open_sequence_number: self.openings,
                    epoch: self.openings,
                };
                let places = regions.iter().map(|region| {
                    self.open.insert(region.encoded_name());
                    (region.encoded_name(), placement.clone())
                });
                Event::Opened(places.collect())
            }
            Command::Flush { .. } => Event::Done,
            Command::Namespace(change) => {
                match change {
                    NamespaceChange::Put(namespace) => {
                        self.rows.insert(namespace.name.clone(), namespace)
                    }
                    NamespaceChange::Delete(name) => self.rows.remove(&name),
                };
                Event::Done
            }
            Command::Commit(changes) => {
                self.meta.extend(changes);
                Event::Done
            }
            Command::Finish { changes, failure } => {
                self.store.extend(changes);
                self.running.remove(&id);
                self.outcomes.insert(id, failure.map(|error| error.code()));
                Event::Done
            }
        }
    }

    /// Runs to the end; `cut` tells after which command the master dies, its effect done and its answer lost.
    fn run(&mut self, mut procedure: Procedure, mut cut: Option<usize>) {
        let id = procedure.ticket.id;
        while let Some(command) = procedure.command() {
            let event = self.execute(id, command);
            match &mut cut {
                Some(0) => match self.running.get(&id) {
                    // A new master: all it has is the intent.
                    Some((ticket, operation)) => {
                        procedure = Procedure::new(ticket.clone(), operation.clone());
                        cut = None;
                    }
                    None => return,
                },
                Some(left) => {
                    *left -= 1;
                    procedure = procedure.on(event);
                }
                None => procedure = procedure.on(event),
            }
        }
    }

    /// What clients and people can see, without what may differ (sequence numbers of openings).
    fn summary(&self) -> String {
        let catalog = self.catalog();
        let tables: Vec<_> = catalog
            .tables()
            .map(|(name, table)| {
                let regions: Vec<_> = catalog
                    .regions_of(name)
                    .map(|region| {
                        let encoded = region.info.encoded_name();
                        let open = self.open.contains(&encoded);
                        assert_eq!(open, region.state == RegionState::Open, "{name}");
                        (encoded, region.state, &region.merged_from)
                    })
                    .collect();
                (name, table.state, &table.record, regions)
            })
            .collect();
        let garbage: Vec<_> = catalog.garbage().collect();
        let namespaces: Vec<_> = catalog.namespaces().collect();
        format!(
            "{tables:?} {garbage:?} {namespaces:?} {:?} {:?} {:?}",
            self.outcomes, self.open, self.rows
        )
    }
}

fn name() -> TableName {
    TableName::parse("ns:t").unwrap()
}

fn regions(id: u64) -> Vec<RegionInfo> {
    regions_of(&name(), vec![Bytes::from_static(b"m")], id).unwrap()
}

fn record() -> TableRecord {
    TableRecord::create(TableDescriptor::new(name()).with_family(FamilyDescriptor::new("f")))
        .unwrap()
}

/// Halves of the region that begins the table.
fn halves(parent: &RegionInfo, id: u64) -> [RegionInfo; 2] {
    let half = |start: &Bytes, end: &Bytes| RegionInfo::new(name(), start.clone(), end.clone(), id);
    let at = Bytes::from_static(b"g");
    [half(&parent.start_key, &at), half(&at, &parent.end_key)]
}

fn split(parent: RegionInfo, id: u64) -> Operation {
    let daughters = halves(&parent, id);
    Operation::SplitRegion { parent, daughters }
}

fn merge(parents: Vec<RegionInfo>, id: u64) -> Operation {
    Operation::MergeRegions {
        child: RegionInfo {
            start_key: parents[0].start_key.clone(),
            region_id: id,
            ..parents.last().unwrap().clone()
        },
        ancestors: parents.clone(),
        parents,
    }
}

/// Operations that follow each other, and the table's state after each.
fn life() -> Vec<(Operation, Option<TableState>)> {
    let table = name();
    let altered = record().with_added(FamilyDescriptor::new("g")).unwrap();
    let alter = |reopen: Vec<RegionInfo>| Operation::AlterTable {
        form: AlterForm::AddFamily,
        record: altered.clone(),
        reopen,
    };
    let disable = |id| Operation::DisableTable {
        table: table.clone(),
        regions: regions(id),
    };
    // As truncating the first region leaves them.
    let mixed: Vec<RegionInfo> = [&regions(3)[..1], &regions(2)[1..]].concat();
    let merged = RegionInfo {
        start_key: Bytes::from_static(b"g"),
        region_id: 5,
        ..mixed[1].clone()
    };
    let last = vec![halves(&mixed[0], 4)[0].clone(), merged.clone()];
    use TableState::{Disabled, Enabled};
    vec![
        (Operation::CreateNamespace(Namespace::new("ns")), None),
        (
            Operation::CreateTable {
                record: record(),
                regions: regions(1),
            },
            Some(Enabled),
        ),
        (alter(regions(1)), Some(Enabled)),
        (
            Operation::FlushTable {
                table: table.clone(),
                families: Vec::new(),
                regions: regions(1),
            },
            Some(Enabled),
        ),
        (
            Operation::MoveRegion {
                region: regions(1)[0].clone(),
                to: None,
            },
            Some(Enabled),
        ),
        (disable(1), Some(Disabled)),
        (alter(Vec::new()), Some(Disabled)),
        (
            Operation::EnableTable {
                table: table.clone(),
                regions: regions(1),
            },
            Some(Enabled),
        ),
        (disable(1), Some(Disabled)),
        (
            Operation::TruncateTable {
                table: table.clone(),
                old: regions(1),
                new: regions(2),
            },
            Some(Enabled),
        ),
        (
            Operation::UnassignRegion {
                region: regions(2)[1].clone(),
            },
            Some(Enabled),
        ),
        (
            Operation::TruncateRegion {
                old: regions(2)[0].clone(),
                new: regions(3)[0].clone(),
                ancestors: Vec::new(),
            },
            Some(Enabled),
        ),
        (split(mixed[0].clone(), 4), Some(Enabled)),
        (
            merge(vec![halves(&mixed[0], 4)[1].clone(), mixed[1].clone()], 5),
            Some(Enabled),
        ),
        (
            Operation::ForgetParents {
                region: mixed[0].clone(),
                split: true,
                ancestors: Vec::new(),
            },
            Some(Enabled),
        ),
        (
            Operation::ForgetParents {
                region: merged.clone(),
                split: false,
                ancestors: vec![halves(&mixed[0], 4)[1].clone(), mixed[1].clone()],
            },
            Some(Enabled),
        ),
        (
            Operation::DisableTable {
                table: table.clone(),
                regions: last.clone(),
            },
            Some(Disabled),
        ),
        (
            Operation::DeleteTable {
                table: table.clone(),
                regions: last,
            },
            None,
        ),
        (Operation::DeleteNamespace("ns".into()), None),
    ]
}

#[test]
fn each_operation_ends_the_same_wherever_the_master_dies() {
    let mut world = World::default();
    for (id, (operation, state)) in (1..).zip(life()) {
        let before = world.clone();
        let procedure = world.submit(id, operation.clone());
        world.run(procedure, None);
        let catalog = world.catalog();
        assert_eq!(
            catalog.table(&name()).ok().map(|table| table.state),
            state,
            "{operation:?}"
        );
        if state.is_some() {
            let regions: Vec<_> = catalog
                .served_regions_of(&name())
                .map(|region| region.info.clone())
                .collect();
            assert!(covers(&regions), "INV-1 after {operation:?}");
        }
        assert!(world.running.is_empty());
        for cut in 0..8 {
            let mut other = before.clone();
            let procedure = other.submit(id, operation.clone());
            other.run(procedure, Some(cut));
            assert_eq!(
                other.summary(),
                world.summary(),
                "cut after {cut} commands of {operation:?}"
            );
        }
    }
    let catalog = world.catalog();
    assert_eq!(catalog.tables().count(), 0);
    assert_eq!(catalog.regions().count(), 0);
    assert_eq!(catalog.garbage().count(), 8, "all generations of regions");
    assert!(world.open.is_empty());
}

/// Between any two effects a client that reads hbase:meta sees the whole table or none of it.
#[test]
fn meta_shows_a_new_table_whole() {
    let mut world = World::default();
    let mut procedure = world.submit(
        1,
        Operation::CreateTable {
            record: record(),
            regions: regions(1),
        },
    );
    while let Some(command) = procedure.command() {
        let event = world.execute(1, command);
        procedure = procedure.on(event);
        let rows = world.catalog().regions().count();
        assert!(rows == 0 || rows == 2, "{rows}");
    }
}

#[test]
fn a_creation_that_cannot_open_is_taken_back() {
    for cut in [None, Some(0), Some(1), Some(2), Some(3)] {
        let mut world = World {
            refuse_to_open: true,
            ..World::default()
        };
        let procedure = world.submit(
            1,
            Operation::CreateTable {
                record: record(),
                regions: regions(1),
            },
        );
        assert!(procedure.can_fail());
        world.run(procedure, cut);
        assert_eq!(world.outcomes[&1], Some(Code::Io));
        let catalog = world.catalog();
        assert!(catalog.table(&name()).is_err());
        assert_eq!(catalog.garbage().count(), 2);
        assert!(world.open.is_empty());
    }
}

#[test]
fn what_clients_may_have_seen_cannot_fail() {
    let operation = Operation::EnableTable {
        table: name(),
        regions: regions(1),
    };
    let mut world = World::default();
    assert!(!world.submit(1, operation).can_fail());
    let created = world.submit(
        2,
        Operation::CreateTable {
            record: record(),
            regions: regions(1),
        },
    );
    let places = regions(1)
        .iter()
        .map(|region| {
            let placement = Placement {
                server: ServerName::parse("h,1,1").unwrap(),
                open_sequence_number: 1,
                epoch: 1,
            };
            (region.encoded_name(), placement)
        })
        .collect();
    let committing = created.on(Event::Opened(places));
    assert!(!committing.can_fail());
}

/// A split or merge whose regions cannot be opened leaves everything as it was, wherever the master dies on the way.
#[test]
fn a_replacement_that_cannot_open_is_taken_back() {
    let mut before = World::default();
    let create = Operation::CreateTable {
        record: record(),
        regions: regions(1),
    };
    let procedure = before.submit(1, create);
    before.run(procedure, None);
    for operation in [split(regions(1)[0].clone(), 2), merge(regions(1), 2)] {
        for cut in (0..12).map(Some).chain([None]) {
            let mut world = before.clone();
            world.refuse_to_open = true;
            let procedure = world.submit(2, operation.clone());
            world.run(procedure, cut);
            assert_eq!(world.outcomes[&2], Some(Code::Io), "{cut:?}");
            let catalog = world.catalog();
            let there: Vec<_> = catalog.regions().collect();
            assert_eq!(there.len(), 2);
            for region in there {
                let name = region.info.encoded_name();
                assert_eq!(region.state, RegionState::Open);
                assert!(world.open.contains(&name));
                let closed = operation.sources().contains(&region.info);
                assert_eq!(world.opened[&name] > 1, closed, "it was opened again");
            }
            assert_eq!(world.open.len(), 2);
            assert!(world.sealed.is_empty());
            assert!(world.clones.is_empty());
        }
    }
}

/// At every version of hbase:meta a key lies in exactly one region that is not a split parent (INV-1).
#[test]
fn meta_covers_every_key_once_while_regions_are_replaced() {
    let mut world = World::default();
    let create = Operation::CreateTable {
        record: record(),
        regions: regions(1),
    };
    let procedure = world.submit(1, create);
    world.run(procedure, None);
    let halves = halves(&regions(1)[0], 2);
    let neighbours = vec![halves[1].clone(), regions(1)[1].clone()];
    let operations = [split(regions(1)[0].clone(), 2), merge(neighbours, 3)];
    for (id, operation) in (2..).zip(operations) {
        let mut procedure = world.submit(id, operation);
        while let Some(command) = procedure.command() {
            let event = world.execute(id, command);
            procedure = procedure.on(event);
            let catalog = world.catalog();
            let infos: Vec<_> = catalog
                .served_regions_of(&name())
                .map(|region| region.info.clone())
                .collect();
            assert!(covers(&infos), "{infos:?}");
        }
    }
}
