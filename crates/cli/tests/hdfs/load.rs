//! Writers, while both NameNodes are killed in turn: no acknowledged write is lost, no region is fenced by its own server, and a stall ends soon
//! after a NameNode is active again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cadastre_client::Client;
use cadastre_env::{Env, Net, RealEnv};
use cadastre_types::TableName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

use crate::pair::{Pair, REST_MS};
use crate::server::{Server, cell, clear, table, value};

/// Kills in CI; `CADASTRE_HDFS_FAILOVERS` for more.
const FAILOVERS: u32 = 3;

const WRITERS: u64 = 8;

/// A write may wait so much longer than there is no active NameNode. Pauses of the proxy are up to 3 s, a call's time-out 10 s.
const STALL_MAX: Duration = Duration::from_secs(20);

#[derive(Default)]
struct Counts {
    /// The last number of each writer that was acknowledged.
    acknowledged: Mutex<Vec<u64>>,
    failed: Mutex<Vec<String>>,
    longest_ms: AtomicU64,
}

async fn write(
    pair: Pair,
    client: Client<RealEnv>,
    table: TableName,
    writer: u64,
    counts: Arc<Counts>,
    stop: Arc<AtomicBool>,
) {
    let mut number = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        let began = pair.now();
        // One row for its last number, one for each number.
        let (last, own) = (format!("{writer}-last"), format!("{writer}-{number:08}"));
        let text = number.to_string();
        for row in [&own, &last] {
            if let Err(error) = client.put(&table, vec![cell(row, &text)]).await {
                let text = format!("{row} {number}: {error}");
                counts.failed.lock().unwrap().push(text);
                return;
            }
        }
        counts.acknowledged.lock().unwrap()[writer as usize] = number;
        let took = (pair.now() - began).as_millis() as u64;
        counts.longest_ms.fetch_max(took, Ordering::Relaxed);
        pair.sleep(REST_MS).await;
    }
}

/// A page of the admin port.
async fn metrics(pair: &Pair, server: &Server) -> String {
    let mut stream = pair
        .env
        .net()
        .connect(&server.address("admin"))
        .await
        .unwrap();
    let request = b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).await.unwrap();
    page
}

/// A counter's value; none yet is 0.
fn counter(page: &str, name: &str) -> u64 {
    let lines = page.lines().filter_map(|line| line.split_once(' '));
    let mut found = lines.filter(|(of, _)| *of == name);
    found.next().map_or(0, |(_, value)| value.parse().unwrap())
}

/// Kills the active NameNode and makes the other one active; gives how long there was none.
pub(crate) async fn kill_one(pair: &Pair) -> Duration {
    let active = pair.active().await;
    let began = pair.now();
    pair.script("kill", active).await;
    pair.make_active(1 - active).await;
    let without = pair.now() - began;
    pair.restart(active).await;
    without
}

pub(crate) async fn run(pair: Pair) {
    clear(&pair, "load").await;
    let failovers = std::env::var("CADASTRE_HDFS_FAILOVERS");
    let failovers = failovers.map_or(FAILOVERS, |text| text.parse().unwrap());
    let server = Server::start(&pair, "load").await;
    let client = server.client(&pair);
    let descriptor = table("load");
    let name = descriptor.name.clone();
    let splits = vec![Bytes::from_static(b"3"), Bytes::from_static(b"6")];
    client
        .admin()
        .create_table(&descriptor, splits)
        .await
        .unwrap();
    let counts: Arc<Counts> = Arc::default();
    *counts.acknowledged.lock().unwrap() = vec![0; WRITERS as usize];
    let stop: Arc<AtomicBool> = Arc::default();
    let (ended, mut ends) = mpsc::channel::<()>(1);
    for writer in 0..WRITERS {
        let working = write(
            pair.clone(),
            client.clone(),
            name.clone(),
            writer,
            Arc::clone(&counts),
            Arc::clone(&stop),
        );
        let ended = ended.clone();
        pair.env.spawn("writer", async move {
            working.await;
            drop(ended);
        });
    }
    drop(ended);
    for round in 0..failovers {
        pair.sleep(500).await;
        if round % 3 == 2 {
            client.admin().flush_table(&name).await.unwrap();
        }
        counts.longest_ms.store(0, Ordering::Relaxed);
        let without = kill_one(&pair).await;
        pair.sleep(500).await;
        let stall = Duration::from_millis(counts.longest_ms.load(Ordering::Relaxed));
        let written: u64 = counts.acknowledged.lock().unwrap().iter().sum();
        pair.tell(&format!(
            "kill {round}: {} ms without an active NameNode, longest write {} ms, {written} so far",
            without.as_millis(),
            stall.as_millis()
        ));
        assert!(stall < without + STALL_MAX, "a stall of {stall:?}");
    }
    stop.store(true, Ordering::Relaxed);
    // Ends when the last writer has dropped its end.
    assert!(ends.recv().await.is_none());
    let failed = counts.failed.lock().unwrap().clone();
    assert!(failed.is_empty(), "{failed:#?}");
    let page = metrics(&pair, &server).await;
    assert_eq!(
        counter(&page, "cadastre_store_object_logs_ended"),
        0,
        "a region was fenced"
    );
    let found = counter(&page, "cadastre_hdfs_renames_found_done");
    let acknowledged = counts.acknowledged.lock().unwrap().clone();
    let written: u64 = acknowledged.iter().sum();
    pair.tell(&format!(
        "{failovers} kills, {written} writes of two rows, {found} renames whose answer was lost"
    ));
    assert!(
        written > u64::from(failovers),
        "hardly anything was written"
    );
    check(&client, &name, &acknowledged).await;
    // The machine is gone: another server has them, too.
    client.close().await;
    drop(server);
    let server = Server::start(&pair, "load").await;
    let client = server.client(&pair);
    check(&client, &name, &acknowledged).await;
    client.close().await;
}

async fn check(client: &Client<RealEnv>, table: &TableName, acknowledged: &[u64]) {
    for (writer, last) in acknowledged.iter().enumerate() {
        let there = value(client, table, &format!("{writer}-last"))
            .await
            .unwrap();
        let there: u64 = std::str::from_utf8(&there).unwrap().parse().unwrap();
        // One more may have been written and not acknowledged.
        assert!(
            (*last..=*last + 1).contains(&there),
            "{writer}: {there}, not {last}"
        );
        for number in 1..=*last {
            let row = format!("{writer}-{number:08}");
            let there = value(client, table, &row).await;
            assert_eq!(there.unwrap(), number.to_string(), "{row}");
        }
    }
}
