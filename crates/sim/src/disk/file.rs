//! An open file of a simulated disk.

use std::future::Future;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use cadastre_env::LogFile;

use crate::disk::SimDisk;
use crate::trace::digest;

/// An open file. It stays usable after its name has been removed, as on any Unix.
#[derive(Clone)]
pub struct SimFile {
    disk: SimDisk,
    // Counted: the file's bytes go with its last name and its last handle.
    inode: Arc<Open>,
}

struct Open {
    disk: SimDisk,
    inode: u64,
}

impl SimFile {
    pub(super) fn new(disk: SimDisk, inode: u64) -> Self {
        // Refused only if the node has ended.
        let _ = disk.now(|drive| drive.opened(inode));
        Self {
            inode: Arc::new(Open {
                disk: disk.clone(),
                inode,
            }),
            disk,
        }
    }

    fn inode(&self) -> u64 {
        self.inode.inode
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // A dead node's handles went with it.
        let _ = self.disk.now(|drive| drive.closed(self.inode));
    }
}

impl LogFile for SimFile {
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.hub.record(
            self.disk.start,
            format_args!(
                "disk writes {} at {at}, {} bytes {:016x}",
                self.inode(),
                bytes.len(),
                digest(bytes)
            ),
        );
        self.disk.now(|drive| drive.write(self.inode(), at, bytes))
    }

    fn read(&self, at: u64, len: usize) -> io::Result<Bytes> {
        self.disk.now(|drive| drive.read(self.inode(), at, len))
    }

    fn next_data(&self, from: u64) -> io::Result<Option<Range<u64>>> {
        self.disk.now(|drive| drive.next_data(self.inode(), from))
    }

    fn sync_data(&self) -> impl Future<Output = io::Result<()>> + Send {
        let inode = self.inode();
        let disk = self.disk.clone();
        self.disk.later(
            move |drive| Ok((drive.sync_delay(), drive.begin_sync(inode)?)),
            move |drive, begun| {
                let done = drive.finish_sync(begun);
                disk.hub.record(
                    disk.start,
                    format_args!("disk synced {inode}: {}", done.is_ok()),
                );
                done
            },
        )
    }

    fn truncate(&self, to: u64) -> io::Result<()> {
        self.disk.now(|drive| drive.set_len(self.inode(), to))
    }

    fn len(&self) -> io::Result<u64> {
        self.disk.now(|drive| drive.len(self.inode()))
    }
}
