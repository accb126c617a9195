//! The four-letter words: plain text for people, monitoring, and HBase's `zk_dump`.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use super::ServerConfig;
use crate::tree::Figures;

/// The version whose protocol we speak, and ours.
const VERSION: &str = concat!("3.8.4-cadastre-", env!("CARGO_PKG_VERSION"));

/// Times from the arrival of a request to its answer.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Latency {
    count: u64,
    sum: Duration,
    min: Duration,
    max: Duration,
}

impl Latency {
    pub(super) fn add(&mut self, one: Duration) {
        self.min = if self.count == 0 {
            one
        } else {
            self.min.min(one)
        };
        self.max = self.max.max(one);
        self.sum += one;
        self.count += 1;
    }

    fn average_ms(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        self.sum.as_secs_f64() * 1_000.0 / self.count as f64
    }
}

/// One connection, as `stat` lists it.
pub(super) struct Client {
    pub(super) address: SocketAddr,
    pub(super) established: bool,
    pub(super) queued: usize,
    pub(super) received: u64,
    pub(super) sent: u64,
}

/// All that the words tell.
pub(super) struct Overview {
    pub(super) clients: Vec<Client>,
    pub(super) figures: Figures,
    pub(super) latency: Latency,
    pub(super) received: u64,
    pub(super) sent: u64,
    pub(super) address: SocketAddr,
    pub(super) config: ServerConfig,
}

/// The answer to a word; `None` for others.
pub(super) fn answer(word: &[u8; 4], overview: impl FnOnce() -> Overview) -> Option<String> {
    Some(match word {
        b"ruok" => "imok".into(),
        b"isro" => "rw".into(),
        b"srvr" => overview().stat(false),
        b"stat" => overview().stat(true),
        b"mntr" => overview().mntr(),
        b"conf" => overview().conf(),
        b"envi" => overview().envi(),
        _ => return None,
    })
}

/// Writing to a string cannot fail.
macro_rules! line {
    ($text:ident, $($arg:tt)*) => {
        writeln!($text, $($arg)*).expect("a string takes everything")
    };
}

impl Overview {
    fn outstanding(&self) -> usize {
        self.clients.iter().map(|client| client.queued).sum()
    }

    fn stat(&self, list: bool) -> String {
        let mut text = String::new();
        line!(text, "Zookeeper version: {VERSION}");
        if list {
            line!(text, "Clients:");
            for client in &self.clients {
                line!(
                    text,
                    " /{}[{}](queued={},recved={},sent={})",
                    client.address,
                    u8::from(client.established),
                    client.queued,
                    client.received,
                    client.sent
                );
            }
            line!(text, "");
        }
        let latency = &self.latency;
        line!(
            text,
            "Latency min/avg/max: {}/{:.1}/{}",
            latency.min.as_millis(),
            latency.average_ms(),
            latency.max.as_millis()
        );
        line!(text, "Received: {}", self.received);
        line!(text, "Sent: {}", self.sent);
        line!(text, "Connections: {}", self.clients.len());
        line!(text, "Outstanding: {}", self.outstanding());
        line!(text, "Zxid: {:#x}", self.figures.zxid);
        line!(text, "Mode: standalone");
        line!(text, "Node count: {}", self.figures.znodes);
        text
    }

    fn mntr(&self) -> String {
        let mut text = String::new();
        line!(text, "zk_version\t{VERSION}");
        line!(text, "zk_server_state\tstandalone");
        line!(text, "zk_min_latency\t{}", self.latency.min.as_millis());
        line!(text, "zk_avg_latency\t{:.1}", self.latency.average_ms());
        line!(text, "zk_max_latency\t{}", self.latency.max.as_millis());
        line!(text, "zk_packets_received\t{}", self.received);
        line!(text, "zk_packets_sent\t{}", self.sent);
        line!(text, "zk_num_alive_connections\t{}", self.clients.len());
        line!(text, "zk_outstanding_requests\t{}", self.outstanding());
        line!(text, "zk_znode_count\t{}", self.figures.znodes);
        line!(text, "zk_watch_count\t{}", self.figures.watches);
        line!(text, "zk_ephemerals_count\t{}", self.figures.ephemerals);
        line!(text, "zk_approximate_data_size\t{}", self.figures.bytes);
        line!(text, "zk_global_sessions\t{}", self.figures.sessions);
        text
    }

    fn conf(&self) -> String {
        let mut text = String::new();
        let tree = &self.config.tree;
        line!(text, "clientPort={}", self.address.port());
        line!(text, "clientPortAddress={}", self.address.ip());
        line!(text, "tickTime={}", tree.session_timeout_min_ms / 2);
        line!(
            text,
            "maxClientCnxns={}",
            self.config.connections_per_address_max
        );
        line!(text, "minSessionTimeout={}", tree.session_timeout_min_ms);
        line!(text, "maxSessionTimeout={}", tree.session_timeout_max_ms);
        line!(text, "serverId=0");
        text
    }

    fn envi(&self) -> String {
        let mut text = String::from("Environment:\n");
        line!(text, "zookeeper.version={VERSION}");
        line!(text, "host.name={}", self.address.ip());
        line!(text, "os.name={}", std::env::consts::OS);
        line!(text, "os.arch={}", std::env::consts::ARCH);
        text
    }
}
