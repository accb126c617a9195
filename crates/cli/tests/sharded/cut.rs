//! A client that is cut off from the coordination service, and can still reach the tables, which know nothing of rules (R29, R71).

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use cadastre_env::{Clock, Env};

use super::*;

/// How long the client's session outlives its last ping.
const SESSION_MS: u64 = 6_000;

/// A wire between a client and the coordination service, which can be cut: nothing passes, nothing breaks, until it is mended.
struct Wire {
    at: String,
    is_cut: Arc<AtomicBool>,
}

#[allow(clippy::disallowed_methods, reason = "outside of what is tested")]
impl Wire {
    fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap().to_string();
        let is_cut = Arc::new(AtomicBool::new(false));
        let (cut, server) = (Arc::clone(&is_cut), server.to_owned());
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                while cut.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(20));
                }
                let Ok(server) = TcpStream::connect(&server) else {
                    continue;
                };
                let back = (server.try_clone().unwrap(), client.try_clone().unwrap());
                for (from, to) in [(client, server), back] {
                    let cut = Arc::clone(&cut);
                    std::thread::spawn(move || pass(from, to, &cut));
                }
            }
        });
        Self { at, is_cut }
    }

    fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Relaxed);
    }
}

/// Until one of both ends has gone.
fn pass(mut from: TcpStream, mut to: TcpStream, cut: &AtomicBool) {
    let mut bytes = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        while cut.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
        }
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    // The other direction ends, too.
    let _ = to.shutdown(std::net::Shutdown::Both);
}

/// A write of the client's: its number, and when it was answered well.
type Written = Arc<Mutex<Vec<(u64, Option<Duration>)>>>;

#[test]
fn r29_a_client_that_is_cut_off_stops_by_its_own_clock_before_the_new_version_comes_into_force() {
    let workshop = Workshop::start();
    workshop.file("w1.rule", &r67(1, 1));
    workshop.file("w2.rule", &r67(2, 2));
    workshop.expect(0, "rule publish w1.rule");
    workshop.expect(0, "table create w f --rule w");
    let mut awake = Watcher::start(&workshop, "w");
    let wire = Wire::to(workshop.zookeeper());
    let client = workshop.client_at(&wire.at, SESSION_MS);
    let written = Written::default();
    let told = Arc::clone(&written);
    let env = workshop.env.clone();
    let table = workshop.follow_with(client, "w");
    let clock = env.clock().clone();
    {
        let clock = clock.clone();
        workshop.block_on(async move {
            // For ever: it ends with the test.
            env.spawn("writer", async move {
                for number in 1_u64.. {
                    let done = put(&table, "1", &number.to_string()).await;
                    let done = done.is_ok().then(|| clock.mono());
                    told.lock().unwrap().push((number, done));
                    clock.sleep(Duration::from_millis(20)).await;
                }
            });
        });
    }
    let last = || {
        let written = written.lock().unwrap();
        written
            .iter()
            .rev()
            .find_map(|(number, done)| Some((*number, (*done)?)))
    };
    let wait = |what: &dyn Fn() -> bool| {
        while !what() {
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait(&|| last().is_some_and(|(number, _)| number > 5));
    wire.cut(true);
    let cut = clock.mono();
    // The publisher waits for it until its session is over. By then it has stopped, although it could reach the table all the time.
    let (out, _) = workshop.expect(0, "rule publish w2.rule --hold --wait 120");
    let seen = clock.mono();
    assert!(out.contains("all 1 live clients have seen it"), "{out}");
    assert!(
        seen - cut >= Duration::from_millis(SESSION_MS / 2),
        "{:?}",
        seen - cut
    );
    workshop.expect(0, "rule publish --continue w --copied");
    awake.until(|line| line["version"] == 2);
    let (number, at) = last().unwrap();
    assert!(
        at < seen,
        "it wrote by the old version at {at:?}, all others had seen the new one at {seen:?}"
    );
    let old = |workshop: &Workshop| workshop.expect(0, "get w_0 1 --json").0;
    let held: Value = serde_json::from_str(&old(&workshop)).unwrap();
    let value = |held: &Value| {
        held["cells"][0]["value"]
            .as_str()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    // What was given up when the session ended may have been done, nothing that came later.
    assert!(
        (number..=number + 1).contains(&value(&held)),
        "{number} {held}"
    );
    // When it is back it goes by the new version.
    wire.cut(false);
    wait(&|| last().is_some_and(|(later, _)| later > number + 1));
    let new: Value = serde_json::from_str(&workshop.expect(0, "get w_1 1 --json").0).unwrap();
    assert!(value(&new) > number + 1, "{new}");
    let still: Value = serde_json::from_str(&old(&workshop)).unwrap();
    assert_eq!(value(&still), value(&held));
}
