//! The regions this server has open, each with the core that owns it.
//!
//! Reads of the table are frequent and short, writes rare (open, close). No lock is held over an await.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};

use cadastre_env::Env;
use cadastre_store::Region;
use cadastre_types::{Code, EncodedName, Error, Result, TableName};
use futures::future::LocalBoxFuture;

/// Regions one server opens at most (INV-9): each costs about 260 kB of memory when idle (storage-engine.md section 7).
pub(crate) const REGIONS_MAX: usize = 10_000;

/// An open region and what the server knows beside the store.
pub(crate) struct Hosted<E: Env> {
    /// The region.
    pub(crate) region: Region<E>,
    /// The core that owns it.
    pub(crate) core: usize,
    /// Whether only the master writes there (`hbase:namespace`).
    pub(crate) is_masters_own: bool,
    /// Rows read, for the region's load.
    pub(crate) reads: AtomicU64,
    /// Rows read and dropped by filters.
    pub(crate) filtered: AtomicU64,
    /// Rows written.
    pub(crate) writes: AtomicU64,
    /// Minor and major compactions asked for and not finished.
    pub(crate) compactions: [AtomicU32; 2],
}

impl<E: Env> Hosted<E> {
    pub(crate) fn new(region: Region<E>, core: usize) -> Self {
        Self {
            is_masters_own: region.info().table == TableName::namespaces(),
            region,
            core,
            reads: AtomicU64::new(0),
            filtered: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            compactions: [AtomicU32::new(0), AtomicU32::new(0)],
        }
    }

    /// Whether minor and major compactions are under way.
    pub(crate) fn compacting(&self) -> (bool, bool) {
        let [minor, major] = &self.compactions;
        (
            minor.load(Ordering::SeqCst) > 0,
            major.load(Ordering::SeqCst) > 0,
        )
    }

    /// That a row lies inside this region.
    ///
    /// # Errors
    /// `WrongRegion` with HBase's words; `doing` names the operation.
    pub(crate) fn check_row(&self, row: &[u8], doing: &str) -> Result<()> {
        let info = self.region.info();
        if info.is_meta() || info.contains(row) {
            return Ok(());
        }
        Err(Error::new(
            Code::WrongRegion,
            format!(
                "Requested row out of range for {doing} on HRegion {}, startKey='{}', getEndKey()='{}', row='{}'",
                String::from_utf8_lossy(&info.name()),
                String::from_utf8_lossy(&info.start_key),
                String::from_utf8_lossy(&info.end_key),
                String::from_utf8_lossy(row),
            ),
        ))
    }
}

enum Slot<E: Env> {
    Opening,
    Open(Arc<Hosted<E>>),
    Closing,
}

/// The table of regions.
pub(crate) struct Regions<E: Env> {
    env: E,
    slots: RwLock<BTreeMap<EncodedName, Slot<E>>>,
    next_core: AtomicUsize,
}

impl<E: Env> Regions<E> {
    pub(crate) fn new(env: E) -> Self {
        Self {
            env,
            slots: RwLock::new(BTreeMap::new()),
            next_core: AtomicUsize::new(0),
        }
    }

    /// The open region of this name.
    ///
    /// # Errors
    /// `RegionOpening` while it opens here, else `NotServingRegion`.
    pub(crate) fn find(&self, name: &EncodedName) -> Result<Arc<Hosted<E>>> {
        match self.slots.read().expect("not poisoned").get(name) {
            Some(Slot::Open(hosted)) => Ok(Arc::clone(hosted)),
            Some(Slot::Opening) => Err(Error::new(
                Code::RegionOpening,
                format!("Region {name} is opening on this server"),
            )),
            Some(Slot::Closing) => Err(Error::new(
                Code::NotServingRegion,
                format!("{name} is closing"),
            )),
            None => Err(Error::new(
                Code::NotServingRegion,
                format!("{name} is not online on this server"),
            )),
        }
    }

    /// Every open region, in the order of encoded names.
    pub(crate) fn open(&self) -> Vec<Arc<Hosted<E>>> {
        let slots = self.slots.read().expect("not poisoned");
        slots
            .values()
            .filter_map(|slot| match slot {
                Slot::Open(hosted) => Some(Arc::clone(hosted)),
                Slot::Opening | Slot::Closing => None,
            })
            .collect()
    }

    /// Rows read and written in the open regions since they were opened.
    pub(crate) fn requests(&self) -> u64 {
        let open = self.open();
        let counted = open.iter().map(|hosted| {
            hosted.reads.load(Ordering::Relaxed) + hosted.writes.load(Ordering::Relaxed)
        });
        counted.sum()
    }

    /// Takes the place of a region that is about to open; `None` if it is open already.
    ///
    /// # Errors
    /// `RegionTooBusy` at the limit of regions, `RegionOpening` or `NotServingRegion` while it opens or closes.
    pub(crate) fn reserve(&self, name: &EncodedName) -> Result<Option<usize>> {
        let mut slots = self.slots.write().expect("not poisoned");
        match slots.get(name) {
            Some(Slot::Open(_)) => return Ok(None),
            Some(Slot::Opening) => {
                return Err(Error::new(
                    Code::RegionOpening,
                    format!("{name} is opening already"),
                ));
            }
            Some(Slot::Closing) => {
                return Err(Error::new(
                    Code::NotServingRegion,
                    format!("{name} is closing"),
                ));
            }
            None => {}
        }
        if slots.len() >= REGIONS_MAX {
            return Err(Error::new(
                Code::RegionTooBusy,
                format!("this server holds {REGIONS_MAX} regions, its limit"),
            ));
        }
        slots.insert(name.clone(), Slot::Opening);
        Ok(Some(
            self.next_core.fetch_add(1, Ordering::Relaxed) % self.env.cores(),
        ))
    }

    /// Ends what [`Self::reserve`] began: with the open region, or without one.
    pub(crate) fn settle(&self, name: &EncodedName, hosted: Option<Hosted<E>>) {
        let mut slots = self.slots.write().expect("not poisoned");
        match hosted {
            Some(hosted) => slots.insert(name.clone(), Slot::Open(Arc::new(hosted))),
            None => slots.remove(name),
        };
    }

    /// Begins to close a region: from now on it is not found. `None` if it is not open.
    pub(crate) fn begin_close(&self, name: &EncodedName) -> Option<Arc<Hosted<E>>> {
        let mut slots = self.slots.write().expect("not poisoned");
        match slots.get(name) {
            Some(Slot::Open(hosted)) => {
                let hosted = Arc::clone(hosted);
                slots.insert(name.clone(), Slot::Closing);
                Some(hosted)
            }
            _ => None,
        }
    }

    /// Runs work on a core and waits for its answer. The work is a task of its own: it goes on if the caller stops waiting (C9).
    ///
    /// # Errors
    /// What the work says; `Io` if it panicked.
    pub(crate) async fn on_core<T: Send + 'static>(
        &self,
        core: usize,
        make: impl FnOnce() -> LocalBoxFuture<'static, Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (answer, wait) = tokio::sync::oneshot::channel();
        self.env.spawn_on(core, "request", move || {
            Box::pin(async move {
                // The caller may have gone.
                let _ = answer.send(make().await);
            })
        });
        wait.await
            .map_err(|_| Error::new(Code::Io, "the request failed inside the server"))?
    }
}

#[cfg(test)]
mod tests;
