//! Admin calls: procedures, nonces, and a master that has changed.

use cadastre_types::{Code, FamilyDescriptor, TableDescriptor};

use super::fake::{Cluster, Fault};
use super::*;

fn descriptor(name: &str) -> TableDescriptor {
    TableDescriptor::new(table(name)).with_family(FamilyDescriptor::new("f").with("VERSIONS", "3"))
}

#[test]
fn creating_waits_for_the_procedure() {
    run(|env| async move {
        let cluster = Cluster::start(&env, 1).await;
        let admin = client(&env, &cluster).admin();
        admin
            .create_table(&descriptor("t"), vec![bytes("m")])
            .await
            .unwrap();
        assert_eq!(cluster.count("getProcedureResult"), 3);
        let again = admin.create_table(&descriptor("t"), Vec::new()).await;
        assert_eq!(again.unwrap_err().code(), Code::TableExists);
        let failed = admin.enable_table(&table("t")).await.unwrap_err();
        assert_eq!(failed.code(), Code::TableNotDisabled);
        assert!(failed.message().contains("t is enabled"), "{failed}");
        let found = admin.describe_table(&table("t")).await.unwrap();
        assert_eq!(found, descriptor("t"));
        let missing = admin.describe_table(&table("u")).await;
        assert_eq!(missing.unwrap_err().code(), Code::TableNotFound);
        assert_eq!(admin.list_tables(false).await.unwrap(), [descriptor("t")]);
    });
}

#[test]
fn a_new_master_is_asked_after_the_old_one_refused() {
    run(|env| async move {
        let cluster = Cluster::start(&env, 2).await;
        let admin = client(&env, &cluster).admin();
        admin
            .create_table(&descriptor("t"), Vec::new())
            .await
            .unwrap();
        cluster.world().master = 1;
        admin.list_tables(false).await.unwrap();
        assert_eq!(cluster.count("GetActiveMaster"), 2);
        cluster.fault("GetTableDescriptors", Fault::Hang);
        admin.list_tables(false).await.unwrap();
    });
}

#[test]
fn regions_of_a_table_in_order() {
    run(|env| async move {
        let cluster = Cluster::start(&env, 2).await;
        cluster.create(&table("t"), &["b", "c"]);
        let admin = client(&env, &cluster).admin();
        let regions = admin.table_regions(&table("t")).await.unwrap();
        let starts: Vec<_> = regions
            .iter()
            .map(|location| location.region.start_key.clone())
            .collect();
        assert_eq!(starts, ["", "b", "c"].map(bytes));
        assert_eq!(regions[1].server, cluster.servers[1]);
    });
}
