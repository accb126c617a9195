//! The proxy adds no allocation to a call that does not fail: what a call needs, its request does.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::Arc;

use bytes::Bytes;
use cadastre_env::{Env, RealEnv, RealEnvConfig};
use cadastre_rpc::ha::policy::{Failover, Policy};
use cadastre_rpc::ha::{
    Call, CallIds, Caller, ConfiguredFailover, Failed, Invoker, Method, Policies, Protocol, Proxy,
};
use futures::FutureExt;
use futures::future::BoxFuture;

static TOY: Protocol = Protocol {
    name: "Toy",
    interface: "Toy",
    version: 1,
    methods: &[Method::read("read", "")],
};

/// Answers at once.
struct Instant(Arc<str>);

impl Invoker for Instant {
    fn name(&self) -> &Arc<str> {
        &self.0
    }

    fn invoke<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Bytes, Failed>> {
        Box::pin(async move { Ok(call.body.clone()) })
    }
}

#[test]
fn the_loop_allocates_nothing() {
    let data = tempfile::tempdir().unwrap();
    let env = RealEnv::start(&RealEnvConfig {
        data_dir: data.path().to_owned(),
        cores: 1,
        background_threads: 1,
    })
    .unwrap();
    let server: Arc<dyn Invoker> = Arc::new(Instant("a".into()));
    let ids = CallIds::default();
    let proxy = Proxy::new(
        env.clock().clone(),
        &TOY,
        Box::new(ConfiguredFailover::new(vec![Arc::clone(&server)])),
        Policies::all(Policy::failover(Failover::default())),
        ids.clone(),
        env.rng("t"),
        None,
    );
    let (method, body) = (&TOY.methods[0], Bytes::from_static(b"body"));
    let count = |what: &dyn Fn()| allocation_counter::measure(what).count_total;
    let alone = count(&|| {
        let call = Call {
            protocol: &TOY,
            method,
            body: body.clone(),
            id: ids.draw(),
            retry: 0,
            left: None,
        };
        server.invoke(&call).now_or_never().unwrap().unwrap();
    });
    let through = count(&|| {
        let call = proxy.call_unboxed(method, body.clone());
        call.now_or_never().unwrap().unwrap();
    });
    assert_eq!(through, alone);
    // Behind `dyn Caller` the call's own state lies in a box.
    let caller: &dyn Caller = &proxy;
    let dynamic = count(&|| {
        let call = caller.call(method, body.clone());
        call.now_or_never().unwrap().unwrap();
    });
    assert_eq!(dynamic, alone + 1);
    env.shutdown();
}
