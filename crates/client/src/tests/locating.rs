//! Locating: what is asked of whom, counted at the servers (requirements.md L9 to L20).

use cadastre_types::{Code, Error, TableState};
use futures::FutureExt;
use futures::future::join_all;

use super::fake::{Cluster, Fault};
use super::*;
use crate::{Position, Registry, Source, data::new_get};

async fn put_and_get(client: &Client<RealEnv>, name: &TableName, row: &str) {
    client.put(name, vec![cell(row, row)]).await.unwrap();
    let found = client.get(name, &new_get(bytes(row))).await.unwrap();
    assert_eq!(found.value(b"f", b"q"), Some(&bytes(row)), "{row}");
}

/// L10: callers for cold rows of one region make one look-up at every tier.
#[test]
fn a_thousand_cold_callers_ask_once() {
    run(|env| async move {
        let cluster = Cluster::start(&env, 3).await;
        cluster.create(&table("t"), &["g", "p"]);
        let client = client(&env, &cluster);
        let callers = (0..1000).map(|number| {
            let client = client.clone();
            async move {
                client
                    .locate(&table("t"), &bytes(&format!("h{number}")), false)
                    .await
            }
        });
        for found in join_all(callers).await {
            assert_eq!(found.unwrap().region.start_key, bytes("g"));
        }
        assert_eq!(
            (cluster.count("meta-scan"), cluster.count("registry")),
            (1, 1)
        );
    });
}

/// L9, L22: warm operations cause no request to the registry, to `hbase:meta` or to the master.
#[test]
fn warm_operations_ask_nobody_but_the_region() {
    run(|env| async move {
        let cluster = Cluster::start(&env, 2).await;
        cluster.create(&table("t"), &["m"]);
        let client = client(&env, &cluster);
        put_and_get(&client, &table("t"), "a").await;
        put_and_get(&client, &table("t"), "z").await;
        cluster.reset_counts();
        for _ in 0..20 {
            put_and_get(&client, &table("t"), "a").await;
            put_and_get(&client, &table("t"), "z").await;
        }
        let counts = cluster.world().counts.clone();
        let names: Vec<_> = counts.keys().map(String::as_str).collect();
        assert_eq!(names, ["Get", "Mutate"]);
        assert_eq!(counts["Get"], 40);
    });
}

/// L20: the refusal says where to; nobody else is asked.
#[test]
fn a_moved_region_costs_one_trip() {
    run(|env| async move {
        let cluster = Cluster::start(&env, 2).await;
        cluster.create(&table("t"), &[]);
        let client = client(&env, &cluster);
        put_and_get(&client, &table("t"), "a").await;
        cluster.move_region(&table("t"), "a", 1, true);
        cluster.reset_counts();
        put_and_get(&client, &table("t"), "a").await;
        let counts = cluster.world().counts.clone();
        assert_eq!((counts["Mutate"], counts["Get"]), (2, 1));
        assert_eq!(cluster.count("meta-scan"), 0);
    });
}

#[test]
fn a_region_that_is_gone_is_looked_up_once() {
    run(|env| async move {
        let cluster = Cluster::start(&env, 2).await;
        cluster.create(&table("t"), &["m"]);
        let client = client(&env, &cluster);
        put_and_get(&client, &table("t"), "a").await;
        put_and_get(&client, &table("t"), "z").await;
        cluster.move_region(&table("t"), "a", 1, false);
        cluster.reset_counts();
        put_and_get(&client, &table("t"), "a").await;
        put_and_get(&client, &table("t"), "z").await;
        let counts = cluster.world().counts.clone();
        assert_eq!((counts["Mutate"], counts["meta-scan"]), (3, 1));
        assert_eq!(cluster.count("registry"), 0, "the tier above was right");
    });
}

