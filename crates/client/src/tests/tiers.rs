//! Three tiers: the registry names the server of the root, the root holds the regions of `hbase:meta`, which has two (requirements.md L6).

use futures::future::join_all;

use super::fake::{Cluster, Fault};
use super::*;
use crate::{Source, data::new_get};

/// Table `t` with regions at g and p; `hbase:meta` is cut at the directory key of row m, between two rows of one region of `t`.
async fn three_tiers(env: &RealEnv) -> (Arc<Cluster>, Client<RealEnv>) {
    let cluster = Cluster::start(env, 3).await;
    cluster.create(&table("t"), &["g", "p"]);
    cluster.split_meta("t,m,");
    let config = ClientConfig {
        tiers: vec![root_table(), TableName::meta()],
        ..config()
    };
    let client = Client::connect(env.clone(), cluster.registry(), config).unwrap();
    (cluster, client)
}

fn counts(cluster: &Cluster) -> [usize; 3] {
    ["registry", "root-scan", "meta-scan"].map(|what| cluster.count(what))
}

/// L6, L10: one function for each tier, and single flight at each of them.
#[test]
fn a_row_is_found_through_three_tiers() {
    run(|env| async move {
        let (cluster, client) = three_tiers(&env).await;
        let callers = (0..1000).map(|number| {
            let client = client.clone();
            async move {
                let row = bytes(&format!("h{number}"));
                client.locate(&table("t"), &row, false).await
            }
        });
        for found in join_all(callers).await {
            assert_eq!(found.unwrap().region.start_key, bytes("g"));
        }
        assert_eq!(counts(&cluster), [1, 1, 1]);
        let last = client
            .locate_with_source(&table("t"), &bytes("q"), false, true)
            .await
            .unwrap();
        assert_eq!(last.location.region.start_key, bytes("p"));
        assert_eq!(last.source, Source::Directory(TableName::meta()));
        // The other region of meta was read along with the first, or asked for once.
        assert_eq!(cluster.count("registry"), 1);
        assert!(cluster.count("root-scan") <= 2, "{:?}", counts(&cluster));
        // L9: then nobody is asked.
        cluster.reset_counts();
        for row in ["a", "h", "n", "q"] {
            client
                .locate(&table("t"), &bytes(row), false)
                .await
                .unwrap();
        }
        assert_eq!(counts(&cluster)[..2], [0, 0]);
    });
}

/// The directory key of n lies in the second region of meta, the entry of its region in the first.
#[test]
fn an_entry_in_the_region_of_meta_before_is_found() {
    run(|env| async move {
        let (cluster, client) = three_tiers(&env).await;
        let found = client.locate(&table("t"), &bytes("n"), false).await;
        assert_eq!(found.unwrap().region.start_key, bytes("g"));
        assert_eq!(cluster.count("meta-scan"), 2);
        let missing = client.locate(&table("z"), &bytes("n"), false).await;
        assert_eq!(
            missing.unwrap_err().code(),
            cadastre_types::Code::TableNotFound
        );
    });
}

/// L16 i, L20, one tier up: a region of meta that is not where it was is looked for in the root; the root itself was right.
#[test]
fn a_moved_region_of_meta_is_found_through_the_root() {
    run(|env| async move {
        let (cluster, client) = three_tiers(&env).await;
        client.put(&table("t"), vec![cell("a", "v")]).await.unwrap();
        cluster.move_meta(0, 2);
        client.clear_table(&table("t"));
        cluster.reset_counts();
        let found = client.get(&table("t"), &new_get(bytes("a"))).await.unwrap();
        assert_eq!(found.value(b"f", b"q"), Some(&bytes("v")));
        assert_eq!(counts(&cluster), [0, 1, 2]);
        // A root that fails is looked up at the registry.
        client.clear_locations();
        cluster.fault(
            "root-scan",
            Fault::Fail(cadastre_types::Error::new(cadastre_types::Code::Io, "x")),
        );
        cluster.reset_counts();
        client
            .locate(&table("t"), &bytes("a"), false)
            .await
            .unwrap();
        assert_eq!(counts(&cluster), [2, 2, 1]);
    });
}
