//! How a command finds its cluster.

use std::time::Duration;

use cadastre_client::{Client, ClientConfig, Registry, RetryPolicy, ZNODE_PARENT_DEFAULT};
use cadastre_env::{Env, HostPort};
use cadastre_types::{Code, Error, Result};
use clap::Args;

/// Time for the first answer of the registry: a cluster that is not there is said to be so soon.
const REACH_TIMEOUT: Duration = Duration::from_secs(3);

/// Where the cluster is, and how its answers are shown. Part of each command.
#[derive(Debug, Clone, Args)]
pub struct ConnectArgs {
    /// ZooKeeper's servers
    #[arg(
        long,
        value_name = "HOST:PORT,…",
        value_delimiter = ',',
        value_parser = host_port,
        default_value = "127.0.0.1:2181",
        conflicts_with = "bootstrap",
        help_heading = "Connection"
    )]
    zookeeper: Vec<HostPort>,
    /// Masters or region servers to ask instead of ZooKeeper
    #[arg(
        long,
        value_name = "HOST:PORT,…",
        value_delimiter = ',',
        value_parser = host_port,
        help_heading = "Connection"
    )]
    bootstrap: Vec<HostPort>,
    /// Parent of HBase's znodes
    #[arg(long, value_name = "PATH", default_value = ZNODE_PARENT_DEFAULT, help_heading = "Connection")]
    znode_parent: String,
    /// Seconds that one operation may take, all its tries together
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(1..=86_400),
        help_heading = "Connection"
    )]
    timeout: u64,
    /// Print JSON, one value a line
    #[arg(long)]
    pub json: bool,
}

fn host_port(text: &str) -> Result<HostPort, String> {
    HostPort::parse(text).ok_or_else(|| format!("'{text}' is not host:port"))
}

/// A cluster beside the command's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClusterArg {
    /// The name that places of rules have for it.
    pub(super) name: String,
    servers: Vec<HostPort>,
    parent: String,
}

/// Reads `c1=zk1:2181,zk2:2181/hbase`.
pub(super) fn cluster(text: &str) -> Result<ClusterArg, String> {
    let (name, rest) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| format!("'{text}' is not NAME=HOST:PORT,…"))?;
    let (servers, parent) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, ZNODE_PARENT_DEFAULT),
    };
    Ok(ClusterArg {
        name: name.to_owned(),
        servers: servers
            .split(',')
            .map(host_port)
            .collect::<Result<_, _>>()?,
        parent: parent.to_owned(),
    })
}

impl ConnectArgs {
    /// Makes a client of another cluster, with the same times.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(super) async fn open_cluster<E: Env>(
        &self,
        env: E,
        cluster: &ClusterArg,
    ) -> Result<Client<E>> {
        let other = Self {
            zookeeper: cluster.servers.clone(),
            bootstrap: Vec::new(),
            znode_parent: cluster.parent.clone(),
            ..self.clone()
        };
        let client = other.open(env).await;
        client.map_err(|error| error.context(format_args!("cluster {}", cluster.name)))
    }

    /// Makes a client and sees that the cluster is there.
    ///
    /// # Errors
    /// [`Code::NotSent`] with what to do when nobody answers.
    pub(super) async fn open<E: Env>(&self, env: E) -> Result<Client<E>> {
        let (registry, servers) = if self.bootstrap.is_empty() {
            let registry = Registry::ZooKeeper(self.zookeeper.clone(), self.znode_parent.clone());
            (registry, &self.zookeeper)
        } else {
            (Registry::Rpc(self.bootstrap.clone()), &self.bootstrap)
        };
        let timeout_ms = self.timeout.saturating_mul(1000);
        let reach_ms = timeout_ms.min(REACH_TIMEOUT.as_millis() as u64);
        let config = ClientConfig {
            retry: RetryPolicy {
                operation_timeout_ms: timeout_ms,
                rpc_timeout_ms: timeout_ms.min(RetryPolicy::default().rpc_timeout_ms),
                ..RetryPolicy::default()
            },
            zookeeper_timeout_ms: reach_ms,
            ..ClientConfig::default()
        };
        let client = Client::connect(env, registry, config)?;
        match client.cluster_id().await {
            Ok(_) => Ok(client),
            Err(error) => {
                client.close().await;
                let at: Vec<String> = servers.iter().map(HostPort::to_string).collect();
                let text = format!(
                    "no cluster answers at {}: {error}\nIs one running? `cadastre start` starts one on this machine; --zookeeper \
                     or --bootstrap name another",
                    at.join(",")
                );
                Err(Error::new(Code::NotSent, text))
            }
        }
    }
}
