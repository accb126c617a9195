//! What clients send, what they must not, and that what we write is read back.

use std::collections::{BTreeMap, BTreeSet};

use bytes::BytesMut;
use cadastre_types::{
    Cell, CellType, Code, CompareOp, Condition, Durability, EncodedFilter, FamilyDescriptor, Get,
    LATEST_TIMESTAMP, Mutation, MutationKind, Qualifiers, Query, RegionInfo, Scan, ServerName,
    TableDescriptor, TableName, TableState, TimeRange,
};
use pb::mutation_proto::column_value::QualifierValue;
use pb::mutation_proto::{ColumnValue, DeleteType, MutationType};
use proptest::prelude::*;

use super::*;
use crate::cells::{CellReader, Codec, write_cell};
use crate::testing::{any_bytes, any_cell};

fn text(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn pair(name: &str, value: &'static [u8]) -> pb::NameBytesPair {
    pb::NameBytesPair {
        name: name.to_owned(),
        value: Some(Bytes::from_static(value)),
    }
}

fn inline(kind: MutationType, values: Vec<QualifierValue>) -> pb::MutationProto {
    pb::MutationProto {
        row: Some(text("r")),
        mutate_type: Some(kind as i32),
        column_value: vec![ColumnValue {
            family: text("f"),
            qualifier_value: values,
        }],
        ..Default::default()
    }
}

fn value(value: &'static str) -> QualifierValue {
    QualifierValue {
        qualifier: Some(text("q")),
        value: Some(text(value)),
        ..Default::default()
    }
}

fn read(proto: &pb::MutationProto) -> Result<Mutation> {
    mutation(proto, &mut CellReader::empty())
}

fn refused(proto: &pb::MutationProto) -> String {
    let error = read(proto).unwrap_err();
    assert_eq!(error.code(), Code::DoNotRetryIo);
    error.message().to_owned()
}

#[test]
fn timestamps_of_a_put() {
    let mut proto = inline(MutationType::Put, vec![value("a"), value("b")]);
    proto.column_value[0].qualifier_value[1].timestamp = Some(7);
    let stamps = |proto: &pb::MutationProto| -> Vec<i64> {
        read(proto)
            .unwrap()
            .cells
            .iter()
            .map(|cell| cell.timestamp)
            .collect()
    };
    assert_eq!(stamps(&proto), [LATEST_TIMESTAMP, 7]);
    proto.timestamp = Some(5);
    assert_eq!(stamps(&proto), [5, 7]);
    proto.timestamp = Some(i64::MAX.unsigned_abs());
    assert_eq!(stamps(&proto), [LATEST_TIMESTAMP, 7]);
    proto.timestamp = Some(u64::MAX);
    assert_eq!(stamps(&proto), [LATEST_TIMESTAMP, 7]);
    proto.timestamp = Some(u64::MAX - 1);
    assert_eq!(refused(&proto), "Timestamp cannot be negative. ts=-2");
}

#[test]
fn delete_types() {
    let typed = |delete_type: Option<DeleteType>| QualifierValue {
        qualifier: Some(text("q")),
        delete_type: delete_type.map(|it| it as i32),
        ..Default::default()
    };
    let all = [
        (None, CellType::Delete, "q"),
        (Some(DeleteType::DeleteOneVersion), CellType::Delete, "q"),
        (
            Some(DeleteType::DeleteMultipleVersions),
            CellType::DeleteColumn,
            "q",
        ),
        (Some(DeleteType::DeleteFamily), CellType::DeleteFamily, ""),
        (
            Some(DeleteType::DeleteFamilyVersion),
            CellType::DeleteFamilyVersion,
            "",
        ),
    ];
    let values = all.iter().map(|it| typed(it.0)).collect();
    let read_back = read(&inline(MutationType::Delete, values)).unwrap();
    for (cell, (_, cell_type, qualifier)) in read_back.cells.iter().zip(all) {
        assert_eq!(
            (cell.cell_type, &cell.qualifier[..]),
            (cell_type, qualifier.as_bytes())
        );
        assert_eq!(cell.timestamp, LATEST_TIMESTAMP);
    }
    // A put may carry markers; without a type it is a value.
    let mixed = inline(
        MutationType::Put,
        vec![value("a"), typed(Some(DeleteType::DeleteMultipleVersions))],
    );
    let types: Vec<_> = read(&mixed)
        .unwrap()
        .cells
        .iter()
        .map(|it| it.cell_type)
        .collect();
    assert_eq!(types, [CellType::Put, CellType::DeleteColumn]);
    // Nothing named at all is the whole row.
    let mut row = inline(MutationType::Delete, Vec::new());
    row.column_value.clear();
    row.timestamp = Some(9);
    let row = read(&row).unwrap();
    assert!(row.cells.is_empty());
    assert_eq!(row.timestamp, 9);
}

#[test]
fn mutations_that_make_no_sense() {
    let good = || inline(MutationType::Put, vec![value("a")]);
    let changed = |change: fn(&mut pb::MutationProto)| {
        let mut proto = good();
        change(&mut proto);
        refused(&proto)
    };
    assert_eq!(changed(|it| it.row = None), "Row length is 0");
    assert_eq!(
        changed(|it| it.row = Some(vec![0; 32_768].into())),
        "Row length 32768 is > 32767"
    );
    assert_eq!(
        changed(|it| it.column_value[0].qualifier_value[0].value = None),
        "Missing required field: qualifier value"
    );
    assert_eq!(
        changed(|it| it.column_value.clear()),
        "No columns to insert"
    );
    changed(|it| it.mutate_type = None);
    changed(|it| it.mutate_type = Some(4));
    changed(|it| it.durability = Some(5));
    changed(|it| it.column_value[0].qualifier_value.clear());
    changed(|it| it.column_value[0].family = Bytes::new());
    changed(|it| it.column_value[0].family = vec![b'f'; 128].into());
    changed(|it| it.column_value[0].qualifier_value[0].delete_type = Some(4));
    changed(|it| it.column_value[0].qualifier_value[0].tags = Some(text("x")));
    changed(|it| it.attribute = vec![pair("_ttl", &[1])]);
    changed(|it| {
        it.time_range = Some(pb::TimeRange {
            from: Some(2),
            to: Some(1),
        });
    });
    refused(&inline(MutationType::Increment, vec![value("short")]));
    // A family named without columns must not become the deletion of the row.
    refused(&inline(MutationType::Delete, Vec::new()));
}

#[test]
fn attributes_of_a_mutation() {
    let mut proto = inline(MutationType::Append, vec![value("a")]);
    assert!(read(&proto).unwrap().return_results);
    assert_eq!(read(&proto).unwrap().ttl_ms, None);
    proto.attribute = vec![pair("_rr_", &[0]), pair("_ttl", &[0, 0, 0, 0, 0, 0, 1, 0])];
    let with = read(&proto).unwrap();
    assert_eq!((with.return_results, with.ttl_ms), (false, Some(256)));
    proto.attribute = vec![
        pair("_rr_", &[1]),
        pair("_ttl", &[0xff; 8]),
        pair("ours", b"x"),
    ];
    let with = read(&proto).unwrap();
    assert_eq!((with.return_results, with.ttl_ms), (true, Some(0)));
}

#[test]
fn cells_from_the_block() {
    let cell = |row, cell_type| Cell {
        cell_type,
        ..Cell::put(text(row), text("f"), text("q"), 3, text("v"))
    };
    let mut block = BytesMut::new();
    for it in [
        cell("r", CellType::Put),
        cell("r", CellType::DeleteFamily),
        cell("s", CellType::Put),
        cell("s", CellType::Put),
    ] {
        write_cell(&mut block, &it, Codec::KeyValue);
    }
    let mut reader = CellReader::new(block.freeze(), Codec::KeyValue);
    let mut proto = pb::MutationProto {
        row: Some(text("r")),
        mutate_type: Some(MutationType::Put as i32),
        associated_cell_count: Some(2),
        ..Default::default()
    };
    let first = mutation(&proto, &mut reader).unwrap();
    assert_eq!(first.cells.len(), 2);
    assert!(
        first.cells[1].qualifier.is_empty(),
        "the marker speaks for its family"
    );
    // The next mutation's row may come from its cells.
    proto.row = None;
    proto.associated_cell_count = Some(1);
    assert_eq!(mutation(&proto, &mut reader).unwrap().row, "s");
    // Another row's cell, and a value in a delete, are refused; so is a count without cells.
    proto.row = Some(text("r"));
    assert!(mutation(&proto, &mut reader.clone()).is_err());
    proto.row = Some(text("s"));
    proto.mutate_type = Some(MutationType::Delete as i32);
    assert!(mutation(&proto, &mut reader.clone()).is_err());
    proto.associated_cell_count = Some(2);
    assert!(mutation(&proto, &mut reader).is_err());
    // A negative count is none.
    proto.associated_cell_count = Some(-1);
    assert!(read(&proto).unwrap().cells.is_empty());
}

#[test]
fn scan_defaults() {
    let plain = scan(&pb::Scan::default()).unwrap();
    assert_eq!(plain.query, Query::default());
    assert_eq!(
        (
            plain.include_start_row,
            plain.include_stop_row,
            plain.reversed
        ),
        (true, false, false)
    );
    let rows = |start, stop, include| {
        let read = scan(&pb::Scan {
            start_row: Some(text(start)),
            stop_row: Some(text(stop)),
            include_stop_row: include,
            ..Default::default()
        });
        read.unwrap().include_stop_row
    };
    assert!(rows("a", "a", None), "old clients mean a get");
    assert!(!rows("a", "a", Some(false)));
    assert!(!rows("a", "b", None));
    assert!(!rows("", "", None));
    assert!(rows("a", "b", Some(true)));
}

#[test]
fn raw_scans() {
    let raw = |attribute: &'static [u8], qualifier: &[&'static str]| {
        scan(&pb::Scan {
            attribute: vec![pair("_raw_", attribute)],
            column: vec![pb::Column {
                family: text("f"),
                qualifier: qualifier.iter().copied().map(text).collect(),
            }],
            ..Default::default()
        })
    };
    assert!(raw(&[0xff], &[]).unwrap().query.raw);
    assert!(!raw(&[0], &[]).unwrap().query.raw);
    assert!(!raw(&[], &[]).unwrap().query.raw);
    assert!(!raw(&[0], &["q"]).unwrap().query.raw);
    assert_eq!(
        raw(&[0xff], &["q"]).unwrap_err().message(),
        "Cannot specify any column for a raw scan"
    );
}

