//! Rows that were read lately: packed values of families, one cache for the process, and what keeps it true for each region.
//!
//! The rule (facts/storage-engine.md, section 3; C1, C2): an entry is what the last write left. A write takes its rows' entries
//! away before it reaches the database; what it makes of them comes back when it is there, with its sequence number, before
//! the rows are unlocked: so hot rows stay. Who holds the row's lock may use it at once, all others when it is durable; until
//! then their reads go to the database and leave nothing here. A reader takes a [`Ticket`] before it reads; what it read becomes
//! an entry only if no write of the row began since. Rows are watched by slots (many rows to one), so that this takes no memory
//! per row.
//!
//! It must not know of cells: TTL, versions and markers are applied to what it gives at every read.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::{Cache, DefaultLifecycle};

use crate::cache::FixedHash;
use crate::planted::{Plant, Planted};

/// Bytes of an entry beside key and value, about: two allocations, two `Bytes`, the cache's slot (storage-engine.md section 3).
const ENTRY_OVERHEAD: u64 = 200;

/// What an average entry weighs, bytes, to size the cache's tables.
const AVERAGE_ENTRY: u64 = 1024;

/// Slots of a region: enough that with a thousand writes under way few reads meet a slot of another row's; 6 kB for a region that
/// is written to, none for one that is not.
const SLOTS: usize = 256;

/// A number of an open of a region, then a packed key.
type Key = (u64, Bytes);

#[derive(Clone)]
struct ByBytes;

impl Weighter<Key, Entry> for ByBytes {
    fn weight(&self, key: &Key, entry: &Entry) -> u64 {
        (key.1.len() + entry.value.as_ref().map_or(0, Bytes::len)) as u64 + ENTRY_OVERHEAD
    }
}

/// What is stored under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// `None`: nothing.
    pub(crate) value: Option<Bytes>,
    /// The write that left it so, 0 if it was durable when it became an entry.
    pub(crate) sequence: u64,
}

/// The entries of all regions.
pub(crate) struct RowCache {
    entries: Cache<Key, Entry, ByBytes, FixedHash>,
    views: AtomicU64,
    plant: Plant,
}

impl RowCache {
    /// A cache of at most this many bytes.
    pub(crate) fn new(bytes: u64, plant: Plant) -> Self {
        let entries = usize::try_from(bytes / AVERAGE_ENTRY)
            .unwrap_or(usize::MAX)
            .max(16);
        Self {
            entries: Cache::with(
                entries,
                bytes,
                ByBytes,
                FixedHash::default(),
                DefaultLifecycle::default(),
            ),
            views: AtomicU64::new(0),
            plant,
        }
    }

    fn next_view(&self) -> u64 {
        self.views.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// The writes of some rows, as far as the cache must know them.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// Writes that have begun and have no sequence number yet.
    writing: u32,
    /// Writes begun so far: a ticket holds as long as this stays.
    begun: u64,
    /// Highest sequence number written.
    last: u64,
}

/// What a reader of a row must show to make an entry of what it read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticket {
    view: u64,
    slot: usize,
    begun: u64,
}

/// One region's part of the cache.
pub(crate) struct CachedRows {
    cache: Arc<RowCache>,
    /// Which entries are this region's. Another number makes all of them unreachable.
    view: AtomicU64,
    /// Empty until the first write.
    slots: Mutex<Vec<Slot>>,
}

impl CachedRows {
    pub(crate) fn new(cache: Arc<RowCache>) -> Self {
        let view = AtomicU64::new(cache.next_view());
        Self {
            cache,
            view,
            slots: Mutex::new(Vec::new()),
        }
    }

    fn slot_of(prefix: &[u8]) -> usize {
        let mut hasher = DefaultHasher::new();
        hasher.write(prefix);
        usize::try_from(hasher.finish() % SLOTS as u64).expect("below SLOTS")
    }

    /// Forgets every entry of the region: what is stored changed other than by writes of rows.
    pub(crate) fn forget_all(&self) {
        self.view.store(self.cache.next_view(), Ordering::SeqCst);
    }

    /// An entry, if it is durable. Not for more than one key of a row: see [`Self::holds`].
    pub(crate) fn get(&self, key: &Bytes, durable: impl FnOnce() -> u64) -> Option<Option<Bytes>> {
        let entry = self.get_locked(key)?;
        (entry.sequence == 0 || entry.sequence <= durable()).then_some(entry.value)
    }

