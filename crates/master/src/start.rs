//! A master's life.
//!
//! 1. Session with the coordination service; listen; serve: ClientMetaService at once, MasterService refuses until step 6.
//! 2. Race for the ephemeral znode `master`; who loses stands by and waits.
//! 3. Open the master's store, which fences an earlier master out of it; raise the epoch (C19); publish the cluster's id.
//! 4. Wait for a region server; have `hbase:meta` open; raise the epoch there; read it.
//! 5. Go on with procedures that had not ended; give every region of an enabled table a server.
//! 6. Ready. From now on keep it so.
//!
//! When the session expires, somebody else may be the master: the process ends, since what it still does would only be refused.

use std::collections::BTreeSet;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cadastre_coordination::{Session, State as SessionState};
use cadastre_env::{Clock, Env, HostPort, Listener, Net};
use cadastre_store::{Kv, Store};
use cadastre_types::{Code, Error, ErrorKind, Result, ServerName};
use rand::RngCore;
use tokio::sync::watch;

use crate::active::Active;
use crate::executor::Pauses;
use crate::journal;
use crate::real::{Parts, RealWorld, Znodes};
use crate::requests::Dispatch;
use crate::world::World;

/// Passes of reassignment before the master calls itself ready, though some region could not be opened: one bad region must not
/// keep a cluster from starting.
const START_PASSES: usize = 5;

/// How long a stopping master waits for procedures under way; what is not done then goes on with the next master.
const PROCEDURE_DRAIN: Duration = Duration::from_secs(5);

/// How a master is set up.
#[derive(Debug, Clone)]
pub struct MasterConfig {
    /// Address to listen on.
    pub bind: IpAddr,
    /// Port to listen on, 0 for any free one (`hbase.master.port`).
    pub port: u16,
    /// Host that clients are told.
    pub advertise_host: String,
    /// The coordination service.
    pub coordination: Vec<HostPort>,
    /// Root of the cluster's znodes (`zookeeper.znode.parent`).
    pub parent: String,
    /// Session timeout to ask for (`zookeeper.session.timeout`); the service may give less.
    pub session_timeout: Duration,
    /// Region servers to wait for before regions are given out (`hbase.master.wait.on.regionservers.mintostart`), at least 1.
    pub min_servers: usize,
    /// Limits of the RPC server.
    pub rpc: cadastre_rpc::ServerConfig,
}

/// What the master and its requests share.
pub(crate) struct Shared<E: Env> {
    pub(crate) env: E,
    pub(crate) name: ServerName,
    pub(crate) cluster_id: String,
    pub(crate) znodes: Znodes,
    /// Set once the master is active and initialised.
    active: OnceLock<Active<RealWorld<E>>>,
    pub(crate) phase: watch::Sender<Phase>,
    /// Turns true when a client asks for the end.
    pub(crate) stop_asked: watch::Sender<bool>,
    /// Why it could not become active.
    failure: OnceLock<Error>,
}

/// How far a master is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Another one is active.
    StandBy,
    /// Active, reading and assigning.
    Initialising,
    /// Serving.
    Ready,
    /// Not serving any more.
    Stopped,
}

impl<E: Env> Shared<E> {
    /// The active master.
    ///
    /// # Errors
    /// [`Code::ServerNotRunningYet`] on a standby, [`Code::PleaseHold`] while it initialises, [`Code::MasterNotRunning`] when it
    /// stops.
    pub(crate) fn active(&self) -> Result<&Active<RealWorld<E>>> {
        let phase = *self.phase.borrow();
        match (phase, self.active.get()) {
            (Phase::Ready, Some(active)) => Ok(active),
            (Phase::StandBy, _) => Err(Error::new(
                Code::ServerNotRunningYet,
                "Server is not running yet",
            )),
            (Phase::Stopped, _) => Err(Error::new(Code::MasterNotRunning, "Master is stopping")),
            _ => Err(Error::new(Code::PleaseHold, "Master is initializing")),
        }
    }
}

/// A running master.
pub struct Master<E: Env> {
    shared: Arc<Shared<E>>,
    address: SocketAddr,
    stop: watch::Sender<bool>,
    ended: watch::Receiver<bool>,
}

