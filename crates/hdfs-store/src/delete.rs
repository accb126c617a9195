//! Removing objects, and the folders that many removals leave empty.

use std::collections::BTreeSet;
use std::sync::Arc;

use cadastre_env::Env;
use cadastre_types::{Code, Result};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use object_store::path::Path;

use crate::error::{Refusal, not_found, of_object, refusal};
use crate::namenode::Pauses;
use crate::names::parent;
use crate::store::Shared;

/// Removals at one time.
const AT_ONCE: usize = 10;

/// Tries of a removal whose outcome is unknown: done before is done, so it may be repeated.
const TRIES: u32 = 5;

/// Folders remembered while a stream of objects is removed; what is beyond them stays, which costs nothing but names.
const FOLDERS_MAX: usize = 10_000;

/// What one stream removes.
struct Removal<E: Env> {
    shared: Arc<Shared<E>>,
    /// Folders of what was removed.
    folders: std::sync::Mutex<BTreeSet<String>>,
    removed: std::sync::atomic::AtomicUsize,
}

/// Removes objects as their names come; then the folders that are empty if there were several: whoever removes one object goes on
/// with its folder.
pub(crate) fn all<E: Env>(
    shared: &Arc<Shared<E>>,
    locations: BoxStream<'static, object_store::Result<Path>>,
) -> BoxStream<'static, object_store::Result<Path>> {
    let removal = Arc::new(Removal {
        shared: Arc::clone(shared),
        folders: std::sync::Mutex::default(),
        removed: std::sync::atomic::AtomicUsize::new(0),
    });
    let last = Arc::clone(&removal);
    let removed = locations
        .map(move |location| {
            let removal = Arc::clone(&removal);
            async move {
                let location = location?;
                removal.object(&location).await?;
                Ok(location)
            }
        })
        .buffered(AT_ONCE);
    let folders =
        stream::once(async move { last.folders().await }).filter_map(|()| std::future::ready(None));
    removed.chain(folders).boxed()
}

impl<E: Env> Removal<E> {
    async fn object(&self, location: &Path) -> object_store::Result<()> {
        let failed = |error| of_object(location.as_ref(), error);
        let path = self.shared.root.file(location).map_err(failed)?;
        let was_there = self.file(&path).await.map_err(failed)?;
        self.shared.located.remove(&path);
        if !was_there {
            return Err(not_found(location.as_ref()));
        }
        self.removed
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut folders = self
            .folders
            .lock()
            .expect("nothing panics while it is held");
        if folders.len() < FOLDERS_MAX {
            folders.insert(parent(&path).to_owned());
        }
        Ok(())
    }

    /// Whether it was there.
    async fn file(&self, path: &str) -> Result<bool> {
        let mut pauses = Pauses::new();
        let mut in_doubt = false;
        for tries in 1.. {
            match self.shared.namenode.remove(path).await {
                Ok(was_there) => return Ok(was_there || in_doubt),
                // A folder, which is no object.
                Err(error) if refusal(&error) == Some(Refusal::NotEmpty) => return Ok(false),
                Err(error) if error.code() == Code::OutcomeUnknown && tries < TRIES => {
                    in_doubt = true;
                    pauses.pause(self.shared.env.clock()).await;
                }
                Err(error) => return Err(error),
            }
        }
        unreachable!("tries end by returning");
    }

    /// Removes folders from below to above as long as they are empty.
    async fn folders(&self) {
        let shared = &self.shared;
        if self.removed.load(std::sync::atomic::Ordering::Relaxed) < 2 {
            return;
        }
        let mut folders = {
            let mut folders = self
                .folders
                .lock()
                .expect("nothing panics while it is held");
            std::mem::take(&mut *folders)
        };
        // The last in order is never above another one.
        while let Some(folder) = folders.pop_last() {
            if folder.len() <= shared.root.path().len() {
                continue;
            }
            shared.forget_folder(&folder);
            match shared.namenode.remove(&folder).await {
                Ok(_) => {
                    folders.insert(parent(&folder).to_owned());
                }
                Err(error) => match refusal(&error) {
                    Some(Refusal::NotEmpty | Refusal::Missing) => {}
                    _ => tracing::debug!(folder, %error, "an empty folder is left behind"),
                },
            }
        }
    }
}
