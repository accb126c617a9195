//! The data of a disk: files, directory entries, what is durable of them, and the power cut.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use rand::Rng as _;

use cadastre_env::Rng;

use crate::disk::DiskConfig;
use crate::hub::{Start, between};

/// What a disk writes at once: bytes of one sector are kept or lost together.
const SECTOR_BYTES: u64 = 512;

/// Size of the blocks that are kept or left out of a file, as usual file systems have it.
const HOLE_BYTES: u64 = 4096;

#[derive(Debug, Clone)]
enum Change {
    Write { at: u64, bytes: Bytes },
    SetLen(u64),
}

impl Change {
    /// Takes away what lies behind a length; whether anything is left.
    fn cut(&mut self, len: u64) -> bool {
        match self {
            Self::SetLen(to) => *to <= len,
            Self::Write { at, bytes } => {
                let left = len.saturating_sub(*at);
                bytes.truncate(usize::try_from(left).unwrap_or(usize::MAX));
                !bytes.is_empty()
            }
        }
    }
}

impl Pending {
    /// What is left of it when a later write of some bytes is durable: these do not come back.
    fn without(self, from: u64, to: u64) -> Vec<Self> {
        let Change::Write { at, bytes } = &self.change else {
            return vec![self];
        };
        let end = at + bytes.len() as u64;
        if *at >= to || end <= from {
            return vec![self];
        }
        let parts = [(*at, from.min(end)), (to.max(*at), end)];
        let parts = parts.into_iter().filter(|(start, end)| start < end);
        let left = parts.map(|(start, end)| Self {
            number: self.number,
            change: Change::Write {
                at: start,
                bytes: bytes.slice((start - at) as usize..(end - at) as usize),
            },
            doomed: self.doomed,
        });
        left.collect()
    }
}

#[derive(Debug, Clone)]
struct Pending {
    number: u64,
    change: Change,
    /// A sync of it failed: no later one will make it durable.
    doomed: bool,
}

#[derive(Debug, Default)]
struct Inode {
    durable: Vec<u8>,
    view: Vec<u8>,
    pending: Vec<Pending>,
    handles: u32,
    /// Names, seen and durable ones counted apart.
    links: u32,
    /// Simulated time of the last change.
    modified: Duration,
}

impl Inode {
    fn drop_doomed(&mut self) {
        if !self.pending.iter().any(|pending| pending.doomed) {
            return;
        }
        self.pending.retain(|pending| !pending.doomed);
        self.view.clone_from(&self.durable);
        for pending in &self.pending {
            put(&mut self.view, &pending.change);
        }
    }
}

fn put(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::SetLen(len) => bytes.resize(*len as usize, 0),
        Change::Write { at, bytes: new } => {
            let at = *at as usize;
            let end = at + new.len();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[at..end].copy_from_slice(new);
        }
    }
}

/// A sync of a file under way: changes up to `number` are meant.
pub(crate) struct Sync {
    inode: u64,
    number: u64,
    fails: bool,
}

/// A sync of a directory under way: its entries as they were.
pub(crate) struct DirSync {
    dir: String,
    /// Its place in the order in which syncs began.
    turn: u64,
    entries: BTreeMap<String, u64>,
}

/// A disk. It outlives the starts of its node.
pub(crate) struct Drive {
    config: DiskConfig,
    rng: Rng,
    inodes: BTreeMap<u64, Inode>,
    next_inode: u64,
    next_change: u64,
    /// Paths as programs see them.
    names: BTreeMap<String, u64>,
    /// Paths as they would be after a power cut.
    durable_names: BTreeMap<String, u64>,
    /// Syncs of directories begun so far, and of each directory the newest that has ended.
    dir_syncs: u64,
    dir_synced: BTreeMap<String, u64>,
    locks: BTreeMap<String, Start>,
    full: bool,
    sync_fails: bool,
    now: Duration,
}

fn missing(path: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("no file '{path}'"))
}

