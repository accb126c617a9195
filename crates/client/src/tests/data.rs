//! Gets, mutations and batches through failures.

use std::collections::BTreeSet;

use cadastre_types::{Code, CompareOp, Condition, Error, Mutation, MutationKind, TimeRange};

use super::fake::{Cluster, Fault};
use super::*;
use crate::{Action, data::new_get, data::new_mutation};

fn put(row: &str, value: &str) -> Action {
    Action::Mutate(Mutation {
        cells: vec![cell(row, value)],
        ..new_mutation(MutationKind::Put, bytes(row))
    })
}

fn increment(row: &str) -> Action {
    let mut delta = cell(row, "");
    delta.value = Bytes::copy_from_slice(&1_i64.to_be_bytes());
    Action::Mutate(Mutation {
        cells: vec![delta],
        ..new_mutation(MutationKind::Increment, bytes(row))
    })
}

/// INV-5: one nonce over all tries.
#[test]
fn an_increment_whose_answers_are_lost_counts_once() {
    run(|env| async move {
        let cluster = Cluster::start(&env, 1).await;
        cluster.create(&table("t"), &[]);
        let client = client(&env, &cluster);
        cluster.fault("Mutate", Fault::Deaf);
        cluster.fault("Mutate", Fault::Deaf);
        let name = table("t");
        let add = || client.increment(&name, bytes("r"), bytes("f"), bytes("q"), 5);
        assert_eq!(add().await.unwrap(), 5);
        assert_eq!(cluster.count("Mutate"), 3);
        assert_eq!(add().await.unwrap(), 10);
    });
}

/// INV-5: a condition may not hold any more after a first success that was not heard.
#[test]
fn a_conditional_write_of_unknown_outcome_is_not_repeated() {
    run(|env| async move {
        let cluster = Cluster::start(&env, 1).await;
        cluster.create(&table("t"), &[]);
        let client = client(&env, &cluster);
        let condition = |row: &str| Condition {
            row: bytes(row),
            family: bytes("f"),
            qualifier: bytes("q"),
            op: CompareOp::Equal,
            comparator: None,
            filter: None,
            time_range: TimeRange::ALL,
            query_metrics: false,
        };
        let mutation = |row: &str| Mutation {
            cells: vec![cell(row, "v")],
            ..new_mutation(MutationKind::Put, bytes(row))
        };
        cluster.fault("Mutate", Fault::Deaf);
        let lost = client
            .check_and_mutate(&table("t"), &condition("r"), mutation("r"))
            .await;
        assert_eq!(lost.unwrap_err().code(), Code::OutcomeUnknown);
        assert_eq!(cluster.count("Mutate"), 1);
        let again = client
            .check_and_mutate(&table("t"), &condition("r"), mutation("r"))
            .await;
        assert!(!again.unwrap().applied, "the first one was applied");
        // What was refused before it began is tried again.
        let busy = Error::new(Code::RegionTooBusy, "wait");
        cluster.fault("Mutate", Fault::Fail(busy));
        let applied = client
            .check_and_mutate(&table("t"), &condition("s"), mutation("s"))
            .await;
        assert!(applied.unwrap().applied);
        let other = client
            .check_and_mutate(&table("t"), &condition("x"), mutation("y"))
            .await;
        assert_eq!(other.unwrap_err().message(), "Action's getRow must match");
    });
}

#[test]
fn final_errors_come_at_once() {
    run(|env| async move {
        let cluster = Cluster::start(&env, 1).await;
        cluster.create(&table("t"), &[]);
        let client = client(&env, &cluster);
        let mut wrong = cell("r", "v");
        wrong.family = bytes("nosuch");
        let error = client.put(&table("t"), vec![wrong]).await.unwrap_err();
        assert_eq!(error.code(), Code::NoSuchColumnFamily);
        assert_eq!(cluster.count("Mutate"), 1);
        for _ in 0..10 {
            let busy = Error::new(Code::RegionTooBusy, "wait");
            cluster.fault("Mutate", Fault::Fail(busy));
        }
        let error = client
            .put(&table("t"), vec![cell("r", "v")])
            .await
            .unwrap_err();
        assert_eq!(error.code(), Code::RegionTooBusy);
        assert!(error.message().contains("after 10 tries"), "{error}");
    });
}

