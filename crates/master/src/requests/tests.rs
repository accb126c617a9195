//! Calls as clients send them, on a master in a world in memory: answers, and the exceptions that clients act on.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use cadastre_rpc::Peer;
use cadastre_types::{Code, FamilyDescriptor, RegionInfo, TableDescriptor, TableState};

use super::*;
use crate::active::tests::{ModelWorld, new_master};

fn call(method: &str, message: &impl Message) -> Call {
    Call {
        service: Service::Master,
        method: method.to_owned(),
        param: cadastre_wire::encode(message),
        cells: Bytes::new(),
        deadline: None,
        priority: 0,
        arrived: Duration::ZERO,
        started: Duration::ZERO,
        peer: Arc::new(Peer {
            user: "root".into(),
            codec: None,
            version: None,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 1)),
            core: 0,
        }),
    }
}

async fn ask<M: Message + Default>(
    active: &Active<ModelWorld>,
    method: &str,
    message: &impl Message,
) -> Result<M> {
    let call = call(method, message);
    let reply = match method.starts_with("Get") || method.starts_with("List") {
        true => question(active, &call).await?,
        false => work(active, &call).await?,
    };
    cadastre_wire::decode(reply.body)
}

/// Asks for an operation and waits for its end.
async fn done(active: &Active<ModelWorld>, method: &str, message: &impl Message) -> Result<()> {
    // Every answer of this kind has the procedure's id as its first field.
    let begun: pb::CreateTableResponse = ask(active, method, message).await?;
    let request = pb::GetProcedureResultRequest {
        proc_id: begun.proc_id.expect("an id that clients can ask with"),
    };
    for _ in 0..1_000 {
        let result: pb::GetProcedureResultResponse =
            ask(active, "getProcedureResult", &request).await?;
        match result.state() {
            pb::get_procedure_result_response::State::Running => {}
            pb::get_procedure_result_response::State::NotFound => panic!("forgotten"),
            pb::get_procedure_result_response::State::Finished => {
                assert!(result.exception.is_none());
                return Ok(());
            }
        }
    }
    panic!("{method} does not end")
}

fn name(text: &str) -> pb::TableName {
    convert::table_name_pb(&TableName::parse(text).unwrap())
}

