//! The location cache against a model of overlapping regions.

use proptest::prelude::*;

use super::*;

fn table() -> TableName {
    TableName::parse("t").unwrap()
}

fn server(port: u16, start_code: u64) -> ServerName {
    ServerName {
        host: "h".to_owned(),
        port,
        start_code,
    }
}

fn region(start: &str, end: &str, id: u64) -> RegionInfo {
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    RegionInfo::new(table(), bytes(start), bytes(end), id)
}

fn at(region: RegionInfo, port: u16, open_seq: u64) -> Location {
    Location {
        region: Arc::new(region),
        server: server(port, 1),
        open_seq,
    }
}

fn row(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn port_of(cache: &Cache, text: &str) -> Option<u16> {
    cache
        .get(&table(), &row(text), 0)
        .map(|found| found.server.port)
}

/// L7: the end key is looked at; a hole finds nothing.
#[test]
fn a_hole_sends_no_row_to_its_left_neighbour() {
    let mut cache = Cache::default();
    cache.insert(KeyOrder::Plain, at(region("", "b", 1), 1, 1));
    cache.insert(KeyOrder::Plain, at(region("d", "", 2), 2, 1));
    let found = ["", "a", "b", "c", "d", "z"].map(|text| port_of(&cache, text));
    assert_eq!(found, [Some(1), Some(1), None, None, Some(2), Some(2)]);
    let other = TableName::parse("u").unwrap();
    assert_eq!(cache.get(&other, &row("a"), 0), None);
}

/// L8: sequence numbers order the locations of one region, and only of one region.
#[test]
fn an_older_location_never_replaces_a_newer_one() {
    let mut cache = Cache::default();
    cache.insert(KeyOrder::Plain, at(region("a", "m", 1), 1, 10));
    let held = cache.insert(KeyOrder::Plain, at(region("a", "m", 1), 2, 9));
    assert_eq!(
        (held.server.port, port_of(&cache, "b")),
        (1, Some(1)),
        "lower"
    );
    cache.insert(KeyOrder::Plain, at(region("a", "m", 1), 3, 10));
    assert_eq!(port_of(&cache, "b"), Some(3), "equal");
    cache.insert(KeyOrder::Plain, at(region("a", "f", 2), 4, 1));
    assert_eq!(port_of(&cache, "b"), Some(4), "another region");
    assert_eq!(port_of(&cache, "g"), None, "the parent is gone");
}

#[test]
fn splits_and_merges_evict_what_they_overlap() {
    let mut cache = Cache::default();
    cache.insert(KeyOrder::Plain, at(region("", "", 1), 1, 1));
    cache.insert(KeyOrder::Plain, at(region("m", "", 2), 2, 2));
    assert_eq!((port_of(&cache, "a"), cache.len()), (None, 1));
    cache.insert(KeyOrder::Plain, at(region("", "m", 2), 3, 2));
    assert_eq!(
        (port_of(&cache, "a"), port_of(&cache, "m")),
        (Some(3), Some(2))
    );
    cache.insert(KeyOrder::Plain, at(region("", "", 3), 4, 3));
    assert_eq!((port_of(&cache, "z"), cache.len()), (Some(4), 1));
}

#[test]
fn a_move_is_taken_unless_something_newer_is_known() {
    let mut cache = Cache::default();
    let old = cache.insert(KeyOrder::Plain, at(region("a", "m", 1), 1, 10));
    let to = |port, sequence_number| MovedTo {
        server: server(port, 1),
        sequence_number,
    };
    let new = cache.moved(&old, &to(2, 11)).unwrap();
    assert_eq!((new.server.port, new.open_seq), (2, 11));
    assert_eq!(cache.moved(&old, &to(3, 10)), None);
    assert_eq!(port_of(&cache, "b"), Some(2));
    // Two that fail on the old location clear nothing that was learnt since.
    cache.clear_location(&old);
    assert_eq!(port_of(&cache, "b"), Some(2));
    cache.clear_location(&new);
    assert_eq!(port_of(&cache, "b"), None);
    assert_eq!(cache.len(), 0);
    assert_eq!(cache.moved(&new, &to(4, 12)), None, "not cached any more");
}

/// L13: one row, one replica, one region, one server, one table, all.
#[test]
fn clearing_takes_exactly_what_is_named() {
    let filled = || {
        let mut cache = Cache::default();
        for (start, end, port) in [("", "g", 1), ("g", "p", 2), ("p", "", 1)] {
            for replica_id in 0..2 {
                let region = RegionInfo {
                    replica_id,
                    ..region(start, end, 1)
                };
                cache.insert(
                    KeyOrder::Plain,
                    at(region, port + replica_id as u16 * 10, 1),
                );
            }
        }
        cache
    };
    let ports = |cache: &Cache| {
        let mut found = Vec::new();
        for text in ["a", "h", "q"] {
            for replica in 0..2 {
                let held = cache.get(&table(), &row(text), replica);
                found.push(held.map_or(0, |held| held.server.port));
            }
        }
        found
    };
    assert_eq!(ports(&filled()), [1, 11, 2, 12, 1, 11]);
    let mut cache = filled();
    cache.clear_row(&table(), &row("h"), Some(1));
    assert_eq!(ports(&cache), [1, 11, 2, 0, 1, 11]);
    let mut cache = filled();
    cache.clear_row(&table(), &row("h"), None);
    assert_eq!(ports(&cache), [1, 11, 0, 0, 1, 11]);
    cache.clear_region(&region("", "g", 7));
    assert_eq!(ports(&cache), [1, 11, 0, 0, 1, 11], "another region's id");
    cache.clear_region(&region("", "g", 1));
    assert_eq!(ports(&cache), [0, 0, 0, 0, 1, 11]);
    let mut cache = filled();
    assert_eq!(cache.clear_server(&server(1, 2)), 0);
    assert_eq!(ports(&cache), [1, 11, 2, 12, 1, 11], "another start");
    assert_eq!(cache.clear_server(&server(1, 1)), 2);
    assert_eq!(ports(&cache), [0, 11, 2, 12, 0, 11]);
    cache.clear_table(&table());
    assert_eq!(cache.len(), 0);
    let mut cache = filled();
    cache.clear();
    assert_eq!(cache.len(), 0);
}

#[test]
fn a_full_cache_forgets_the_oldest() {
    let mut cache = Cache::new(2);
    cache.insert(KeyOrder::Plain, at(region("", "b", 1), 1, 1));
    cache.insert(KeyOrder::Plain, at(region("b", "c", 1), 2, 1));
    cache.insert(KeyOrder::Plain, at(region("c", "", 1), 3, 1));
    assert_eq!(
        ["a", "b", "c"].map(|text| port_of(&cache, text)),
        [None, Some(2), Some(3)]
    );
    assert_eq!(cache.len(), 2);
}

#[test]
fn the_region_before_a_row() {
    let mut cache = Cache::default();
    cache.insert(KeyOrder::Plain, at(region("", "b", 1), 1, 1));
    cache.insert(KeyOrder::Plain, at(region("b", "d", 1), 2, 1));
    cache.insert(KeyOrder::Plain, at(region("f", "", 1), 3, 1));
    let before = |text: &str| {
        cache
            .get_before(&table(), &row(text), 0)
            .map(|found| found.server.port)
    };
    assert_eq!(before("b"), Some(1));
    assert_eq!(before("d"), Some(2));
    assert_eq!(before("c"), Some(2), "inside a region: that region");
    assert_eq!(before("f"), None, "a hole");
    assert_eq!(before(""), Some(3), "the end of the table");
}

/// Rows of different gaps have a cached region between them.
#[test]
fn gaps_begin_where_cached_regions_end() {
    let mut cache = Cache::default();
    let gap = |cache: &Cache, text: &str, before| {
        let start = cache.gap_start(&table(), &row(text), before);
        String::from_utf8(start.to_vec()).unwrap()
    };
    assert_eq!(gap(&cache, "q", false), "");
    cache.insert(KeyOrder::Plain, at(region("d", "f", 1), 1, 1));
    cache.insert(KeyOrder::Plain, at(region("h", "k", 1), 1, 1));
    for (text, before, expected) in [
        ("a", false, ""),
        ("g", false, "f"),
        ("f", false, "f"),
        ("h", true, "f"),
        ("d", true, ""),
        ("z", false, "k"),
        ("", true, "k"),
    ] {
        assert_eq!(gap(&cache, text, before), expected, "{text} {before}");
    }
}

/// Regions of `hbase:meta` are ordered by its comparator (L6): `t,a` before `t,a+`, against plain bytes.
#[test]
fn the_meta_order_is_used_for_meta() {
    let meta_region = |start: &str, end: &str, port| {
        let info = RegionInfo::new(TableName::meta(), row(start), row(end), 1);
        at(info, port, 1)
    };
    let mut cache = Cache::default();
    cache.insert(KeyOrder::Meta, meta_region("", "t,a+,1", 1));
    cache.insert(KeyOrder::Meta, meta_region("t,a+,1", "", 2));
    let find = |text: &str| {
        cache
            .get(&TableName::meta(), &row(text), 0)
            .map(|found| found.server.port)
    };
    assert_eq!(find("t,a,99999999999999"), Some(1));
    assert_eq!(find("t,a+,99999999999999"), Some(2));
    assert_eq!(find("t"), Some(1));
    assert_eq!(find("u,,1"), Some(2));
}

/// One step of the model test.
#[derive(Debug, Clone)]
enum Step {
    Insert {
        start: u8,
        end: u8,
        id: u64,
        port: u16,
        open_seq: u64,
        replica: u32,
    },
    ClearRow(u8, Option<u32>),
    ClearServer(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0_u8..12, 0_u8..13, 1_u64..4, 1_u16..4, 0_u64..5, 0_u32..2).prop_map(
            |(start, end, id, port, open_seq, replica)| Step::Insert {
                start: start.min(end.max(1) - 1),
                // 12 stands for the open end.
                end: end.max(1),
                id,
                port,
                open_seq,
                replica,
            }
        ),
        1 => (0_u8..12, proptest::option::of(0_u32..2)).prop_map(|(r, n)| Step::ClearRow(r, n)),
        1 => (1_u16..4).prop_map(Step::ClearServer),
    ]
}

