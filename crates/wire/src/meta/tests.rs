//! The order of rows against its definition, keys of look-ups, and what stands in rows.

use cadastre_types::Code;
use proptest::prelude::*;

use super::*;
use crate::testing::{any_bytes, unhex};

fn table(name: &str) -> TableName {
    TableName::parse(name).unwrap()
}

fn region_of(name: &str, start: &'static str, id: u64) -> RegionInfo {
    let start = Bytes::from_static(start.as_bytes());
    RegionInfo::new(table(name), start, Bytes::new(), id)
}

#[test]
fn golden_region_value() {
    let golden = unhex("504255460880d095ffbc31120d0a0764656661756c74120274311a002200280030003800");
    let info = region_of("t1", "", 1_700_000_000_000);
    assert_eq!(region_value(&info), golden);
    assert_eq!(region(&golden).unwrap(), info);
}

#[test]
fn order_by_parts_not_by_bytes() {
    let rows = [
        "a,z,9",
        "t",
        "t,",
        "t,,",
        "t,,1",
        "t,,99999999999999",
        "t,a,1",
        "t,a,2",
        "t,a+,1",
        "t,a,b,1",
        "t,b,00000000000000",
        "t,b,1",
        "t ,,",
        "t!,,1",
        "u",
    ];
    // `t ` sorts behind `t` and before `t!`; `t,a,b,1` is the start key `a,b`.
    for (at, a) in rows.iter().enumerate() {
        for (other, b) in rows.iter().enumerate() {
            let order = compare_rows(a.as_bytes(), b.as_bytes());
            assert_eq!(order, at.cmp(&other), "{a} {b}");
        }
    }
}

#[test]
fn keys_of_look_ups() {
    let t = table("ns:t");
    assert_eq!(&lookup_start(&t, b"r")[..], b"ns:t,r,99999999999999");
    assert_eq!(&lookup_before_start(&t, b"r")[..], b"ns:t,r,00000000000000");
    assert_eq!(&lookup_before_start(&t, b"")[..], b"ns:t\0");
    assert_eq!(&first_of_table(&t)[..], b"ns:t,,");
    assert_eq!(&behind_table(&t)[..], b"ns:t ,,");
    assert_eq!(&table_row(&t)[..], b"ns:t");
    let mut replica = region_of("t1", "m", 1_700_000_000_000);
    replica.replica_id = 1;
    assert_eq!(
        &region_row(&replica)[..],
        b"t1,m,1700000000000.940359fa5dccd7cdcd7a148f2f568482."
    );
}

#[test]
fn an_entry_comes_back() {
    let mut entry = MetaEntry {
        info: region_of("t1", "m", 5),
        server: Some(ServerName::parse("h1,16020,1700000000000").unwrap()),
        open_seq: 7,
        state: "OPEN".to_owned(),
        split_daughters: None,
        merged_from: Vec::new(),
    };
    let cells = entry.to_cells();
    assert!(cells.is_sorted_by(|a, b| a.cmp_hbase(b).is_lt()));
    assert!(
        cells
            .iter()
            .all(|cell| cell.timestamp == LATEST_TIMESTAMP && cell.row == region_row(&entry.info))
    );
    let columns: Vec<_> = cells
        .iter()
        .map(|it| (&it.qualifier[..], &it.value[..]))
        .collect();
    assert_eq!(
        columns[1..],
        [
            (&b"seqnumDuringOpen"[..], &[0, 0, 0, 0, 0, 0, 0, 7][..]),
            (b"server", b"h1:16020"),
            (b"serverstartcode", &1_700_000_000_000_u64.to_be_bytes()),
            (b"sn", b"h1,16020,1700000000000"),
            (b"state", b"OPEN"),
        ]
    );
    assert_eq!(MetaEntry::from_cells(&cells).unwrap().unwrap(), entry);

    entry.info.split = true;
    entry.info.offline = true;
    entry.state = "SPLIT".to_owned();
    entry.server = None;
    entry.open_seq = 0;
    entry.split_daughters = Some((region_of("t1", "m", 6), region_of("t1", "p", 6)));
    entry.merged_from = (1..=3).map(|id| region_of("t1", "m", id)).collect();
    assert_eq!(
        MetaEntry::from_cells(&entry.to_cells()).unwrap().unwrap(),
        entry
    );
}

