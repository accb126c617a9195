//! The server: accepts connections, spreads them over the cores, runs the calls that come on them. Knows services and methods
//! only as names; what they do is a [`Handler`]'s.

mod budget;
mod calls;
mod config;
mod connection;
mod frames;
mod metrics;
mod start;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Clock, Env, Listener, Net};
use cadastre_types::Result;
use cadastre_wire::Service;
use cadastre_wire::cells::Codec;
use tokio::sync::{mpsc, watch};

use self::budget::{Budget, Share};
use self::metrics::ServerMetrics;

pub use config::ServerConfig;

/// Priorities from here on have a part of the call limit to themselves (`HConstants.ADMIN_QOS`): a server flooded with data
/// calls still opens regions and answers reads of `hbase:meta`.
pub const HIGH_PRIORITY: u32 = 100;

/// Pause after a failed accept. It fails when file descriptors run out, and would fail again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Connections refused for their number are logged once in this time: whoever opens too many opens them fast.
const REFUSAL_LOG_PAUSE: Duration = Duration::from_secs(1);

/// What a server does. The error of a call is sent as the exception that [`cadastre_wire::exception`] has for it.
pub trait Handler: Send + Sync + 'static {
    /// Whether connections for this service are taken.
    fn serves(&self, service: Service) -> bool;

    /// The cluster's id, asked for by the `Regist` preamble (hbase-protocol.md 1.5).
    fn cluster_id(&self) -> String;

    /// Runs a call. The future is dropped when its connection breaks or the server stops: what must not end half way belongs
    /// into a task of its own (C9). The deadline is the caller's wish: a future that runs on past it is still answered.
    fn call(&self, call: Call) -> impl Future<Output = Result<Reply>> + Send;
}

/// A call.
#[derive(Debug, Clone)]
pub struct Call {
    /// The connection's service.
    pub service: Service,
    /// Method, as the caller wrote it.
    pub method: String,
    /// The request message.
    pub param: Bytes,
    /// The cell block, decompressed; empty for none.
    pub cells: Bytes,
    /// When the caller stops waiting, on the clock's `mono`.
    pub deadline: Option<Duration>,
    /// HBase's priority; 0 = normal.
    pub priority: u32,
    /// When its frame was read, on the clock's `mono`.
    pub arrived: Duration,
    /// When it was begun, on the clock's `mono`.
    pub started: Duration,
    /// Who calls.
    pub peer: Arc<Peer>,
}

/// Who is at the other end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// The user it acts as; empty if it did not say.
    pub user: String,
    /// How cell blocks are written. `None`: none may be sent.
    pub codec: Option<Codec>,
    /// Version of the client, major and minor, if it said.
    pub version: Option<(u32, u32)>,
    /// Its address.
    pub address: SocketAddr,
    /// The serving core its connection lives on; calls begin there.
    pub core: usize,
}

/// The answer to a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reply {
    /// The response message.
    pub body: Bytes,
    /// The cell block, not compressed; empty for none.
    pub cells: Bytes,
}

/// What the connections of one server share.
struct Server<E, H> {
    env: E,
    handler: Arc<H>,
    config: ServerConfig,
    address: SocketAddr,
    metrics: ServerMetrics,
    request_bytes: Arc<Budget>,
    calls: Arc<Budget>,
    response_bytes: Arc<Budget>,
}

/// Serves a listening socket until `stop` becomes true or its sender goes away. Then no connection or call is taken any more,
/// running calls are finished, and it ends once all connections are closed.
pub async fn serve<E: Env, H: Handler>(
    env: E,
    mut listener: <E::Net as Net>::Listener,
    handler: Arc<H>,
    config: ServerConfig,
    stop: watch::Receiver<bool>,
) {
    let connections = Budget::new(config.connections_max);
    let server = Arc::new(Server {
        address: listener.local_addr(),
        metrics: ServerMetrics::new(&config.name),
        request_bytes: Budget::new(config.request_bytes_in_flight_max),
        calls: Budget::new(config.calls_in_flight_max),
        response_bytes: Budget::new(config.response_bytes_max),
        env,
        handler,
        config,
    });
    // Connections hold the sender; the receiver sees the last one go.
    let (alive, mut gone) = mpsc::channel::<()>(1);
    let mut stopped = std::pin::pin!(stopped(stop.clone()));
    let mut next_core = 0;
    let mut refusal_logged = None;
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut stopped => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(server = server.config.name, %error, "cannot accept a connection");
                server.env.clock().sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        server.metrics.accepted.increment(1);
        let mut share = Share::new(&connections);
        if !share.grow(1) {
            server.metrics.refused.increment(1);
            let now = server.env.clock().mono();
            if refusal_logged.is_none_or(|at| now >= at + REFUSAL_LOG_PAUSE) {
                refusal_logged = Some(now);
                tracing::warn!(server = server.config.name, %address, max = connections.max(), "too many connections");
            }
            continue;
        }
        server.metrics.open.increment(1.0);
        let core = next_core;
        next_core = (next_core + 1) % server.env.cores();
        let (owner, stop, alive) = (Arc::clone(&server), stop.clone(), alive.clone());
        server.env.spawn_on(core, "rpc-connection", move || {
            Box::pin(async move {
                let at = connection::At { address, core };
                connection::run(&owner, stream, at, stop).await;
                owner.metrics.open.decrement(1.0);
                drop(share);
                drop(alive);
            })
        });
    }
    drop(listener);
    drop(alive);
    // Nothing is ever sent.
    let _ = gone.recv().await;
}

/// Ends when the server is to stop.
async fn stopped(mut stop: watch::Receiver<bool>) {
    // An error means that the sender is gone, and with it whoever could ask for more.
    let _ = stop.wait_for(|stop| *stop).await;
}
