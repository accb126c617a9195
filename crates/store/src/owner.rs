//! Which process runs a store that machines share: the one that started last. Each start puts an object `starts/<start code>` that must be the
//! newest; a process that sees a newer one ends itself (C18), whatever else fences it database by database.
//!
//! Start codes grow over all machines so, as [`crate::starts`] makes them grow over one data directory (requirements.md L19).

use cadastre_env::Env;
use cadastre_types::{Code, Error, Result};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};

use crate::error::from_object_store;

/// Folder of the objects, at the store's root.
const FOLDER: &str = "starts";

/// What such an object says, for people.
const CONTENT: &str = "cadastre start\nformat 1\n";

/// How far a start code lies above the last one, ms: as in [`crate::starts`].
const STEP_MS: u64 = 1000;

/// Starts that race for one number, at most.
const RACES_MAX: u32 = 100;

fn object(code: u64) -> Path {
    Path::from(FOLDER).join(format!("{code:020}"))
}

fn code(path: &Path) -> Result<u64> {
    let name = path.filename().unwrap_or_default();
    let is_code = name.len() == 20 && name.bytes().all(|byte| byte.is_ascii_digit());
    let parsed = is_code.then(|| name.parse().ok()).flatten();
    parsed.ok_or_else(|| Error::corrupt(format!("'{path}' is no start of a server")))
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
            match objects.delete(&object(code)).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(from_object_store(&error)),
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
