//! What descriptors and names are taken and refused.

use super::*;

fn table() -> TableDescriptor {
    TableDescriptor::new(TableName::parse("t").unwrap()).with_family(FamilyDescriptor::new("f"))
}

fn with_attribute(key: &str, value: &str) -> TableDescriptor {
    let mut table = table();
    table.attributes.insert(
        Bytes::copy_from_slice(key.as_bytes()),
        Bytes::copy_from_slice(value.as_bytes()),
    );
    table
}

fn with_family(key: &str, value: &str) -> TableDescriptor {
    table().with_family(FamilyDescriptor::new("f").with(key, value))
}

#[test]
fn what_clients_send_is_accepted() {
    check_table(&table()).unwrap();
    // gohbase, and hbase-driver with keys that HBase does not know.
    for (key, value) in [
        ("KEEP_DELETED_CELLS", "false"),
        ("DATA_BLOCK_ENCODING", "FAST_DIFF"),
        ("VERSIONS", "2147483647"),
        ("TTL", "2147483647"),
        ("TTL", "-1"),
        ("BLOOMFILTER", "ROWCOL"),
        ("COMPRESSION", "snappy"),
        ("compression_type", "whatever"),
        ("max_versions", "x"),
        ("MIN_VERSIONS", "0"),
        ("ENCRYPTION", ""),
        ("REPLICATION_SCOPE", "1"),
        ("REPLICATION_SCOPE", "2"),
        ("NEW_VERSION_BEHAVIOR", "yes"),
    ] {
        check_table(&with_family(key, value)).unwrap_or_else(|e| panic!("{key}={value}: {e}"));
    }
    for (key, value) in [
        ("REGION_REPLICATION", "1"),
        ("DURABILITY", "ASYNC_WAL"),
        ("MAX_FILESIZE", "-1"),
        ("MAX_FILESIZE", "10737418240"),
        ("OWNER", "me"),
        ("READONLY", "true"),
        // Java reads every other text as false.
        ("READONLY", "1"),
        ("MERGE_ENABLED", "x"),
        (
            "SPLIT_POLICY",
            "org.apache.hadoop.hbase.regionserver.DisabledRegionSplitPolicy",
        ),
        (
            "coprocessor$1",
            "|org.apache.hadoop.hbase.coprocessor.AggregateImplementation|1001|",
        ),
        ("hbase.store.file-tracker.impl", "file"),
    ] {
        check_table(&with_attribute(key, value)).unwrap_or_else(|e| panic!("{key}={value}: {e}"));
    }
}

#[test]
fn what_makes_no_sense_or_would_be_a_lie_is_refused() {
    let none = TableDescriptor::new(TableName::parse("t").unwrap());
    let error = check_table(&none).unwrap_err();
    assert_eq!(error.code(), Code::DoNotRetryIo);
    assert!(
        error
            .message()
            .contains("Table should have at least one column family")
    );
    for (key, value) in [
        ("VERSIONS", "0"),
        ("VERSIONS", "many"),
        ("MIN_VERSIONS", "-1"),
        ("MIN_VERSIONS", "2"),
        ("TTL", "0"),
        ("BLOCKSIZE", "100"),
        ("BLOCKSIZE", "99999999"),
        ("BLOOMFILTER", "SOME"),
        ("COMPRESSION", "MAGIC"),
        ("COMPRESSION", "LZO"),
        ("COMPRESSION", "BZIP2"),
        ("COMPRESSION", "LZMA"),
        ("COMPRESSION_COMPACT_MAJOR", "BROTLI"),
        ("KEEP_DELETED_CELLS", "PERHAPS"),
        ("ENCRYPTION", "AES"),
        ("REPLICATION_SCOPE", "-1"),
        ("BLOOMFILTER", "ROWPREFIX_FIXED_LENGTH"),
    ] {
        assert!(
            check_table(&with_family(key, value)).is_err(),
            "{key}={value}"
        );
    }
    for (key, value) in [
        ("REGION_REPLICATION", "2"),
        ("coprocessor$1", "|org.example.Observer|1001|"),
        ("MAX_FILESIZE", "1024"),
        ("MEMSTORE_FLUSHSIZE", "1000"),
        ("DURABILITY", "HARD"),
        ("SPLIT_POLICY", "org.example.Policy"),
        ("hbase.store.file-tracker.impl", "MIGRATION"),
        ("hbase.store.file-tracker.impl", "SOME"),
    ] {
        assert!(
            check_table(&with_attribute(key, value)).is_err(),
            "{key}={value}"
        );
    }
    for name in ["", ".f", "a:b", "a/b", "a\\b", "a\tb", "recovered.edits"] {
        let table = table().with_family(FamilyDescriptor::new(name.as_bytes().to_vec()));
        assert!(check_table(&table).is_err(), "{name}");
    }
    assert!(check_family_name(&[b'f'; 128]).is_err());
    check_family_name(&[b'f'; 127]).unwrap();
}