#[test]
fn time_ranges() {
    let range = |from, to| time_range(Some(&pb::TimeRange { from, to }));
    assert_eq!(time_range(None).unwrap(), TimeRange::ALL);
    assert_eq!(
        range(None, None).unwrap(),
        TimeRange::ALL,
        "gohbase's empty message"
    );
    assert_eq!(
        range(Some(3), None).unwrap(),
        TimeRange {
            from: 3,
            to: i64::MAX
        }
    );
    assert_eq!(range(None, Some(u64::MAX)).unwrap(), TimeRange::ALL);
    assert_eq!(
        range(Some(3), Some(3)).unwrap(),
        TimeRange { from: 3, to: 3 }
    );
    assert_eq!(
        range(Some(4), Some(3)).unwrap_err().message(),
        "maxStamp is smaller than minStamp"
    );
    assert_eq!(
        range(Some(u64::MAX), None).unwrap_err().message(),
        "Timestamp cannot be negative"
    );
}

#[test]
fn columns_of_a_get() {
    let column = |family, qualifiers: &[&'static str]| pb::Column {
        family: text(family),
        qualifier: qualifiers.iter().copied().map(text).collect(),
    };
    let read = get(&pb::Get {
        row: text("r"),
        column: vec![
            column("f", &["a"]),
            column("f", &["b", ""]),
            column("g", &["a"]),
            column("g", &[]),
            column("h", &[]),
            column("h", &["z"]),
        ],
        ..Default::default()
    });
    let these = |all: &[&'static str]| Qualifiers::These(all.iter().copied().map(text).collect());
    let expected = BTreeMap::from([
        (text("f"), these(&["", "a", "b"])),
        (text("g"), Qualifiers::All),
        (text("h"), these(&["z"])),
    ]);
    assert_eq!(read.unwrap().query.columns, expected);
    let versions = get(&pb::Get {
        row: text("r"),
        max_versions: Some(0),
        ..Default::default()
    });
    assert_eq!(
        versions.unwrap_err().message(),
        "maxVersions must be positive"
    );
    let negative = get(&pb::Get {
        row: text("r"),
        store_limit: Some(u32::MAX),
        store_offset: Some(u32::MAX),
        ..Default::default()
    });
    let negative = negative.unwrap();
    assert_eq!((negative.store_limit, negative.store_offset), (None, 0));
    assert_eq!(
        get(&pb::Get::default()).unwrap_err().message(),
        "Row length is 0"
    );
}

#[test]
fn conditions() {
    let proto = pb::Condition {
        row: text("r"),
        ..Default::default()
    };
    assert!(condition(&proto).is_err(), "neither comparison nor filter");
    let filtered = condition(&pb::Condition {
        filter: Some(pb::Filter {
            name: "F".to_owned(),
            serialized_filter: None,
        }),
        ..proto.clone()
    });
    assert_eq!(filtered.unwrap().filter.unwrap().class, "F");
    for op in 0..=6 {
        let one = condition(&pb::Condition {
            compare_type: Some(op),
            ..proto.clone()
        });
        assert_eq!(condition_pb(&one.unwrap()).compare_type, Some(op));
    }
    assert!(compare_op(7).is_err());
}

#[test]
fn results_inline_and_by_count() {
    let cells = [
        Cell::put(text("r"), text("f"), text("q"), 3, text("v")),
        Cell::put(text("r"), text("f"), text("r"), -1, text("")),
    ];
    let inline = result_pb(&cells);
    for cell in &inline.cell {
        // Two clients read every part without asking.
        assert!(cell.row.is_some() && cell.family.is_some() && cell.qualifier.is_some());
        assert!(cell.timestamp.is_some() && cell.cell_type.is_some() && cell.value.is_some());
    }
    assert_eq!(result(&inline, &mut CellReader::empty()).unwrap(), cells);
    let mut block = BytesMut::new();
    for cell in &cells {
        write_cell(&mut block, cell, Codec::KeyValue);
    }
    let counted = result_by_count(cells.len()).unwrap();
    assert!(counted.cell.is_empty());
    let mut reader = CellReader::new(block.freeze(), Codec::KeyValue);
    assert_eq!(result(&counted, &mut reader).unwrap(), cells);
    assert!(result(&counted, &mut reader).is_err());
    assert!(result_by_count(usize::MAX).is_err());
    let mut bad = inline;
    bad.cell[0].cell_type = Some(255);
    assert!(result(&bad, &mut CellReader::empty()).is_err());
}

#[test]
fn schemas() {
    let mut family = FamilyDescriptor::new("f")
        .with("VERSIONS", "3")
        .with("max_versions", "7");
    family.id = 4;
    family.configuration.insert("k".to_owned(), "v".to_owned());
    let mut table =
        TableDescriptor::new(TableName::parse("ns:t").unwrap()).with_family(family.clone());
    table.attributes.insert(text("READONLY"), text("true"));
    table.configuration.insert("a".to_owned(), "b".to_owned());
    let ours = table_schema(&table, true);
    assert_eq!(table_descriptor(&ours).unwrap(), table);
    let theirs = table_schema(&table, false);
    assert_eq!(
        theirs.column_families[0].family_id, None,
        "no client sees our numbers"
    );
    let back = table_descriptor(&theirs).unwrap();
    assert_eq!(
        back.families[&text("f")],
        FamilyDescriptor { id: 0, ..family }
    );

    let mut twice = theirs.clone();
    twice
        .column_families
        .push(theirs.column_families[0].clone());
    assert!(table_descriptor(&twice).is_err());
    let nameless = pb::TableSchema {
        table_name: None,
        ..theirs
    };
    assert!(table_descriptor(&nameless).is_err());
    for bad in ["", ".f", "a:b", "a/b", "a\\b", "a\nb"] {
        let schema = pb::ColumnFamilySchema {
            name: text(bad),
            ..Default::default()
        };
        assert!(family_descriptor(&schema).is_err(), "{bad:?}");
    }
    let large = pb::ColumnFamilySchema {
        name: text("f"),
        family_id: Some(65_536),
        ..Default::default()
    };
    assert!(family_descriptor(&large).is_err());
    assert_eq!(
        table_descriptor(&table_schema(&TableDescriptor::meta(), true)).unwrap(),
        TableDescriptor::meta()
    );
}

#[test]
fn names() {
    let server = ServerName::parse("h,16020,5").unwrap();
    assert_eq!(server_name(&server_name_pb(&server)).unwrap(), server);
    let bad = |host: &str, port| pb::ServerName {
        host_name: host.to_owned(),
        port: Some(port),
        start_code: None,
    };
    assert!(server_name(&bad("", 1)).is_err());
    assert!(server_name(&bad("h", 65_536)).is_err());

    let mut info = RegionInfo::new(TableName::parse("t").unwrap(), text("a"), text("b"), 3);
    info.replica_id = 2;
    info.offline = true;
    info.split = true;
    let proto = region_info_pb(&info);
    assert_eq!(region_info(&proto).unwrap(), info);
    assert!(
        region_info(&pb::RegionInfo {
            replica_id: Some(-1),
            ..proto.clone()
        })
        .is_err()
    );
    assert!(region_info(&pb::RegionInfo::default()).is_err());
    let sparse = pb::RegionInfo {
        table_name: proto.table_name,
        ..Default::default()
    };
    assert!(region_info(&sparse).unwrap().end_key.is_empty());
    let meta = region_info_pb(&RegionInfo::meta());
    assert_eq!(&meta.table_name.namespace[..], b"hbase");
    assert_eq!(
        (meta.start_key, meta.end_key),
        (Some(Bytes::new()), Some(Bytes::new()))
    );
    assert_eq!(
        &region_specifier(&RegionInfo::meta()).value[..],
        b"hbase:meta,,1"
    );

    for state in [
        TableState::Enabled,
        TableState::Disabled,
        TableState::Disabling,
        TableState::Enabling,
    ] {
        assert_eq!(table_state(&table_state_pb(state)).unwrap(), state);
    }
    assert!(table_state(&pb::TableState { state: 4 }).is_err());
}

fn any_range() -> impl Strategy<Value = TimeRange> {
    prop_oneof![
        Just(TimeRange::ALL),
        (0..=i64::MAX, 0..=i64::MAX).prop_map(|(a, b)| TimeRange {
            from: a.min(b),
            to: a.max(b)
        }),
    ]
}

fn any_filter() -> impl Strategy<Value = Option<EncodedFilter>> {
    prop::option::of(("[a-zA-Z.]{1,12}", any_bytes(0, 12)))
        .prop_map(|filter| filter.map(|(class, body)| EncodedFilter { class, body }))
}

fn any_columns() -> impl Strategy<Value = cadastre_types::Columns> {
    let qualifiers = prop_oneof![
        Just(Qualifiers::All),
        prop::collection::vec(any_bytes(0, 5), 1..4)
            .prop_map(|all| Qualifiers::These(BTreeSet::from_iter(all))),
    ];
    prop::collection::btree_map(any_bytes(1, 4), qualifiers, 0..3)
}

prop_compose! {
    fn any_query()(
        columns in any_columns(),
        time_range in any_range(),
        family_time_ranges in prop::collection::btree_map(any_bytes(1, 4), any_range(), 0..3),
        max_versions in 1..=u32::MAX,
        cache_blocks: bool,
    ) -> Query {
        Query { columns, time_range, family_time_ranges, max_versions, raw: false, cache_blocks }
    }
}

const COUNT_MAX: u32 = i32::MAX as u32;

prop_compose! {
    fn any_scan()(
        (start_row, stop_row) in (any_bytes(0, 9), any_bytes(0, 9)),
        (include_start_row, include_stop_row, reversed) in any::<(bool, bool, bool)>(),
        (need_cursor_result, query_metrics) in any::<(bool, bool)>(),
        query in any_query(),
        raw: bool,
        filter in any_filter(),
        (batch, store_offset, caching) in (0..=COUNT_MAX, 0..=COUNT_MAX, 0..=COUNT_MAX),
        store_limit in prop::option::of(0..=COUNT_MAX),
        max_result_size in 0..=i64::MAX.unsigned_abs(),
        mvcc_read_point: u64,
    ) -> Scan {
        let raw = raw && query.columns.values().all(|it| *it == Qualifiers::All);
        let query = Query { raw, ..query };
        Scan {
            start_row, include_start_row, stop_row, include_stop_row, reversed, query, filter, batch,
            max_result_size, store_limit, store_offset, need_cursor_result, mvcc_read_point, caching, query_metrics,
        }
    }
}

prop_compose! {
    fn any_mutation()(
        kind in prop::sample::select(vec![
            MutationKind::Append, MutationKind::Increment, MutationKind::Put, MutationKind::Delete,
        ]),
        row in any_bytes(1, 12),
        cells in prop::collection::vec(any_cell(), 1..5),
        timestamp in prop_oneof![Just(LATEST_TIMESTAMP), 0..=i64::MAX],
        durability in prop::sample::select(vec![
            Durability::UseDefault, Durability::SkipWal, Durability::AsyncWal,
            Durability::SyncWal, Durability::FsyncWal,
        ]),
        time_range in any_range(),
        nonce: u64,
        return_results: bool,
        ttl_ms in prop::option::of(0..=i64::MAX.unsigned_abs()),
    ) -> Mutation {
        let cells = cells.into_iter().map(|cell| fitting(kind, &row, cell)).collect();
        Mutation { row, kind, cells, timestamp, durability, time_range, nonce, return_results, ttl_ms }
    }
}

/// The cell made such that a mutation of this kind may hold it.
fn fitting(kind: MutationKind, row: &Bytes, mut cell: Cell) -> Cell {
    cell.row = row.clone();
    match kind {
        MutationKind::Append => cell.cell_type = CellType::Put,
        MutationKind::Increment => {
            cell.cell_type = CellType::Put;
            cell.value = text("8 bytes.");
        }
        MutationKind::Delete if cell.cell_type == CellType::Put => {
            cell.cell_type = CellType::Delete
        }
        MutationKind::Put | MutationKind::Delete => {}
    }
    if cell.cell_type.is_family_wide() {
        cell.qualifier = Bytes::new();
    }
    cell
}

proptest! {
    #[test]
    fn gets_come_back(
        row in any_bytes(1, 9),
        query in any_query(),
        filter in any_filter(),
        store_limit in prop::option::of(0..=COUNT_MAX),
        store_offset in 0..=COUNT_MAX,
        (existence_only, closest_row_before, query_metrics) in any::<(bool, bool, bool)>(),
    ) {
        let one = Get { row, query, filter, store_limit, store_offset, existence_only, closest_row_before, query_metrics };
        prop_assert_eq!(get(&get_pb(&one)).unwrap(), one);
    }

    #[test]
    fn scans_come_back(one in any_scan()) {
        prop_assert_eq!(scan(&scan_pb(&one)).unwrap(), one);
    }

    #[test]
    fn mutations_come_back_inline(one in any_mutation()) {
        prop_assert_eq!(read(&mutation_pb(&one)).unwrap(), one);
    }

    #[test]
    fn mutations_come_back_through_the_block(all in prop::collection::vec(any_mutation(), 1..4)) {
        let mut block = BytesMut::new();
        let protos: Vec<_> = all
            .iter()
            .map(|one| mutation_pb_cells(one, &mut block, Codec::KeyValueWithTags))
            .collect();
        let mut reader = CellReader::new(block.freeze(), Codec::KeyValueWithTags);
        for (proto, one) in protos.iter().zip(&all) {
            prop_assert_eq!(&mutation(proto, &mut reader).unwrap(), one);
        }
        prop_assert_eq!(reader.remaining(), 0);
    }

    #[test]
    fn conditions_come_back(
        row in any_bytes(1, 9),
        (family, qualifier) in (any_bytes(0, 5), any_bytes(0, 5)),
        op in prop::sample::select(vec![
            CompareOp::Less, CompareOp::LessOrEqual, CompareOp::Equal, CompareOp::NotEqual,
            CompareOp::GreaterOrEqual, CompareOp::Greater, CompareOp::NoOp,
        ]),
        (comparator, filter) in (any_filter(), any_filter()),
        time_range in any_range(),
        query_metrics: bool,
    ) {
        let one = Condition { row, family, qualifier, op, comparator, filter, time_range, query_metrics };
        prop_assert_eq!(condition(&condition_pb(&one)).unwrap(), one);
    }

    #[test]
    fn cells_come_back(one in any_cell()) {
        let back = cell(&cell_pb(&one)).unwrap();
        prop_assert_eq!(back, Cell { tags: Bytes::new(), ..one });
    }
}