/// Normal form of a path below the data directory; anything that would leave it is refused, as on a real disk.
fn clean(path: &str) -> io::Result<String> {
    let parts: Vec<&str> = path
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    if path.starts_with('/') || parts.contains(&"..") {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("'{path}' does not lie inside the data directory"),
        ));
    }
    Ok(parts.join("/"))
}

/// Name of a path directly inside a directory, both in normal form.
fn child<'a>(dir: &str, path: &'a str) -> Option<&'a str> {
    if dir.is_empty() {
        return Some(path);
    }
    path.strip_prefix(dir)?.strip_prefix('/')
}

impl Drive {
    pub(crate) fn new(config: DiskConfig, rng: Rng) -> Self {
        Self {
            config,
            rng,
            inodes: BTreeMap::new(),
            next_inode: 0,
            next_change: 0,
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            dir_syncs: 0,
            dir_synced: BTreeMap::new(),
            locks: BTreeMap::new(),
            full: false,
            sync_fails: false,
            now: Duration::ZERO,
        }
    }

    pub(crate) fn open_delay(&mut self) -> Duration {
        between(&mut self.rng, &self.config.open.clone())
    }

    pub(crate) fn sync_delay(&mut self) -> Duration {
        if self.rng.random_bool(self.config.slow_probability) {
            return between(&mut self.rng, &self.config.slow.clone());
        }
        between(&mut self.rng, &self.config.sync.clone())
    }

    pub(crate) fn set_full(&mut self, full: bool) {
        self.full = full;
    }

    pub(crate) fn fail_next_sync(&mut self) {
        self.sync_fails = true;
    }

    // Names.

    pub(crate) fn find(&self, path: &str) -> io::Result<u64> {
        let path = clean(path)?;
        self.names.get(&path).copied().ok_or_else(|| missing(&path))
    }

