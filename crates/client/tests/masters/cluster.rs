//! The masters: where they are, which is active, and how they are killed.

use std::path::PathBuf;
use std::time::Duration;

use cadastre_client::{Client, ClientConfig, ClusterStatus, Registry, RetryPolicy};
use cadastre_env::{Clock, Env, HostPort, RealEnv, RealEnvConfig};

/// Longer than all of it takes.
const LONG: Duration = Duration::from_secs(600);

#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) env: RealEnv,
    /// In the names of this run's tables.
    pub(crate) run: u64,
    dir: PathBuf,
    /// Of ZooKeeper, the two masters and the region server.
    ports: [u16; 4],
}

impl Cluster {
    pub(crate) fn run<F: Future<Output = ()> + Send + 'static>(
        test: impl FnOnce(Self) -> F + Send + 'static,
    ) {
        let dir: PathBuf = std::env::var("CADASTRE_MASTERS").unwrap().into();
        let ports = std::fs::read_to_string(dir.join("ports")).unwrap();
        let ports: Vec<u16> = (ports.split_whitespace())
            .map(|port| port.parse().unwrap())
            .collect();
        let data = tempfile::tempdir().unwrap();
        let env = RealEnv::start(&RealEnvConfig {
            data_dir: data.path().to_owned(),
            cores: 1,
            background_threads: 1,
        })
        .unwrap();
        let cluster = Self {
            env: env.clone(),
            run: env.clock().wall() % 1_000_000,
            dir,
            ports: ports.try_into().unwrap(),
        };
        let clock = env.clock().clone();
        let ended = env.block_on(async move { clock.timeout(LONG, test(cluster)).await });
        env.shutdown();
        assert!(matches!(ended, Some(Ok(()))), "failed, or took too long");
    }

    pub(crate) fn now(&self) -> Duration {
        self.env.clock().mono()
    }

    #[allow(clippy::print_stdout, reason = "what a long test is doing")]
    pub(crate) fn tell(&self, text: &str) {
        println!("{text}");
    }

    pub(crate) async fn sleep(&self, ms: u64) {
        self.env.clock().sleep(Duration::from_millis(ms)).await;
    }

    /// Both ways of finding the active master; the second one asks the masters alone, of which one is dead most of the time.
    pub(crate) fn registries(&self) -> [(&'static str, Registry); 2] {
        let at = |port: u16| HostPort::new("127.0.0.1", port);
        let [zookeeper, first, second, _] = self.ports;
        [
            (
                "zookeeper",
                Registry::ZooKeeper(vec![at(zookeeper)], "/hbase".to_owned()),
            ),
            ("rpc", Registry::Rpc(vec![at(first), at(second)])),
        ]
    }

    pub(crate) fn client(&self, registry: Registry) -> Client<RealEnv> {
        let config = ClientConfig {
            retry: RetryPolicy {
                tries_max: 100,
                pause_ms: 20,
                operation_timeout_ms: 40_000,
                rpc_timeout_ms: 20_000,
                ..RetryPolicy::default()
            },
            ..ClientConfig::default()
        };
        Client::connect(self.env.clone(), registry, config).unwrap()
    }

    async fn status(&self, client: &Client<RealEnv>) -> ClusterStatus {
        client.admin().cluster_status().await.unwrap()
    }

    /// Which master is active, 0 or 1.
    pub(crate) async fn active(&self, client: &Client<RealEnv>) -> usize {
        let port = self.status(client).await.master.unwrap().port;
        let masters = &self.ports[1..3];
        masters.iter().position(|of| *of == port).unwrap()
    }

    /// Masters that stand by.
    pub(crate) async fn backups(&self, client: &Client<RealEnv>) -> usize {
        self.status(client).await.backup_masters.len()
    }

    /// One of the commands of tests/masters/run.sh.
    pub(crate) async fn script(&self, command: &str, master: usize) {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/masters/run.sh");
        let mut child = std::process::Command::new("bash")
            .args([script, command])
            .arg(&self.dir)
            .arg(master.to_string())
            .spawn()
            .unwrap();
        // The callers on this thread go on meanwhile.
        loop {
            match child.try_wait().unwrap() {
                Some(status) => break assert!(status.success(), "{command} {master}"),
                None => self.sleep(10).await,
            }
        }
    }
}