fn schema(table: &str, families: &[&'static str]) -> pb::TableSchema {
    let mut descriptor = TableDescriptor::new(TableName::parse(table).unwrap());
    for family in families {
        descriptor = descriptor.with_family(FamilyDescriptor::new(family.as_bytes()));
    }
    convert::table_schema(&descriptor, false)
}

fn create(table: &str) -> pb::CreateTableRequest {
    pb::CreateTableRequest {
        table_schema: schema(table, &["f"]),
        split_keys: vec![Bytes::from_static(b"m")],
        ..Default::default()
    }
}

fn disable(table: &str) -> pb::DisableTableRequest {
    pb::DisableTableRequest {
        table_name: name(table),
        ..Default::default()
    }
}

fn enable(table: &str) -> pb::EnableTableRequest {
    pb::EnableTableRequest {
        table_name: name(table),
        ..Default::default()
    }
}

fn delete(table: &str) -> pb::DeleteTableRequest {
    pb::DeleteTableRequest {
        table_name: name(table),
        ..Default::default()
    }
}

fn truncate(table: &str) -> pb::TruncateTableRequest {
    pb::TruncateTableRequest {
        table_name: name(table),
        preserve_splits: Some(true),
        ..Default::default()
    }
}

async fn state(active: &Active<ModelWorld>, table: &str) -> TableState {
    let request = pb::GetTableStateRequest {
        table_name: name(table),
    };
    let answer: pb::GetTableStateResponse = ask(active, "GetTableState", &request).await.unwrap();
    convert::table_state(&answer.table_state).unwrap()
}

fn code(result: Result<()>) -> Code {
    result.unwrap_err().code()
}

#[tokio::test]
async fn a_tables_life_and_what_is_refused_on_the_way() {
    let active = new_master(2).await;
    assert_eq!(
        code(done(&active, "DisableTable", &disable("t")).await),
        Code::TableNotFound
    );
    assert_eq!(
        code(done(&active, "DeleteTable", &delete("t")).await),
        Code::TableNotFound
    );
    let foreign = create("ns:t");
    assert_eq!(
        code(done(&active, "CreateTable", &foreign).await),
        Code::NamespaceNotFound
    );
    done(&active, "CreateTable", &create("t")).await.unwrap();
    assert_eq!(state(&active, "t").await, TableState::Enabled);
    assert_eq!(
        code(done(&active, "CreateTable", &create("t")).await),
        Code::TableExists
    );
    assert_eq!(
        code(done(&active, "EnableTable", &enable("t")).await),
        Code::TableNotDisabled
    );
    assert_eq!(
        code(done(&active, "DeleteTable", &delete("t")).await),
        Code::TableNotDisabled
    );
    assert_eq!(
        code(done(&active, "truncateTable", &truncate("t")).await),
        Code::TableNotDisabled
    );
    done(&active, "DisableTable", &disable("t")).await.unwrap();
    assert_eq!(state(&active, "t").await, TableState::Disabled);
    assert_eq!(
        code(done(&active, "DisableTable", &disable("t")).await),
        Code::TableNotEnabled
    );
    done(&active, "EnableTable", &enable("t")).await.unwrap();
    done(&active, "DisableTable", &disable("t")).await.unwrap();
    let before = regions(&active, "t");
    done(&active, "truncateTable", &truncate("t"))
        .await
        .unwrap();
    let after = regions(&active, "t");
    assert_eq!(after.len(), 2, "splits are kept");
    assert!(
        after.iter().all(|region| !before.contains(region)),
        "regions are new"
    );
    done(&active, "DisableTable", &disable("t")).await.unwrap();
    done(&active, "DeleteTable", &delete("t")).await.unwrap();
    assert_eq!(
        code(done(&active, "EnableTable", &enable("t")).await),
        Code::TableNotFound
    );
    // What clients must never touch.
    for catalog in ["hbase:meta", "hbase:namespace"] {
        assert_eq!(
            code(done(&active, "DisableTable", &disable(catalog)).await),
            Code::Constraint
        );
        assert_eq!(
            code(done(&active, "DeleteTable", &delete(catalog)).await),
            Code::Constraint
        );
        assert_eq!(
            code(done(&active, "CreateTable", &create(catalog)).await),
            Code::TableExists
        );
    }
}

fn regions(active: &Active<ModelWorld>, table: &str) -> Vec<RegionInfo> {
    let table = TableName::parse(table).unwrap();
    active.with_catalog(|catalog| tables::regions(catalog, &table))
}

#[tokio::test]
async fn families_come_and_go() {
    let active = new_master(1).await;
    done(&active, "CreateTable", &create("t")).await.unwrap();
    let family = |name: &str| {
        convert::family_schema(&FamilyDescriptor::new(name.as_bytes().to_vec()), false)
    };
    let add = |name: &str| pb::AddColumnRequest {
        table_name: self::name("t"),
        column_families: family(name),
        ..Default::default()
    };
    let drop = |name: &'static str| pb::DeleteColumnRequest {
        table_name: self::name("t"),
        column_name: Bytes::from_static(name.as_bytes()),
        ..Default::default()
    };
    done(&active, "AddColumn", &add("g")).await.unwrap();
    assert_eq!(
        code(done(&active, "AddColumn", &add("g")).await),
        Code::InvalidFamilyOperation
    );
    done(&active, "DeleteColumn", &drop("f")).await.unwrap();
    assert_eq!(
        code(done(&active, "DeleteColumn", &drop("g")).await),
        Code::InvalidFamilyOperation
    );
    let modify = pb::ModifyTableRequest {
        table_name: name("t"),
        table_schema: schema("t", &["f", "g", "h"]),
        ..Default::default()
    };
    done(&active, "ModifyTable", &modify).await.unwrap();
    let request = pb::GetTableDescriptorsRequest {
        table_names: vec![name("t")],
        ..Default::default()
    };
    let answer: pb::GetTableDescriptorsResponse =
        ask(&active, "GetTableDescriptors", &request).await.unwrap();
    let families = &answer.table_schema[0].column_families;
    assert_eq!(families.len(), 3);
    assert!(
        families.iter().all(|f| f.family_id.is_none()),
        "ids are never sent to a client"
    );
    let status = pb::GetSchemaAlterStatusRequest {
        table_name: name("t"),
    };
    let status: pb::GetSchemaAlterStatusResponse =
        ask(&active, "GetSchemaAlterStatus", &status).await.unwrap();
    assert_eq!(
        (status.yet_to_update_regions, status.total_regions),
        (Some(0), Some(2))
    );
    let other = pb::ModifyTableRequest {
        table_name: name("t"),
        table_schema: schema("u", &["f"]),
        ..Default::default()
    };
    assert_eq!(
        code(done(&active, "ModifyTable", &other).await),
        Code::DoNotRetryIo
    );
}