/// L20: too busy, overloaded and timed out never cost a location.
#[test]
fn overload_keeps_the_location() {
    run(|env| async move {
        let cluster = Cluster::start(&env, 1).await;
        cluster.create(&table("t"), &[]);
        let client = client(&env, &cluster);
        put_and_get(&client, &table("t"), "a").await;
        cluster.reset_counts();
        for code in [
            Code::RegionTooBusy,
            Code::CallQueueTooBig,
            Code::TimeoutIo,
            Code::RegionOpening,
        ] {
            cluster.fault("Mutate", Fault::Fail(Error::new(code, "wait")));
        }
        cluster.fault("Mutate", Fault::Hang);
        put_and_get(&client, &table("t"), "a").await;
        assert_eq!(cluster.count("Mutate"), 6);
        assert_eq!(cluster.count("meta-scan"), 0);
    });
}

/// L12: what is cached for the row is dropped first.
#[test]
fn a_reload_asks_the_directory() {
    run(|env| async move {
        let cluster = Cluster::start(&env, 2).await;
        cluster.create(&table("t"), &["m"]);
        let client = client(&env, &cluster);
        client
            .locate(&table("t"), &bytes("a"), false)
            .await
            .unwrap();
        cluster.move_region(&table("t"), "a", 1, false);
        let stale = client
            .locate(&table("t"), &bytes("a"), false)
            .await
            .unwrap();
        assert_eq!(stale.server, cluster.servers[0]);
        let fresh = client.locate(&table("t"), &bytes("a"), true).await.unwrap();
        assert_eq!(fresh.server, cluster.servers[1]);
    });
}

/// L18: the next one takes over, and the cancelled one left nothing behind.
#[test]
fn a_cancelled_leader_is_taken_over() {
    run(|env| async move {
        let cluster = Cluster::start(&env, 1).await;
        cluster.create(&table("t"), &[]);
        let client = client(&env, &cluster);
        cluster.fault("meta-scan", Fault::Hang);
        let (name, row) = (table("t"), bytes("a"));
        let mut leader = Box::pin(client.locate(&name, &row, false));
        let mut waiter = Box::pin(client.locate(&name, &row, false));
        // Both in the queue; the leader's scan reaches the server, which hangs.
        while cluster.count("meta-scan") == 0 {
            assert!((&mut leader).now_or_never().is_none());
            assert!((&mut waiter).now_or_never().is_none());
            tokio::task::yield_now().await;
        }
        drop(leader);
        waiter.await.unwrap();
        assert_eq!(cluster.count("meta-scan"), 2);
    });
}

/// L16 a, and the failure is shared by those who wait.
#[test]
fn a_missing_table_is_final_and_asked_for_once() {
    run(|env| async move {
        let cluster = Cluster::start(&env, 1).await;
        cluster.create(&table("t"), &[]);
        let client = client(&env, &cluster);
        let name = table("nosuch");
        let callers = (0..100).map(|number| {
            let (client, name) = (client.clone(), name.clone());
            async move {
                client
                    .locate(&name, &bytes(&number.to_string()), false)
                    .await
            }
        });
        for found in join_all(callers).await {
            assert_eq!(found.unwrap_err().code(), Code::TableNotFound);
        }
        assert_eq!(cluster.count("meta-scan"), 1);
    });
}

/// L16 f: an offline region of a disabled table is final, one of an enabled table is waited for.
#[test]
fn a_disabled_table_is_refused_at_once() {
    run(|env| async move {
        let cluster = Cluster::start(&env, 1).await;
        cluster.create(&table("t"), &[]);
        let client = client(&env, &cluster);
        put_and_get(&client, &table("t"), "a").await;
        cluster.set_state(&table("t"), "CLOSED", TableState::Disabled);
        let refused = client.get(&table("t"), &new_get(bytes("a"))).await;
        assert_eq!(refused.unwrap_err().code(), Code::TableNotEnabled);
        // Enabled, but its regions are not open yet: tried again until they are.
        cluster.set_state(&table("t"), "OPENING", TableState::Enabled);
        let opening = client.clone();
        let get = async move { opening.get(&table("t"), &new_get(bytes("a"))).await };
        let open = async {
            while cluster.count("meta-scan") < 3 {
                tokio::task::yield_now().await;
            }
            cluster.set_state(&table("t"), "OPEN", TableState::Enabled);
        };
        let (found, ()) = futures::join!(get, open);
        assert_eq!(found.unwrap().value(b"f", b"q"), Some(&bytes("a")));
        assert_eq!(
            client.table_state(&table("t")).await.unwrap(),
            Some(TableState::Enabled)
        );
        assert_eq!(client.table_state(&table("u")).await.unwrap(), None);
    });
}

