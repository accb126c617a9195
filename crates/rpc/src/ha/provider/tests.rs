//! Providers under the loop, with scripted servers.

use std::time::Duration;

use cadastre_types::{Error, Result};
use futures::FutureExt;
use rand::SeedableRng;

use super::*;
use crate::ha::Executed;
use crate::ha::policy::Class;
use crate::ha::proxy::tests::{
    Answer, Jumping, STANDBY, Scripted, TOY, call, dynamic, method, proxy, server,
};
use crate::ha::{CallIds, Caller};

/// Understands the answers `active`, `standby`, `observer`.
struct ToyProbe;

impl StateProbe for ToyProbe {
    fn request(&self) -> (&'static Method, Bytes) {
        (method("state"), Bytes::new())
    }

    fn state(&self, answer: Bytes) -> Result<ServerState> {
        match answer.rsplit(|byte| *byte == b' ').next() {
            Some(b"active") => Ok(ServerState::Active),
            Some(b"standby") => Ok(ServerState::Standby),
            Some(b"observer") => Ok(ServerState::Observer),
            _ => Err(Error::corrupt("no state")),
        }
    }

    fn msync(&self) -> Option<(&'static Method, Bytes)> {
        Some((method("msync"), Bytes::new()))
    }
}

const NOT_FOUND: Answer = Err((Class::Remote, Executed::Refused));
const REFUSED: Answer = Err((Class::Refused, Executed::No));
const RESET: Answer = Err((Class::Socket, Executed::Maybe));

fn methods(server: &Scripted) -> Vec<&'static str> {
    let seen = server.seen.lock().unwrap();
    seen.iter().map(|(name, ..)| *name).collect()
}

fn hedging(servers: &[&Arc<Scripted>]) -> RequestHedging {
    let probe: Arc<dyn StateProbe> = Arc::new(ToyProbe);
    RequestHedging::new(dynamic(servers), Some(probe), CallIds::default())
}

#[test]
fn in_order_round_and_round() {
    let servers = [
        server("a", &[], STANDBY),
        server("b", &[], STANDBY),
        server("c", &[], STANDBY),
    ];
    let [a, b, c] = &servers;
    let provider = ConfiguredFailover::new(dynamic(&[a, b, c]));
    let mut names = Vec::new();
    for _ in 0..5 {
        let current = provider.current();
        names.push(current.name().to_string());
        provider.fail_over(&current);
    }
    assert_eq!(names, ["a", "b", "c", "a", "b"]);
}

#[test]
fn a_random_start_reaches_all() {
    let (a, b) = (server("a", &[], STANDBY), server("b", &[], STANDBY));
    let mut first = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let mut chance = Rng::seed_from_u64(seed);
        let provider = ConfiguredFailover::shuffled(dynamic(&[&a, &b]), &mut chance);
        let current = provider.current();
        provider.fail_over(&current);
        assert_ne!(provider.current().name(), current.name());
        first.insert(current.name().to_string());
    }
    assert_eq!(first.len(), 2);
}

#[test]
fn one_address_is_tried_again() {
    let a = server("a", &[REFUSED, RESET], Ok("moved"));
    let proxy = proxy(IpFailover(a.clone()), &Jumping::default());
    assert_eq!(call(&proxy, "rename").unwrap(), "a moved");
    assert_eq!(a.count(), 3);
}

#[test]
fn hedging_asks_all_once_and_stays() {
    let (a, b) = (server("a", &[], STANDBY), server("b", &[], Ok("yes")));
    let proxy = proxy(hedging(&[&a, &b]), &Jumping::default());
    assert_eq!(&*proxy.current(), "a|b");
    assert_eq!(call(&proxy, "read").unwrap(), "b yes");
    assert_eq!(&*proxy.current(), "b");
    assert_eq!(call(&proxy, "read").unwrap(), "b yes");
    assert_eq!(call(&proxy, "rename").unwrap(), "b yes");
    assert_eq!((a.count(), b.count()), (1, 3));
    assert_eq!(proxy.failovers(), 0);
    // The active one is another now: its failure leads to the other, not to a round of all.
    a.becomes(Ok("now"));
    b.becomes(STANDBY);
    assert_eq!(call(&proxy, "rename").unwrap(), "a now");
    assert_eq!(proxy.failovers(), 1);
}