/// A store file tracker that is asked for ends a migration, and nothing of that is left in the descriptor.
#[tokio::test]
async fn a_store_file_tracker_ends_a_migration() {
    const TRACKER: &str = "hbase.store.file-tracker.impl";
    const ENDS: [&str; 2] = [
        "hbase.store.file-tracker.migration.src.impl",
        "hbase.store.file-tracker.migration.dst.impl",
    ];
    let active = new_master(1).await;
    let migrates = [
        (TRACKER, "MIGRATION"),
        (ENDS[0], "DEFAULT"),
        (ENDS[1], "FILE"),
    ];
    let mut family = FamilyDescriptor::new("f");
    for (key, value) in migrates {
        family
            .configuration
            .insert(key.to_owned(), value.to_owned());
    }
    done(&active, "CreateTable", &create("t")).await.unwrap();
    let mut table_schema = schema("t", &[]);
    table_schema.column_families = vec![convert::family_schema(&family, false)];
    for (key, value) in migrates {
        table_schema.attributes.push(pb::BytesBytesPair {
            first: Bytes::from_static(key.as_bytes()),
            second: Bytes::from_static(value.as_bytes()),
        });
    }
    let modify = pb::ModifyTableRequest {
        table_name: name("t"),
        table_schema,
        ..Default::default()
    };
    done(&active, "ModifyTable", &modify).await.unwrap();
    let of_table = pb::ModifyTableStoreFileTrackerRequest {
        table_name: name("t"),
        dst_sft: "FILE".to_owned(),
        ..Default::default()
    };
    done(&active, "ModifyTableStoreFileTracker", &of_table)
        .await
        .unwrap();
    let of_family = pb::ModifyColumnStoreFileTrackerRequest {
        table_name: name("t"),
        family: Bytes::from_static(b"f"),
        dst_sft: "FILE".to_owned(),
        ..Default::default()
    };
    done(&active, "ModifyColumnStoreFileTracker", &of_family)
        .await
        .unwrap();
    let table = TableName::parse("t").unwrap();
    let descriptor = active.with_catalog(|c| Arc::clone(&c.table(&table).unwrap().descriptor));
    let family = &descriptor.family(b"f").unwrap().configuration;
    assert_eq!(descriptor.attribute(TRACKER), Some("FILE"));
    assert_eq!(family[TRACKER], "FILE");
    for end in ENDS {
        assert_eq!(descriptor.attribute(end), None);
        assert!(!family.contains_key(end));
    }
}

