//! Many callers create, append, rename and delete while the NameNodes fail over, in good order and by `kill -9`: every operation is done exactly
//! once, or reported unknown.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use cadastre_env::Env;
use cadastre_rpc::hadoop::{ClientProtocol, ClientProtocolClient};
use cadastre_types::{Code, Error};
use cadastre_wire::hadoop::pb;
use tokio::sync::mpsc;

use crate::pair::{Losing, Pair, REST_MS, create, delete, file_id, mkdirs, rename2};

const WORKERS: usize = 16;

/// Failovers in CI; `CADASTRE_HDFS_FAILOVERS` for more.
const FAILOVERS: u32 = 6;

#[derive(Default)]
struct Counts {
    done: AtomicU64,
    unknown: AtomicU64,
    longest_ms: AtomicU64,
    wrong: Mutex<Vec<String>>,
}

struct Worker {
    pair: Pair,
    client: ClientProtocolClient,
    name: String,
    counts: Arc<Counts>,
    rest_ms: u64,
}

/// An operation that did not end well: unknown, so that its file is left alone, or wrong.
struct Stop;

impl Worker {
    /// Takes the outcome of an operation that must succeed once.
    fn once<T>(&self, what: &str, outcome: Result<T, Error>) -> Result<T, Stop> {
        match outcome {
            Ok(value) => {
                self.counts.done.fetch_add(1, Ordering::Relaxed);
                Ok(value)
            }
            Err(error) if error.code() == Code::OutcomeUnknown => {
                self.counts.unknown.fetch_add(1, Ordering::Relaxed);
                Err(Stop)
            }
            Err(error) => {
                let text = format!("{} {what}: {error}", self.name);
                self.counts.wrong.lock().unwrap().push(text);
                Err(Stop)
            }
        }
    }

    fn wrong(&self, text: String) -> Stop {
        self.counts.wrong.lock().unwrap().push(text);
        Stop
    }

    async fn complete(&self, src: &str, file_id: u64) -> Result<(), Stop> {
        let request = pb::CompleteRequestProto {
            src: src.to_owned(),
            client_name: self.name.clone(),
            last: None,
            file_id: Some(file_id),
        };
        let completed = self.once("complete", self.client.complete(request).await)?;
        if !completed.result {
            return Err(self.wrong(format!("{src}: an empty file cannot be completed")));
        }
        Ok(())
    }

    /// The life of one file.
    async fn file(&self, number: u64) -> Result<(), Stop> {
        let from = format!("/hammer/{}/{number}", self.name);
        let to = format!("{from}.renamed");
        let created = self.client.create(create(&from, &self.name)).await;
        let status = self.once("create", created)?.fs.unwrap();
        self.complete(&from, status.file_id()).await?;
        // Reopened and closed again: the file has an owner only once.
        let append = pb::AppendRequestProto {
            src: from.clone(),
            client_name: self.name.clone(),
            flag: None,
        };
        self.once("append", self.client.append(append).await)?;
        self.complete(&from, status.file_id()).await?;
        let renamed = self.client.rename2(rename2(&from, &to)).await;
        self.once("rename2", renamed)?;
        let found = file_id(&self.client, &to).await;
        if found != Some(status.file_id()) {
            return Err(self.wrong(format!("{to}: it is {found:?}, not {status:?}")));
        }
        let deleted = self.once("delete", self.client.delete(delete(&to)).await)?;
        if !deleted.result {
            return Err(self.wrong(format!("{to}: deleted by somebody else, or twice")));
        }
        Ok(())
    }

    async fn work(self, stop: Arc<AtomicBool>) {
        let mut number = 0;
        while !stop.load(Ordering::Relaxed) {
            let began = self.pair.now();
            // What went wrong is counted; the next file is another one.
            let _ = self.file(number).await;
            let took = (self.pair.now() - began).as_millis() as u64;
            self.counts.longest_ms.fetch_max(took, Ordering::Relaxed);
            number += 1;
            self.pair.sleep(self.rest_ms).await;
        }
    }
}

