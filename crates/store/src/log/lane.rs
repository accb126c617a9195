//! One writer of the log: a queue of records and the task that writes them in groups.
//!
//! The task belongs to a serving core. It takes all that waits, writes it as one group, makes it durable, tells the databases,
//! and begins again: group commit without timers. A segment is preallocated and its successor kept ready (C17), so that a full
//! disk never meets a write that was let in. An error of the disk while writing or syncing ends the process: what the file
//! holds is unknown then, and a failed fdatasync must never be retried.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::ThreadId;
use std::time::Duration;

use cadastre_env::{Clock, Disk, Env, LogFile};
use cadastre_types::{Code, Error, Result};
use rand::RngCore;
use tokio::sync::{Notify, oneshot, watch};

use super::database::{DatabaseLog, Durable};
use super::format::{
    Encoded, GROUP_HEADER_LEN, GroupBuilder, SEGMENT_HEADER_LEN, SegmentHeader, VERSION,
};
use super::index::GroupRef;
use super::registry::{Entry, Stage};
use super::{DIR, Shared, segment_path};
use crate::planted::Planted;
use crate::store::WalSync;

/// Largest group, bytes: bounds the memory of one commit and how long its followers wait.
const GROUP_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Bytes written between two looks at the free space.
const SPACE_CHECK_BYTES: u64 = 4 * 1024 * 1024;

/// Pause before the next try to make a segment ready on a full disk.
const SPARE_RETRY: Duration = Duration::from_secs(1);

/// Groups written without a mark of what is synced, at most: each group knows of those before it, so a mark is for the last ones.
const GROUPS_UNMARKED_MAX: u32 = 32;

/// Tells what a record speaks of.
enum About {
    /// Rows or a fence of a database that is open.
    Writer {
        database: Arc<DatabaseLog>,
        sequence: u64,
    },
    Flushed(Arc<str>),
    Deleted(Arc<str>),
}

impl About {
    fn path(&self) -> &Arc<str> {
        match self {
            Self::Writer { database, .. } => &database.path,
            Self::Flushed(path) | Self::Deleted(path) => path,
        }
    }
}

/// A record that waits.
struct Pending {
    about: About,
    lsn: u64,
    record: Encoded,
}

#[derive(Default)]
struct Queue {
    pending: Vec<Pending>,
    bytes: usize,
    last_lsn: u64,
    /// Whether somebody wants an fdatasync even where writes do without.
    sync_wanted: bool,
}

/// The side of a lane that the others see.
pub(crate) struct Lane {
    /// The thread of its core.
    pub(super) thread: ThreadId,
    queue: Mutex<Queue>,
    wake: Notify,
    /// Last LSN that is as durable as the mode says.
    durable: watch::Sender<u64>,
    /// Last LSN that an fdatasync covered.
    synced: watch::Sender<u64>,
    /// Bytes that can still be written without a new file.
    room: AtomicU64,
    room_changed: Notify,
    stopped: AtomicBool,
}

/// Starts the lane of a core.
pub(super) async fn start<E: Env>(
    shared: Weak<Shared<E>>,
    env: &E,
    core: usize,
    synced: u64,
) -> Result<Arc<Lane>> {
    let (tell, told) = oneshot::channel();
    env.spawn_on(core, "log", move || {
        Box::pin(async move {
            let lane = Arc::new(Lane::new(synced));
            // The opener has gone away: nobody will use the lane.
            if tell.send(Arc::clone(&lane)).is_err() {
                return;
            }
            Committer::new(shared, lane, core).run().await;
        })
    });
    told.await
        .map_err(|_| Error::new(Code::Internal, format!("core {core} does not run")))
}

impl Lane {
    /// A lane of the thread that this is called on.
    pub(super) fn new(synced: u64) -> Self {
        Self {
            thread: std::thread::current().id(),
            queue: Mutex::new(Queue {
                last_lsn: synced,
                ..Queue::default()
            }),
            wake: Notify::new(),
            durable: watch::Sender::new(synced),
            synced: watch::Sender::new(synced),
            room: AtomicU64::new(0),
            room_changed: Notify::new(),
            stopped: AtomicBool::new(false),
        }
    }

    fn queue(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().expect("not poisoned")
    }