#[tokio::test]
async fn namespaces_and_switches() {
    let active = new_master(1).await;
    let create_ns = pb::CreateNamespaceRequest {
        namespace_descriptor: pb::NamespaceDescriptor {
            name: Bytes::from_static(b"ns"),
            configuration: Vec::new(),
        },
        ..Default::default()
    };
    let delete_ns = |name: &str| pb::DeleteNamespaceRequest {
        namespace_name: name.to_owned(),
        ..Default::default()
    };
    done(&active, "CreateNamespace", &create_ns).await.unwrap();
    assert_eq!(
        code(done(&active, "CreateNamespace", &create_ns).await),
        Code::NamespaceExist
    );
    done(&active, "CreateTable", &create("ns:t")).await.unwrap();
    for (name, expected) in [
        ("ns", Code::Constraint),
        ("hbase", Code::Constraint),
        ("default", Code::Constraint),
        ("none", Code::NamespaceNotFound),
    ] {
        let refused = done(&active, "DeleteNamespace", &delete_ns(name)).await;
        assert_eq!(code(refused), expected, "{name}");
    }
    let off = pb::SetBalancerRunningRequest {
        on: false,
        synchronous: None,
    };
    let was: pb::SetBalancerRunningResponse =
        ask(&active, "SetBalancerRunning", &off).await.unwrap();
    assert_eq!(
        was.prev_balance_value,
        Some(true),
        "on until somebody turns it off"
    );
    let now: pb::IsBalancerEnabledResponse = ask(
        &active,
        "IsBalancerEnabled",
        &pb::IsBalancerEnabledRequest {},
    )
    .await
    .unwrap();
    assert!(!now.enabled);
    let ran: pb::BalanceResponse = ask(&active, "Balance", &pb::BalanceRequest::default())
        .await
        .unwrap();
    assert!(!ran.balancer_ran);
}

#[tokio::test]
async fn what_is_not_there_is_refused_and_garbage_is_no_panic() {
    let active = new_master(1).await;
    for method in ["Snapshot", "Grant", "SetQuota", "listNonsense"] {
        let refused = done(&active, method, &pb::IsMasterRunningRequest {}).await;
        assert_eq!(code(refused), Code::Unsupported, "{method}");
    }
    let mut garbage = call("CreateTable", &pb::IsMasterRunningRequest {});
    garbage.param = Bytes::from_static(&[0xff; 40]);
    let error = work(&active, &garbage).await.unwrap_err();
    assert_eq!(error.code(), Code::DoNotRetryIo);
}

/// Tools ask whether what they want to remove is there; the class of the exception tells them.
#[tokio::test]
async fn peers_and_snapshots_are_unknown_by_any_name() {
    let active = new_master(1).await;
    let peer = pb::GetReplicationPeerConfigRequest {
        peer_id: "p".into(),
    };
    let snapshot = pb::DeleteSnapshotRequest {
        snapshot: pb::SnapshotDescription {
            name: "s".into(),
            ..Default::default()
        },
    };
    let class = |refused: Result<pb::IsMasterRunningResponse>| {
        cadastre_wire::exception::to_pair(&refused.unwrap_err()).name
    };
    for method in [
        "GetReplicationPeerConfig",
        "RemoveReplicationPeer",
        "EnableReplicationPeer",
        "DisableReplicationPeer",
    ] {
        let class = class(ask(&active, method, &peer).await);
        assert!(
            class.ends_with(".ReplicationPeerNotFoundException"),
            "{class}"
        );
    }
    for method in ["DeleteSnapshot", "RestoreSnapshot"] {
        let class = class(ask(&active, method, &snapshot).await);
        assert!(class.ends_with(".SnapshotDoesNotExistException"), "{class}");
    }
}