impl<E: Env> Master<E> {
    /// Starts a master. It listens when this returns; [`Self::ready`] tells when it serves.
    ///
    /// # Errors
    /// If it cannot listen or reach the coordination service.
    pub async fn start(env: E, store: Store<E>, config: MasterConfig) -> Result<Self> {
        let session = Session::hold(
            env.clone(),
            config.coordination.clone(),
            config.session_timeout,
        )
        .await?;
        let at = SocketAddr::new(config.bind, config.port);
        let listener = env.net().listen(at).await.map_err(|error| {
            Error::new(
                Code::Io,
                format!("cannot listen on {at} for the master: {error}"),
            )
        })?;
        let address = listener.local_addr();
        let name = ServerName {
            host: config.advertise_host.clone(),
            port: address.port(),
            start_code: store.start_code(),
        };
        let salt = env.rng("master-znodes").next_u64();
        let znodes = Znodes::new(session, &config.parent, address.port(), salt);
        znodes.prepare().await?;
        let shared = Arc::new(Shared {
            env: env.clone(),
            name,
            cluster_id: store.cluster_id().to_owned(),
            znodes,
            active: OnceLock::new(),
            phase: watch::Sender::new(Phase::StandBy),
            stop_asked: watch::Sender::new(false),
            failure: OnceLock::new(),
        });
        let (stop, stopping) = watch::channel(false);
        let handler = Arc::new(Dispatch(Arc::clone(&shared)));
        let serving = cadastre_rpc::serve(
            env.clone(),
            listener,
            handler,
            config.rpc.clone(),
            stopping.clone(),
        );
        let (end, ended) = watch::channel(false);
        env.spawn(
            "master",
            run(Arc::clone(&shared), store, config, serving, stopping, end),
        );
        Ok(Self {
            shared,
            address,
            stop,
            ended,
        })
    }

