//! Scans over regions, through breaks, splits and moves.

use cadastre_types::{Code, Error, Scan};
use futures::TryStreamExt;

use super::fake::{Cluster, Fault};
use super::*;
use crate::{new_scan, row::Row};

/// 30 rows over 4 regions, the size of row n being n % 7 + 1 cells.
async fn filled(env: &RealEnv) -> (Arc<Cluster>, Client<RealEnv>, Vec<String>) {
    let cluster = Cluster::start(env, 2).await;
    cluster.create(&table("t"), &["r08", "r15", "r22"]);
    let client = client(env, &cluster);
    let mut keys = Vec::new();
    for number in 0..30 {
        let key = format!("r{number:02}");
        let cells = (0..=number % 7)
            .map(|column| {
                let mut one = cell(&key, "v");
                one.qualifier = bytes(&format!("q{column}"));
                one
            })
            .collect();
        client.put(&table("t"), cells).await.unwrap();
        keys.push(key);
    }
    (cluster, client, keys)
}

fn keys_of(rows: &[Row]) -> Vec<String> {
    rows.iter()
        .map(|row| {
            let key = String::from_utf8(row.key().unwrap().to_vec()).unwrap();
            let number: usize = key[1..].parse().unwrap();
            assert_eq!(row.cells.len(), number % 7 + 1, "row {key} is whole");
            key
        })
        .collect()
}

async fn all(client: &Client<RealEnv>, scan: Scan) -> Vec<Row> {
    let scanner = client.scan(&table("t"), scan).unwrap();
    scanner.into_stream().try_collect().await.unwrap()
}

#[test]
fn rows_come_whole_and_in_order_both_ways() {
    run(|env| async move {
        let (cluster, client, mut keys) = filled(&env).await;
        assert_eq!(keys_of(&all(&client, new_scan()).await), keys);
        cluster.world().heartbeats = true;
        assert_eq!(keys_of(&all(&client, new_scan()).await), keys);
        let range = Scan {
            start_row: bytes("r05"),
            include_start_row: false,
            stop_row: bytes("r15"),
            include_stop_row: true,
            ..new_scan()
        };
        assert_eq!(keys_of(&all(&client, range).await), keys[6..=15]);
        keys.reverse();
        let reversed = Scan {
            reversed: true,
            ..new_scan()
        };
        assert_eq!(keys_of(&all(&client, reversed.clone()).await), keys);
        let range = Scan {
            start_row: bytes("r22"),
            stop_row: bytes("r08"),
            ..reversed
        };
        assert_eq!(keys_of(&all(&client, range).await), keys[7..21]);
    });
}

#[test]
fn a_limit_ends_the_scan_at_the_server() {
    run(|env| async move {
        let (cluster, client, keys) = filled(&env).await;
        for limit in [1, 5, 9, 30, 31] {
            let mut scanner = client
                .scan_limited(&table("t"), new_scan(), Some(limit))
                .unwrap();
            let mut rows = Vec::new();
            while let Some(row) = scanner.next().await.unwrap() {
                rows.push(row);
            }
            let expected = keys.len().min(limit as usize);
            assert_eq!(keys_of(&rows), keys[..expected]);
            assert!(scanner.next().await.unwrap().is_none());
        }
        cluster.reset_counts();
        let mut scanner = client.scan(&table("t"), new_scan()).unwrap();
        scanner.next().await.unwrap().unwrap();
        scanner.close().await;
        assert_eq!(cluster.count("Scan"), 3, "opened, read ahead and closed");
        let mut none = client
            .scan_limited(&table("t"), new_scan(), Some(0))
            .unwrap();
        assert!(none.next().await.unwrap().is_none());
    });
}

/// While the caller has rows of one answer the next is on its way, and no further one.
#[test]
fn the_next_answer_is_asked_for_ahead() {
    run(|env| async move {
        let (cluster, client, keys) = filled(&env).await;
        for prefetch in [true, false] {
            let config = ClientConfig {
                scan_prefetch: prefetch,
                ..config()
            };
            let client = if prefetch {
                client.clone()
            } else {
                Client::connect(env.clone(), cluster.registry(), config).unwrap()
            };
            let mut scanner = client.scan(&table("t"), new_scan()).unwrap();
            cluster.reset_counts();
            let mut rows = vec![scanner.next().await.unwrap().unwrap()];
            if prefetch {
                while cluster.count("Scan") < 2 {
                    tokio::task::yield_now().await;
                }
            }
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            assert_eq!(cluster.count("Scan"), if prefetch { 2 } else { 1 });
            while let Some(row) = scanner.next().await.unwrap() {
                rows.push(row);
            }
            assert_eq!(keys_of(&rows), keys);
        }
    });
}

