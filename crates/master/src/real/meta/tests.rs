//! What the master writes to hbase:meta.

use cadastre_types::{TableName, TableState};
use cadastre_wire::pb::mutation_proto::MutationType;

use super::*;

fn region() -> RegionInfo {
    let table = TableName::parse("ns:t").unwrap();
    RegionInfo::new(
        table,
        Bytes::from_static(b"a"),
        Bytes::from_static(b"b"),
        17,
    )
}

fn placement() -> Placement {
    Placement {
        server: ServerName::parse("h1,16020,1700000000000").unwrap(),
        open_sequence_number: 9,
        epoch: 4,
    }
}

/// The columns that clients need are there from a row's creation (hbase-protocol.md 6.3).
#[test]
fn an_opened_region_has_a_whole_row() {
    let written = mutation(&MetaChange::Opened(region(), placement()));
    assert_eq!(written.row, region().name());
    let columns: Vec<&[u8]> = written
        .cells
        .iter()
        .map(|cell| &cell.qualifier[..])
        .collect();
    for column in [
        &b"regioninfo"[..],
        b"server",
        b"serverstartcode",
        b"seqnumDuringOpen",
        b"sn",
        b"state",
    ] {
        assert!(columns.contains(&column), "{}", column.escape_ascii());
    }
    // What is written is what is read, but for the epoch, which only the master that gave the order knows.
    let mut expected = placement();
    expected.epoch = 0;
    assert_eq!(
        decode_row(&written.cells).unwrap(),
        Some(MetaRow::Region(RegionEntry {
            info: region(),
            state: RegionState::Open,
            placement: Some(expected),
            merged_from: Vec::new(),
        }))
    );
}

/// A row after some changes, as a reader finds it.
fn row_after(changes: &[MetaChange]) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    for change in changes {
        for cell in mutation(change).cells {
            cells.retain(|other| other.qualifier != cell.qualifier);
            if !cell.cell_type.is_delete() {
                cells.push(cell);
            }
        }
    }
    cells.sort_by(Cell::cmp_hbase);
    cells
}

fn entry_after(changes: &[MetaChange]) -> RegionEntry {
    match decode_row(&row_after(changes)).unwrap() {
        Some(MetaRow::Region(entry)) => entry,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_split_parent_names_its_daughters_and_counts_as_offline() {
    let halves = [(&b"a"[..], &b"ab"[..]), (b"ab", b"b")].map(|(start, end)| {
        let (start, end) = (Bytes::copy_from_slice(start), Bytes::copy_from_slice(end));
        RegionInfo::new(region().table, start, end, 18)
    });
    let opened = MetaChange::Opened(region(), placement());
    let changes = [opened, MetaChange::Split(region(), halves.clone())];
    let entry = entry_after(&changes);
    assert_eq!(entry.state, RegionState::Split);
    assert_eq!(entry.info, split_parent(&region()));
    assert!(entry.info.offline && entry.info.split);
    let row = MetaEntry::from_cells(&row_after(&changes))
        .unwrap()
        .unwrap();
    let [lower, upper] = halves;
    assert_eq!(row.split_daughters, Some((lower, upper)));
    assert!(row.server.is_some(), "old clients need one in each row");
}

#[test]
fn a_merged_region_says_of_what_until_that_is_forgotten() {
    let parents: Vec<RegionInfo> = (1..=2)
        .map(|id| RegionInfo {
            region_id: id,
            ..region()
        })
        .collect();
    let mut changes = vec![
        MetaChange::Opened(region(), placement()),
        MetaChange::Merged(region(), parents.clone()),
    ];
    assert_eq!(entry_after(&changes).merged_from, parents);
    // Moved or not.
    changes.push(MetaChange::Opened(region(), placement()));
    assert_eq!(entry_after(&changes).merged_from, parents);
    changes.push(MetaChange::Unmerged(region(), parents.len()));
    let entry = entry_after(&changes);
    assert_eq!(entry.merged_from, []);
    assert_eq!(entry.state, RegionState::Open);
}

#[test]
fn a_closed_region_keeps_its_server() {
    let mut cells = mutation(&MetaChange::Opened(region(), placement())).cells;
    let closed = mutation(&MetaChange::Closed(region()));
    assert_eq!(closed.cells.len(), 1);
    cells.retain(|cell| cell.qualifier != meta::STATE);
    cells.extend(closed.cells);
    let Some(MetaRow::Region(entry)) = decode_row(&cells).unwrap() else {
        panic!("a region's row")
    };
    assert_eq!(entry.state, RegionState::Closed);
    assert_eq!(entry.placement.unwrap().server, placement().server);
    assert!(entry.info == region());
}

#[test]
fn table_rows_come_back_and_foreign_rows_are_left_alone() {
    let table = TableName::parse("ns:t").unwrap();
    let written = mutation(&MetaChange::TableState(table.clone(), TableState::Disabled));
    assert_eq!(&written.row[..], b"ns:t");
    assert_eq!(
        decode_row(&written.cells).unwrap(),
        Some(MetaRow::Table(table.clone(), TableState::Disabled))
    );
    let mut foreign = written.cells;
    foreign[0].qualifier = Bytes::from_static(b"other");
    assert_eq!(decode_row(&foreign).unwrap(), None);
    let deleted = mutation(&MetaChange::DeleteTableState(table));
    assert_eq!(deleted.kind, MutationKind::Delete);
    assert!(deleted.cells.is_empty(), "the whole row");
}

#[test]
fn a_batch_is_one_action_list_of_one_region() {
    let changes = [
        MetaChange::DeleteRegion(region()),
        MetaChange::Opened(region(), placement()),
    ];
    let request = batch_request(&RegionInfo::meta(), &changes.each_ref().map(mutation), 7);
    assert_eq!(request.master_epoch, Some(7));
    assert_eq!(request.region_action.len(), 1);
    let region_action = &request.region_action[0];
    assert_eq!(&region_action.region.value[..], b"hbase:meta,,1");
    let kinds: Vec<i32> = region_action
        .action
        .iter()
        .map(|action| action.mutation.as_ref().unwrap().mutate_type())
        .map(|kind| kind as i32)
        .collect();
    assert_eq!(
        kinds,
        [MutationType::Delete as i32, MutationType::Put as i32]
    );
    let failed = pb::MultiResponse {
        region_action_result: vec![pb::RegionActionResult {
            result_or_exception: vec![pb::ResultOrException {
                exception: Some(exception::to_pair(&Error::new(
                    Code::RegionTooBusy,
                    "later",
                ))),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    assert_eq!(
        check_batch(&failed).unwrap_err().code(),
        Code::RegionTooBusy
    );
    check_batch(&pb::MultiResponse::default()).unwrap();
}