/// L15, L16 e.
#[test]
fn a_split_parent_gives_way_to_its_daughters() {
    run(|env| async move {
        let cluster = Cluster::start(&env, 2).await;
        cluster.create(&table("t"), &[]);
        let client = client(&env, &cluster);
        put_and_get(&client, &table("t"), "a").await;
        cluster.split(&table("t"), "m");
        cluster.move_region(&table("t"), "z", 1, false);
        put_and_get(&client, &table("t"), "a").await;
        put_and_get(&client, &table("t"), "z").await;
        assert_eq!(client.cached_regions(), 3, "two daughters and hbase:meta");
    });
}

/// L11: ascending rows are read along, ten regions with one scan; switched off, there is one scan for each.
#[test]
fn neighbours_are_read_along() {
    run(|env| async move {
        let cluster = Cluster::start(&env, 2).await;
        let keys: Vec<String> = (10..50).map(|number| format!("k{number}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        cluster.create(&table("t"), &keys);
        let client = client(&env, &cluster);
        let walk = async |start: &str| {
            cluster.reset_counts();
            let mut row = bytes(start);
            loop {
                let found = client.locate(&table("t"), &row, false).await.unwrap();
                row = found.region.end_key.clone();
                if row.is_empty() {
                    return cluster.count("meta-scan");
                }
            }
        };
        assert_eq!(walk("").await, 5, "41 regions");
        assert_eq!(walk("").await, 0);
        client.clear_locations();
        client.set_prefetch(&table("t"), false);
        assert!(walk("k40").await >= 10);
        client.set_prefetch(&table("t"), true);
        client.clear_table(&table("t"));
        cluster.reset_counts();
        // Backwards, too.
        let mut row = Bytes::new();
        loop {
            let found = client
                .locate_at(&table("t"), &row, Position::Before, 0, false)
                .await
                .unwrap();
            row = found.region.start_key.clone();
            if row.is_empty() {
                break;
            }
        }
        assert_eq!(cluster.count("meta-scan"), 5);
    });
}

/// L13: what is cleared is asked for again, the rest is not.
#[test]
fn cleared_locations_are_looked_up_again() {
    run(|env| async move {
        let cluster = Cluster::start(&env, 2).await;
        cluster.create(&table("t"), &["m"]);
        let client = client(&env, &cluster);
        let asked = async |row: &str| {
            cluster.reset_counts();
            client
                .locate(&table("t"), &bytes(row), false)
                .await
                .unwrap();
            cluster.count("meta-scan")
        };
        let region = client
            .locate(&table("t"), &bytes("a"), false)
            .await
            .unwrap();
        asked("z").await;
        client.clear_row(&table("t"), &bytes("a"), None);
        assert_eq!((asked("z").await, asked("a").await), (0, 1));
        client.clear_row(&table("t"), &bytes("a"), Some(1));
        assert_eq!(asked("a").await, 0, "only replica 1 was to go");
        client.clear_region(&region.region);
        assert_eq!((asked("z").await, asked("a").await), (0, 1));
        client.clear_server(&cluster.servers[1]);
        assert_eq!((asked("a").await, asked("z").await), (0, 1));
        client.clear_table(&table("t"));
        asked("z").await;
        assert_eq!(cluster.count("registry"), 0, "meta's place is still known");
        client.clear_locations();
        asked("z").await;
        assert_eq!(cluster.count("registry"), 1);
    });
}

/// Who said it: the registry for meta, meta for a table, the cache afterwards.
#[test]
fn a_location_says_where_it_comes_from() {
    run(|env| async move {
        let cluster = Cluster::start(&env, 1).await;
        cluster.create(&table("t"), &[]);
        let client = client(&env, &cluster);
        let source = async |name: &TableName, reload| {
            let found = client
                .locate_with_source(name, &bytes("r"), reload, true)
                .await;
            found.unwrap().source
        };
        let meta = TableName::meta();
        let directory = Source::Directory(meta.clone());
        assert_eq!(source(&table("t"), false).await, directory);
        assert_eq!(source(&table("t"), false).await, Source::Cache);
        assert_eq!(source(&table("t"), true).await, directory);
        assert_eq!(source(&meta, false).await, Source::Cache);
        assert_eq!(source(&meta, true).await, Source::Registry);
    });
}

/// L12: with `retry = false` there is one try, and the tier above is located in that one as well.
#[test]
fn one_try_is_one_try_at_every_tier() {
    run(|env| async move {
        let cluster = Cluster::start(&env, 1).await;
        cluster.create(&table("t"), &[]);
        let client = client(&env, &cluster);
        let once = async || {
            cluster.reset_counts();
            let found = client
                .locate_with_source(&table("t"), &bytes("a"), true, false)
                .await;
            let counts = ["registry", "meta-scan"].map(|what| cluster.count(what));
            (found.map_err(|error| error.code()).map(|_| ()), counts)
        };
        let fail = |what: &str| cluster.fault(what, Fault::Fail(Error::new(Code::Io, "x")));
        fail("registry");
        assert_eq!(once().await, (Err(Code::Io), [1, 0]));
        fail("meta-scan");
        assert_eq!(once().await, (Err(Code::Io), [1, 1]));
        assert_eq!(once().await, (Ok(()), [1, 1]));
        cluster.set_state(&table("t"), "OPENING", TableState::Enabled);
        let opening = once().await;
        assert_eq!(opening, (Err(Code::NoServerForRegion), [0, 1]));
    });
}

/// L16 i: an error of the look-up's own call, whatever it is, and meta is located anew; only a server with too much to do is not.
#[test]
fn a_failed_directory_call_relocates_the_tier_above() {
    run(|env| async move {
        let cluster = Cluster::start(&env, 1).await;
        cluster.create(&table("t"), &[]);
        let client = client(&env, &cluster);
        client
            .locate(&table("t"), &bytes("a"), false)
            .await
            .unwrap();
        for (code, registry) in [
            (Code::Io, 1),
            (Code::DoNotRetryIo, 0),
            (Code::NotServingRegion, 1),
            (Code::CallQueueTooBig, 0),
            (Code::RegionTooBusy, 0),
        ] {
            cluster.reset_counts();
            cluster.fault("meta-scan", Fault::Fail(Error::new(code, "x")));
            let found = client.locate(&table("t"), &bytes("a"), true).await;
            assert_eq!(found.is_ok(), code != Code::DoNotRetryIo, "{code:?}");
            assert_eq!(cluster.count("registry"), registry, "{code:?}");
            client
                .locate(&table("t"), &bytes("a"), false)
                .await
                .unwrap();
        }
    });
}

/// L16 j, L17: when the tries are used up the last error comes, with their number.
#[test]
fn tries_end_with_the_last_error() {
    run(|env| async move {
        let cluster = Cluster::start(&env, 1).await;
        cluster.create(&table("t"), &[]);
        let client = client(&env, &cluster);
        cluster.set_state(&table("t"), "OPENING", TableState::Enabled);
        let failed = client.locate(&table("t"), &bytes("a"), false).await;
        let error = failed.unwrap_err();
        assert_eq!(error.code(), Code::NoServerForRegion);
        assert!(error.message().contains("after 10 tries"), "{error}");
        assert_eq!(cluster.count("meta-scan"), 10);
        assert_eq!(cluster.count("registry"), 1, "L16 g: the tier above stays");
    });
}

/// L17, L20: a quota's refusal is waited out at the same place.
#[test]
fn a_throttled_call_keeps_its_location() {
    run(|env| async move {
        let cluster = Cluster::start(&env, 1).await;
        cluster.create(&table("t"), &[]);
        let client = client(&env, &cluster);
        put_and_get(&client, &table("t"), "a").await;
        cluster.reset_counts();
        let text = "number of requests exceeded - wait 1ms";
        let refused = Error::new(Code::Remote, text).with_detail(cadastre_types::Detail::Remote {
            class: "org.apache.hadoop.hbase.quotas.RpcThrottlingException".to_owned(),
            do_not_retry: false,
        });
        cluster.fault("Mutate", Fault::Fail(refused));
        put_and_get(&client, &table("t"), "a").await;
        assert_eq!(cluster.count("Mutate"), 2);
        assert_eq!(cluster.count("meta-scan"), 0);
    });
}

/// L18: cancelled while it sleeps between two tries, it ends at once and leaves nothing behind.
#[test]
fn a_cancelled_sleeper_ends_at_once() {
    run(|env| async move {
        let cluster = Cluster::start(&env, 1).await;
        cluster.create(&table("t"), &[]);
        let config = ClientConfig {
            retry: RetryPolicy {
                pause_ms: 3_600_000,
                operation_timeout_ms: 86_400_000,
                ..config().retry
            },
            ..config()
        };
        let client = Client::connect(env.clone(), cluster.registry(), config).unwrap();
        cluster.set_state(&table("t"), "OPENING", TableState::Enabled);
        let (name, row) = (table("t"), bytes("a"));
        let mut sleeper = Box::pin(client.locate(&name, &row, false));
        while cluster.count("meta-scan") == 0 {
            assert!((&mut sleeper).now_or_never().is_none());
            tokio::task::yield_now().await;
        }
        drop(sleeper);
        cluster.set_state(&table("t"), "OPEN", TableState::Enabled);
        client.locate(&name, &row, false).await.unwrap();
    });
}

/// L14, and rows no table can have.
#[test]
fn senseless_rows_are_refused_without_a_request() {
    run(|env| async move {
        let cluster = Cluster::start(&env, 1).await;
        let client = client(&env, &cluster);
        let refused = client.get(&table("t"), &new_get(Bytes::new())).await;
        assert_eq!(refused.unwrap_err().message(), "Row length is 0");
        let long = Bytes::from(vec![b'r'; 40_000]);
        assert!(client.locate(&table("t"), &long, false).await.is_err());
        assert!(TableName::parse("").is_err(), "there is no empty name");
        assert!(cluster.world().counts.is_empty());
    });
}

/// The longest rows have directory keys that are longer than a row may be.
#[test]
fn the_longest_row_is_found() {
    run(|env| async move {
        let cluster = Cluster::start(&env, 1).await;
        cluster.create(&table("t"), &["m"]);
        let client = client(&env, &cluster);
        let row = "z".repeat(32_767);
        put_and_get(&client, &table("t"), &row).await;
    });
}

#[test]
fn registry_servers_that_do_not_answer_are_passed_over() {
    run(|env| async move {
        let cluster = Cluster::start(&env, 1).await;
        cluster.create(&table("t"), &[]);
        let dead = |port| cadastre_env::HostPort::new("127.0.0.1", port);
        let servers = vec![dead(1), dead(2), dead(3), cluster.address(0)];
        let registry = Registry::Rpc(servers);
        let client = Client::connect(env.clone(), registry, config()).unwrap();
        assert_eq!(client.cluster_id().await.unwrap(), "fake");
        put_and_get(&client, &table("t"), "a").await;
        let nobody = Registry::Rpc(vec![dead(1)]);
        let client = Client::connect(env.clone(), nobody, config()).unwrap();
        let error = client.cluster_id().await.unwrap_err();
        assert!(error.message().contains("127.0.0.1:1"), "{error}");
        assert!(Client::connect(env, Registry::Rpc(Vec::new()), config()).is_err());
    });
}
