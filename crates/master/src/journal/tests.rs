//! Golden bytes and round trips of what the master writes down.

use cadastre_types::{Code, FamilyDescriptor, ServerName, TableDescriptor};

use super::*;
use crate::catalog::Catalog;
use crate::schema::regions_of;

fn record() -> TableRecord {
    let name = TableName::parse("ns:t").unwrap();
    let family = FamilyDescriptor::new("f").with("VERSIONS", "3");
    TableRecord::create(TableDescriptor::new(name).with_family(family)).unwrap()
}

fn ticket(id: ProcedureId) -> Ticket {
    Ticket {
        id,
        submitted_ms: 1_700_000_000_000,
        owner: "root".into(),
        nonce: Nonce { group: 5, nonce: 6 },
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn operations() -> Vec<Operation> {
    let table = TableName::parse("ns:t").unwrap();
    let keys = vec![Bytes::from_static(b"m")];
    let regions = regions_of(&table, keys, 1_700_000_000_000).unwrap();
    let new = regions_of(&table, Vec::new(), 1_700_000_000_001).unwrap();
    let mut namespace = Namespace::new("ns");
    namespace.configuration.insert("k".into(), "v".into());
    let alter = |form| Operation::AlterTable {
        form,
        record: record(),
        reopen: new.clone(),
    };
    vec![
        Operation::CreateTable {
            record: record(),
            regions: regions.clone(),
        },
        Operation::EnableTable {
            table: table.clone(),
            regions: regions.clone(),
        },
        Operation::DisableTable {
            table: table.clone(),
            regions: Vec::new(),
        },
        Operation::DeleteTable {
            table: table.clone(),
            regions: regions.clone(),
        },
        Operation::TruncateTable {
            table: table.clone(),
            old: regions.clone(),
            new: new.clone(),
        },
        alter(AlterForm::Table),
        alter(AlterForm::AddFamily),
        alter(AlterForm::DeleteFamily),
        alter(AlterForm::ModifyFamily),
        Operation::CreateNamespace(namespace.clone()),
        Operation::ModifyNamespace(namespace),
        Operation::DeleteNamespace("ns".into()),
        Operation::FlushTable {
            table,
            families: vec![Bytes::from_static(b"f")],
            regions: new.clone(),
        },
        Operation::TruncateRegion {
            old: regions[0].clone(),
            new: new[0].clone(),
            ancestors: Vec::new(),
        },
        Operation::TruncateRegion {
            old: regions[0].clone(),
            new: new[0].clone(),
            ancestors: new.clone(),
        },
        Operation::SplitRegion {
            parent: new[0].clone(),
            daughters: [regions[0].clone(), regions[1].clone()],
        },
        Operation::MergeRegions {
            parents: regions.clone(),
            child: new[0].clone(),
            ancestors: [regions.clone(), new.clone()].concat(),
        },
        Operation::ForgetParents {
            region: regions[0].clone(),
            split: true,
            ancestors: Vec::new(),
        },
        Operation::ForgetParents {
            region: regions[0].clone(),
            split: false,
            ancestors: new.clone(),
        },
        Operation::UnassignRegion {
            region: new[0].clone(),
        },
        Operation::MoveRegion {
            region: new[0].clone(),
            to: None,
        },
        Operation::MoveRegion {
            region: new[0].clone(),
            to: Some(ServerName::parse("h,16020,7").unwrap()),
        },
    ]
}

fn stored(writes: impl IntoIterator<Item = Write>) -> Vec<(Bytes, Bytes)> {
    let mut map = BTreeMap::new();
    for (key, value) in writes {
        match value {
            Some(value) => map.insert(key, value),
            None => map.remove(&key),
        };
    }
    map.into_iter().collect()
}

#[test]
fn what_is_written_is_read_again() {
    let region = regions_of(&TableName::parse("x").unwrap(), Vec::new(), 3)
        .unwrap()
        .remove(0);
    let gone = EncodedName::from_specifier(b"0123456789abcdef0123456789abcdef");
    let mut writes = vec![
        epoch(7),
        counters(Counters {
            next_procedure: 3,
            last_region: 99,
        }),
        switch("balancer", false),
        change(&Change::PutTable(record())),
        change(&Change::PutNamespace(Namespace::new("ns"))),
        change(&Change::PutNamespace(Namespace::new("gone"))),
        change(&Change::DeleteNamespace("gone".into())),
        change(&Change::Garbage(region.clone())),
        change(&Change::Epoch(region.encoded_name(), 7)),
        change(&Change::Epoch(RegionInfo::meta().encoded_name(), 8)),
        change(&Change::Epoch(gone.clone(), 9)),
        change(&Change::NoEpoch(gone.clone())),
    ];
    for (id, operation) in (10..).zip(operations()) {
        writes.push(intent(&ticket(id), &operation));
    }
    let finished = Finished {
        ticket: ticket(40),
        class_name: "C".into(),
        finished_ms: 1_700_000_000_009,
        failure: Some(Error::new(Code::TableExists, "ns:t")),
    };
    writes.push(intent(&ticket(40), &operations()[0]));
    writes.push(outcome(&finished));
    writes.push(intent(&ticket(41), &operations()[1]));
    writes.push(forget(41));
    let loaded = load(stored(writes)).unwrap();
    assert_eq!((loaded.epoch, loaded.counters.last_region), (7, 99));
    assert_eq!(loaded.counters.next_procedure, 41, "above every id seen");
    assert_eq!(
        loaded.switches,
        BTreeMap::from([("balancer".into(), false)])
    );
    let read: Vec<_> = loaded
        .running
        .iter()
        .map(|(_, operation)| operation.clone())
        .collect();
    assert_eq!(read, operations());
    assert_eq!(loaded.running[0].0, ticket(10));
    assert_eq!(loaded.finished, [finished]);
    let mut catalog = Catalog::new();
    loaded
        .changes
        .iter()
        .for_each(|change| catalog.apply(change));
    assert_eq!(catalog.epoch(&region.encoded_name()), 7);
    assert_eq!(catalog.epoch(&RegionInfo::meta().encoded_name()), 8);
    assert_eq!(catalog.epoch(&gone), 0);
    assert_eq!(catalog.tables().next().unwrap().1.record, record());
    assert_eq!(catalog.namespaces().count(), 3);
    assert_eq!(catalog.garbage().collect::<Vec<_>>(), [&region]);
}

/// These bytes are on disks: they change only with the format's version.
#[test]
fn golden_bytes() {
    let (key, value) = change(&Change::PutTable(record()));
    assert_eq!(&key[..], b"table/ns:t");
    assert_eq!(
        hex(&value.unwrap()),
        "01010000004a0a070a026e7312017412280a1d68626173652e73746f72652e66696c652d747261636b65722e69\
         6d706c120744454641554c541a150a0166120d0a0856455253494f4e53120133c83e01020000000800000000\
         00000002"
    );
    let (key, value) = epoch(258);
    assert_eq!(
        (&key[..], hex(&value.unwrap()).as_str()),
        (&b"epoch"[..], "0101000000080000000000000102")
    );
    let (key, value) = switch("normalizer", true);
    assert_eq!(
        (&key[..], hex(&value.unwrap()).as_str()),
        (&b"switch/normalizer"[..], "01010000000101")
    );
    let (key, value) = intent(&ticket(255), &Operation::DeleteNamespace("ns".into()));
    assert_eq!(&key[..], b"procedure/00000000000000ff");
    assert_eq!(
        hex(&value.unwrap()),
        "0101000000700a416f72672e6170616368652e6861646f6f702e68626173652e6d61737465722e70726f6365\
         647572652e44656c6574654e616d65737061636550726f63656475726518ff012080d095ffbc312a04726f6f\
         7430024080d095ffbc31620e0101000000010909000000026e7368057006"
    );
}

#[test]
fn what_is_damaged_or_newer_is_named() {
    for (key, value) in [
        ("table/t", &b"\x02"[..]),
        ("table/t", b"\x01"),
        ("nonsense", b"\x01"),
        ("what/ever", b"\x01"),
        ("epoch", b"\x01\x01\0\0\0\x01x"),
        ("procedure/1", b"\x01\x01\0\0\0\x01x"),
    ] {
        let record = (
            Bytes::from_static(key.as_bytes()),
            Bytes::from_static(value),
        );
        let error = load(vec![record]).unwrap_err();
        assert_eq!(error.code(), Code::Corrupt);
        assert!(error.message().contains(key), "{error}");
    }
    // Family ids that are none, or not below the next one.
    let mut twice = record();
    twice.next_family_id = 1;
    let (key, value) = change(&Change::PutTable(twice));
    assert!(load(vec![(key, value.unwrap())]).is_err());
}