/// What fails while nobody waits does not use up the caller's time: the tries begin when rows are wanted.
#[test]
fn a_failure_ahead_is_repaired_when_rows_are_wanted() {
    run(|env| async move {
        let (cluster, _, keys) = filled(&env).await;
        let config = ClientConfig {
            retry: RetryPolicy {
                operation_timeout_ms: 2_000,
                rpc_timeout_ms: 1_500,
                ..config().retry
            },
            ..config()
        };
        let client = Client::connect(env.clone(), cluster.registry(), config).unwrap();
        let mut scanner = client.scan(&table("t"), new_scan()).unwrap();
        let lost = Error::new(Code::UnknownScanner, "lease");
        let mut rows = vec![scanner.next().await.unwrap().unwrap()];
        cluster.fault("Scan", Fault::Fail(lost));
        // Longer than the operation may take.
        env.clock().sleep(Duration::from_millis(2_100)).await;
        while let Some(row) = scanner.next().await.unwrap() {
            rows.push(row);
        }
        assert_eq!(keys_of(&rows), keys);
    });
}

/// L18, INV-6: a `next` that is given up half way loses no row, doubles none, and leaves nobody waiting behind it.
#[test]
fn a_next_that_is_given_up_loses_nothing() {
    run(|env| async move {
        let (cluster, _, keys) = filled(&env).await;
        for scan_prefetch in [true, false] {
            let config = ClientConfig {
                scan_prefetch,
                ..config()
            };
            let client = Client::connect(env.clone(), cluster.registry(), config).unwrap();
            let mut scanner = client.scan(&table("t"), new_scan()).unwrap();
            let mut rows = Vec::new();
            let mut calls = 0;
            loop {
                calls += 1;
                if calls % 3 != 0 {
                    // Polled a few times, so that it is given up at different places; the first one leads the look-up.
                    let mut given_up = Box::pin(scanner.next());
                    let mut came = None;
                    for _ in 0..calls % 7 {
                        came = came.or(futures::FutureExt::now_or_never(&mut given_up));
                        tokio::task::yield_now().await;
                        if came.is_some() {
                            break;
                        }
                    }
                    drop(given_up);
                    match came {
                        Some(Ok(Some(row))) => rows.push(row),
                        Some(Ok(None)) => break,
                        Some(Err(error)) => panic!("{error}"),
                        None => {
                            // Whoever looks up next is not kept waiting.
                            client
                                .locate(&table("t"), &bytes("r00"), false)
                                .await
                                .unwrap();
                        }
                    }
                    continue;
                }
                match scanner.next().await.unwrap() {
                    Some(row) => rows.push(row),
                    None => break,
                }
            }
            assert_eq!(keys_of(&rows), keys);
        }
    });
}

/// INV-6: whatever breaks, each row comes once, whole, in order.
#[test]
fn scans_survive_lost_scanners_moves_and_splits() {
    run(|env| async move {
        let (cluster, client, keys) = filled(&env).await;
        for reversed in [false, true] {
            let scan = Scan {
                reversed,
                ..new_scan()
            };
            let mut scanner = client.scan(&table("t"), scan).unwrap();
            let mut rows = Vec::new();
            while let Some(row) = scanner.next().await.unwrap() {
                rows.push(row);
                match rows.len() {
                    2 | 12 => {
                        let lost = Error::new(Code::UnknownScanner, "lease");
                        cluster.fault("Scan", Fault::Fail(lost));
                    }
                    4 => cluster.fault("Scan", Fault::Deaf),
                    6 => {
                        let reset = Error::new(Code::ScannerReset, "x");
                        cluster.fault("Scan", Fault::Fail(reset));
                    }
                    9 => cluster.move_region(&table("t"), "r09", 1, true),
                    10 => cluster.move_region(&table("t"), "r16", 0, false),
                    17 if !reversed => cluster.split(&table("t"), "r19"),
                    _ => {}
                }
            }
            let mut expected = keys.clone();
            if reversed {
                expected.reverse();
            }
            assert_eq!(keys_of(&rows), expected);
        }
    });
}

#[test]
fn final_errors_end_a_scan() {
    run(|env| async move {
        let (cluster, client, _) = filled(&env).await;
        let missing = client
            .scan(&table("nosuch"), new_scan())
            .unwrap()
            .next()
            .await;
        assert_eq!(missing.unwrap_err().code(), Code::TableNotFound);
        let refused = Error::new(Code::DoNotRetryIo, "filter");
        cluster.fault("Scan", Fault::Fail(refused));
        let failed = client.scan(&table("t"), new_scan()).unwrap().next().await;
        assert_eq!(failed.unwrap_err().code(), Code::DoNotRetryIo);
        let long = Scan {
            start_row: Bytes::from(vec![b'r'; 40_000]),
            ..new_scan()
        };
        assert!(client.scan(&table("t"), long).is_err());
        client.ping().await.unwrap();
    });
}