#[test]
fn merge_columns() {
    assert_eq!(&merge_qualifier(0)[..], b"merge0000");
    assert_eq!(&merge_qualifier(12_345)[..], b"merge12345");
    for (qualifier, is_one) in [
        (&b"merge0000"[..], true),
        (b"merge12345", true),
        (b"merge000", false),
        (b"merge000a", false),
        (b"mergeA", false),
        (b"server", false),
    ] {
        assert_eq!(is_merge_qualifier(qualifier), is_one);
    }
}

#[test]
fn newest_versions_count_and_gaps_are_filled() {
    let entry = MetaEntry {
        info: region_of("t1", "", 5),
        server: Some(ServerName::parse("h1,1,2").unwrap()),
        open_seq: 7,
        state: "OPEN".to_owned(),
        split_daughters: None,
        merged_from: Vec::new(),
    };
    let mut cells = entry.to_cells();
    let mut older = cells.clone();
    for cell in &mut older {
        cell.timestamp = 1;
        cell.value = Bytes::from_static(b"old");
    }
    cells.extend(older);
    cells.sort_by(Cell::cmp_hbase);
    assert_eq!(MetaEntry::from_cells(&cells).unwrap().unwrap(), entry);

    cells.retain(|cell| cell.qualifier == REGION_INFO || cell.qualifier == SERVER);
    let sparse = MetaEntry::from_cells(&cells).unwrap().unwrap();
    assert_eq!(
        (sparse.server, sparse.open_seq, &sparse.state[..]),
        (None, 0, "OFFLINE")
    );
    assert_eq!(MetaEntry::from_cells(&[]).unwrap(), None);

    let damaged = |qualifier: &'static [u8], value: &'static [u8]| {
        let mut cells = entry.to_cells();
        for cell in &mut cells {
            if cell.qualifier == qualifier {
                cell.value = Bytes::from_static(value);
            }
        }
        MetaEntry::from_cells(&cells).unwrap_err().code()
    };
    for (qualifier, value) in [
        (REGION_INFO, &b"x"[..]),
        (SERVER, b"host"),
        (SERVER, b":1"),
        (SERVER, b"h:x"),
        (SERVER_START_CODE, b"1"),
        (OPEN_SEQUENCE_NUMBER, b"123456789"),
        (STATE, b"\xff"),
    ] {
        assert_eq!(damaged(qualifier, value), Code::Corrupt);
    }
}

/// The cell of the master's epoch disturbs no reader of regions or of tables' states.
#[test]
fn master_epoch() {
    let cell = master_epoch_cell(0x0102);
    assert_eq!(&cell.row[..], b"hbase:meta");
    assert_eq!(&cell.family[..], b"table");
    assert_eq!(&cell.qualifier[..], b"cadastre-master-epoch");
    assert_eq!(&cell.value[..], [0, 0, 0, 0, 0, 0, 1, 2]);
    let cells = [cell];
    assert_eq!(master_epoch_from_cells(&cells).unwrap(), 0x0102);
    assert_eq!(master_epoch_from_cells(&[]).unwrap(), 0);
    assert_eq!(MetaEntry::from_cells(&cells).unwrap(), None);
    assert_eq!(table_state_from_cells(&cells).unwrap(), None);
    let mut damaged = cells;
    damaged[0].value = Bytes::from_static(b"7");
    assert!(master_epoch_from_cells(&damaged).is_err());
}

