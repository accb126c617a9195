//! The admin port: Prometheus metrics at `/metrics`, readiness at `/healthz`.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use cadastre_env::{Clock, Env, Listener, Net};
use metrics_exporter_prometheus::PrometheusHandle;

/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What the handlers see.
#[derive(Clone)]
struct Shared {
    metrics: PrometheusHandle,
    ready: Arc<AtomicBool>,
}

/// Listens and serves until the process ends; the address it listens on.
///
/// # Errors
/// If it cannot listen.
pub async fn start<E: Env>(
    env: &E,
    at: SocketAddr,
    metrics: PrometheusHandle,
    ready: Arc<AtomicBool>,
) -> io::Result<SocketAddr> {
    let listener = env.net().listen(at).await?;
    let address = listener.local_addr();
    let router = Router::new()
        .route(
            "/metrics",
            get(|State(shared): State<Shared>| async move { shared.metrics.render() }),
        )
        .route("/healthz", get(health))
        .with_state(Shared { metrics, ready });
    let clock = env.clock().clone();
    env.spawn("admin", async move {
        // `serve` retries failed accepts by itself and never ends.
        let _ = axum::serve(Accept { listener, clock }, router).await;
    });
    Ok(address)
}

async fn health(State(shared): State<Shared>) -> (StatusCode, &'static str) {
    if shared.ready.load(Ordering::Acquire) {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "starting or stopping\n")
    }
}

/// Our listeners as axum wants them.
struct Accept<L, C> {
    listener: L,
    clock: C,
}

impl<L, C> axum::serve::Listener for Accept<L, C>
where
    L: Listener,
    L::Stream: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    C: Clock,
{
    type Io = L::Stream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            match self.listener.accept().await {
                Ok(accepted) => return accepted,
                Err(error) => {
                    tracing::warn!(%error, "the admin port could not accept");
                    // Out of file descriptors, as a rule: trying at once would only burn the core.
                    self.clock.sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(self.listener.local_addr())
    }
}