    /// Its name.
    pub fn name(&self) -> &ServerName {
        &self.shared.name
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until it serves as the active master.
    ///
    /// # Errors
    /// Why it does not, if it ended before: what was read is damaged or too new, or the session was lost.
    pub async fn ready(&self) -> Result<()> {
        let mut phase = self.shared.phase.subscribe();
        let reached = phase
            .wait_for(|phase| matches!(phase, Phase::Ready | Phase::Stopped))
            .await
            .map(|phase| *phase);
        match reached {
            Ok(Phase::Ready) => Ok(()),
            _ => Err(self.shared.failure.get().cloned().unwrap_or_else(|| {
                Error::new(
                    Code::MasterNotRunning,
                    "the master stopped before it was ready",
                )
            })),
        }
    }

    /// Waits until a client asks this master, while it is the active one, for the end (`Shutdown`, `StopMaster`). It does not stop by
    /// itself: whoever runs it stops what belongs together.
    pub async fn stop_asked(&self) {
        let mut asked = self.shared.stop_asked.subscribe();
        // The sender lives as long as `self`.
        let _ = asked.wait_for(|asked| *asked).await;
    }

    /// Stops: no new calls, the session closed, so that a standby takes over at once. Procedures go on with the next master.
    pub async fn stop(&self) {
        self.stop.send_replace(true);
        let mut ended = self.ended.clone();
        // The sender goes away only with the master's task, which is an end, too.
        let _ = ended.wait_for(|ended| *ended).await;
    }
}

async fn run<E: Env>(
    shared: Arc<Shared<E>>,
    store: Store<E>,
    config: MasterConfig,
    serving: impl Future<Output = ()> + Send + 'static,
    mut stopping: watch::Receiver<bool>,
    end: watch::Sender<bool>,
) {
    let (served, mut wait_served) = watch::channel(false);
    shared.env.spawn("master-rpc", async move {
        serving.await;
        served.send_replace(true);
    });
    let mut session = shared.znodes.session().states();
    let failure = tokio::select! {
        biased;
        _ = stopping.wait_for(|stop| *stop) => None,
        _ = session.wait_for(|state| *state == SessionState::Expired) => Some(Error::new(
            Code::Fenced,
            "the master's session with the coordination service has expired",
        )),
        failure = lead(&shared, store, &config) => Some(failure),
    };
    if let Some(failure) = failure {
        if *shared.phase.borrow() == Phase::Ready {
            shared
                .env
                .exit(&format!("the master cannot go on: {failure}"));
        }
        tracing::error!(%failure, "the master could not become active");
        // Set once: this is the only place.
        let _ = shared.failure.set(failure);
    }
    shared.phase.send_replace(Phase::Stopped);
    if let Some(active) = shared.active.get() {
        active.halt(PROCEDURE_DRAIN).await;
    }
    if *stopping.borrow() {
        // A dropped sender is an end, too.
        let _ = wait_served.wait_for(|served| *served).await;
    }
    shared.znodes.session().clone().close().await;
    end.send_replace(true);
}

/// Leads for ever; what it gives is why it cannot.
async fn lead<E: Env>(shared: &Arc<Shared<E>>, store: Store<E>, config: &MasterConfig) -> Error {
    match become_active(shared, store, config).await {
        Ok(active) => {
            tokio::select! {
                biased;
                () = active.watch_servers() => {}
                () = active.watch_parents() => {}
            }
            Error::new(Code::Fenced, "the live servers are not known any more")
        }
        Err(error) => error,
    }
}

/// Steps 2 to 6.
async fn become_active<E: Env>(
    shared: &Arc<Shared<E>>,
    store: Store<E>,
    config: &MasterConfig,
) -> Result<Active<RealWorld<E>>> {
    let znodes = &shared.znodes;
    while !znodes.claim(&shared.name).await? {
        znodes.stand_by(&shared.name).await?;
        znodes.wait_for_vacancy().await?;
    }
    znodes.stand_up(&shared.name).await?;
    shared.phase.send_replace(Phase::Initialising);
    let kv = store.open_kv("master").await?;
    let loaded = journal::load(kv.scan_prefix(b"").await?)?;
    let epoch = loaded.epoch + 1;
    write_epoch(&shared.env, &kv, epoch).await?;
    tracing::info!(name = %shared.name, epoch, "this master is active");
    znodes.put_cluster_id(&shared.cluster_id).await?;
    let started = httpdate(shared.env.clock().wall());
    znodes.put_running(&started).await?;
    let (found, servers) = watch::channel(BTreeSet::new());
    let follower = znodes.clone();
    shared.env.spawn("live-servers", async move {
        follower.follow_servers(&found).await;
    });
    let world = RealWorld::new(Parts {
        env: shared.env.clone(),
        store,
        kv,
        znodes: znodes.clone(),
        servers,
        meta_place: znodes.meta_place().await?,
        epoch,
    });
    let (active, resumed) = Active::new(world, loaded)?;
    active.wait_for_servers(config.min_servers.max(1)).await;
    read_meta(&active).await?;
    active.resume(resumed);
    for _ in 0..START_PASSES {
        if active.reconcile().await == 0 {
            break;
        }
    }
    // What could not be shown yet is shown while the master serves.
    active.ensure_namespaces().await;
    active.announce_all().await;
    if shared.active.set(active.clone()).is_err() {
        return Err(Error::new(Code::Internal, "a master becomes active once"));
    }
    shared.phase.send_replace(Phase::Ready);
    active.collect_garbage();
    Ok(active)
}

/// Waits while the disk is full (C17).
async fn write_epoch<E: Env>(env: &E, kv: &Kv<E>, epoch: u64) -> Result<()> {
    let mut pauses = Pauses::new();
    loop {
        match kv.write(vec![journal::epoch(epoch)]).await {
            Err(error) if error.code() == Code::RegionTooBusy => {
                tracing::warn!(%error, "the master's store takes no writes; tried again");
                env.clock().sleep(pauses.next()).await;
            }
            written => return written,
        }
    }
}

/// Has `hbase:meta` open and reads it, however long that takes: without it nothing can be served.
///
/// # Errors
/// What no other try can mend: damaged rows.
async fn read_meta<W: World>(active: &Active<W>) -> Result<()> {
    let mut pauses = Pauses::new();
    loop {
        let read = match active.take_meta().await {
            Ok(()) => active.load_meta().await,
            Err(error) => Err(error),
        };
        let Err(error) = read else { return Ok(()) };
        match error.kind() {
            ErrorKind::Retry | ErrorKind::Relocate | ErrorKind::Failover => {
                tracing::warn!(%error, "hbase:meta could not be read; tried again");
                active.world().sleep(pauses.next()).await;
            }
            _ => return Err(error.context("hbase:meta")),
        }
    }
}

/// A date as HBase writes it into `running`, in UTC.
fn httpdate(wall_ms: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let seconds = wall_ms / 1000;
    let days = seconds / 86_400;
    // Civil date from days since 1970, with years that begin in March, so that leap days come last.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12;
    let year = year_of_era + era * 400 + u64::from(month < 2);
    format!(
        "{} {} {day:02} {:02}:{:02}:{:02} UTC {year}",
        DAYS[(days % 7) as usize],
        MONTHS[month as usize],
        seconds / 3_600 % 24,
        seconds / 60 % 60,
        seconds % 60,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(httpdate(0), "Thu Jan 01 00:00:00 UTC 1970");
        assert_eq!(httpdate(951_782_400_000), "Tue Feb 29 00:00:00 UTC 2000");
        assert_eq!(httpdate(1_796_005_065_000), "Mon Nov 30 02:17:45 UTC 2026");
    }
}