/// Key 0 is the empty one, 12 as an end is the empty one.
fn key(number: u8) -> Bytes {
    match number {
        0 | 12 => Bytes::new(),
        number => Bytes::from(vec![number]),
    }
}

/// The model: a plain list of (start, end, id, replica) with port and sequence number; looks at everything, every time.
#[derive(Default)]
struct Model(Vec<(u8, u8, u64, u32, u16, u64)>);

impl Model {
    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Insert {
                start,
                end,
                id,
                port,
                open_seq,
                replica,
            } => {
                self.0.retain(|held| {
                    let same = (held.0, held.1, held.2) == (start, end, id);
                    same || held.0 >= end || start >= held.1
                });
                let newer = self
                    .0
                    .iter()
                    .any(|held| held.3 == replica && held.0 == start && held.5 > open_seq);
                if !newer {
                    self.0
                        .retain(|held| !(held.0 == start && held.3 == replica));
                    self.0.push((start, end, id, replica, port, open_seq));
                }
            }
            Step::ClearRow(row, replica) => self.0.retain(|held| {
                let holds = held.0 <= row && row < held.1;
                !(holds && replica.is_none_or(|replica| replica == held.3))
            }),
            Step::ClearServer(port) => self.0.retain(|held| held.4 != port),
        }
    }

    fn get(&self, row: u8, replica: u32) -> Option<(u16, u64)> {
        self.0
            .iter()
            .find(|held| held.0 <= row && row < held.1 && held.3 == replica)
            .map(|held| (held.4, held.5))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    /// The cache answers as a list of non-overlapping regions does, after any history of overlapping regions.
    #[test]
    fn the_cache_is_its_model(steps in proptest::collection::vec(step(), 1..60)) {
        let mut cache = Cache::default();
        let mut model = Model::default();
        for step in &steps {
            model.apply(step);
            match *step {
                Step::Insert { start, end, id, port, open_seq, replica } => {
                    let info = RegionInfo {
                        replica_id: replica,
                        ..RegionInfo::new(table(), key(start), key(end), id)
                    };
                    cache.insert(KeyOrder::Plain, at(info, port, open_seq));
                }
                Step::ClearRow(row, replica) => cache.clear_row(&table(), &key(row), replica),
                Step::ClearServer(port) => {
                    cache.clear_server(&server(port, 1));
                }
            }
            for row in 0..12_u8 {
                for replica in 0..2 {
                    let held = cache.get(&table(), &key(row), replica);
                    let held = held.map(|held| (held.server.port, held.open_seq));
                    prop_assert_eq!(held, model.get(row, replica), "row {} after {:?}", row, step);
                }
            }
        }
    }
}
