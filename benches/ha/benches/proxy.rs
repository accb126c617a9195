//! What the proxy adds to a call that does not fail: a server that answers at once, asked directly and through the loop. Processor time of the
//! thread, so that other work on the machine counts as little as it can.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Env, RealEnv, RealEnvConfig};
use cadastre_rpc::ha::policy::{Failover, Policy};
use cadastre_rpc::ha::{
    Call, CallIds, Caller, ConfiguredFailover, Failed, Invoker, Method, Policies, Protocol, Proxy,
};
use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{Criterion, criterion_group, criterion_main};
use futures::FutureExt;
use futures::future::BoxFuture;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

static TOY: Protocol = Protocol {
    name: "Toy",
    interface: "Toy",
    version: 1,
    methods: &[Method::read("read", "")],
};

struct Instant(Arc<str>);

impl Invoker for Instant {
    fn name(&self) -> &Arc<str> {
        &self.0
    }

    fn invoke<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Bytes, Failed>> {
        Box::pin(async move { Ok(call.body.clone()) })
    }
}

/// Processor time of this thread.
struct ThreadTime;

impl Measurement for ThreadTime {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    }

    fn end(&self, began: Duration) -> Duration {
        self.start() - began
    }

    fn add(&self, a: &Duration, b: &Duration) -> Duration {
        *a + *b
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        value.as_nanos() as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

fn proxy_overhead(c: &mut Criterion<ThreadTime>) {
    let env = RealEnv::start(&RealEnvConfig {
        data_dir: std::env::temp_dir(),
        cores: 1,
        background_threads: 1,
    })
    .expect("threads can be started");
    let server: Arc<dyn Invoker> = Arc::new(Instant("a".into()));
    let other: Arc<dyn Invoker> = Arc::new(Instant("b".into()));
    let ids = CallIds::default();
    let proxy = Proxy::new(
        env.clock().clone(),
        &TOY,
        Box::new(ConfiguredFailover::new(vec![Arc::clone(&server), other])),
        Policies::all(Policy::failover(Failover::default())),
        ids.clone(),
        env.rng("bench"),
        None,
    );
    let caller: Arc<dyn Caller> = Arc::new(proxy.clone());
    let method = &TOY.methods[0];
    let body = Bytes::from_static(b"body");
    let mut group = c.benchmark_group("one call");
    group.bench_function("the server alone", |b| {
        b.iter(|| {
            let call = Call {
                protocol: &TOY,
                method,
                body: body.clone(),
                id: ids.draw(),
                retry: 0,
                left: None,
            };
            server.invoke(&call).now_or_never()
        });
    });
    group.bench_function("through the loop", |b| {
        b.iter(|| proxy.call_unboxed(method, body.clone()).now_or_never());
    });
    group.bench_function("through the loop, as dyn Caller", |b| {
        b.iter(|| caller.call(method, body.clone()).now_or_never());
    });
    group.finish();
    env.shutdown();
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_measurement(ThreadTime);
    targets = proxy_overhead
}
criterion_main!(benches);