/// Every so many-th answer is lost besides: a kill seldom hits the moment between doing and answering.
const LOST_ONE_IN: u64 = 50;

/// Each caller is a client of its own, or they share one, in turn.
async fn workers(
    pair: &Pair,
    counts: &Arc<Counts>,
    (lost_one_in, rest_ms): (u64, u64),
) -> Vec<Worker> {
    let conf = pair.conf();
    let engine = || Arc::new(Losing(pair.engine(5000), lost_one_in));
    let shared = pair.client(&conf, engine(), None).await;
    let mut workers = Vec::new();
    for at in 0..WORKERS {
        let client = if at % 2 == 0 {
            shared.clone()
        } else {
            pair.client(&conf, engine(), None).await
        };
        let name = format!("w{at}");
        client
            .mkdirs(mkdirs(&format!("/hammer/{name}")))
            .await
            .unwrap();
        workers.push(Worker {
            pair: pair.clone(),
            client,
            name,
            counts: Arc::clone(counts),
            rest_ms,
        });
    }
    workers
}

pub(crate) async fn run(pair: Pair) {
    let failovers = std::env::var("CADASTRE_HDFS_FAILOVERS");
    let failovers = failovers.map_or(FAILOVERS, |text| text.parse().unwrap());
    let client = pair.client(&pair.conf(), pair.engine(10_000), None).await;
    client.delete(delete("/hammer")).await.unwrap();
    let counts: Arc<Counts> = Arc::default();
    let stop: Arc<AtomicBool> = Arc::default();
    let (ended, mut ends) = mpsc::channel::<()>(1);
    // Beside Hadoop's own client, to compare how long files take.
    let compared = std::env::var_os("CADASTRE_HDFS_YARDSTICK").is_some();
    // Hadoop's own loses none and does not rest.
    let pace = if compared {
        (u64::MAX, 0)
    } else {
        (LOST_ONE_IN, REST_MS)
    };
    for worker in workers(&pair, &counts, pace).await {
        let (stop, ended) = (Arc::clone(&stop), ended.clone());
        pair.env.spawn("worker", async move {
            worker.work(stop).await;
            drop(ended);
        });
    }
    drop(ended);
    let yardstick = compared.then(|| pair.yardstick());
    for round in 0..failovers {
        pair.sleep(300).await;
        let began = pair.now();
        let how = if round % 2 == 0 {
            pair.fail_over().await;
            "graceful"
        } else {
            let active = pair.active().await;
            pair.script("kill", active).await;
            pair.make_active(1 - active).await;
            pair.restart(active).await;
            "kill -9"
        };
        let took = (pair.now() - began).as_millis();
        let done = counts.done.load(Ordering::Relaxed);
        let wrong = counts.wrong.lock().unwrap().len();
        pair.tell(&format!(
            "failover {round}, {how}: {took} ms, {done} operations so far, {wrong} wrong"
        ));
    }
    pair.sleep(300).await;
    stop.store(true, Ordering::Relaxed);
    if let Some(yardstick) = yardstick {
        pair.end_yardstick(yardstick).await;
    }
    // Ends when the last worker has dropped its end.
    assert!(ends.recv().await.is_none());
    let unknown = counts.unknown.load(Ordering::Relaxed);
    let wrong = counts.wrong.lock().unwrap().clone();
    pair.tell(&format!(
        "{failovers} failovers, {} operations done, {unknown} unknown, {} wrong, longest file {} ms",
        counts.done.load(Ordering::Relaxed),
        wrong.len(),
        counts.longest_ms.load(Ordering::Relaxed)
    ));
    assert!(wrong.is_empty(), "{wrong:#?}");
    // Nothing is left but what was given up as unknown.
    let summary = client.get_content_summary(pb::GetContentSummaryRequestProto {
        path: "/hammer".to_owned(),
    });
    let left = summary.await.unwrap().summary.file_count;
    assert!(left <= unknown, "{left} files left, {unknown} unknown");
}
