//! One region server: its start, its place in the coordination service, its end.
//!
//! Start: session → wait for the cluster's id → listen → serve → ephemeral znode under `rs`, which is what the master waits for.
//! End: refuse new calls → close every region (flush) → give the znode back. A server whose session has expired was declared dead
//! and ends the same way, but for the znode: others may own its regions by now, and the store fences it (INV-2).

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cadastre_coordination::{ErrorCode, Mode, Session, State, error_code};
use cadastre_env::{Clock, Env, HostPort, Listener, Net};
use cadastre_rpc::Call;
use cadastre_store::Store;
use cadastre_types::{Code, Error, Result, ServerName, limits};
use cadastre_wire::znode;
use rand::RngCore;
use tokio::sync::watch;

use crate::apply::Terms;
use crate::dispatch::Dispatch;
use crate::rate::Rate;
use crate::regions::Regions;
use crate::requests::close_region::{self, Closing};
use crate::scanners::Scanners;

/// Longest wait for a row lock: HBase's `hbase.rowlock.wait.duration`.
const ROW_LOCK_WAIT: Duration = Duration::from_secs(30);

/// Regions closed at one time when the server stops: enough to overlap their flushes, few enough to bound memory.
const CLOSES_AT_ONCE: usize = 16;

/// The version that clients and tools are shown: HBase's, whose protocol is spoken (C24).
const VERSION: &str = "2.6.4";

/// How a region server is set up.
#[derive(Debug, Clone)]
pub struct RegionServerConfig {
    /// Address to listen on.
    pub bind: IpAddr,
    /// Port to listen on, 0 for any free one (`hbase.regionserver.port`).
    pub port: u16,
    /// Host that clients are told.
    pub advertise_host: String,
    /// The coordination service.
    pub coordination: Vec<HostPort>,
    /// Root of the cluster's znodes (`zookeeper.znode.parent`).
    pub parent: String,
    /// Session timeout to ask for (`zookeeper.session.timeout`); the service may give less.
    pub session_timeout: Duration,
    /// Limits of the RPC server.
    pub rpc: cadastre_rpc::ServerConfig,
}

/// What the requests share.
pub(crate) struct Server<E: Env> {
    pub(crate) env: E,
    pub(crate) store: Store<E>,
    pub(crate) name: ServerName,
    pub(crate) cluster_id: String,
    pub(crate) parent: String,
    pub(crate) session: Session,
    pub(crate) regions: Regions<E>,
    pub(crate) scanners: Scanners<E>,
    /// Of rows read and written.
    pub(crate) rate: Rate,
    /// Highest epoch of a master that gave us an order (C19).
    master_epoch: AtomicU64,
    stop: watch::Sender<bool>,
}

impl<E: Env> Server<E> {
    /// The terms of a mutation that this call asks for.
    pub(crate) fn terms(&self, call: &Call, nonce_group: u64) -> Terms {
        let limit = self.env.clock().mono() + ROW_LOCK_WAIT;
        Terms {
            nonce_group,
            deadline: call.deadline.map_or(limit, |deadline| deadline.min(limit)),
            call_deadline: call.deadline.unwrap_or(Duration::MAX),
        }
    }

    /// Refuses orders of a master that has been deposed.
    ///
    /// # Errors
    /// `MasterDeposed` for an epoch below one seen before.
    pub(crate) fn check_master_epoch(&self, epoch: Option<u64>) -> Result<()> {
        let epoch = epoch.ok_or_else(|| {
            Error::invalid("an order to a region server must carry the master's epoch")
        })?;
        let highest = self.master_epoch.fetch_max(epoch, Ordering::SeqCst);
        if epoch < highest {
            return Err(Error::new(
                Code::MasterDeposed,
                format!("the order of master epoch {epoch} comes after one of epoch {highest}"),
            ));
        }
        Ok(())
    }

    /// Refuses to answer once the session may be over: the regions may be another server's by then (C22). While only the
    /// coordination service is away nothing else happens; when it answers again, so does this server.
    ///
    /// # Errors
    /// `NotServingRegion`, after which clients look the region up again and come back here if nobody took it.
    pub(crate) fn check_lease(&self) -> Result<()> {
        #[cfg(feature = "planted-faults")]
        if self.store.planted() == Some(cadastre_store::Planted::AnswerWithoutLease) {
            return Ok(());
        }
        if self.env.clock().mono() < self.session.lease_until() {
            return Ok(());
        }
        metrics::counter!("cadastre_lease_refusals_total").increment(1);
        Err(Error::new(
            Code::NotServingRegion,
            format!(
                "{} has not heard of the coordination service for so long that its regions may be another server's",
                self.name
            ),
        ))
    }

    /// Asks the server to stop; it does so by itself.
    pub(crate) fn request_stop(&self) {
        self.stop.send_replace(true);
    }
}

/// A running region server.
pub struct RegionServer<E: Env> {
    server: Arc<Server<E>>,
    address: SocketAddr,
    ended: watch::Receiver<bool>,
}