#[test]
fn what_changes_something_is_never_hedged() {
    let a = server("a", &[Ok("standby")], Ok("twice"));
    let b = server("b", &[Ok("active")], Ok("once"));
    let proxy = proxy(hedging(&[&a, &b]), &Jumping::default());
    assert_eq!(call(&proxy, "rename").unwrap(), "b once");
    assert_eq!(methods(&a), ["state"]);
    assert_eq!(methods(&b), ["state", "rename"]);
    // The probe did not take the call's id.
    let seen = b.seen.lock().unwrap().clone();
    assert_ne!(seen[0].1, seen[1].1);
}

#[test]
fn no_active_one_is_a_failover() {
    let a = server("a", &[Ok("standby"), RESET], Ok("active"));
    let b = server("b", &[Ok("standby"), Ok("standby")], REFUSED);
    let proxy = proxy(hedging(&[&a, &b]), &Jumping::default());
    // Found in the third round; nothing was sent before, so nothing is unknown.
    assert_eq!(call(&proxy, "ring").unwrap(), "a active");
    assert_eq!(methods(&a), ["state", "state", "state", "ring"]);
}

#[test]
fn of_all_failures_the_one_that_goes_on_counts() {
    // The active one has no such file, the standby cannot say: the other is asked alone, and its refusal is final.
    let (a, b) = (server("a", &[], STANDBY), server("b", &[], NOT_FOUND));
    let clock = Jumping::default();
    let proxy = proxy(hedging(&[&a, &b]), &clock);
    let error = call(&proxy, "read").unwrap_err();
    assert_eq!(error.message(), "b: Remote");
    assert_eq!((a.count(), b.count()), (1, 2));
    assert!(clock.slept.lock().unwrap().is_empty());
}

fn observers(
    clock: &Jumping,
    servers: &[&Arc<Scripted>],
    settings: ObserverSettings,
) -> ObserverReads<Jumping> {
    let servers = dynamic(servers);
    ObserverReads::new(
        clock.clone(),
        servers.clone(),
        Box::new(ConfiguredFailover::new(servers)),
        Arc::new(ToyProbe),
        CallIds::default(),
        settings,
    )
}

#[test]
fn reads_go_to_an_observer_after_one_msync() {
    let a = server("a", &[Ok("synced"), Ok("active")], Ok("active one"));
    let o = server("o", &[Ok("observer")], Ok("observed"));
    let clock = Jumping::default();
    let proxy = proxy(
        observers(&clock, &[&a, &o], ObserverSettings::default()),
        &clock,
    );
    assert_eq!(call(&proxy, "read").unwrap(), "o observed");
    assert_eq!(methods(&a), ["msync", "state"]);
    assert_eq!(methods(&o), ["state", "read"]);
    assert_eq!(call(&proxy, "read").unwrap(), "o observed");
    assert_eq!(methods(&o), ["state", "read", "read"]);
    // What changes something, and what only the active one knows, goes there.
    assert_eq!(call(&proxy, "rename").unwrap(), "a active one");
    assert_eq!(call(&proxy, "msync").unwrap(), "a active one");
    assert_eq!(o.count(), 3);
}

#[test]
fn msync_again_after_its_period() {
    let a = server("a", &[Ok("synced"), Ok("active")], Ok("again"));
    let o = server("o", &[Ok("observer")], Ok("observed"));
    let clock = Jumping::default();
    let settings = ObserverSettings {
        auto_msync: Some(Duration::from_secs(1)),
        ..ObserverSettings::default()
    };
    let proxy = proxy(observers(&clock, &[&a, &o], settings), &clock);
    for _ in 0..3 {
        call(&proxy, "read").unwrap();
    }
    assert_eq!(methods(&a), ["msync", "state"]);
    *clock.now.lock().unwrap() += Duration::from_secs(1);
    call(&proxy, "read").unwrap();
    assert_eq!(methods(&a), ["msync", "state", "msync"]);
    // Any success there counts as one.
    *clock.now.lock().unwrap() += Duration::from_secs(1);
    call(&proxy, "rename").unwrap();
    call(&proxy, "read").unwrap();
    assert_eq!(methods(&a), ["msync", "state", "msync", "rename"]);
}