#[test]
fn a_batch_is_grouped_by_server_and_answered_in_order() {
    run(|env| async move {
        let cluster = Cluster::start(&env, 2).await;
        cluster.create(&table("t"), &["b", "c", "d", "e"]);
        let client = client(&env, &cluster);
        let rows: Vec<String> = (0..200)
            .map(|number| format!("{}{number}", char::from(b'a' + (number % 6) as u8)))
            .collect();
        let puts = rows.iter().map(|row| put(row, row)).collect();
        for answer in client.batch(&table("t"), puts).await {
            answer.unwrap();
        }
        assert_eq!(cluster.count("Multi"), 2, "one per server");
        let gets = rows
            .iter()
            .map(|row| Action::Get(new_get(bytes(row))))
            .collect();
        let answers = client.batch(&table("t"), gets).await;
        for (row, answer) in rows.iter().zip(answers) {
            assert_eq!(answer.unwrap().value(b"f", b"q"), Some(&bytes(row)));
        }
    });
}

/// L10, L11: cold rows of many regions are looked up at the same time, but no region twice.
#[test]
fn a_cold_batch_looks_up_each_region_once() {
    run(|env| async move {
        let cluster = Cluster::start(&env, 2).await;
        let keys: Vec<String> = (100..164).map(|number| format!("k{number}")).collect();
        let splits: Vec<&str> = keys.iter().map(String::as_str).collect();
        cluster.create(&table("t"), &splits);
        let config = ClientConfig {
            prefetch_regions: 0,
            ..config()
        };
        let client = Client::connect(env, cluster.registry(), config).unwrap();
        let puts = keys
            .iter()
            .flat_map(|key| ["a", "b", "c"].map(|end| put(&format!("{key}{end}"), "v")))
            .collect();
        for answer in client.batch(&table("t"), puts).await {
            answer.unwrap();
        }
        assert!(
            cluster.count("meta-scan") <= 64,
            "one for each region at most"
        );
        assert_eq!(cluster.count("registry"), 1);
        let together = cluster.world().most_at_once;
        assert!((2..=8).contains(&together), "{together} at the same time");
        assert_eq!(cluster.count("Multi"), 2);
    });
}

/// A cache that holds fewer regions than a batch needs makes it slow, not endless.
#[test]
fn a_batch_over_more_regions_than_are_cached_ends() {
    run(|env| async move {
        let cluster = Cluster::start(&env, 1).await;
        cluster.create(&table("t"), &["b", "c", "d", "e", "f"]);
        let config = ClientConfig {
            cached_regions_max: 2,
            ..config()
        };
        let client = Client::connect(env, cluster.registry(), config).unwrap();
        let puts = ["a", "b", "c", "d", "e", "f"].map(|row| put(row, "v"));
        for answer in client.batch(&table("t"), puts.to_vec()).await {
            answer.unwrap();
        }
        assert_eq!(cluster.world().rows.len(), 6);
    });
}

#[test]
fn each_action_of_a_batch_has_its_own_fate() {
    run(|env| async move {
        let cluster = Cluster::start(&env, 2).await;
        cluster.create(&table("t"), &["m"]);
        let client = client(&env, &cluster);
        client.put(&table("t"), vec![cell("a", "0")]).await.unwrap();
        client.put(&table("t"), vec![cell("z", "0")]).await.unwrap();
        // One region has moved without a word, and the first answer of the batch is lost.
        cluster.move_region(&table("t"), "a", 1, false);
        cluster.fault("Multi", Fault::Deaf);
        let mut wrong = cell("y", "v");
        wrong.family = bytes("nosuch");
        let wrong = Action::Mutate(Mutation {
            cells: vec![wrong],
            ..new_mutation(MutationKind::Put, bytes("y"))
        });
        let actions = vec![
            put("a", "1"),
            wrong,
            increment("counter-a"),
            increment("z-counter"),
            Action::Get(new_get(Bytes::new())),
            put("z", "1"),
        ];
        let answers = client.batch(&table("t"), actions).await;
        let outcome: Vec<_> = answers
            .iter()
            .map(|answer| answer.as_ref().map_err(Error::code).map(|_| ()))
            .collect();
        assert_eq!(
            outcome,
            [
                Ok(()),
                Err(Code::NoSuchColumnFamily),
                Ok(()),
                Ok(()),
                Err(Code::DoNotRetryIo),
                Ok(())
            ]
        );
        for counter in [2, 3] {
            let row = answers[counter].as_ref().unwrap();
            let value = row.value(b"f", b"q").unwrap();
            assert_eq!(value[..], 1_i64.to_be_bytes(), "counted once");
        }
        let rows: BTreeSet<_> = cluster
            .world()
            .rows
            .keys()
            .map(|(_, row)| row.clone())
            .collect();
        let expected = ["a", "z", "counter-a", "z-counter"].map(bytes);
        assert_eq!(rows, BTreeSet::from(expected));
    });
}