    /// Queues a record; the LSN is drawn inside, so that LSNs of a lane are written in order.
    fn push<E: Env>(
        &self,
        shared: &Shared<E>,
        about: About,
        record: impl FnOnce(u64) -> Encoded,
    ) -> (u64, usize) {
        let (lsn, bytes) = {
            let mut queue = self.queue();
            let lsn = if shared.config.plant.is(Planted::LsnsPerLog) {
                queue.last_lsn + 1
            } else {
                shared.lsn.fetch_add(1, Ordering::SeqCst) + 1
            };
            let record = record(lsn);
            let bytes = record.len();
            queue.bytes += bytes;
            queue.last_lsn = lsn;
            queue.pending.push(Pending { about, lsn, record });
            (lsn, bytes)
        };
        self.wake.notify_one();
        (lsn, bytes)
    }

    /// Queues rows or a fence. Called with the database's state locked, so that a fenced writer gets nothing in.
    pub(super) fn push_writer<E: Env>(
        &self,
        shared: &Shared<E>,
        database: &Arc<DatabaseLog>,
        sequence: u64,
        record: impl FnOnce(u64) -> Encoded,
    ) -> (u64, usize) {
        let about = About::Writer {
            database: Arc::clone(database),
            sequence,
        };
        self.push(shared, about, record)
    }

    /// Queues a note that a database is flushed or deleted.
    pub(super) fn push_note<E: Env>(
        &self,
        shared: &Shared<E>,
        path: &str,
        record: fn(u64) -> Encoded,
    ) -> u64 {
        let deleted = record(0) == Encoded::deleted(0);
        let path = path.into();
        let about = if deleted {
            About::Deleted(path)
        } else {
            About::Flushed(path)
        };
        self.push(shared, about, record).0
    }

    /// The last LSN that is as durable as the mode says.
    pub(super) fn durable_lsn(&self) -> u64 {
        *self.durable.borrow()
    }

    /// Waits until an LSN of this lane is as durable as the mode says.
    pub(crate) async fn wait_durable(&self, lsn: u64) -> Result<()> {
        Self::wait(self.durable.subscribe(), lsn).await
    }

    /// Waits until all that was queued is on the device, whatever the mode.
    pub(crate) async fn sync(&self) -> Result<()> {
        let lsn = {
            let mut queue = self.queue();
            queue.sync_wanted = true;
            queue.last_lsn
        };
        self.wake.notify_one();
        Self::wait(self.synced.subscribe(), lsn).await
    }

    async fn wait(mut reached: watch::Receiver<u64>, lsn: u64) -> Result<()> {
        match reached.wait_for(|at| *at >= lsn).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::new(Code::RegionServerStopped, "the log is closed")),
        }
    }

    /// Whether a write of this many bytes fits in what is ready, beside what waits already.
    pub(super) fn has_room(&self, bytes: u64, queue_max: usize) -> bool {
        let waiting = self.queue().bytes;
        waiting <= queue_max && waiting as u64 + bytes <= self.room.load(Ordering::SeqCst)
    }

    pub(super) async fn wait_for_room(&self, bytes: u64, queue_max: usize) {
        loop {
            let changed = self.room_changed.notified();
            tokio::pin!(changed);
            // Registers before looking, so that no change is missed.
            changed.as_mut().enable();
            if self.has_room(bytes, queue_max) {
                return;
            }
            self.wake.notify_one();
            changed.await;
        }
    }

    fn set_room(&self, bytes: u64) {
        self.room.store(bytes, Ordering::SeqCst);
        self.room_changed.notify_waiters();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.wake.notify_one();
    }
}

/// A preallocated segment that waits to be written to. Its header is durable and it is in the list of segments.
struct Spare<F> {
    number: u64,
    salt: u64,
    file: F,
}

/// The segment that is written to.
struct Active<F> {
    number: u64,
    salt: u64,
    file: Arc<F>,
    /// Where the next group goes.
    end: u64,
    /// The last LSN in it, 0 before the first group.
    last_lsn: u64,
    /// Numbers of the databases named so far.
    ids: BTreeMap<Arc<str>, u32>,
}

/// A spare that is being made.
type Coming<E> = oneshot::Receiver<Spare<<<E as Env>::Disk as Disk>::File>>;

/// The task of a lane.
struct Committer<E: Env> {
    shared: Weak<Shared<E>>,
    lane: Arc<Lane>,
    number: u32,
    active: Option<Active<<E::Disk as Disk>::File>>,
    spare: Option<Spare<<E::Disk as Disk>::File>>,
    coming: Option<Coming<E>>,
    written: u64,
    synced: u64,
    /// What the last mark said, which of the two it was, and groups since.
    marked: u64,
    mark_turn: u64,
    unmarked: u32,
    since_space_check: u64,
}

