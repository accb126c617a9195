//! Which process runs a store that machines share: the one that started last. Each start puts an object `starts/<start code>` that must be the
//! newest; a process that sees a newer one ends itself (C18), whatever else fences it database by database.
//!
//! Start codes grow over all machines so, as [`crate::starts`] makes them grow over one data directory (requirements.md L19).
//!
//! A running server puts an empty object `alive/<start code>` again and again. One that stands by starts when there was no new one for a while. It
//! may be wrong about that: taking over is as safe then as it always is.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use cadastre_env::{Clock, Env};
use cadastre_types::{Code, Error, Result};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutPayload};

use crate::error::from_object_store;
use crate::numbered;
use crate::store::StoreShared;

/// Folder of the objects, at the store's root.
const FOLDER: &str = "starts";

/// What such an object says, for people.
const CONTENT: &str = "cadastre start\nformat 1\n";

/// How far a start code lies above the last one, ms: as in [`crate::starts`].
const STEP_MS: u64 = 1000;

/// Starts that race for one number, at most.
const RACES_MAX: u32 = 100;

/// Folder of the signs of life, at the store's root.
const ALIVE: &str = "alive";

/// How often a running server shows that it lives.
const BEAT: Duration = Duration::from_secs(3);

/// A server that has shown nothing for so long is taken for dead: some beats, and longer than a fail-over beneath the store takes.
const SILENCE: Duration = Duration::from_secs(15);

/// How often one that stands by looks; a look that takes longer says nothing about the other one, since its beats are held up as well.
const LOOK: Duration = Duration::from_secs(1);

fn object(code: u64) -> Path {
    Path::from(FOLDER).join(numbered::name(code))
}

fn alive(code: u64) -> Path {
    Path::from(ALIVE).join(numbered::name(code))
}

fn code(path: &Path) -> Result<u64> {
    let code = path.filename().and_then(numbered::number);
    code.ok_or_else(|| Error::corrupt(format!("'{path}' is no start of a server")))
}

async fn codes(objects: &dyn ObjectStore) -> Result<Vec<u64>> {
    let found: Vec<_> = objects
        .list(Some(&Path::from(FOLDER)))
        .try_collect()
        .await
        .map_err(|error| from_object_store(&error))?;
    let mut codes: Vec<u64> =
        (found.iter().map(|object| code(&object.location))).collect::<Result<_>>()?;
    codes.sort_unstable();
    Ok(codes)
}

/// Takes the store over, with a start code that is at least this and above every earlier one.
pub(crate) async fn take(objects: &dyn ObjectStore, at_least: u64) -> Result<u64> {
    for _ in 0..RACES_MAX {
        let earlier = codes(objects).await?;
        let mine = match earlier.last() {
            Some(last) if *last >= at_least => last + STEP_MS,
            _ => at_least,
        };
        let object_of_mine = object(mine);
        let put = objects.put_opts(&object_of_mine, CONTENT.into(), PutMode::Create.into());
        match put.await {
            Ok(_) => {}
            Err(object_store::Error::AlreadyExists { .. }) => continue,
            Err(error) => return Err(from_object_store(&error)),
        }
        // Somebody may have looked at the same time, and taken a lower or higher one.
        if codes(objects).await?.last() != Some(&mine) {
            continue;
        }
        for code in earlier {
            for path in [alive(code), object(code)] {
                match objects.delete(&path).await {
                    Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                    Err(error) => return Err(from_object_store(&error)),
                }
            }
        }
        return Ok(mine);
    }
    Err(Error::new(
        Code::Io,
        "other servers are being started on this store all the time",
    ))
}

/// Ends this process if another one has taken the store over.
pub(crate) async fn check<E: Env>(env: &E, objects: &dyn ObjectStore, mine: u64) -> Result<()> {
    let newest = codes(objects).await?.last().copied().unwrap_or(mine);
    if newest > mine {
        env.exit("another server has been started on this store, and has taken it over");
    }
    Ok(())
}

/// Shows that this process lives, as long as the store is open and is its own.
pub(crate) fn start_beating<E: Env>(store: &Arc<StoreShared<E>>) {
    let weak = Arc::downgrade(store);
    let clock = store.env.clock().clone();
    store.env.spawn("store owner", beat(weak, clock));
}

async fn beat<E: Env>(weak: Weak<StoreShared<E>>, clock: E::Clock) {
    loop {
        let Some(store) = weak.upgrade() else {
            return;
        };
        if store.closed.load(Ordering::SeqCst) {
            return;
        }
        if let Err(error) = beat_once(&store).await {
            // The next one shows it, or whoever stands by takes over.
            tracing::warn!(%error, "showing that this server lives, and looking for a newer one");
        }
        drop(store);
        clock.sleep(BEAT).await;
    }
}

async fn beat_once<E: Env>(store: &StoreShared<E>) -> Result<()> {
    store.check_owner().await?;
    let path = alive(store.start_code);
    let put = store.objects.put(&path, PutPayload::default()).await;
    put.map(drop).map_err(|error| from_object_store(&error))
}

/// What tells one sign of life from the next: whose, and which object it is.
type Sign = (u64, Option<(Option<String>, chrono::DateTime<chrono::Utc>)>);