impl<E: Env> RegionServer<E> {
    /// Starts a server; it can be given regions when this returns.
    ///
    /// # Errors
    /// If it cannot listen or reach the coordination service.
    pub async fn start(env: E, store: Store<E>, config: RegionServerConfig) -> Result<Self> {
        let session = Session::hold(
            env.clone(),
            config.coordination.clone(),
            config.session_timeout,
        )
        .await?;
        let cluster_id = wait_for_cluster(&session, &config.parent).await?;
        let at = SocketAddr::new(config.bind, config.port);
        let listener = env.net().listen(at).await.map_err(|error| {
            Error::new(
                Code::Io,
                format!("cannot listen on {at} for the region server: {error}"),
            )
        })?;
        let address = listener.local_addr();
        let name = ServerName {
            host: config.advertise_host.clone(),
            port: address.port(),
            start_code: store.start_code(),
        };
        let (stop, stopping) = watch::channel(false);
        let scanner_prefix = env.rng("scanner-ids").next_u32();
        let server = Arc::new(Server {
            regions: Regions::new(env.clone()),
            scanners: Scanners::new(scanner_prefix),
            rate: Rate::default(),
            env: env.clone(),
            store,
            cluster_id,
            parent: config.parent.clone(),
            session,
            name,
            master_epoch: AtomicU64::new(0),
            stop,
        });
        let handler = Arc::new(Dispatch(Arc::clone(&server)));
        let serving =
            cadastre_rpc::serve(env.clone(), listener, handler, config.rpc, stopping.clone());
        let (end, ended) = watch::channel(false);
        env.spawn(
            "region-server",
            run(Arc::clone(&server), serving, stopping, end),
        );
        register(&server).await?;
        Ok(Self {
            server,
            address,
            ended,
        })
    }

    /// Its name.
    pub fn name(&self) -> &ServerName {
        &self.server.name
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops: no new calls, regions closed and flushed, znode gone.
    pub async fn stop(&self) {
        self.server.request_stop();
        self.ended().await;
    }

    /// Waits until it has ended: by [`Self::stop`], by `StopServer`, or because its session expired.
    pub async fn ended(&self) {
        let mut ended = self.ended.clone();
        // The sender goes away only with the server's task, which is an end, too.
        let _ = ended.wait_for(|ended| *ended).await;
    }
}

/// The cluster's id, which the master writes before anything else.
async fn wait_for_cluster(session: &Session, parent: &str) -> Result<String> {
    let path = format!("{parent}/hbaseid");
    loop {
        let (found, watch) = session.watch_data(&path).await?;
        if let Some((data, _)) = found {
            return znode::read_cluster_id(&data);
        }
        watch.changed().await;
    }
}

async fn register<E: Env>(server: &Server<E>) -> Result<()> {
    let parent = format!("{}/rs", server.parent);
    if let Err(error) = server
        .session
        .create(&parent, Bytes::new(), Mode::Persistent)
        .await
        && error_code(&error) != Some(ErrorCode::NodeExists)
    {
        return Err(error);
    }
    let salt = server.env.rng("znodes").next_u64();
    let id = format!("regionserver:{}", server.name.port);
    let writer = znode::Writer { id: &id, salt };
    let data = znode::region_server(writer, 0, VERSION);
    server
        .session
        .create(&format!("{parent}/{}", server.name), data, Mode::Ephemeral)
        .await?;
    Ok(())
}

/// Everything after the start, until the end.
async fn run<E: Env>(
    server: Arc<Server<E>>,
    serving: impl Future<Output = ()> + Send + 'static,
    mut stopping: watch::Receiver<bool>,
    end: watch::Sender<bool>,
) {
    let mut states = server.session.states();
    let leases = expire_leases(Arc::clone(&server));
    let upkeep = server.env.spawn("scanner-leases", leases);
    let served = {
        let (done, wait) = watch::channel(false);
        server.env.spawn("rpc", async move {
            serving.await;
            done.send_replace(true);
        });
        wait
    };
    tokio::select! {
        biased;
        _ = stopping.wait_for(|stop| *stop) => {}
        _ = states.wait_for(|state| *state == State::Expired) => {
            tracing::error!(server = %server.name, "the session has expired: this server counts as dead and ends");
            server.request_stop();
        }
    }
    upkeep.abort();
    wait_until_true(served).await;
    close_all(&server).await;
    server.session.clone().close().await;
    end.send_replace(true);
}

async fn wait_until_true(mut flag: watch::Receiver<bool>) {
    // A dropped sender is an end, too.
    let _ = flag.wait_for(|done| *done).await;
}

async fn expire_leases<E: Env>(server: Arc<Server<E>>) {
    let pause = Duration::from_millis(limits::SCANNER_LEASE_MS / 6);
    loop {
        server.env.clock().sleep(pause).await;
        let now = server.env.clock().mono();
        server.scanners.expire(now);
        server.rate.look(now, server.regions.requests());
    }
}

async fn close_all<E: Env>(server: &Arc<Server<E>>) {
    use futures::StreamExt;
    let regions = server.regions.open();
    futures::stream::iter(regions)
        .for_each_concurrent(CLOSES_AT_ONCE, |hosted| async move {
            let name = hosted.region.info().encoded_name();
            let (regions, scanners) = (&server.regions, &server.scanners);
            let closed = close_region::close(regions, scanners, &name, Closing::AtOnce);
            if let Err(error) = closed.await {
                // What was acknowledged is in the log; the next opening replays it.
                tracing::warn!(%error, "a region did not close cleanly");
            }
        })
        .await;
}
