//! A region in a folder of its own on one serving core, for this crate's tests. It must not know what is tested.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Clock, Env, RealEnv, RealEnvConfig};
use cadastre_store::{RegionSpec, Store, StoreConfig, WalSync};
use cadastre_types::{
    Cell, Durability, EncodedFilter, EncodedName, FamilyDescriptor, LATEST_TIMESTAMP, RegionInfo,
    TableDescriptor, TableName,
};
use cadastre_wire::pb;
use object_store::memory::InMemory;

use crate::apply::Terms;
use crate::regions::{Hosted, Regions};

/// The only family.
pub(crate) const FAMILY: &[u8] = b"f";

/// The group of all nonces.
pub(crate) const NONCE_GROUP: u64 = 3;

/// The core that everything runs on.
const CORE: usize = 0;

/// A server's table of regions with one region in it.
pub(crate) struct Bench {
    pub(crate) env: RealEnv,
    pub(crate) regions: Regions<RealEnv>,
    pub(crate) name: EncodedName,
}

/// Runs a test as a task of a serving core, whose runtime has one thread.
pub(crate) fn on_region<F: Future<Output = ()> + 'static>(
    test: impl FnOnce(Bench) -> F + Send + 'static,
) {
    let dir = tempfile::tempdir().unwrap();
    let env = RealEnv::start(&RealEnvConfig {
        data_dir: dir.path().to_owned(),
        cores: 1,
        background_threads: 1,
    })
    .unwrap();
    let (tell, told) = std::sync::mpsc::sync_channel(1);
    let here = env.clone();
    env.spawn_on(CORE, "test", move || {
        Box::pin(async move {
            let (store, bench) = Bench::open(here).await;
            test(bench).await;
            store.close().await.unwrap();
            tell.send(()).unwrap();
        })
    });
    told.recv().expect("the test's task has panicked");
    env.shutdown();
}

impl Bench {
    async fn open(env: RealEnv) -> (Store<RealEnv>, Self) {
        // Nothing is flushed before a test says so.
        let mut config = StoreConfig::new(1 << 30);
        config.segment_bytes = 32 << 20;
        config.low_space_bytes = 0;
        config.wal_sync = WalSync::Write;
        let store = Store::open(env.clone(), Arc::new(InMemory::new()), config);
        let store = store.await.unwrap();
        let table = TableName::parse("t").unwrap();
        let mut family = FamilyDescriptor::new(FAMILY);
        family.id = 1;
        let info = RegionInfo::new(table.clone(), Bytes::new(), Bytes::new(), 1);
        let name = info.encoded_name();
        let spec = RegionSpec {
            info,
            descriptor: Arc::new(TableDescriptor::new(table).with_family(family)),
            expected_epoch: None,
        };
        let region = store.open_region(spec).await.unwrap();
        let regions = Regions::new(env.clone());
        let core = regions.reserve(&name).unwrap().unwrap();
        regions.settle(&name, Some(Hosted::new(region, core)));
        (store, Self { env, regions, name })
    }

    pub(crate) fn hosted(&self) -> Arc<Hosted<RealEnv>> {
        self.regions.find(&self.name).unwrap()
    }

    /// Terms of a call that waits for a while.
    pub(crate) fn terms(&self) -> Terms {
        Terms {
            nonce_group: NONCE_GROUP,
            deadline: self.env.clock().mono() + Duration::from_secs(30),
            call_deadline: Duration::MAX,
        }
    }

    /// Writes a value of one column to each of some rows, all at once.
    pub(crate) async fn write(&self, rows: impl Iterator<Item = Bytes>, value: &Bytes) {
        let rows: BTreeSet<Bytes> = rows.collect();
        let cells = rows.iter().map(|row| put(row, b"q", 1, value)).collect();
        let hosted = self.hosted();
        let locks = hosted.region.lock_rows(rows, self.terms().deadline);
        let written = locks.await.unwrap();
        let written = written.write(cells, &[], Durability::SyncWal);
        written.await.unwrap();
    }

    /// How many turns another task of this core gets while some work runs.
    pub(crate) async fn turns_of_others(&self, work: impl Future<Output = ()>) -> u64 {
        let turns = Arc::new(AtomicU64::new(0));
        let over = Arc::new(AtomicBool::new(false));
        let (count, until) = (Arc::clone(&turns), Arc::clone(&over));
        self.env.spawn_on(CORE, "other", move || {
            Box::pin(async move {
                while !until.load(Ordering::SeqCst) {
                    count.fetch_add(1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                }
            })
        });
        while turns.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        let before = turns.load(Ordering::SeqCst);
        work.await;
        over.store(true, Ordering::SeqCst);
        turns.load(Ordering::SeqCst) - before
    }
}

/// The key of a row, in the order of its number.
pub(crate) fn row(number: usize) -> Bytes {
    format!("r{number:06}").into_bytes().into()
}

pub(crate) fn put(row: &Bytes, qualifier: &'static [u8], timestamp: i64, value: &Bytes) -> Cell {
    let (family, qualifier) = (Bytes::from_static(FAMILY), Bytes::from_static(qualifier));
    Cell::put(row.clone(), family, qualifier, timestamp, value.clone())
}

/// As [`put`], with the server's time.
pub(crate) fn put_now(row: &Bytes, qualifier: &'static [u8], value: &Bytes) -> Cell {
    put(row, qualifier, LATEST_TIMESTAMP, value)
}

/// A filter that looks at each cell and lets none pass.
pub(crate) fn nothing_passes() -> EncodedFilter {
    let prefix = Bytes::from_static(b"no column begins so");
    EncodedFilter {
        class: "org.apache.hadoop.hbase.filter.ColumnPrefixFilter".to_owned(),
        body: cadastre_wire::encode(&pb::ColumnPrefixFilter { prefix }),
    }
}
