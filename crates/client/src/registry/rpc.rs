//! The RPC registry: `ClientMetaService` of masters and region servers (hbase-protocol.md 7.2).
//!
//! Calls are hedged: a few endpoints are asked at once, the first good answer wins; then the next few. The endpoint that answered
//! last is asked first next time. Endpoints are refreshed from what the servers say of each other, on the way of a call, never by
//! a timer.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Clock, Env, HostPort};
use cadastre_rpc::Connections;
use cadastre_types::{Code, Error, Result, ServerName};
use cadastre_wire::{Service, convert, pb};
use futures::StreamExt;
use futures::stream::FuturesUnordered;

use super::{MetaPlace, nothing};
use crate::locate::address;

/// When endpoints are first learnt from the servers (`hbase.client.bootstrap.initial_refresh_delay_secs`); a short-lived client
/// never asks.
const REFRESH_FIRST: Duration = Duration::from_secs(30);

/// How long they count then (`hbase.client.bootstrap.refresh_interval_secs`).
const REFRESH_EVERY: Duration = Duration::from_secs(300);

/// Endpoints kept at most (INV-9).
const ENDPOINTS_MAX: usize = 64;

pub(crate) struct RpcRegistry<E: Env> {
    env: E,
    connections: Arc<Connections<E>>,
    /// As configured; always asked after the learnt ones, so that a cluster that was replaced is found again.
    bootstrap: Vec<HostPort>,
    fanout: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Learnt from the servers.
    learnt: Vec<HostPort>,
    /// When to learn anew, by the monotone clock.
    refresh_at: Duration,
    /// Who answered last.
    last_good: Option<HostPort>,
}

impl<E: Env> RpcRegistry<E> {
    pub(super) fn new(
        env: E,
        connections: Arc<Connections<E>>,
        bootstrap: Vec<HostPort>,
        fanout: usize,
    ) -> Self {
        let refresh_at = env.clock().mono() + REFRESH_FIRST;
        Self {
            env,
            connections,
            bootstrap,
            fanout: fanout.max(1),
            state: Mutex::new(State {
                learnt: Vec::new(),
                refresh_at,
                last_good: None,
            }),
        }
    }

    pub(super) async fn meta_place(&self, timeout: Duration) -> Result<MetaPlace> {
        let read = |body| {
            let answer: pb::GetMetaRegionLocationsResponse = cadastre_wire::decode(body)?;
            // The default replica; others are not asked for.
            let found = answer
                .meta_locations
                .into_iter()
                .find(|location| location.region_info.replica_id.unwrap_or(0) == 0);
            let (server, seq) = found
                .and_then(|location| Some((location.server_name?, location.seq_num)))
                .ok_or_else(|| nothing("who serves hbase:meta", "the registry"))?;
            Ok(MetaPlace {
                server: convert::server_name(&server)?,
                open_seq: u64::try_from(seq).unwrap_or(0),
            })
        };
        let request = cadastre_wire::encode(&pb::GetMetaRegionLocationsRequest {});
        let place = self
            .hedged("GetMetaRegionLocations", request, timeout, read)
            .await?;
        self.refresh(timeout).await;
        Ok(place)
    }

    pub(super) async fn active_master(&self, timeout: Duration) -> Result<ServerName> {
        let read = |body| {
            let answer: pb::GetActiveMasterResponse = cadastre_wire::decode(body)?;
            match answer.server_name {
                Some(server) => convert::server_name(&server),
                None => Err(Error::new(
                    Code::MasterNotRunning,
                    "the registry knows no active master",
                )),
            }
        };
        let request = cadastre_wire::encode(&pb::GetActiveMasterRequest {});
        self.hedged("GetActiveMaster", request, timeout, read).await
    }

    pub(super) async fn cluster_id(&self, timeout: Duration) -> Result<String> {
        let read = |body| {
            let answer: pb::GetClusterIdResponse = cadastre_wire::decode(body)?;
            answer
                .cluster_id
                .ok_or_else(|| nothing("the cluster's id", "the registry"))
        };
        let request = cadastre_wire::encode(&pb::GetClusterIdRequest {});
        self.hedged("GetClusterId", request, timeout, read).await
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        // Each field is valid by itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whom to ask, in this order.
    fn endpoints(&self) -> Vec<HostPort> {
        let state = self.state();
        let mut ordered = Vec::new();
        let known = state
            .last_good
            .iter()
            .chain(&state.learnt)
            .chain(&self.bootstrap);
        for endpoint in known {
            if !ordered.contains(endpoint) {
                ordered.push(endpoint.clone());
            }
        }
        ordered
    }

    /// Asks a few at a time until one gives a good answer.
    async fn hedged<T: Send>(
        &self,
        method: &'static str,
        request: Bytes,
        timeout: Duration,
        read: impl Fn(Bytes) -> Result<T> + Sync,
    ) -> Result<T> {
        let endpoints = self.endpoints();
        let mut failures = Vec::new();
        for some in endpoints.chunks(self.fanout) {
            let mut asked: FuturesUnordered<_> = some
                .iter()
                .map(|endpoint| self.ask(endpoint, method, request.clone(), timeout))
                .collect();
            while let Some((endpoint, answer)) = asked.next().await {
                match answer.and_then(&read) {
                    Ok(answer) => {
                        self.state().last_good = Some(endpoint.clone());
                        return Ok(answer);
                    }
                    Err(error) => failures.push((endpoint, error)),
                }
            }
        }
        let text: Vec<String> = failures
            .iter()
            .map(|(endpoint, error)| format!("{endpoint}: {error}"))
            .collect();
        // All failed: the class of the last is as good as any, except that "no master" says more than "no answer".
        let code = failures
            .iter()
            .map(|(_, error)| error.code())
            .find(|code| *code == Code::MasterNotRunning)
            .unwrap_or(Code::Io);
        Err(Error::new(
            code,
            format!("no registry server answered {method}: {}", text.join("; ")),
        ))
    }

    async fn ask<'a>(
        &self,
        endpoint: &'a HostPort,
        method: &'static str,
        request: Bytes,
        timeout: Duration,
    ) -> (&'a HostPort, Result<Bytes>) {
        let answer = self
            .connections
            .call(
                endpoint,
                Service::ClientMeta,
                method,
                request,
                Bytes::new(),
                timeout,
            )
            .await;
        (endpoint, answer.map(|(body, _)| body))
    }

    /// Learns endpoints from the servers when the last time is long ago. Failing is no failure of the call it came with: the
    /// endpoints known so far stay.
    async fn refresh(&self, timeout: Duration) {
        let now = self.env.clock().mono();
        {
            let mut state = self.state();
            if now < state.refresh_at {
                return;
            }
            // Set before it is done: one caller refreshes, and a failure waits for the next time as well.
            state.refresh_at = now + REFRESH_EVERY;
        }
        let read = |body| {
            let answer: pb::GetBootstrapNodesResponse = cadastre_wire::decode(body)?;
            let nodes: Result<Vec<ServerName>> = answer
                .server_name
                .iter()
                .take(ENDPOINTS_MAX)
                .map(convert::server_name)
                .collect();
            match nodes? {
                nodes if nodes.is_empty() => Err(nothing("any bootstrap node", "the registry")),
                nodes => Ok(nodes),
            }
        };
        let request = cadastre_wire::encode(&pb::GetBootstrapNodesRequest {});
        match self
            .hedged("GetBootstrapNodes", request, timeout, read)
            .await
        {
            Ok(nodes) => self.state().learnt = nodes.iter().map(address).collect(),
            Err(error) => tracing::debug!(%error, "bootstrap nodes are not refreshed"),
        }
    }
}
