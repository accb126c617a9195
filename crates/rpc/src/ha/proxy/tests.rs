//! The loop alone: scripted servers, a clock that jumps, no sockets.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use cadastre_env::{Elapsed, Millis};
use futures::FutureExt;
use futures::future::join_all;
use rand::SeedableRng;

use super::*;
use crate::ha::policy::{Class, Failover};
use crate::ha::{ConfiguredFailover, IpFailover, Loss, Lossy};

/// A clock whose sleeps take no time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Jumping {
    pub(crate) now: Arc<Mutex<Duration>>,
    pub(crate) slept: Arc<Mutex<Vec<u128>>>,
}

impl Clock for Jumping {
    fn wall(&self) -> Millis {
        0
    }

    fn mono(&self) -> Duration {
        *self.now.lock().unwrap()
    }

    async fn sleep(&self, duration: Duration) {
        *self.now.lock().unwrap() += duration;
        self.slept.lock().unwrap().push(duration.as_millis());
    }

    async fn timeout<F: Future + Send>(
        &self,
        duration: Duration,
        future: F,
    ) -> Result<F::Output, Elapsed>
    where
        F::Output: Send,
    {
        // What is not ready at once never is.
        match future.now_or_never() {
            Some(output) => Ok(output),
            None => {
                *self.now.lock().unwrap() += duration;
                Err(Elapsed)
            }
        }
    }
}

const READ: Method = Method::read("read", "");
const MKDIRS: Method = Method::idempotent("mkdirs");
const RENAME: Method = Method::at_most_once("rename");
const RING: Method = Method::unmarked("ring");

pub(crate) static TOY: Protocol = Protocol {
    name: "Toy",
    interface: "org.example.Toy",
    version: 1,
    methods: &[
        READ,
        MKDIRS,
        RENAME,
        RING,
        Method::read("state", ""),
        Method::read("msync", "a"),
    ],
};

pub(crate) fn method(name: &str) -> &'static Method {
    TOY.find(name).unwrap()
}

/// What a scripted server does with a call.
pub(crate) type Answer = Result<&'static str, (Class, Executed)>;

/// A server that answers by its script, then for ever the same.
pub(crate) struct Scripted {
    name: Arc<str>,
    script: Mutex<VecDeque<Answer>>,
    then: Mutex<Answer>,
    /// Method, call id and retry of each try.
    pub(crate) seen: Mutex<Vec<(&'static str, i32, u32)>>,
}

pub(crate) fn server(name: &str, script: &[Answer], then: Answer) -> Arc<Scripted> {
    Arc::new(Scripted {
        name: name.into(),
        script: Mutex::new(script.iter().copied().collect()),
        then: Mutex::new(then),
        seen: Mutex::default(),
    })
}

impl Scripted {
    pub(crate) fn becomes(&self, answer: Answer) {
        *self.then.lock().unwrap() = answer;
    }