    /// An entry, durable or not, for who holds the row's lock.
    pub(crate) fn get_locked(&self, key: &Bytes) -> Option<Entry> {
        let view = self.view.load(Ordering::SeqCst);
        self.cache.entries.get(&(view, key.clone()))
    }

    /// Before a read of a row from the database; `None` while a write of it (or of a neighbour in its slot) is not durable.
    pub(crate) fn ticket(&self, prefix: &[u8], durable: u64) -> Option<Ticket> {
        let slot = Self::slot_of(prefix);
        let view = self.view.load(Ordering::SeqCst);
        let slots = self.slots.lock().expect("not poisoned");
        let state = slots.get(slot).copied().unwrap_or_default();
        (state.writing == 0 && state.last <= durable).then_some(Ticket {
            view,
            slot,
            begun: state.begun,
        })
    }

    /// Whether no write of the row began since the ticket: entries got since then are of one moment (C2).
    pub(crate) fn holds(&self, ticket: Ticket) -> bool {
        let slots = self.slots.lock().expect("not poisoned");
        Self::valid(&slots, ticket)
    }

    fn valid(slots: &[Slot], ticket: Ticket) -> bool {
        slots.get(ticket.slot).map_or(0, |slot| slot.begun) == ticket.begun
    }

    /// Makes an entry of what the database gave for a key of the ticket's row, unless a write of the row began since.
    pub(crate) fn fill(&self, ticket: Ticket, key: Bytes, value: Option<&Bytes>) {
        // A value is a slice of its whole block.
        let value = value.map(|value| Bytes::copy_from_slice(value));
        let slots = self.slots.lock().expect("not poisoned");
        // Under the lock, so that a write that begins now takes the entry away behind us.
        if Self::valid(&slots, ticket) || self.cache.plant.is(Planted::CacheFillWithoutTicket) {
            let entry = Entry { value, sequence: 0 };
            self.cache.entries.insert((ticket.view, key), entry);
        }
    }

    /// Before a write of locked rows reaches the database: the prefixes of its rows, and its keys. Answers the entries of these,
    /// in their order, which are taken away.
    pub(crate) fn begin_write<'a>(
        &'a self,
        prefixes: impl Iterator<Item = &'a [u8]>,
        keys: impl Iterator<Item = &'a Bytes>,
    ) -> (Writing<'a>, Vec<Option<Entry>>) {
        let mut taken: Vec<usize> = prefixes.map(Self::slot_of).collect();
        taken.sort_unstable();
        taken.dedup();
        let view = self.view.load(Ordering::SeqCst);
        let mut slots = self.slots.lock().expect("not poisoned");
        if slots.is_empty() {
            slots.resize(SLOTS, Slot::default());
        }
        for slot in &taken {
            slots[*slot].writing += 1;
            slots[*slot].begun += 1;
        }
        let old = keys.map(|key| {
            let removed = self.cache.entries.remove(&(view, key.clone()));
            removed.map(|(_, entry)| entry)
        });
        let old = old.collect();
        let writing = Writing {
            rows: self,
            view,
            slots: taken,
            // Until the outcome is told it may be any.
            last: u64::MAX,
        };
        (writing, old)
    }
}

/// A write on its way. Dropped without an outcome, its slots stay without entries for as long as the region is open.
pub(crate) struct Writing<'a> {
    rows: &'a CachedRows,
    view: u64,
    slots: Vec<usize>,
    last: u64,
}