impl<E: Env> Committer<E> {
    fn new(shared: Weak<Shared<E>>, lane: Arc<Lane>, core: usize) -> Self {
        let synced = *lane.synced.borrow();
        Self {
            shared,
            lane,
            number: u32::try_from(core).expect("cores are few"),
            active: None,
            spare: None,
            coming: None,
            written: synced,
            synced,
            marked: synced,
            mark_turn: 0,
            unmarked: 0,
            since_space_check: 0,
        }
    }

    async fn run(mut self) {
        loop {
            let (pending, sync_wanted) = {
                let mut queue = self.lane.queue();
                let sync_wanted = std::mem::take(&mut queue.sync_wanted);
                (std::mem::take(&mut queue.pending), sync_wanted)
            };
            // Held for one turn only, so that a dropped log ends.
            let Some(shared) = self.shared.upgrade() else {
                return;
            };
            self.take_spare(&shared).await;
            if pending.is_empty() && !sync_wanted {
                self.mark(&shared);
                if self.lane.stopped.load(Ordering::SeqCst) {
                    return;
                }
                drop(shared);
                self.wait().await;
                continue;
            }
            self.commit(&shared, pending, sync_wanted).await;
            self.unmarked += 1;
            if self.unmarked >= GROUPS_UNMARKED_MAX {
                self.mark(&shared);
            }
        }
    }

    /// Writes down what is known to be synced, if that is news: so that the next start misses it, should it be gone.
    fn mark(&mut self, shared: &Shared<E>) {
        self.unmarked = 0;
        if self.synced == self.marked {
            return;
        }
        let written = shared
            .registry
            .mark(self.number, self.mark_turn, self.synced);
        self.survive(shared, "marking what the log has synced", written);
        self.mark_turn += 1;
        self.marked = self.synced;
    }

    /// Sleeps until there is work, or the next segment is ready.
    async fn wait(&mut self) {
        let lane = Arc::clone(&self.lane);
        let Some(coming) = self.coming.as_mut() else {
            lane.wake.notified().await;
            return;
        };
        tokio::select! {
            biased;
            spare = coming => {
                self.coming = None;
                self.spare = spare.ok();
                self.publish_room();
            }
            () = lane.wake.notified() => {}
        }
    }

    fn segment_bytes(shared: &Shared<E>) -> u64 {
        shared.config.segment_bytes
    }

    /// Keeps a segment ready, and takes it over once it is made.
    async fn take_spare(&mut self, shared: &Arc<Shared<E>>) {
        if let Some(coming) = self.coming.as_mut()
            && let Ok(spare) = coming.try_recv()
        {
            self.coming = None;
            self.spare = Some(spare);
        }
        if self.spare.is_none() && self.coming.is_none() {
            self.coming = Some(self.make_spare(shared));
        }
        self.publish_room_of(shared);
    }

    fn make_spare(&self, shared: &Arc<Shared<E>>) -> Coming<E> {
        make_spare(shared, self.number, self.synced)
    }

    fn publish_room(&self) {
        if let Some(shared) = self.shared.upgrade() {
            self.publish_room_of(&shared);
        }
    }

    fn publish_room_of(&self, shared: &Shared<E>) {
        let segment = Self::segment_bytes(shared);
        let active = self
            .active
            .as_ref()
            .map_or(0, |a| segment.saturating_sub(a.end));
        let spare = if self.spare.is_some() { segment } else { 0 };
        // What does not fit in the rest of the active segment goes to the spare whole, so the rest is not counted with it.
        let room = if spare > 0 { spare } else { active };
        if room != self.lane.room.load(Ordering::SeqCst) {
            self.lane.set_room(room);
        }
    }

    /// Writes records in as few groups as fit, makes them durable and tells.
    async fn commit(&mut self, shared: &Arc<Shared<E>>, pending: Vec<Pending>, sync_wanted: bool) {
        let bytes: usize = pending.iter().map(|p| p.record.len()).sum();
        let mut group: Vec<Pending> = Vec::new();
        let mut group_bytes = 0;
        for record in pending {
            let len = record.record.len() + record.about.path().len() + 16;
            if !group.is_empty()
                && (group_bytes + len > GROUP_BYTES_MAX || !self.fits(shared, group_bytes + len))
            {
                self.write_and_publish(shared, std::mem::take(&mut group))
                    .await;
                group_bytes = 0;
            }
            group_bytes += len;
            group.push(record);
            if !self.fits(shared, group_bytes) {
                self.next_segment(shared).await;
            }
        }
        if !group.is_empty() {
            self.write_and_publish(shared, group).await;
        }
        if sync_wanted {
            self.sync_device(shared).await;
            // Before it is told, so that a clean end leaves nothing untold.
            self.mark(shared);
            self.lane.synced.send_replace(self.synced);
        }
        {
            let mut queue = self.lane.queue();
            queue.bytes -= bytes;
        }
        self.publish_room_of(shared);
        self.lane.room_changed.notify_waiters();
        self.since_space_check += bytes as u64;
        if self.since_space_check >= SPACE_CHECK_BYTES {
            self.since_space_check = 0;
            shared.check_space();
        }
    }