/// A server may answer a part of a large batch at a time; that is progress, however often.
#[test]
fn a_batch_that_is_answered_in_parts_comes_to_its_end() {
    run(|env| async move {
        let cluster = Cluster::start(&env, 1).await;
        cluster.create(&table("t"), &[]);
        let client = client(&env, &cluster);
        cluster.world().actions_max = 2;
        let puts = (0..60).map(|row| put(&row.to_string(), "v")).collect();
        for answer in client.batch(&table("t"), puts).await {
            answer.unwrap();
        }
        assert_eq!(cluster.count("Multi"), 30);
        assert_eq!(cluster.world().rows.len(), 60);
    });
}

#[test]
fn a_batch_on_a_missing_table_asks_once() {
    run(|env| async move {
        let cluster = Cluster::start(&env, 1).await;
        let client = client(&env, &cluster);
        let puts = (0..50).map(|row| put(&row.to_string(), "v")).collect();
        for answer in client.batch(&table("nosuch"), puts).await {
            assert_eq!(answer.unwrap_err().code(), Code::TableNotFound);
        }
        assert_eq!(cluster.count("meta-scan"), 1);
        assert!(client.batch(&table("t"), Vec::new()).await.is_empty());
    });
}

#[test]
fn deletes_and_appends_of_one_row() {
    run(|env| async move {
        let cluster = Cluster::start(&env, 1).await;
        cluster.create(&table("t"), &[]);
        let client = client(&env, &cluster);
        let name = table("t");
        let append = |value: &str| {
            let (row, family, qualifier) = (bytes("r"), bytes("f"), bytes("q"));
            client.append(&name, row, family, qualifier, bytes(value))
        };
        assert_eq!(append("a").await.unwrap(), bytes("a"));
        // Lost and repeated with the same nonce: once (INV-5).
        cluster.fault("Mutate", Fault::Deaf);
        assert_eq!(append("b").await.unwrap(), bytes("ab"));
        assert_eq!(append("c").await.unwrap(), bytes("abc"));
        client.delete(&name, bytes("r"), Vec::new()).await.unwrap();
        assert!(
            client
                .get(&name, &new_get(bytes("r")))
                .await
                .unwrap()
                .is_empty()
        );
        let empty = client.delete(&name, Bytes::new(), Vec::new()).await;
        assert_eq!(empty.unwrap_err().message(), "Row length is 0");
    });
}

#[test]
fn row_mutations_apply_together() {
    run(|env| async move {
        let cluster = Cluster::start(&env, 1).await;
        cluster.create(&table("t"), &[]);
        let client = client(&env, &cluster);
        let mutation = |qualifier: &str| {
            let mut one = cell("r", "v");
            one.qualifier = bytes(qualifier);
            Mutation {
                cells: vec![one],
                ..new_mutation(MutationKind::Put, bytes("r"))
            }
        };
        let done = client
            .mutate_row(&table("t"), None, vec![mutation("a"), mutation("b")])
            .await
            .unwrap();
        assert!(done.applied);
        let row = client.get(&table("t"), &new_get(bytes("r"))).await.unwrap();
        assert_eq!(row.cells.len(), 2);
        assert!(
            client
                .mutate_row(&table("t"), None, Vec::new())
                .await
                .is_err()
        );
    });
}