#[tokio::test]
async fn flushes_of_both_kinds() {
    let active = new_master(1).await;
    done(&active, "CreateTable", &create("t")).await.unwrap();
    let flush = |family: &'static str| pb::FlushTableRequest {
        table_name: name("t"),
        column_family: vec![Bytes::from_static(family.as_bytes())],
        ..Default::default()
    };
    done(&active, "FlushTable", &flush("f")).await.unwrap();
    assert_eq!(
        code(done(&active, "FlushTable", &flush("none")).await),
        Code::NoSuchColumnFamily
    );
    let procedure = |signature: &str| pb::ProcedureDescription {
        signature: signature.to_owned(),
        instance: Some("t".to_owned()),
        ..Default::default()
    };
    let begin = |signature: &str| pb::ExecProcedureRequest {
        procedure: procedure(signature),
    };
    let _: pb::ExecProcedureResponse = ask(&active, "ExecProcedure", &begin("flush-table-proc"))
        .await
        .unwrap();
    let asked = pb::IsProcedureDoneRequest {
        procedure: Some(procedure("flush-table-proc")),
    };
    let mut ended = false;
    for _ in 0..1_000 {
        let answer: pb::IsProcedureDoneResponse =
            ask(&active, "IsProcedureDone", &asked).await.unwrap();
        ended = answer.done();
        if ended {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert!(ended);
    let other: Result<pb::ExecProcedureResponse> =
        ask(&active, "ExecProcedure", &begin("rolllog-proc")).await;
    assert_eq!(other.unwrap_err().code(), Code::Unsupported);
}

fn split_of(region: &RegionInfo, row: Option<&'static str>) -> pb::SplitTableRegionRequest {
    pb::SplitTableRegionRequest {
        region_info: convert::region_info_pb(region),
        split_row: row.map(|row| Bytes::from_static(row.as_bytes())),
        ..Default::default()
    }
}

fn merge_of(regions: &[&RegionInfo]) -> pb::MergeTableRegionsRequest {
    let specifiers = regions
        .iter()
        .map(|region| convert::region_specifier(region));
    pb::MergeTableRegionsRequest {
        region: specifiers.collect(),
        forcible: Some(true),
        ..Default::default()
    }
}

async fn switch(active: &Active<ModelWorld>, kind: pb::MasterSwitchType, enabled: bool) {
    let request = pb::SetSplitOrMergeEnabledRequest {
        enabled,
        switch_types: vec![kind as i32],
        ..Default::default()
    };
    let _: pb::SetSplitOrMergeEnabledResponse = ask(active, "SetSplitOrMergeEnabled", &request)
        .await
        .unwrap();
}

fn starts(active: &Active<ModelWorld>, table: &str) -> Vec<Bytes> {
    let regions = regions(active, table).into_iter();
    regions.map(|region| region.start_key).collect()
}

#[tokio::test]
async fn regions_are_split_where_asked_or_in_the_middle() {
    let active = new_master(2).await;
    done(&active, "CreateTable", &create("t")).await.unwrap();
    let split =
        async |region: &RegionInfo, row| done(&active, "SplitRegion", &split_of(region, row)).await;
    let [first, last]: [RegionInfo; 2] = regions(&active, "t").try_into().unwrap();
    for (region, row, expected) in [
        (&last, Some("m"), Code::DoNotRetryIo),
        (&last, Some("a"), Code::DoNotRetryIo),
        (&first, Some("m"), Code::DoNotRetryIo),
        // The server finds no middle.
        (&last, None, Code::DoNotRetryIo),
        (&RegionInfo::meta(), Some("m"), Code::Constraint),
        (
            &RegionInfo {
                region_id: 3,
                ..first.clone()
            },
            Some("b"),
            Code::UnknownRegion,
        ),
        (
            &RegionInfo {
                replica_id: 1,
                ..first.clone()
            },
            Some("b"),
            Code::DoNotRetryIo,
        ),
    ] {
        assert_eq!(
            code(split(region, row).await),
            expected,
            "{region:?} {row:?}"
        );
    }
    switch(&active, pb::MasterSwitchType::Split, false).await;
    assert_eq!(code(split(&first, Some("b")).await), Code::DoNotRetryIo);
    switch(&active, pb::MasterSwitchType::Split, true).await;
    switch(&active, pb::MasterSwitchType::Merge, false).await;
    let marked = pb::SplitTableRegionRequest {
        nonce_group: Some(1),
        nonce: Some(2),
        ..split_of(&first, None)
    };
    for _ in 0..2 {
        done(&active, "SplitRegion", &marked).await.unwrap();
    }
    assert_eq!(starts(&active, "t"), ["", "d", "m"]);
    let again = split(&first, Some("b")).await;
    assert_eq!(code(again), Code::RegionState, "it is split already");
    for region in regions(&active, "t") {
        assert!(!region.split && region.region_id >= last.region_id);
    }
    done(&active, "DisableTable", &disable("t")).await.unwrap();
    assert_eq!(code(split(&last, Some("z")).await), Code::TableNotEnabled);
    // Parents are not opened, counted or kept as split keys.
    done(&active, "EnableTable", &enable("t")).await.unwrap();
    let status = pb::GetSchemaAlterStatusRequest {
        table_name: name("t"),
    };
    let status: pb::GetSchemaAlterStatusResponse =
        ask(&active, "GetSchemaAlterStatus", &status).await.unwrap();
    assert_eq!(status.total_regions, Some(3));
    done(&active, "DisableTable", &disable("t")).await.unwrap();
    done(&active, "truncateTable", &truncate("t"))
        .await
        .unwrap();
    assert_eq!(starts(&active, "t"), ["", "d", "m"]);
    let mut frozen = TableDescriptor::new(TableName::parse("t").unwrap());
    frozen = frozen.with_family(FamilyDescriptor::new("f"));
    let never = "org.apache.hadoop.hbase.regionserver.DisabledRegionSplitPolicy";
    let mut unsplittable = frozen.clone();
    unsplittable
        .attributes
        .insert("SPLIT_POLICY".into(), never.into());
    for attribute in ["SPLIT_ENABLED", "MERGE_ENABLED"] {
        frozen.attributes.insert(attribute.into(), "false".into());
    }
    let modify = |descriptor: &TableDescriptor| pb::ModifyTableRequest {
        table_name: name("t"),
        table_schema: convert::table_schema(descriptor, false),
        ..Default::default()
    };
    done(&active, "ModifyTable", &modify(&unsplittable))
        .await
        .unwrap();
    let first = regions(&active, "t").remove(0);
    assert_eq!(code(split(&first, Some("b")).await), Code::DoNotRetryIo);
    done(&active, "ModifyTable", &modify(&frozen))
        .await
        .unwrap();
    let [first, second, _]: [RegionInfo; 3] = regions(&active, "t").try_into().unwrap();
    assert_eq!(code(split(&first, Some("b")).await), Code::DoNotRetryIo);
    switch(&active, pb::MasterSwitchType::Merge, true).await;
    let merge = merge_of(&[&first, &second]);
    assert_eq!(
        code(done(&active, "MergeTableRegions", &merge).await),
        Code::DoNotRetryIo
    );
}

#[tokio::test]
async fn neighbours_are_merged_and_no_others() {
    let active = new_master(2).await;
    let four = pb::CreateTableRequest {
        split_keys: ["d", "m", "s"].map(Bytes::from).to_vec(),
        ..create("t")
    };
    done(&active, "CreateTable", &four).await.unwrap();
    done(&active, "CreateTable", &create("u")).await.unwrap();
    let merge = async |regions: &[&RegionInfo]| {
        done(&active, "MergeTableRegions", &merge_of(regions)).await
    };
    let [a, b, c, d]: [RegionInfo; 4] = regions(&active, "t").try_into().unwrap();
    let other = regions(&active, "u").remove(0);
    let unknown = RegionInfo {
        region_id: 3,
        ..a.clone()
    };
    for (regions, expected) in [
        (&[][..], Code::MergeRegion),
        (&[&a], Code::MergeRegion),
        (&[&a, &a], Code::MergeRegion),
        (&[&a, &other], Code::MergeRegion),
        // Forced or not: there would be an overlap.
        (&[&a, &c], Code::MergeRegion),
        (&[&a, &b, &d], Code::MergeRegion),
        (&[&a, &unknown], Code::UnknownRegion),
    ] {
        assert_eq!(code(merge(regions).await), expected, "{regions:?}");
    }
    switch(&active, pb::MasterSwitchType::Merge, false).await;
    assert_eq!(code(merge(&[&a, &b]).await), Code::DoNotRetryIo);
    switch(&active, pb::MasterSwitchType::Merge, true).await;
    // In any order; and again, by a client that has not heard the answer.
    let marked = pb::MergeTableRegionsRequest {
        nonce_group: Some(1),
        nonce: Some(2),
        ..merge_of(&[&c, &a, &b])
    };
    for _ in 0..2 {
        done(&active, "MergeTableRegions", &marked).await.unwrap();
    }
    assert_eq!(starts(&active, "t"), ["", "s"]);
    assert_eq!(code(merge(&[&a, &b]).await), Code::UnknownRegion);
    let scanned: pb::RunCatalogScanResponse = ask(
        &active,
        "RunCatalogScan",
        &pb::RunCatalogScanRequest::default(),
    )
    .await
    .unwrap();
    assert_eq!(
        scanned.scan_result,
        Some(0),
        "the merged region still reads their files"
    );
}

#[tokio::test]
async fn repairs_bring_a_table_into_a_state_with_its_regions() {
    let active = new_master(1).await;
    done(&active, "CreateTable", &create("t")).await.unwrap();
    let set = async |table: &str, state| -> Result<TableState> {
        let request = pb::SetTableStateInMetaRequest {
            table_name: name(table),
            table_state: convert::table_state_pb(state),
        };
        let reply = hbck::call(&active, &call("SetTableStateInMeta", &request)).await?;
        let before: pb::GetTableStateResponse = cadastre_wire::decode(reply.body)?;
        convert::table_state(&before.table_state)
    };
    let open = || {
        active.with_catalog(|catalog| {
            let table = TableName::parse("t").unwrap();
            let regions = catalog.regions_of(&table);
            regions.filter(|region| region.open_on().is_some()).count()
        })
    };
    let (on, off) = (TableState::Enabled, TableState::Disabled);
    assert_eq!(set("t", off).await.unwrap(), on, "the state before");
    assert_eq!((state(&active, "t").await, open()), (off, 0));
    assert_eq!(set("t", off).await.unwrap(), off);
    assert_eq!(set("t", on).await.unwrap(), off);
    assert_eq!((state(&active, "t").await, open()), (on, 2));
    let refused = async |table, state| set(table, state).await.unwrap_err().code();
    assert_eq!(refused("t", TableState::Enabling).await, Code::DoNotRetryIo);
    assert_eq!(refused("none", on).await, Code::TableNotFound);
    assert_eq!(refused("hbase:meta", off).await, Code::Constraint);
}

#[tokio::test]
async fn what_hbck_is_asked_for_runs_or_is_refused_by_name() {
    let active = new_master(1).await;
    done(&active, "CreateTable", &create("t")).await.unwrap();
    let asked = call("RunHbckChore", &pb::RunHbckChoreRequest {});
    let reply = hbck::call(&active, &asked).await.unwrap();
    let answer: pb::RunHbckChoreResponse = cadastre_wire::decode(reply.body).unwrap();
    assert!(answer.ran);
    for method in [
        "SetRegionStateInMeta",
        "Assigns",
        "Unassigns",
        "BypassProcedure",
        "ScheduleServerCrashProcedure",
        "ScheduleSCPsForUnknownServers",
        "FixMeta",
    ] {
        let refused = hbck::call(&active, &call(method, &pb::FixMetaRequest {})).await;
        let error = refused.unwrap_err();
        assert_eq!(error.code(), Code::Unsupported);
        assert!(error.message().contains(method), "{error}");
    }
}

/// Whatever a client asks about what cannot be made here, the answer is the one for what is not there.
#[tokio::test]
async fn what_cannot_be_made_is_not_there() {
    const PACKAGE: &str = "org.apache.hadoop.hbase.";
    let active = new_master(1).await;
    let class = async |method: &str, message: &pb::IsSnapshotDoneRequest| {
        let refused = ask::<pb::IsSnapshotDoneResponse>(&active, method, message).await;
        cadastre_wire::exception::to_response(&refused.unwrap_err())
            .exception_class_name()
            .to_owned()
    };
    let snapshot = pb::IsSnapshotDoneRequest {
        snapshot: Some(pb::SnapshotDescription {
            name: "s".to_owned(),
            ..Default::default()
        }),
    };
    let snapshots = [
        ("IsSnapshotDone", "snapshot.UnknownSnapshotException"),
        ("DeleteSnapshot", "snapshot.SnapshotDoesNotExistException"),
    ];
    for (method, expected) in snapshots {
        assert_eq!(
            class(method, &snapshot).await,
            format!("{PACKAGE}{expected}")
        );
    }
    let peer = pb::GetReplicationPeerStateRequest {
        peer_id: "p".to_owned(),
    };
    let refused =
        ask::<pb::GetReplicationPeerStateResponse>(&active, "IsReplicationPeerEnabled", &peer);
    assert_eq!(refused.await.unwrap_err().code(), Code::Remote);
    let flushed: Result<pb::FlushMasterStoreResponse> =
        ask(&active, "FlushMasterStore", &pb::FlushMasterStoreRequest {}).await;
    flushed.unwrap();
}
