//! Every kind of answer that hbase:meta can give to a look-up.

use super::*;

fn table(name: &str) -> TableName {
    TableName::parse(name).unwrap()
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn server(text: &str) -> ServerName {
    ServerName::parse(text).unwrap()
}

fn entry(start: &str, end: &str, id: u64) -> MetaEntry {
    MetaEntry {
        info: RegionInfo::new(table("t"), bytes(start), bytes(end), id),
        server: Some(server("h,1,1")),
        open_seq: 5,
        state: "OPEN".to_owned(),
        split_daughters: None,
        merged_from: Vec::new(),
    }
}

fn row_of(entry: MetaEntry) -> DirectoryRow {
    DirectoryRow {
        key: entry.info.name(),
        entry: Ok(Some(entry)),
        replicas: BTreeMap::new(),
    }
}

fn parent(start: &str, end: &str, id: u64) -> DirectoryRow {
    let mut parent = entry(start, end, id);
    parent.info.split = true;
    parent.info.offline = true;
    parent.state = "SPLIT".to_owned();
    row_of(parent)
}

fn find(row: &str, rows: &[DirectoryRow]) -> Result<Location, Miss> {
    find_at(row, Position::Holding, rows)
}

fn find_at(row: &str, position: Position, rows: &[DirectoryRow]) -> Result<Location, Miss> {
    let (table, row) = (table("t"), bytes(row));
    let wanted = Wanted {
        table: &table,
        order: KeyOrder::Plain,
        row: &row,
        position,
        replica: 0,
    };
    judge(&wanted, rows, |server| server.host == "dead")
}

/// One line of L16's table: check, class of error, whether the tier above is located anew.
fn failed(found: Result<Location, Miss>) -> (Check, Code, bool) {
    let miss = found.unwrap_err();
    (miss.check, miss.error.code(), miss.relocates_above())
}

/// L15: the row that is usable is the answer, with its server and sequence number (L8).
#[test]
fn a_usable_row_is_the_answer() {
    let found = find("q", &[row_of(entry("m", "", 3))]).unwrap();
    assert_eq!((found.server, found.open_seq), (server("h,1,1"), 5));
    assert_eq!(&found.region.start_key[..], b"m");
}

/// L15: closest at or before `table,row,99999999999999`, backwards, down to the table's first key.
#[test]
fn the_directory_is_read_backwards_from_behind_the_row() {
    let (table, key) = (table("ns:t"), bytes("q"));
    let mut wanted = Wanted {
        table: &table,
        order: KeyOrder::Plain,
        row: &key,
        position: Position::Holding,
        replica: 0,
    };
    let scan = reversed_scan(&wanted);
    assert_eq!(scan.start_row, bytes("ns:t,q,99999999999999"));
    assert_eq!(scan.stop_row, bytes("ns:t,,"));
    assert!(scan.reversed && scan.include_start_row && scan.include_stop_row);
    assert_eq!(
        scan.query.columns.keys().collect::<Vec<_>>(),
        [&bytes("info")]
    );
    wanted.position = Position::Before;
    let scan = reversed_scan(&wanted);
    assert_eq!(scan.start_row, bytes("ns:t,q,00000000000000"));
    let forward = forward_scan(&table, b"");
    assert_eq!(forward.start_row, bytes("ns:t,,"));
    assert_eq!(forward.stop_row, bytes("ns:t ,,"));
}

/// L16: each line of the table, with its error and whether the tier above is located anew.
#[test]
fn each_check_has_its_own_error() {
    assert_eq!(
        failed(find("q", &[])),
        (Check::NoRow, Code::TableNotFound, false)
    );
    let mut other = entry("", "", 1);
    other.info.table = table("s");
    let miss = find("q", &[row_of(other)]).unwrap_err();
    assert!(miss.error.message().contains("was not found, got: s."));
    assert_eq!(
        failed(Err(miss)),
        (Check::OtherTable, Code::TableNotFound, false)
    );
    let hole = find("q", &[row_of(entry("a", "b", 1))]);
    assert_eq!(failed(hole), (Check::Hole, Code::Io, true));
    for unreadable in [Ok(None), Err(Error::corrupt("x"))] {
        let rows = [DirectoryRow {
            key: bytes("t,,1."),
            entry: unreadable,
            replicas: BTreeMap::new(),
        }];
        let miss = find("q", &rows).unwrap_err();
        assert!(miss.error.message().starts_with("RegionInfo null"));
        assert_eq!(failed(Err(miss)), (Check::Unreadable, Code::Io, true));
    }
    let only_parent = find("q", &[parent("", "", 1)]);
    assert_eq!(
        failed(only_parent),
        (Check::ParentOnly, Code::RegionOffline, false)
    );
    let mut closed = entry("", "", 1);
    closed.state = "CLOSED".to_owned();
    let miss = find("q", &[row_of(closed)]).unwrap_err();
    assert!(miss.may_be_disabled());
    assert_eq!(
        failed(Err(miss)),
        (Check::Offline, Code::RegionOffline, false)
    );
    let mut homeless = entry("", "", 1);
    homeless.server = None;
    assert_eq!(
        failed(find("q", &[row_of(homeless)])),
        (Check::NoServer, Code::NoServerForRegion, false)
    );
    let mut opening = entry("", "", 1);
    opening.state = "OPENING".to_owned();
    assert_eq!(
        failed(find("q", &[row_of(opening)])),
        (Check::NoServer, Code::NoServerForRegion, false)
    );
    let mut dead = entry("", "", 1);
    dead.server = Some(server("dead,1,1"));
    assert_eq!(
        failed(find("q", &[row_of(dead)])),
        (Check::DeadServer, Code::RegionServerStopped, true)
    );
}

/// L15: read backwards, daughters come before their parent or, for its lower half, after nothing else.
#[test]
fn split_parents_are_skipped() {
    let rows = [
        row_of(entry("m", "", 2)),
        row_of(entry("", "m", 2)),
        parent("", "", 1),
    ];
    assert_eq!(&find("q", &rows).unwrap().region.start_key[..], b"m");
    assert_eq!(&find("a", &rows[1..]).unwrap().region.end_key[..], b"m");
    // The parent first, the daughters behind it: gone on with.
    let rows = [parent("", "", 1), row_of(entry("", "m", 2))];
    assert_eq!(&find("a", &rows).unwrap().region.end_key[..], b"m");
    // Daughters by column, flags not set yet.
    let mut early = entry("", "", 1);
    let daughter = |start: &str, end: &str| entry(start, end, 2).info;
    early.split_daughters = Some((daughter("", "m"), daughter("m", "")));
    assert_eq!(
        find("q", &[row_of(early)]).unwrap_err().check,
        Check::ParentOnly
    );
}

#[test]
fn the_region_before_a_row() {
    let rows = [
        row_of(entry("m", "", 1)),
        row_of(entry("f", "m", 1)),
        row_of(entry("", "f", 1)),
    ];
    let start = |row| {
        let found = find_at(row, Position::Before, &rows).unwrap();
        String::from_utf8(found.region.start_key.to_vec()).unwrap()
    };
    assert_eq!(start(""), "m");
    assert_eq!(start("m"), "f");
    assert_eq!(start("f"), "");
    assert_eq!(start("g"), "f");
    assert_eq!(
        find_at("z", Position::Before, &rows[1..])
            .unwrap_err()
            .check,
        Check::Hole
    );
}

/// L21: a replica's place stands in columns of its own.
#[test]
fn replicas_are_found_by_their_columns() {
    let cell = |qualifier: &str, value: &[u8]| {
        Cell::put(
            bytes("t,,1."),
            bytes("info"),
            bytes(qualifier),
            1,
            Bytes::copy_from_slice(value),
        )
    };
    let found = replicas(&[
        cell("server", b"h:1"),
        cell("seqnumDuringOpen_0001", &9_u64.to_be_bytes()),
        cell("server_0001", b"r:2"),
        cell("server_000A", b"s:3"),
        cell("serverstartcode_0001", &7_u64.to_be_bytes()),
        cell("serverstartcode_000A", b"short"),
    ]);
    assert_eq!(
        found,
        BTreeMap::from([(1, (Some(server("r,2,7")), 9)), (10, (None, 0))])
    );
    let mut row = row_of(entry("", "", 1));
    row.replicas = found;
    let (table, key) = (table("t"), bytes("q"));
    let ask = |replica| {
        let wanted = Wanted {
            table: &table,
            order: KeyOrder::Plain,
            row: &key,
            position: Position::Holding,
            replica,
        };
        judge(&wanted, std::slice::from_ref(&row), |_| false)
    };
    let one = ask(1).unwrap();
    assert_eq!((one.server, one.open_seq), (server("r,2,7"), 9));
    assert_eq!(one.region.replica_id, 1);
    assert_eq!(ask(10).unwrap_err().check, Check::NoServer);
    assert_eq!(ask(2).unwrap_err().check, Check::NoServer);
}

/// L11: nothing of a disabled table, of a parent, or on a dead server is read along.
#[test]
fn only_served_regions_are_prefetched() {
    let mut closed = entry("a", "b", 1);
    closed.state = "CLOSED".to_owned();
    let mut other = entry("", "", 1);
    other.info.table = table("u");
    let mut dead = entry("b", "c", 1);
    dead.server = Some(server("dead,1,1"));
    let rows = [
        row_of(entry("", "a", 1)),
        row_of(closed),
        row_of(dead),
        row_of(other),
        parent("c", "", 1),
        row_of(entry("c", "", 2)),
    ];
    let found = usable(&table("t"), &rows, |server| server.host == "dead");
    let starts: Vec<_> = found
        .iter()
        .map(|location| location.region.start_key.clone())
        .collect();
    assert_eq!(starts, [bytes(""), bytes("c")]);
}

/// L11: an ascending reader gets what follows, any other what lies before.
#[test]
fn reading_goes_forward_where_the_neighbour_is_known() {
    let table = table("t");
    let how = |row: &str, position, previous_end: Option<&str>, has_next, prefetch| {
        let row = bytes(row);
        let wanted = Wanted {
            table: &table,
            order: KeyOrder::Plain,
            row: &row,
            position,
            replica: 0,
        };
        let gap = Gap {
            previous_end: previous_end.map(bytes),
            has_next,
        };
        plan(&wanted, &gap, prefetch)
    };
    use Position::{Before, Holding};
    assert_eq!(
        how("", Holding, None, true, true),
        Reading::Forward(bytes(""))
    );
    assert_eq!(how("q", Holding, None, true, true), Reading::Reversed);
    assert_eq!(
        how("q", Holding, Some("q"), true, true),
        Reading::Forward(bytes("q"))
    );
    assert_eq!(how("q", Holding, Some("p"), true, true), Reading::Reversed);
    assert_eq!(
        how("q", Holding, Some("p"), false, true),
        Reading::Forward(bytes("p"))
    );
    assert_eq!(how("q", Holding, Some("q"), true, false), Reading::Reversed);
    assert_eq!(how("q", Before, Some("q"), true, true), Reading::Reversed);
    assert_eq!(how("", Before, None, false, true), Reading::Reversed);
}