/// The last sign of life of whoever runs the store; `None` if nobody ever did.
async fn sign(objects: &dyn ObjectStore) -> Result<Option<Sign>> {
    let Some(newest) = codes(objects).await?.last().copied() else {
        return Ok(None);
    };
    match objects.head(&alive(newest)).await {
        Ok(found) => Ok(Some((newest, Some((found.e_tag, found.last_modified))))),
        Err(object_store::Error::NotFound { .. }) => Ok(Some((newest, None))),
        Err(error) => Err(from_object_store(&error)),
    }
}

/// How long nothing new was seen of whoever runs the store.
#[derive(Default)]
struct Silence {
    last: Option<Sign>,
    /// Since when (mono); none if nothing can be said.
    since: Option<Duration>,
}

impl Silence {
    /// Takes what a look saw that began and ended then; whether the store is nobody's any more.
    fn is_nobodys(&mut self, seen: Result<Option<Sign>>, began: Duration, ended: Duration) -> bool {
        let seen = match seen {
            Ok(Some(seen)) => seen,
            Ok(None) => return true,
            Err(error) => {
                tracing::warn!(%error, "looking whether another server lives");
                *self = Self::default();
                return false;
            }
        };
        if self.last.as_ref() != Some(&seen) || ended.saturating_sub(began) > LOOK {
            self.last = Some(seen);
            self.since = None;
        }
        let since = *self.since.get_or_insert(ended);
        began.saturating_sub(since) >= SILENCE
    }
}

/// Waits until whoever runs the store has shown no sign of life for 15 s while the store was in reach; not at all if nobody ever ran it.
pub async fn stand_by<E: Env>(env: &E, objects: &dyn ObjectStore) {
    let clock = env.clock();
    let mut silence = Silence::default();
    loop {
        let began = clock.mono();
        let seen = sign(objects).await;
        if silence.is_nobodys(seen, began, clock.mono()) {
            return;
        }
        clock.sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;

    #[tokio::test]
    async fn starts_grow_and_only_the_last_one_stays() {
        let objects = InMemory::new();
        assert_eq!(take(&objects, 5000).await.unwrap(), 5000);
        assert_eq!(take(&objects, 4000).await.unwrap(), 6000);
        assert_eq!(take(&objects, 9000).await.unwrap(), 9000);
        assert_eq!(codes(&objects).await.unwrap(), [9000]);
        let path = Path::from("starts/00000000000000009000");
        let there = objects.get(&path).await.unwrap().bytes().await.unwrap();
        assert_eq!(there, "cadastre start\nformat 1\n");
        let strange = Path::from("starts/x");
        objects.put(&strange, "".into()).await.unwrap();
        assert_eq!(take(&objects, 1).await.unwrap_err().code(), Code::Corrupt);
    }

    #[tokio::test]
    async fn each_sign_of_life_is_another() {
        let objects = InMemory::new();
        assert_eq!(sign(&objects).await.unwrap(), None);
        let code = take(&objects, 5000).await.unwrap();
        let before = sign(&objects).await.unwrap();
        assert_eq!(before, Some((code, None)));
        let mut seen = vec![before];
        for _ in 0..3 {
            objects
                .put(&alive(code), PutPayload::default())
                .await
                .unwrap();
            let next = sign(&objects).await.unwrap();
            assert!(!seen.contains(&next), "{next:?}");
            seen.push(next);
        }
        // Of the newest start alone.
        take(&objects, 1).await.unwrap();
        assert_eq!(sign(&objects).await.unwrap(), Some((code + STEP_MS, None)));
    }

    #[test]
    fn silence_counts_while_the_store_is_in_reach() {
        let at = Duration::from_secs;
        let sign = |beat: &str| {
            let time = chrono::DateTime::UNIX_EPOCH;
            Ok(Some((7, Some((Some(beat.to_owned()), time)))))
        };
        let nobody = &mut Silence::default();
        assert!(nobody.is_nobodys(Ok(None), at(0), at(0)));
        let silence = &mut Silence::default();
        // Beats.
        assert!(!silence.is_nobodys(sign("a"), at(100), at(100)));
        assert!(!silence.is_nobodys(sign("b"), at(120), at(120)));
        assert!(!silence.is_nobodys(sign("b"), at(134), at(134)));
        // A look that failed, and one that took long: from there on.
        assert!(!silence.is_nobodys(Err(Error::new(Code::Io, "away")), at(135), at(136)));
        assert!(!silence.is_nobodys(sign("b"), at(150), at(150)));
        assert!(!silence.is_nobodys(sign("b"), at(151), at(158)));
        assert!(!silence.is_nobodys(sign("b"), at(172), at(172)));
        assert!(silence.is_nobodys(sign("b"), at(173), at(173)));
    }

    #[tokio::test]
    async fn of_several_at_once_each_has_its_own() {
        let objects = InMemory::new();
        let all = futures::future::join_all((0..8).map(|_| take(&objects, 1))).await;
        let mut all: Vec<u64> = all.into_iter().map(Result::unwrap).collect();
        let newest = codes(&objects).await.unwrap();
        all.sort_unstable();
        assert_eq!(newest.last(), all.last());
        all.dedup();
        assert_eq!(all.len(), 8);
    }
}