#[test]
fn an_observer_that_wants_the_active_one_asked() {
    let a = server("a", &[Ok("synced"), Ok("active")], Ok("active one"));
    let o = server(
        "o",
        &[Ok("observer")],
        Err((Class::ObserverRetryOnActive, Executed::No)),
    );
    let clock = Jumping::default();
    let proxy = proxy(
        observers(&clock, &[&a, &o], ObserverSettings::default()),
        &clock,
    );
    assert_eq!(call(&proxy, "read").unwrap(), "a active one");
    assert_eq!(proxy.failovers(), 0);
}

#[test]
fn observers_that_fail_are_left_and_refusals_are_final() {
    let a = server("a", &[Ok("synced"), Ok("active")], Ok("active one"));
    let o = server("o", &[Ok("observer"), REFUSED], REFUSED);
    let p = server("p", &[Ok("observer")], NOT_FOUND);
    let clock = Jumping::default();
    let proxy = proxy(
        observers(&clock, &[&a, &o, &p], ObserverSettings::default()),
        &clock,
    );
    let error = call(&proxy, "read").unwrap_err();
    assert_eq!(error.message(), "p: Remote");
    assert_eq!(methods(&o), ["state", "read"]);
}

#[test]
fn without_an_observer_none_is_looked_for_for_a_while() {
    let a = server("a", &[Ok("synced"), Ok("active")], Ok("active one"));
    let b = server("b", &[Ok("standby")], Ok("standby"));
    let clock = Jumping::default();
    let proxy = proxy(
        observers(&clock, &[&a, &b], ObserverSettings::default()),
        &clock,
    );
    for _ in 0..3 {
        assert_eq!(call(&proxy, "read").unwrap(), "a active one");
    }
    assert_eq!(methods(&b), ["state"]);
    *clock.now.lock().unwrap() += Duration::from_secs(600);
    call(&proxy, "read").unwrap();
    assert_eq!(methods(&b), ["state", "state"]);
}

#[test]
fn the_active_one_behind_observers_fails_over() {
    let a = server("a", &[], STANDBY);
    let b = server("b", &[], Ok("active"));
    let clock = Jumping::default();
    let proxy = proxy(
        observers(&clock, &[&a, &b], ObserverSettings::default()),
        &clock,
    );
    assert_eq!(call(&proxy, "rename").unwrap(), "b active");
    assert_eq!(proxy.failovers(), 1);
    assert_eq!(call(&proxy, "read").unwrap(), "b active");
}

#[test]
fn a_probe_that_hangs_is_given_up() {
    struct Hangs(Arc<str>);
    impl Invoker for Hangs {
        fn name(&self) -> &Arc<str> {
            &self.0
        }
        fn invoke<'a>(
            &'a self,
            _: &'a crate::ha::Call,
        ) -> futures::future::BoxFuture<'a, Result<Bytes, crate::ha::Failed>> {
            Box::pin(std::future::pending())
        }
    }
    let a = server("a", &[], Ok("active"));
    let clock = Jumping::default();
    let settings = ObserverSettings {
        probe_timeout: Some(Duration::from_secs(2)),
        ..ObserverSettings::default()
    };
    let hangs: Arc<dyn Invoker> = Arc::new(Hangs("h".into()));
    let provider = ObserverReads::new(
        clock.clone(),
        vec![hangs, a.clone()],
        Box::new(IpFailover(a.clone())),
        Arc::new(ToyProbe),
        CallIds::default(),
        settings,
    );
    let proxy = proxy(provider, &clock);
    let answer = proxy.call(method("read"), Bytes::new()).now_or_never();
    assert_eq!(answer.unwrap().unwrap(), "a active");
    assert_eq!(*clock.now.lock().unwrap(), Duration::from_secs(2));
    assert_eq!(TOY.methods.len(), 6);
}
