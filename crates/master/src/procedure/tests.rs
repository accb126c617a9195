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
            Command::Open { regions, .. } => {
                if self.refuse_to_open {
                    return Event::Failed(Error::new(Code::Io, "no"));
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
                        (encoded, region.state)
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
            },
            Some(Enabled),
        ),
        (
            Operation::DisableTable {
                table: table.clone(),
                regions: mixed.clone(),
            },
            Some(Disabled),
        ),
        (
            Operation::DeleteTable {
                table: table.clone(),
                regions: mixed,
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
                .regions_of(&name())
                .map(|region| region.info.clone())
                .collect();
            assert!(covers(&regions), "INV-1 after {operation:?}");
        }
        assert!(world.running.is_empty());
        for cut in 0..5 {
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
    assert_eq!(catalog.garbage().count(), 5, "all generations of regions");
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