    pub(crate) fn create(&mut self, path: &str, preallocate: u64) -> io::Result<u64> {
        let path = clean(path)?;
        if self.names.contains_key(&path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.next_inode += 1;
        let inode = self.next_inode;
        let file = Inode {
            modified: self.now,
            ..Inode::default()
        };
        self.inodes.insert(inode, file);
        if preallocate > 0
            && let Err(error) = self.set_len(inode, preallocate)
        {
            self.inodes.remove(&inode);
            return Err(error);
        }
        self.names.insert(path, inode);
        self.link(inode);
        Ok(inode)
    }

    /// Gives a file another name; what had that name loses it, unless `exclusive` forbids that.
    pub(crate) fn rename(&mut self, from: &str, to: &str, exclusive: bool) -> io::Result<()> {
        let (from, to) = (clean(from)?, clean(to)?);
        if exclusive && self.names.contains_key(&to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = self.names.remove(&from).ok_or_else(|| missing(&from))?;
        if let Some(old) = self.names.insert(to, inode) {
            self.unlink(old);
        }
        Ok(())
    }

    pub(crate) fn remove(&mut self, path: &str) -> io::Result<()> {
        let path = clean(path)?;
        let inode = self.names.remove(&path).ok_or_else(|| missing(&path))?;
        self.unlink(inode);
        Ok(())
    }

    pub(crate) fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let dir = clean(dir)?;
        let names: BTreeSet<String> = below(&self.names, &dir)
            .filter_map(|(path, _)| child(&dir, path))
            .filter_map(|rest| rest.split('/').next())
            .map(str::to_owned)
            .collect();
        Ok(names.into_iter().collect())
    }

    /// Every file below a directory with its length, number and time of the last change.
    pub(crate) fn walk(&self, dir: &str) -> io::Result<Vec<(String, u64, u64, Duration)>> {
        let dir = clean(dir)?;
        below(&self.names, &dir)
            .map(|(path, inode)| {
                Ok((
                    path.clone(),
                    self.len(*inode)?,
                    *inode,
                    self.modified(*inode),
                ))
            })
            .collect()
    }

    pub(crate) fn begin_sync_dir(&mut self, dir: &str) -> io::Result<DirSync> {
        let dir = clean(dir)?;
        let entries = entries_of(&self.names, &dir);
        self.dir_syncs += 1;
        Ok(DirSync {
            dir,
            turn: self.dir_syncs,
            entries,
        })
    }

    pub(crate) fn finish_sync_dir(&mut self, begun: DirSync) -> io::Result<()> {
        if std::mem::take(&mut self.sync_fails) {
            return Err(io::Error::other("simulated failure of a directory's sync"));
        }
        let newest = self.dir_synced.entry(begun.dir.clone()).or_default();
        if begun.turn < *newest {
            // One that began later has ended before: what it made durable stays so.
            return Ok(());
        }
        *newest = begun.turn;
        let (mut before, mut entries) =
            (entries_of(&self.durable_names, &begun.dir), begun.entries);
        // Most are as they were.
        before.retain(|path, inode| {
            let same = entries.get(path) == Some(inode);
            if same {
                entries.remove(path);
            }
            !same
        });
        for path in before.keys() {
            self.durable_names.remove(path);
        }
        for (path, inode) in entries {
            // A file removed, closed and forgotten while the sync went on has no bytes to be named.
            if self.inodes.contains_key(&inode) {
                self.link(inode);
                self.durable_names.insert(path, inode);
            }
        }
        for inode in before.into_values() {
            self.unlink(inode);
        }
        Ok(())
    }

    // Bytes.

    fn inode(&self, inode: u64) -> io::Result<&Inode> {
        self.inodes
            .get(&inode)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn inode_mut(&mut self, inode: u64) -> io::Result<&mut Inode> {
        self.inodes
            .get_mut(&inode)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(crate) fn opened(&mut self, inode: u64) -> io::Result<()> {
        self.inode_mut(inode)?.handles += 1;
        Ok(())
    }

    pub(crate) fn closed(&mut self, inode: u64) -> io::Result<()> {
        let file = self.inode_mut(inode)?;
        file.handles = file.handles.saturating_sub(1);
        self.forget_if_unused(inode);
        Ok(())
    }

    fn link(&mut self, inode: u64) {
        if let Some(file) = self.inodes.get_mut(&inode) {
            file.links += 1;
        }
    }

    fn unlink(&mut self, inode: u64) {
        if let Some(file) = self.inodes.get_mut(&inode) {
            assert!(file.links > 0, "a name too few");
            file.links -= 1;
        }
        self.forget_if_unused(inode);
    }

    fn forget_if_unused(&mut self, inode: u64) {
        let file = self.inodes.get(&inode);
        if file.is_some_and(|file| file.handles == 0 && file.links == 0) {
            self.inodes.remove(&inode);
        }
    }

    fn used_bytes(&self) -> u64 {
        let files = self.inodes.values();
        files.map(|file| file.view.len() as u64).sum()
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        if self.full {
            return 0;
        }
        self.config.capacity_bytes.saturating_sub(self.used_bytes())
    }

    fn change(&mut self, inode: u64, change: Change, len: u64) -> io::Result<()> {
        let grows = len.saturating_sub(self.inode(inode)?.view.len() as u64);
        if grows > 0 && grows > self.free_bytes() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.next_change += 1;
        let (number, now) = (self.next_change, self.now);
        let file = self.inode_mut(inode)?;
        file.modified = now;
        put(&mut file.view, &change);
        file.pending.push(Pending {
            number,
            change,
            doomed: false,
        });
        Ok(())
    }

    pub(crate) fn write(&mut self, inode: u64, at: u64, bytes: &[u8]) -> io::Result<()> {
        let end = at
            .checked_add(bytes.len() as u64)
            .ok_or(io::ErrorKind::InvalidInput)?;
        let bytes = Bytes::copy_from_slice(bytes);
        self.change(inode, Change::Write { at, bytes }, end)
    }

    pub(crate) fn set_len(&mut self, inode: u64, len: u64) -> io::Result<()> {
        self.change(inode, Change::SetLen(len), len)
    }

    pub(crate) fn read(&self, inode: u64, at: u64, len: usize) -> io::Result<Bytes> {
        let view = &self.inode(inode)?.view;
        let from = usize::try_from(at).unwrap_or(usize::MAX).min(view.len());
        let to = from.saturating_add(len).min(view.len());
        Ok(Bytes::copy_from_slice(&view[from..to]))
    }

    /// The next run of blocks that are not all zeros, as a file system with holes tells it.
    pub(crate) fn next_data(&self, inode: u64, from: u64) -> io::Result<Option<Range<u64>>> {
        let view = &self.inode(inode)?.view;
        let len = view.len() as u64;
        let is_hole = |block: u64| {
            let end = ((block + 1) * HOLE_BYTES).min(len) as usize;
            let start = (block * HOLE_BYTES) as usize;
            view[start..end].iter().all(|byte| *byte == 0)
        };
        let blocks = len.div_ceil(HOLE_BYTES);
        let Some(first) = (from / HOLE_BYTES..blocks).find(|block| !is_hole(*block)) else {
            return Ok(None);
        };
        let end = (first..blocks).find(|block| is_hole(*block));
        let end = end.map_or(len, |block| block * HOLE_BYTES);
        Ok(Some((first * HOLE_BYTES).max(from)..end))
    }

    pub(crate) fn len(&self, inode: u64) -> io::Result<u64> {
        Ok(self.inode(inode)?.view.len() as u64)
    }

    pub(crate) fn modified(&self, inode: u64) -> Duration {
        self.inodes
            .get(&inode)
            .map_or(Duration::ZERO, |file| file.modified)
    }

    /// Tells the disk the time.
    pub(crate) fn set_now(&mut self, now: Duration) {
        self.now = now;
    }

    pub(crate) fn begin_sync(&mut self, inode: u64) -> io::Result<Sync> {
        let fails = std::mem::take(&mut self.sync_fails);
        let number = self.next_change;
        self.inode(inode)?;
        Ok(Sync {
            inode,
            number,
            fails,
        })
    }

    pub(crate) fn finish_sync(&mut self, begun: Sync) -> io::Result<()> {
        let file = self.inode_mut(begun.inode)?;
        let mut left: Vec<Pending> = Vec::new();
        for mut pending in std::mem::take(&mut file.pending) {
            let meant = pending.number <= begun.number;
            if meant && begun.fails {
                pending.doomed = true;
            }
            if meant && !pending.doomed {
                match &pending.change {
                    // What is cut off leaves the cache: it cannot come back, doomed or not.
                    Change::SetLen(len) => left.retain_mut(|older| older.change.cut(*len)),
                    // Nor does what is written over.
                    Change::Write { at, bytes } => {
                        let (from, to) = (*at, at + bytes.len() as u64);
                        let older = std::mem::take(&mut left).into_iter();
                        left = older.flat_map(|older| older.without(from, to)).collect();
                    }
                }
                put(&mut file.durable, &pending.change);
            } else {
                left.push(pending);
            }
        }
        file.pending = left;
        if begun.fails {
            return Err(io::Error::other("simulated failure of a sync"));
        }
        Ok(())
    }

    // Locks and ends.

    pub(crate) fn lock(&mut self, path: &str, start: Start) -> io::Result<()> {
        let path = clean(path)?;
        if self.locks.contains_key(&path) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if !self.names.contains_key(&path) {
            self.create(&path, 0)?;
        }
        self.locks.insert(path, start);
        Ok(())
    }

    pub(crate) fn unlock(&mut self, path: &str) {
        if let Ok(path) = clean(path) {
            self.locks.remove(&path);
        }
    }

    /// The process ended: its locks and handles go, its bytes stay, except those whose sync failed: the kernel holds them for
    /// clean and may drop them, after which reads show what is on the disk.
    pub(crate) fn process_ended(&mut self) {
        self.locks.clear();
        let all: Vec<u64> = self.inodes.keys().copied().collect();
        for inode in all {
            if let Some(file) = self.inodes.get_mut(&inode) {
                file.handles = 0;
                if !self.config.unsyncable_stay {
                    file.drop_doomed();
                }
            }
            self.forget_if_unused(inode);
        }
    }

    /// The power went: unsynced sectors and entries are kept or lost, each by its own coin. How much tends to be kept is drawn
    /// anew for each cut, so that "all" and "nothing" happen too.
    pub(crate) fn cut_power(&mut self) {
        let kept = match self.rng.random_range(0..4) {
            0 => 0.0,
            1 => 1.0,
            _ => self.rng.random_range(0.1..0.9),
        };
        self.cut_names(kept);
        let Self { inodes, rng, .. } = self;
        for file in inodes.values_mut() {
            for pending in std::mem::take(&mut file.pending) {
                keep_in_part(&mut file.durable, &pending.change, kept, rng);
            }
            file.view.clone_from(&file.durable);
        }
        let all: Vec<u64> = self.inodes.keys().copied().collect();
        for inode in all {
            self.forget_if_unused(inode);
        }
    }

    fn cut_names(&mut self, kept: f64) {
        let mut names = std::mem::take(&mut self.durable_names);
        let changed: BTreeSet<String> = self
            .names
            .iter()
            .filter(|(path, inode)| names.get(*path) != Some(inode))
            .map(|(path, _)| path.clone())
            .chain(
                names
                    .keys()
                    .filter(|path| !self.names.contains_key(*path))
                    .cloned(),
            )
            .collect();
        for path in changed {
            if self.rng.random_bool(kept) {
                match self.names.get(&path) {
                    Some(inode) => names.insert(path, *inode),
                    None => names.remove(&path),
                };
            }
        }
        self.names.clone_from(&names);
        self.durable_names = names;
        for (inode, file) in &mut self.inodes {
            let named = self.names.values().filter(|named| *named == inode);
            file.links = 2 * named.count() as u32;
        }
    }
}

/// The names that lie below a directory, in normal form.
fn below<'a>(
    names: &'a BTreeMap<String, u64>,
    dir: &str,
) -> impl Iterator<Item = (&'a String, &'a u64)> + use<'a> {
    let prefix = match dir {
        "" => String::new(),
        dir => format!("{dir}/"),
    };
    let from = names.range(prefix.clone()..);
    from.take_while(move |(path, _)| path.starts_with(&prefix))
}

fn entries_of(names: &BTreeMap<String, u64>, dir: &str) -> BTreeMap<String, u64> {
    below(names, dir)
        .filter(|(path, _)| child(dir, path).is_some_and(|name| !name.contains('/')))
        .map(|(path, inode)| (path.clone(), *inode))
        .collect()
}

/// What a power cut leaves of one unsynced change.
fn keep_in_part(durable: &mut Vec<u8>, change: &Change, kept: f64, rng: &mut Rng) {
    match change {
        Change::SetLen(_) => {
            if rng.random_bool(kept) {
                put(durable, change);
            }
        }
        Change::Write { at, bytes } => {
            let end = at + bytes.len() as u64;
            let mut from = *at;
            while from < end {
                let to = ((from / SECTOR_BYTES + 1) * SECTOR_BYTES).min(end);
                if rng.random_bool(kept) {
                    let part = bytes.slice((from - at) as usize..(to - at) as usize);
                    put(
                        durable,
                        &Change::Write {
                            at: from,
                            bytes: part,
                        },
                    );
                }
                from = to;
            }
            // The length may be the full one though the bytes are not there.
            if (durable.len() as u64) < end && rng.random_bool(kept) {
                put(durable, &Change::SetLen(end));
            }
        }
    }
}