#[test]
fn the_switch_turns_off_tuning_checks_but_not_promises() {
    let off = |mut table: TableDescriptor| {
        table
            .configuration
            .insert(SANITY_SWITCH.into(), "false".into());
        table
    };
    for codec in ["LZO", "bzip2", "LZMA", "BROTLI"] {
        for key in COMPRESSION_KEYS {
            let refused = check_table(&off(with_family(key, codec))).unwrap_err();
            assert_eq!(refused.code(), Code::DoNotRetryIo);
            assert!(refused.message().contains("has no codec"), "{refused}");
        }
    }
    check_table(&off(with_family("BLOCKSIZE", "1"))).unwrap();
    check_table(&off(with_attribute("MAX_FILESIZE", "1"))).unwrap();
    assert!(check_table(&off(with_attribute("coprocessor$1", "x"))).is_err());
    assert!(check_table(&off(with_family("ENCRYPTION", "AES"))).is_err());
    assert!(check_table(&off(with_family("VERSIONS", "0"))).is_err());
}

/// C6.
#[test]
fn family_ids_are_never_used_again() {
    let record = TableRecord::create(table().with_family(FamilyDescriptor::new("a"))).unwrap();
    let ids = |record: &TableRecord| -> Vec<(String, u16)> {
        record
            .descriptor
            .families
            .values()
            .map(|family| (text(&family.name).into_owned(), family.id))
            .collect()
    };
    assert_eq!(ids(&record), [("a".into(), 1), ("f".into(), 2)]);
    let without = record.without(b"f").unwrap();
    assert_eq!(ids(&without), [("a".into(), 1)]);
    let again = without.with_added(FamilyDescriptor::new("f")).unwrap();
    assert_eq!(ids(&again), [("a".into(), 1), ("f".into(), 3)]);
    // A whole new descriptor comes without ids, or with a liar's.
    let mut liar = FamilyDescriptor::new("a");
    liar.id = 77;
    let replaced = again
        .altered(
            TableDescriptor::new(TableName::parse("t").unwrap())
                .with_family(liar)
                .with_family(FamilyDescriptor::new("f"))
                .with_family(FamilyDescriptor::new("g")),
        )
        .unwrap();
    assert_eq!(
        ids(&replaced),
        [("a".into(), 1), ("f".into(), 3), ("g".into(), 4)]
    );
    let mut full = replaced;
    full.next_family_id = u16::MAX;
    assert!(full.with_added(FamilyDescriptor::new("h")).is_err());
}

#[test]
fn family_operations_that_cannot_be() {
    let record = TableRecord::create(table()).unwrap();
    for error in [
        record.without(b"f").unwrap_err(),
        record.without(b"none").unwrap_err(),
        record.with_added(FamilyDescriptor::new("f")).unwrap_err(),
        record
            .with_modified(FamilyDescriptor::new("none"))
            .unwrap_err(),
    ] {
        assert_eq!(error.code(), Code::InvalidFamilyOperation);
    }
    let modified = record
        .with_modified(FamilyDescriptor::new("f").with("VERSIONS", "5"))
        .unwrap();
    let family = &modified.descriptor.families[&b"f"[..]];
    assert_eq!((family.id, family.max_versions()), (1, 5));
}

#[test]
fn split_keys_make_one_region_more() {
    let name = TableName::parse("t").unwrap();
    let keys = |keys: &[&'static str]| {
        keys.iter()
            .map(|key| Bytes::from_static(key.as_bytes()))
            .collect::<Vec<_>>()
    };
    let regions = regions_of(&name, keys(&["m", "c"]), 7).unwrap();
    let bounds: Vec<_> = regions
        .iter()
        .map(|region| (&region.start_key[..], &region.end_key[..]))
        .collect();
    assert_eq!(
        bounds,
        [
            (&b""[..], &b"c"[..]),
            (&b"c"[..], &b"m"[..]),
            (&b"m"[..], &b""[..])
        ]
    );
    assert!(covers(&regions));
    assert!(!covers(&regions[1..]));
    assert!(!covers(&[]));
    assert_eq!(regions_of(&name, Vec::new(), 7).unwrap().len(), 1);
    assert!(regions_of(&name, keys(&["a", "a"]), 7).is_err());
    assert!(regions_of(&name, keys(&["a", ""]), 7).is_err());
    assert!(regions_of(&name, vec![Bytes::from(vec![1; 40_000])], 7).is_err());
    let many = (0..REGIONS_PER_TABLE_MAX as u32)
        .map(|i| Bytes::copy_from_slice(&i.to_be_bytes()))
        .collect();
    assert!(regions_of(&name, many, 7).is_err());
}

#[test]
fn namespaces() {
    check_namespace(&Namespace::new("ns_1")).unwrap();
    for bad in ["", "a b", "a-b", "a:b", "a.b"] {
        assert!(check_namespace(&Namespace::new(bad)).is_err(), "{bad}");
    }
}

#[test]
fn data_tiering_needs_its_engine() {
    let engine = |name: &str| {
        let mut family = FamilyDescriptor::new("f");
        let mut set = |key: &str, value: &str| {
            family
                .configuration
                .insert(key.to_owned(), value.to_owned());
        };
        set("hbase.hstore.datatiering.type", "TIME_RANGE");
        set("hbase.hstore.engine.class", name);
        check_table(&table().with_family(family))
    };
    let engines = "org.apache.hadoop.hbase.regionserver.";
    engine(&format!("{engines}DateTieredStoreEngine")).unwrap();
    assert!(engine(&format!("{engines}DefaultStoreEngine")).is_err());
    let alone = with_attribute("hbase.hstore.datatiering.type", "TIME_RANGE");
    assert!(check_table(&alone).is_err());
}