    pub(crate) fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    pub(crate) fn fails(&self, class: Class, executed: Executed) -> Failed {
        let code = match executed {
            Executed::Maybe => Code::OutcomeUnknown,
            Executed::No | Executed::Refused => Code::Remote,
        };
        let error = Error::new(code, format!("{}: {class:?}", self.name));
        Failure::new(class, executed, &self.name, error).into()
    }
}

impl Invoker for Scripted {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn invoke<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Bytes, Failed>> {
        Box::pin(async move {
            let seen = (call.method.name, call.id, call.retry);
            self.seen.lock().unwrap().push(seen);
            let next = self.script.lock().unwrap().pop_front();
            match next.unwrap_or_else(|| *self.then.lock().unwrap()) {
                Ok(text) => Ok(Bytes::from(format!("{} {text}", self.name))),
                Err((class, executed)) => Err(self.fails(class, executed)),
            }
        })
    }
}

pub(crate) const STANDBY: Answer = Err((Class::Standby, Executed::No));
const REFUSED: Answer = Err((Class::Refused, Executed::No));
const RETRIABLE: Answer = Err((Class::Retriable, Executed::No));
const RESET: Answer = Err((Class::Socket, Executed::Maybe));
const TIMEOUT: Answer = Err((Class::CallTimeout, Executed::Maybe));
const NOT_FOUND: Answer = Err((Class::Remote, Executed::Refused));
const NO_METHOD: Answer = Err((Class::Remote, Executed::No));

pub(crate) fn dynamic(servers: &[&Arc<Scripted>]) -> Vec<Arc<dyn Invoker>> {
    (servers.iter())
        .map(|server| Arc::clone(server) as Arc<dyn Invoker>)
        .collect()
}

pub(crate) fn proxy(provider: impl ProxyProvider + 'static, clock: &Jumping) -> Proxy<Jumping> {
    Proxy::new(
        clock.clone(),
        &TOY,
        Box::new(provider),
        Policies::all(Policy::failover(Failover::default())),
        CallIds::default(),
        Rng::seed_from_u64(1),
        None,
    )
}

pub(crate) fn call(proxy: &Proxy<Jumping>, name: &str) -> Result<String> {
    let outcome = proxy.call(method(name), Bytes::new());
    let answer = outcome.now_or_never().expect("nothing here waits")?;
    Ok(String::from_utf8(answer.to_vec()).unwrap())
}

fn pair(a: &Arc<Scripted>, b: &Arc<Scripted>) -> (Proxy<Jumping>, Jumping) {
    let clock = Jumping::default();
    let provider = ConfiguredFailover::new(dynamic(&[a, b]));
    (proxy(provider, &clock), clock)
}

#[test]
fn a_standby_costs_one_try_and_no_sleep() {
    let (a, b) = (server("a", &[], STANDBY), server("b", &[], Ok("yes")));
    let (proxy, clock) = pair(&a, &b);
    assert_eq!(call(&proxy, "rename").unwrap(), "b yes");
    assert_eq!((proxy.failovers(), &*proxy.current()), (1, "b"));
    assert!(clock.slept.lock().unwrap().is_empty());
    // It stays with the active one.
    assert_eq!(call(&proxy, "rename").unwrap(), "b yes");
    assert_eq!((a.count(), b.count()), (1, 2));
}

#[test]
fn one_call_id_over_all_tries_and_rising_retries() {
    let a = server("a", &[STANDBY, RESET, RETRIABLE], Ok("late"));
    let b = server("b", &[STANDBY, REFUSED], STANDBY);
    let (proxy, _) = pair(&a, &b);
    assert_eq!(call(&proxy, "rename").unwrap(), "a late");
    assert_eq!(call(&proxy, "rename").unwrap(), "a late");
    let seen = a.seen.lock().unwrap().clone();
    let expected = [("rename", 0, 0), ("rename", 0, 2), ("rename", 0, 4)];
    assert_eq!(seen[..3], expected);
    assert_eq!(seen[3], ("rename", 0, 5));
    // The next call has the next id.
    assert_eq!(seen[4], ("rename", 1, 0));
    let seen = b.seen.lock().unwrap().clone();
    assert_eq!(seen, [("rename", 0, 1), ("rename", 0, 3)]);
}

#[test]
fn endless_standby_ends_and_names_both() {
    let (a, b) = (server("a", &[], STANDBY), server("b", &[], STANDBY));
    let (proxy, clock) = pair(&a, &b);
    let error = call(&proxy, "rename").unwrap_err();
    let says = "rename: failovers (15) exceeded maximum allowed (15); a: Standby; b: Standby";
    assert_eq!((error.code(), error.message()), (Code::Remote, says));
    // After each pause both are asked, but the last time.
    assert_eq!((a.count(), b.count()), (15, 14));
    let slept = clock.slept.lock().unwrap();
    // The first failover is without a sleep; the others grow within chance.
    assert_eq!(slept.len(), 14);
    assert!((500..=1500).contains(&slept[0]), "{slept:?}");
    assert!((7500..=22_500).contains(&slept[13]), "{slept:?}");
}

/// Whichever of them becomes active, the end of a pause finds it: not only the one whose turn it is.
#[test]
fn every_server_is_asked_before_a_pause() {
    for (at_a, at_b) in [(STANDBY, REFUSED), (REFUSED, STANDBY)] {
        let a = server("a", &[at_a, at_a], Ok("yes"));
        let b = server("b", &[at_b; 4], Ok("late"));
        let (proxy, clock) = pair(&a, &b);
        assert_eq!(call(&proxy, "rename").unwrap(), "a yes");
        // One pause after a, b; then b is not asked, since a has become active meanwhile, or a after b.
        let slept = clock.slept.lock().unwrap().len();
        assert_eq!((slept, a.count()), (2, 3), "{} tries of b", b.count());
    }
    // Three: Hadoop sleeps before the third.
    let servers = [("a", STANDBY), ("b", STANDBY), ("c", Ok("yes"))];
    let servers = servers.map(|(name, answer)| server(name, &[], answer));
    let clock = Jumping::default();
    let [a, b, c] = &servers;
    let proxy = proxy(ConfiguredFailover::new(dynamic(&[a, b, c])), &clock);
    assert_eq!(call(&proxy, "rename").unwrap(), "c yes");
    assert!(clock.slept.lock().unwrap().is_empty());
}

#[test]
fn endless_retriable_ends() {
    let (a, b) = (server("a", &[], RETRIABLE), server("b", &[], Ok("never")));
    let (proxy, _) = pair(&a, &b);
    let error = call(&proxy, "read").unwrap_err();
    let says = "read: retries (11) exceeded maximum allowed (10); a: Retriable";
    assert_eq!(error.message(), says);
    assert_eq!((a.count(), b.count()), (12, 0));
}

#[test]
fn the_methods_own_refusal_is_final() {
    let (a, b) = (server("a", &[], NOT_FOUND), server("b", &[], Ok("never")));
    let (proxy, _) = pair(&a, &b);
    for name in ["read", "mkdirs", "rename", "ring"] {
        let error = call(&proxy, name).unwrap_err();
        assert_eq!((error.code(), error.message()), (Code::Remote, "a: Remote"));
    }
    assert_eq!(b.count(), 0);
}

#[test]
fn what_has_no_mark_is_not_sent_again_once_it_was_sent() {
    for lost in [RESET, TIMEOUT, Err((Class::Eof, Executed::Maybe))] {
        let (a, b) = (server("a", &[], lost), server("b", &[], Ok("twice")));
        let (proxy, _) = pair(&a, &b);
        let error = call(&proxy, "ring").unwrap_err();
        assert_eq!(error.code(), Code::OutcomeUnknown);
        assert!(error.message().contains("it may have been done"));
        assert_eq!(b.count(), 0);
        // Marked ones are.
        for name in ["read", "mkdirs", "rename"] {
            assert_eq!(call(&pair(&a, &b).0, name).unwrap(), "b twice");
        }
    }
    // Not sent, it is another matter.
    let (a, b) = (server("a", &[], REFUSED), server("b", &[], Ok("once")));
    assert_eq!(call(&pair(&a, &b).0, "ring").unwrap(), "b once");
}

/// Every end of a call that may have been done (INV-5): what was said after the lost try decides.
#[test]
fn unknown_is_never_told_as_failed() {
    let unknown = |lost: Answer, then: Answer, name: &str| {
        let (a, b) = (server("a", &[lost], STANDBY), server("b", &[], then));
        let error = call(&pair(&a, &b).0, name).unwrap_err();
        error.code() == Code::OutcomeUnknown
    };
    for lost in [RESET, TIMEOUT] {
        for name in ["mkdirs", "rename"] {
            // Said before anybody looked whether it was done: nothing is known.
            for then in [STANDBY, REFUSED, RETRIABLE, NO_METHOD, RESET] {
                assert!(unknown(lost, then, name), "{name} {lost:?} {then:?}");
            }
            // The method looked, and said no: so it is.
            assert!(!unknown(lost, NOT_FOUND, name), "{name}");
        }
        // A read changes nothing: it failed.
        assert!(!unknown(lost, REFUSED, "read"));
    }
    // Nothing was ever sent: it failed.
    assert!(!unknown(REFUSED, STANDBY, "rename"));
}

/// Servers remember what they did for ten minutes only: after that a repeated call would be a second one.
#[test]
fn what_no_server_remembers_is_not_repeated() {
    let patient = |lost: Answer, name: &str| {
        let (a, b) = (server("a", &[lost], STANDBY), server("b", &[], STANDBY));
        let numbers = Failover {
            failovers_max: 1000,
            sleep_base_ms: 60_000,
            sleep_max_ms: 60_000,
            ..Failover::default()
        };
        let clock = Jumping::default();
        let proxy = Proxy::new(
            clock.clone(),
            &TOY,
            Box::new(ConfiguredFailover::new(dynamic(&[&a, &b]))),
            Policies::all(Policy::failover(numbers)),
            CallIds::default(),
            Rng::seed_from_u64(1),
            None,
        );
        let error = call(&proxy, name).unwrap_err();
        (error, clock.mono(), a.count() + b.count())
    };
    let (error, took, _) = patient(RESET, "rename");
    assert_eq!(error.code(), Code::OutcomeUnknown);
    assert!(error.message().contains("too long ago"), "{error}");
    assert!(took >= REMEMBERED && took < REMEMBERED + Duration::from_secs(90));
    // What is as good twice as once, or was never sent, is repeated as long as the policy says.
    assert_eq!(patient(RESET, "mkdirs").2, 1999);
    assert_eq!(patient(REFUSED, "rename").2, 1999);
}

#[test]
fn a_method_may_have_its_own_policy() {
    let a = server("a", &[], STANDBY);
    let clock = Jumping::default();
    let policies = Policies {
        by_method: BTreeMap::from([("read", Policy::TryOnce)]),
        ..Policies::all(Policy::failover(Failover::default()))
    };
    let proxy = Proxy::new(
        clock,
        &TOY,
        Box::new(IpFailover(a.clone())),
        policies,
        CallIds::default(),
        Rng::seed_from_u64(1),
        None,
    );
    assert!(call(&proxy, "read").is_err());
    assert_eq!(a.count(), 1);
    assert!(call(&proxy, "mkdirs").is_err());
    assert_eq!(a.count(), 1 + 16);
}

#[test]
fn events_tell_the_story() {
    let (a, b) = (server("a", &[], STANDBY), server("b", &[], Ok("yes")));
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let here = Arc::clone(&told);
    let events: Events =
        Arc::new(move |event: &Event<'_>| here.lock().unwrap().push(event.to_string()));
    let proxy = Proxy::new(
        Jumping::default(),
        &TOY,
        Box::new(ConfiguredFailover::new(dynamic(&[&a, &b]))),
        Policies::all(Policy::failover(Failover::default())),
        CallIds::default(),
        Rng::seed_from_u64(1),
        Some(events),
    );
    call(&proxy, "rename").unwrap();
    let expected = [
        "rename call 0 try 0 to a",
        "rename call 0 failed: [Standby a: Standby] row 4f, 4g: FailOver after 0 ms",
        "failed over from a to b (failover 1)",
        "rename call 0 try 1 to b",
        "rename call 0 answered by b after 1 retries",
    ];
    assert_eq!(*told.lock().unwrap(), expected);
}

/// A server that lets calls in, and lets them go again together when the gate opens.
struct Gated {
    inner: Arc<Scripted>,
    came: tokio::sync::Semaphore,
    gate: tokio::sync::Semaphore,
}

impl Invoker for Gated {
    fn name(&self) -> &Arc<str> {
        self.inner.name()
    }

    fn invoke<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Bytes, Failed>> {
        Box::pin(async move {
            self.came.add_permits(1);
            self.gate.acquire().await.unwrap().forget();
            self.inner.invoke(call).await
        })
    }
}

fn on_a_runtime(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(test);
}

#[test]
fn callers_that_fail_together_fail_over_once() {
    const CALLERS: u32 = 50;
    let gated = Arc::new(Gated {
        inner: server("a", &[], STANDBY),
        came: tokio::sync::Semaphore::new(0),
        gate: tokio::sync::Semaphore::new(0),
    });
    let (b, c) = (server("b", &[], Ok("yes")), server("c", &[], STANDBY));
    let servers: Vec<Arc<dyn Invoker>> = vec![gated.clone(), b.clone(), c.clone()];
    let proxy = proxy(ConfiguredFailover::new(servers), &Jumping::default());
    on_a_runtime(async {
        let calls = (0..CALLERS).map(|_| proxy.call(method("rename"), Bytes::new()));
        let opens = async {
            gated.came.acquire_many(CALLERS).await.unwrap().forget();
            gated.gate.add_permits(CALLERS as usize);
        };
        let (answers, ()) = futures::join!(join_all(calls), opens);
        for answer in answers {
            assert_eq!(answer.unwrap(), "b yes");
        }
    });
    // All saw the same failure; only one moved on, and none to the third.
    assert_eq!((proxy.failovers(), &*proxy.current()), (1, "b"));
    assert_eq!((b.count(), c.count()), (CALLERS as usize, 0));
}

#[test]
fn a_late_failure_does_not_undo_a_newer_failover() {
    let gated = Arc::new(Gated {
        inner: server("a", &[], RESET),
        came: tokio::sync::Semaphore::new(0),
        gate: tokio::sync::Semaphore::new(0),
    });
    let b = server("b", &[], Ok("yes"));
    let servers: Vec<Arc<dyn Invoker>> = vec![gated.clone(), b.clone()];
    let proxy = proxy(ConfiguredFailover::new(servers), &Jumping::default());
    on_a_runtime(async {
        let slow = proxy.call(method("rename"), Bytes::new());
        let others = async {
            gated.came.acquire().await.unwrap().forget();
            // Somebody else finds out first.
            let quick = proxy.call(method("rename"), Bytes::new());
            let lets_quick_go = async {
                gated.came.acquire().await.unwrap().forget();
                proxy.shared.fail_over(0);
                gated.gate.add_permits(2);
            };
            let (quick, ()) = futures::join!(quick, lets_quick_go);
            quick
        };
        let (slow, quick) = futures::join!(slow, others);
        assert_eq!(
            (slow.unwrap(), quick.unwrap()),
            ("b yes".into(), "b yes".into())
        );
    });
    assert_eq!((proxy.failovers(), &*proxy.current()), (1, "b"));
}

#[test]
fn lost_answers_are_asked_for_again_under_the_same_id() {
    for (loss, tries) in [(Loss::Retriable, 3), (Loss::Connection, 3)] {
        let a = server("a", &[], Ok("done"));
        let lossy = Arc::new(Lossy::new(a.clone(), tries, loss));
        let proxy = proxy(IpFailover(lossy), &Jumping::default());
        assert_eq!(call(&proxy, "rename").unwrap(), "a done");
        let seen = a.seen.lock().unwrap().clone();
        let expected: Vec<_> = (0..=tries).map(|retry| ("rename", 0, retry)).collect();
        assert_eq!(seen, expected);
    }
    // Without a mark the loss is told.
    for loss in [Loss::Connection, Loss::Retriable] {
        let a = server("a", &[], Ok("done"));
        let lossy = Arc::new(Lossy::new(a.clone(), 1, loss));
        let proxy = proxy(IpFailover(lossy), &Jumping::default());
        let error = call(&proxy, "ring").unwrap_err();
        assert_eq!((error.code(), a.count()), (Code::OutcomeUnknown, 1));
    }
}

#[test]
fn call_ids_are_never_negative() {
    let ids = CallIds(Arc::new(AtomicU32::new(i32::MAX.cast_unsigned())));
    assert_eq!((ids.draw(), ids.draw(), ids.draw()), (i32::MAX, 0, 1));
    let ids = CallIds(Arc::new(AtomicU32::new(u32::MAX)));
    assert_eq!((ids.draw(), ids.draw()), (i32::MAX, 0));
}

/// A clock whose sleeps never end.
#[derive(Debug, Clone)]
struct Stopped;

impl Clock for Stopped {
    fn wall(&self) -> Millis {
        0
    }

    fn mono(&self) -> Duration {
        Duration::ZERO
    }

    async fn sleep(&self, _: Duration) {
        std::future::pending().await
    }

    async fn timeout<F: Future + Send>(&self, _: Duration, future: F) -> Result<F::Output, Elapsed>
    where
        F::Output: Send,
    {
        Ok(future.await)
    }
}

fn stopped(provider: impl ProxyProvider + 'static) -> Proxy<Stopped> {
    Proxy::new(
        Stopped,
        &TOY,
        Box::new(provider),
        Policies::all(Policy::failover(Failover::default())),
        CallIds::default(),
        Rng::seed_from_u64(1),
        None,
    )
}

/// Polls once.
fn poll(call: &mut BoxFuture<'_, Result<Bytes>>) -> Option<Result<Bytes>> {
    call.now_or_never()
}

#[test]
fn an_answer_ends_the_wait_of_those_who_would_fail_over() {
    let a = server("a", &[], STANDBY);
    let b = server("b", &[REFUSED, REFUSED], Ok("yes"));
    let proxy = stopped(ConfiguredFailover::new(dynamic(&[&a, &b])));
    let ask = || proxy.call(method("rename"), Bytes::new());
    let (mut first, mut second) = (ask(), ask());
    // The first waits after b refused it, the second after a stood by.
    assert_eq!((poll(&mut first), poll(&mut second)), (None, None));
    assert_eq!((proxy.failovers(), &*proxy.current()), (2, "a"));
    assert_eq!(poll(&mut ask()).unwrap().unwrap(), "b yes");
    for call in [&mut first, &mut second] {
        assert_eq!(poll(call).unwrap().unwrap(), "b yes");
    }
    // Neither took what works away from the others.
    assert_eq!((proxy.failovers(), &*proxy.current()), (3, "b"));
    // One id over all tries, as ever.
    let tries = b.seen.lock().unwrap();
    let of_first: Vec<_> = tries.iter().filter(|(_, id, _)| *id == 0).collect();
    assert_eq!(of_first, [&("rename", 0, 1), &("rename", 0, 2)]);
}

#[test]
fn nobody_is_woken_twice_in_a_row_or_by_an_old_answer() {
    let a = server("a", &[], STANDBY);
    let b = server("b", &[REFUSED, Ok("yes"), REFUSED], Ok("yes"));
    let proxy = stopped(ConfiguredFailover::new(dynamic(&[&a, &b])));
    let ask = || proxy.call(method("rename"), Bytes::new());
    let mut call = ask();
    assert_eq!(poll(&mut call), None);
    assert_eq!(poll(&mut ask()).unwrap().unwrap(), "b yes");
    // Woken, and refused once more: what others get says nothing about this call.
    assert_eq!(poll(&mut call), None);
    assert_eq!(poll(&mut ask()).unwrap().unwrap(), "b yes");
    assert_eq!(poll(&mut call), None);
    drop(call);
    // An answer from before the last failover is none of the current server's.
    let shared = &proxy.shared;
    let waits = Waits::new(&shared.waiting);
    let mut answered = pin!(shared.answered.notified());
    answered.as_mut().enable();
    shared.wake_others(method("rename"), 0);
    assert!(answered.as_mut().now_or_never().is_none());
    shared.wake_others(method("rename"), proxy.failovers());
    assert!(answered.now_or_never().is_some());
    drop(waits);
    assert_eq!(shared.waiting.load(Ordering::Relaxed), 0);
}

#[test]
fn a_call_ends_with_its_own_time() {
    let (a, b) = (server("a", &[], STANDBY), server("b", &[], STANDBY));
    let clock = Jumping::default();
    let provider = ConfiguredFailover::new(dynamic(&[&a, &b]));
    let policies = Policies {
        time: Some(Duration::from_secs(5)),
        ..Policies::all(Policy::failover(Failover::default()))
    };
    let (ids, chance) = (CallIds::default(), Rng::seed_from_u64(1));
    let provider = Box::new(provider);
    let proxy = Proxy::new(clock.clone(), &TOY, provider, policies, ids, chance, None);
    let error = call(&proxy, "mkdirs").unwrap_err();
    let message = error.message();
    assert!(
        message.contains("the operation's 5000 ms are over"),
        "{message}"
    );
    assert!(message.contains("a: Standby") && message.contains("b: Standby"));
    assert!(*clock.now.lock().unwrap() < Duration::from_secs(5));
}