#[test]
fn table_states() {
    let cell = table_state_cell(&table("ns:t"), TableState::Disabled);
    assert_eq!(
        (&cell.row[..], &cell.value[..]),
        (&b"ns:t"[..], &[8, 1][..])
    );
    assert_eq!(
        table_state_from_cells(&[cell]).unwrap(),
        Some(TableState::Disabled)
    );
    assert_eq!(table_state_from_cells(&[]).unwrap(), None);
}

/// Bytes without a comma.
fn plain(max: usize) -> impl Strategy<Value = Vec<u8>> {
    // Few different bytes, near the comma, so that parts are often equal or prefixes of each other.
    prop::collection::vec(
        prop::sample::select(vec![b'!', b'+', b'-', b'a', 0, 0xff]),
        0..=max,
    )
}

/// A start key: commas are allowed.
fn start_key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(
        prop::sample::select(vec![b',', b'+', b'-', b'a', 0, 0xff]),
        0..=4,
    )
}

/// Parts of a region's row.
fn region_parts() -> impl Strategy<Value = (Vec<u8>, Vec<u8>, Vec<u8>)> {
    (plain(2), start_key(), plain(2))
}

fn row((table, start_key, id): &(Vec<u8>, Vec<u8>, Vec<u8>)) -> Vec<u8> {
    [&table[..], b",", start_key, b",", id].concat()
}

proptest! {
    /// Section 6.4: rows with commas compare by table, then start key, then id, each as unsigned bytes.
    #[test]
    fn rows_of_regions_compare_by_their_parts(a in region_parts(), b in region_parts()) {
        prop_assert_eq!(compare_rows(&row(&a), &row(&b)), a.cmp(&b));
    }

    /// Section 6.4: a row without comma compares by its table, and comes before that table's rows with commas.
    #[test]
    fn rows_of_tables_come_first(a in plain(3), b in region_parts()) {
        prop_assert_eq!(compare_rows(&a, &row(&b)), a.cmp(&b.0).then(Ordering::Less));
        prop_assert_eq!(compare_rows(&row(&b), &a), b.0.cmp(&a).then(Ordering::Greater));
        prop_assert_eq!(compare_rows(&a, &b.1), match b.1.contains(&b',') {
            false => a.cmp(&b.1),
            true => compare_rows(&b.1, &a).reverse(),
        });
    }

    #[test]
    fn the_order_is_total(a in start_key(), b in start_key(), c in start_key()) {
        prop_assert_eq!(compare_rows(&a, &b), compare_rows(&b, &a).reverse());
        prop_assert_eq!(compare_rows(&a, &b) == Ordering::Equal, a == b);
        if compare_rows(&a, &b).is_le() && compare_rows(&b, &c).is_le() {
            prop_assert!(compare_rows(&a, &c).is_le());
        }
    }

    /// Where a region stands between the keys that look for it.
    #[test]
    fn look_ups_enclose_their_region(
        start in any_bytes(0, 6),
        row in any_bytes(1, 6),
        id in 1_u64..9_999_999_999_999,
    ) {
        let t = table("t");
        let name = region_row(&RegionInfo::new(t.clone(), start.clone(), Bytes::new(), id));
        prop_assert!(compare_rows(&first_of_table(&t), &name).is_le());
        prop_assert!(compare_rows(&name, &behind_table(&t)).is_lt());
        prop_assert!(compare_rows(&table_row(&t), &name).is_lt());
        // Found by a reversed scan from the key: exactly the regions that start at or before the row.
        let found = compare_rows(&name, &lookup_start(&t, &row)).is_le();
        prop_assert_eq!(found, start <= row);
        // And before it: exactly those that start before the row; for the empty row, all.
        let before = compare_rows(&name, &lookup_before_start(&t, &row)).is_le();
        prop_assert_eq!(before, start < row);
        prop_assert!(compare_rows(&name, &lookup_before_start(&t, b"")).is_lt());
    }
}
