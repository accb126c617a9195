//! A server process on HDFS, and what becomes of its tables when it is gone.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use cadastre_client::{Client, ClientConfig, Registry, new_get};
use cadastre_env::{HostPort, RealEnv};
use cadastre_rpc::hadoop::ClientProtocol;
use cadastre_types::{Cell, FamilyDescriptor, TableDescriptor, TableName};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::pair::{NS, Pair, delete};

/// A second server is noticed, and a first one gone, within this time.
const WAIT: Duration = Duration::from_secs(60);

/// A running server; it is killed when this is dropped, and its data directory goes.
pub(crate) struct Server {
    process: Child,
    ready: Value,
    _data: tempfile::TempDir,
}

/// Ports that others know before; 0 for any.
#[derive(Clone, Copy, Default)]
pub(crate) struct Ports {
    pub(crate) zookeeper: u16,
    pub(crate) master: u16,
}

/// A server that is not ready yet; it is killed when this is dropped, too.
pub(crate) struct Starting {
    server: Server,
    lines: mpsc::UnboundedReceiver<String>,
}

impl Starting {
    /// With `standby`, it waits for another one's end.
    pub(crate) fn launch(pair: &Pair, folder: &str, ports: Ports, standby: bool) -> Self {
        let data = tempfile::tempdir().unwrap();
        let log = pair.conf_dir().join(format!("../server-{folder}.log"));
        let log = std::fs::File::options().create(true).append(true).open(log);
        let mut command = Command::new(env!("CARGO_BIN_EXE_cadastre"));
        // This test's own variables are no settings of a server.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CADASTRE_") {
                command.env_remove(name);
            }
        }
        let mut process = command
            .args([
                "start", "--json", "--memory", "128MiB", "--cores", "1", "--data",
            ])
            .arg(data.path().join("data"))
            .args(["--store", &format!("hdfs://{NS}/server/{folder}")])
            .args(["--hdfs-user", "root", "--hdfs-conf-dir"])
            .arg(pair.conf_dir())
            .args(["--zookeeper-port", &ports.zookeeper.to_string()])
            .args(["--master-port", &ports.master.to_string()])
            .args(["--region-server-port", "0", "--admin-port", "0"])
            .args(["--standby", &standby.to_string()])
            .stdout(Stdio::piped())
            .stderr(log.unwrap())
            .spawn()
            .unwrap();
        let out = process.stdout.take().unwrap();
        let (say, lines) = mpsc::unbounded_channel();
        // The clients on this thread go on meanwhile.
        std::thread::Builder::new()
            .spawn(move || {
                for line in BufReader::new(out).lines() {
                    let _ = say.send(line.unwrap());
                }
            })
            .unwrap();
        Self {
            server: Server {
                process,
                ready: Value::Null,
                _data: data,
            },
            lines,
        }
    }

    /// The next thing it says.
    pub(crate) async fn event(&mut self) -> Value {
        let line = self.lines.recv().await.expect("it ended");
        serde_json::from_str(&line).unwrap()
    }

    pub(crate) async fn ready(mut self) -> Server {
        let ready = self.event().await;
        assert_eq!(ready["event"], "ready", "{ready}");
        self.server.ready = ready;
        self.server
    }
}

impl Server {
    /// Starts one on a machine of its own, and waits until it is ready.
    pub(crate) async fn start(pair: &Pair, folder: &str) -> Self {
        Self::start_at(pair, folder, Ports::default()).await
    }

    /// The same on these ports.
    pub(crate) async fn start_at(pair: &Pair, folder: &str, ports: Ports) -> Self {
        Starting::launch(pair, folder, ports, false).ready().await
    }

    pub(crate) fn address(&self, of: &str) -> HostPort {
        HostPort::parse(self.ready[of].as_str().unwrap()).unwrap()
    }

    pub(crate) fn client(&self, pair: &Pair) -> Client<RealEnv> {
        let registry = Registry::Rpc(vec![self.address("master")]);
        Client::connect(pair.env.clone(), registry, ClientConfig::default()).unwrap()
    }

    /// Waits for its end by itself.
    async fn ends(&mut self, pair: &Pair) {
        let began = pair.now();
        while self.process.try_wait().unwrap().is_none() {
            assert!(pair.now() - began < WAIT, "it does not end");
            pair.sleep(50).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // As a machine that is gone.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// No store at this place.
pub(crate) async fn clear(pair: &Pair, folder: &str) {
    let client = pair.client(&pair.conf(), pair.engine(10_000), None).await;
    client
        .delete(delete(&format!("/server/{folder}")))
        .await
        .unwrap();
}

pub(crate) fn table(name: &str) -> TableDescriptor {
    TableDescriptor::new(TableName::parse(name).unwrap()).with_family(FamilyDescriptor::new("f"))
}

pub(crate) fn cell(row: &str, value: &str) -> Cell {
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    Cell::put(bytes(row), bytes("f"), bytes("q"), i64::MAX, bytes(value))
}

pub(crate) async fn value(client: &Client<RealEnv>, table: &TableName, row: &str) -> Option<Bytes> {
    let get = new_get(Bytes::copy_from_slice(row.as_bytes()));
    let row = client.get(table, &get).await.unwrap();
    row.cells.first().map(|cell| cell.value.clone())
}

/// Killed, its data directory gone: another server on another machine has every acknowledged write.
pub(crate) async fn lost_machine(pair: Pair) {
    clear(&pair, "lost").await;
    let table = table("readings");
    let name = table.name.clone();
    for round in 0..3 {
        let server = Server::start(&pair, "lost").await;
        let client = server.client(&pair);
        if round == 0 {
            client
                .admin()
                .create_table(&table, vec![Bytes::from_static(b"m")])
                .await
                .unwrap();
        }
        for earlier in 0..round * 10 {
            for row in ["a", "z"] {
                let row = format!("{row}{earlier}");
                assert_eq!(value(&client, &name, &row).await.unwrap(), row);
            }
        }
        for at in round * 10..(round + 1) * 10 {
            for row in ["a", "z"] {
                let row = format!("{row}{at}");
                client.put(&name, vec![cell(&row, &row)]).await.unwrap();
            }
        }
        client.close().await;
        drop(server);
    }
}

/// A second server takes the tables over while the first one still runs; the first one ends itself.
pub(crate) async fn taken_over(pair: Pair) {
    clear(&pair, "taken").await;
    let table = table("readings");
    let name = table.name.clone();
    let mut first = Server::start(&pair, "taken").await;
    let client = first.client(&pair);
    client
        .admin()
        .create_table(&table, Vec::new())
        .await
        .unwrap();
    client.put(&name, vec![cell("r", "1")]).await.unwrap();
    let second = Server::start(&pair, "taken").await;
    let other = second.client(&pair);
    assert_eq!(value(&other, &name, "r").await.unwrap(), "1");
    first.ends(&pair).await;
    other.put(&name, vec![cell("r", "2")]).await.unwrap();
    assert_eq!(value(&other, &name, "r").await.unwrap(), "2");
    other.close().await;
    client.close().await;
}