impl Writing<'_> {
    /// What the write left under one of its keys, once it is in the database and while its rows are still locked.
    pub(crate) fn install(&self, key: Bytes, value: Bytes, sequence: u64) {
        let entry = Entry {
            value: Some(value),
            sequence,
        };
        self.rows.cache.entries.insert((self.view, key), entry);
    }

    /// It is in the database, with this sequence number.
    pub(crate) fn written(mut self, sequence: u64) {
        self.last = sequence;
    }

    /// It certainly never reached the database.
    pub(crate) fn refused(mut self) {
        self.last = 0;
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let mut slots = self.rows.slots.lock().expect("not poisoned");
        for slot in &self.slots {
            let slot = &mut slots[*slot];
            slot.writing -= 1;
            slot.last = slot.last.max(self.last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> CachedRows {
        CachedRows::new(Arc::new(RowCache::new(1 << 20, Plant::default())))
    }

    fn key(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    fn begin<'a>(rows: &'a CachedRows, keys: &'a [Bytes]) -> Writing<'a> {
        rows.begin_write(keys.iter().map(|key| &key[..1]), keys.iter())
            .0
    }

    #[test]
    fn what_was_read_stays_until_a_write() {
        let rows = rows();
        let (a, value) = (key("a1"), key("value"));
        let ticket = rows.ticket(b"a", 0).unwrap();
        assert_eq!(rows.get(&a, || 0), None);
        rows.fill(ticket, a.clone(), Some(&value));
        assert_eq!(rows.get(&a, || 0), Some(Some(value)));
        let absent = key("a2");
        rows.fill(ticket, absent.clone(), None);
        assert_eq!(rows.get(&absent, || 0), Some(None));
        let keys = [a.clone()];
        begin(&rows, &keys).written(7);
        assert_eq!(rows.get(&a, || 0), None);
        // The other family's entry is still what is stored.
        assert_eq!(rows.get(&absent, || 0), Some(None));
    }

    #[test]
    fn what_a_write_left_is_there_for_the_lock_at_once_and_for_others_when_durable() {
        let rows = rows();
        let (a, before, after) = (key("a1"), key("before"), key("after"));
        let ticket = rows.ticket(b"a", 0).unwrap();
        rows.fill(ticket, a.clone(), Some(&before));
        let keys = [a.clone(), key("a2")];
        let prefixes = keys.iter().map(|key| &key[..1]);
        let (writing, old) = rows.begin_write(prefixes, keys.iter());
        let was = Entry {
            value: Some(before),
            sequence: 0,
        };
        assert_eq!(old, [Some(was), None]);
        writing.install(a.clone(), after.clone(), 7);
        writing.written(7);
        assert_eq!(rows.get_locked(&a).unwrap().sequence, 7);
        assert_eq!(rows.get(&a, || 6), None);
        assert_eq!(rows.get(&a, || 7), Some(Some(after.clone())));
        // A reader from before the write leaves nothing in its place.
        rows.fill(ticket, a.clone(), None);
        assert_eq!(rows.get(&a, || 7), Some(Some(after)));
        assert!(rows.ticket(b"a", 6).is_none());
        assert!(rows.ticket(b"a", 7).is_some());
    }

    #[test]
    fn a_reader_that_a_write_overtook_leaves_nothing() {
        let rows = rows();
        let keys = [key("a1")];
        let before = rows.ticket(b"a", 100).unwrap();
        let writing = begin(&rows, &keys);
        rows.fill(before, keys[0].clone(), None);
        assert_eq!(rows.get(&keys[0], || 0), None, "while it is written");
        writing.written(101);
        rows.fill(before, keys[0].clone(), None);
        assert_eq!(rows.get(&keys[0], || 0), None, "and afterwards");
        assert!(!rows.holds(before));
    }

    #[test]
    fn nothing_is_kept_of_a_row_whose_write_could_be_lost() {
        let rows = rows();
        let keys = [key("a1")];
        let writing = begin(&rows, &keys);
        assert!(rows.ticket(b"a", u64::MAX - 1).is_none());
        writing.written(101);
        assert!(rows.ticket(b"a", 100).is_none());
        assert!(rows.ticket(b"a", 101).is_some());
    }

    #[test]
    fn an_unknown_outcome_is_never_forgotten() {
        let rows = rows();
        let keys = [key("a1")];
        drop(begin(&rows, &keys));
        assert!(rows.ticket(b"a", u64::MAX - 1).is_none());
        let refused = [key("b1")];
        begin(&rows, &refused).refused();
        assert!(rows.ticket(b"b", 0).is_some());
    }

    #[test]
    fn a_new_view_has_no_entries() {
        let rows = rows();
        let ticket = rows.ticket(b"a", 0).unwrap();
        rows.fill(ticket, key("a1"), None);
        rows.forget_all();
        assert_eq!(rows.get(&key("a1"), || 0), None);
        rows.fill(ticket, key("a1"), None);
        assert_eq!(rows.get(&key("a1"), || 0), None, "a fill of the old view");
    }

    #[test]
    fn the_bytes_are_bounded() {
        let rows = CachedRows::new(Arc::new(RowCache::new(64 * 1024, Plant::default())));
        let value = Bytes::from(vec![1; 1000]);
        for n in 0..1000_u32 {
            let prefix = n.to_be_bytes();
            let ticket = rows.ticket(&prefix, 0).unwrap();
            rows.fill(ticket, Bytes::copy_from_slice(&prefix), Some(&value));
        }
        assert!(rows.cache.entries.weight() <= 64 * 1024);
        assert!(!rows.cache.entries.is_empty());
    }
}