    /// Whether a group of so many bytes fits in the active segment.
    fn fits(&self, shared: &Shared<E>, bytes: usize) -> bool {
        let needed = (bytes + GROUP_HEADER_LEN + 16) as u64;
        self.active
            .as_ref()
            .is_some_and(|active| active.end + needed <= Self::segment_bytes(shared))
    }

    /// Makes the active segment durable and goes on in the spare.
    async fn next_segment(&mut self, shared: &Arc<Shared<E>>) {
        if self.active.is_some() {
            self.sync(shared).await;
        }
        let spare = match self.spare.take() {
            Some(spare) => spare,
            None => self.wait_for_spare(shared).await,
        };
        let file = Arc::new(spare.file);
        {
            let mut index = shared.index.lock().expect("not poisoned");
            if let Some(old) = &self.active {
                index.seal(old.number);
                // On disk with the next spare; until then the first group of this segment says as much.
                shared.registry.seal(old.number, old.end, old.last_lsn);
            }
            index.add_segment(spare.number, self.number, spare.salt, Arc::clone(&file));
        }
        self.active = Some(Active {
            number: spare.number,
            salt: spare.salt,
            file,
            end: SEGMENT_HEADER_LEN as u64,
            last_lsn: 0,
            ids: BTreeMap::new(),
        });
        self.take_spare(shared).await;
    }

    async fn wait_for_spare(&mut self, shared: &Arc<Shared<E>>) -> Spare<<E::Disk as Disk>::File> {
        loop {
            let coming = self.coming.take();
            let coming = coming.unwrap_or_else(|| self.make_spare(shared));
            // The maker only goes away with the node's runtime; then this task does too.
            if let Ok(spare) = coming.await {
                return spare;
            }
        }
    }

    /// Writes one group, makes it as durable as the mode says, and tells the databases and whoever waits.
    async fn write_and_publish(&mut self, shared: &Arc<Shared<E>>, group: Vec<Pending>) {
        let last_lsn = group.last().expect("a group has records").lsn;
        let active = self
            .active
            .as_mut()
            .expect("there is room, so there is a segment");
        let mut builder = GroupBuilder::new();
        let mut named = Vec::new();
        for pending in &group {
            let path = pending.about.path();
            let known = active.ids.len();
            let id = *active.ids.entry(Arc::clone(path)).or_insert_with(|| {
                let id = u32::try_from(known + 1).expect("a segment has few databases");
                builder.name(id, path);
                named.push((Arc::clone(path), id));
                id
            });
            builder.record(id, &pending.record);
        }
        let bytes = builder.finish(active.salt, last_lsn, self.synced);
        let at = GroupRef {
            offset: active.end,
            last_lsn,
        };
        let written = active.file.write_at(active.end, &bytes);
        active.end += bytes.len() as u64;
        active.last_lsn = last_lsn;
        let number = active.number;
        self.survive(shared, "writing the log", written);
        self.written = last_lsn;
        {
            let mut index = shared.index.lock().expect("not poisoned");
            for (path, id) in &named {
                index.note_name(number, path, *id);
            }
            for pending in &group {
                let path = pending.about.path();
                match &pending.about {
                    About::Writer { sequence, .. } => {
                        index.note(number, path, at, pending.lsn, *sequence);
                    }
                    About::Flushed(_) => index.note_flushed(number, path, pending.lsn),
                    About::Deleted(_) => index.note_deleted(number, path, at, pending.lsn),
                }
            }
        }
        if shared.config.plant.is(Planted::AcknowledgeBeforeSync) {
            self.publish(&group, last_lsn);
            self.sync(shared).await;
            return;
        }
        if shared.config.sync == WalSync::Fdatasync {
            self.sync(shared).await;
        }
        metrics::histogram!("cadastre_log_group_records").record(group.len() as f64);
        self.publish(&group, last_lsn);
        shared.followed.notify_waiters();
    }

