//! What a region has left to flush when it stops to serve.

use std::pin::pin;

use bytes::Bytes;
use cadastre_env::RealEnv;
use futures::poll;

use super::*;
use crate::testing::{Bench, on_region, row};

const ROWS: usize = 1280;
const VALUE_BYTES: usize = 16 << 10;

/// Writes 20 MiB, of which nothing is flushed.
async fn fill(bench: &Bench) {
    let value = Bytes::from(vec![7; VALUE_BYTES]);
    for from in (0..ROWS).step_by(64) {
        bench.write((from..from + 64).map(row), &value).await;
    }
    let unflushed = bench.hosted().region.load().memstore_bytes;
    assert!(unflushed >= (ROWS * VALUE_BYTES) as u64, "{unflushed}");
}

#[test]
fn c11_a_region_is_flushed_while_it_serves_before_it_closes() {
    on_region(|bench| async move {
        fill(&bench).await;
        let scanners: Scanners<RealEnv> = Scanners::new(1);
        let mut closing = pin!(close(
            &bench.regions,
            &scanners,
            &bench.name,
            Closing::InOrder
        ));
        assert!(poll!(closing.as_mut()).is_pending());
        let served = bench.regions.find(&bench.name);
        assert!(served.is_ok(), "it serves while it is flushed");
        bench
            .write([row(0)].into_iter(), &Bytes::from_static(b"v"))
            .await;
        let left = closing.await.unwrap().unwrap();
        assert!(left <= LEFT_MAX, "{left} bytes were left");
        assert!(bench.regions.find(&bench.name).is_err());
    });
}

#[test]
fn a_region_of_a_server_that_ends_closes_at_once() {
    on_region(|bench| async move {
        fill(&bench).await;
        let scanners: Scanners<RealEnv> = Scanners::new(1);
        let closed = close(&bench.regions, &scanners, &bench.name, Closing::AtOnce);
        let left = closed.await.unwrap().unwrap();
        assert!(
            left >= (ROWS * VALUE_BYTES) as u64,
            "{left} bytes were left"
        );
    });
}
