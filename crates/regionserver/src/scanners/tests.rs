//! The life of scanners, told the time.

use super::*;
use crate::requests::scan;
use crate::testing::{Bench, on_region, row};

const LEASE: Duration = Duration::from_millis(limits::SCANNER_LEASE_MS);
const AGE_MAX: Duration = Duration::from_millis(limits::SCANNER_AGE_MAX_MS);

/// A table with one scanner, at rest since now; its id and now.
async fn one_open<E: Env>(env: &E, hosted: &Arc<Hosted<E>>) -> (Scanners<E>, u64, Duration) {
    let scanner = scan::open_here(env, hosted, Scan::whole()).await.unwrap();
    let scanners = Scanners::new(7);
    let (id, now) = (scanners.reserve().unwrap(), env.clock().mono());
    scanners.put(id, Box::new(scanner), now);
    (scanners, id, now)
}

async fn filled(bench: &Bench) -> Arc<Hosted<cadastre_env::RealEnv>> {
    bench
        .write((0..3).map(row), &Bytes::from_static(b"v"))
        .await;
    bench.hosted()
}

#[test]
fn c12_a_scanner_that_is_called_again_and_again_ends_by_its_age() {
    on_region(|bench| async move {
        let hosted = filled(&bench).await;
        for looks_round in [false, true] {
            let holders = Arc::strong_count(&hosted);
            let (scanners, id, opened) = one_open(&bench.env, &hosted).await;
            let mut now = opened;
            let error = loop {
                now += LEASE / 2;
                if looks_round {
                    scanners.expire(now);
                }
                match scanners.take(id, now) {
                    Ok(Taken::Open(scanner)) => scanners.put(id, scanner, now),
                    Ok(Taken::Ended(_)) => panic!("nobody has read it to its end"),
                    Err(error) => break error,
                }
            };
            assert_eq!(error.code(), Code::UnknownScanner);
            assert_eq!(now - opened, AGE_MAX);
            assert_eq!(
                Arc::strong_count(&hosted),
                holders,
                "its moment is given up"
            );
        }
    });
}

#[test]
fn a_scanner_that_nobody_calls_ends_with_its_lease() {
    on_region(|bench| async move {
        let hosted = filled(&bench).await;
        let (scanners, id, opened) = one_open(&bench.env, &hosted).await;
        scanners.expire(opened + LEASE / 2);
        let Ok(Taken::Open(scanner)) = scanners.take(id, opened + LEASE / 2) else {
            panic!("it is gone");
        };
        scanners.put(id, scanner, opened + LEASE / 2);
        scanners.expire(opened + LEASE + LEASE / 2);
        let taken = scanners.take(id, opened + LEASE + LEASE / 2);
        assert!(taken.is_err_and(|error| error.code() == Code::UnknownScanner));
    });
}