    /// Tells each database once, in a fixed order, then whoever waits for an LSN.
    fn publish(&self, group: &[Pending], last_lsn: u64) {
        let mut told: BTreeMap<(&str, u64), (&Arc<DatabaseLog>, Durable)> = BTreeMap::new();
        for pending in group {
            if let About::Writer { database, sequence } = &pending.about {
                let key = (&*database.path, database.epoch);
                let (_, durable) = told.entry(key).or_insert((database, Durable::default()));
                durable.lsn = pending.lsn;
                durable.sequence = durable.sequence.max(*sequence);
                durable.bytes += pending.record.len();
                durable.records += 1;
            }
        }
        for (database, durable) in told.into_values() {
            database.durable(durable);
        }
        self.lane.durable.send_replace(last_lsn);
    }

    async fn sync(&mut self, shared: &Arc<Shared<E>>) {
        self.sync_device(shared).await;
        self.lane.synced.send_replace(self.synced);
    }

    async fn sync_device(&mut self, shared: &Arc<Shared<E>>) {
        if self.written > self.synced
            && let Some(active) = &self.active
        {
            let file = Arc::clone(&active.file);
            let synced = file.sync_data().await;
            self.survive(shared, "fdatasync of the log", synced);
            self.synced = self.written;
        }
    }

    /// Ends the process on an error of the disk (C17).
    fn survive(&self, shared: &Shared<E>, what: &str, result: std::io::Result<()>) {
        if let Err(error) = result {
            shared.env.exit(&format!("{what}: {error}"));
        }
    }
}

/// Makes the next segment of a lane in a task of its own; tries again while the disk is full.
fn make_spare<E: Env>(shared: &Arc<Shared<E>>, lane: u32, synced: u64) -> Coming<E> {
    let (tell, told) = oneshot::channel();
    let weak = Arc::downgrade(shared);
    let env = shared.env.clone();
    shared.env.spawn("log segment", async move {
        let mut made = None;
        loop {
            let Some(shared) = weak.upgrade() else {
                return;
            };
            match enter_spare(&shared, lane, synced, &mut made).await {
                Ok(spare) => {
                    // Nobody waits any more: it holds nothing, and is removed at the next start.
                    let _ = tell.send(spare);
                    return;
                }
                Err(error) => {
                    tracing::warn!(%error, "the log's next segment cannot be made");
                    shared.check_space();
                }
            }
            drop(shared);
            if tell.is_closed() {
                return;
            }
            env.clock().sleep(SPARE_RETRY).await;
        }
    });
    told
}

/// Makes a segment, unless one was made that could not be entered, and enters it in the list.
async fn enter_spare<E: Env>(
    shared: &Shared<E>,
    lane: u32,
    synced: u64,
    made: &mut Option<Spare<<E::Disk as Disk>::File>>,
) -> std::io::Result<Spare<<E::Disk as Disk>::File>> {
    if made.is_none() {
        shared.registry.check_room()?;
        let spare = create_segment(shared, lane, synced).await?;
        let entry = Entry {
            lane,
            salt: spare.salt,
            len: shared.config.segment_bytes,
            stage: Stage::Open,
        };
        shared.registry.add(spare.number, entry);
        *made = Some(spare);
    }
    shared.registry.commit(&shared.env).await?;
    Ok(made.take().expect("made above"))
}

/// Makes a segment with a durable header.
async fn create_segment<E: Env>(
    shared: &Shared<E>,
    lane: u32,
    synced_lsn: u64,
) -> std::io::Result<Spare<<E::Disk as Disk>::File>> {
    let number = shared.segment.fetch_add(1, Ordering::SeqCst) + 1;
    let path = segment_path(number);
    let disk = shared.env.disk();
    let header = SegmentHeader {
        version: VERSION,
        lane,
        number,
        salt: shared.env.rng(&format!("log segment {number}")).next_u64(),
        synced_lsn,
    };
    let making = async {
        let file = disk.create(&path, shared.config.segment_bytes).await?;
        file.write_at(0, &header.encode())?;
        file.sync_data().await?;
        disk.sync_dir(DIR).await?;
        Ok(Spare {
            number,
            salt: header.salt,
            file,
        })
    };
    let made = making.await;
    if made.is_err()
        // What was made of it before the error takes space that somebody needs.
        && let Err(removal) = disk.remove(&path)
        && removal.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(path, error = %removal, "an unfinished segment stays behind");
    }
    made
}
