//! The object `sealed` of a region that was split or merged (C20): it names the regions that took its place, and a region that
//! has it is never opened. Text, so that a person can read it.
//!
//! ```text
//! cadastre sealed region
//! format 1
//! replaced-by 0123456789abcdef0123456789abcdef fedcba9876543210fedcba9876543210
//! ```

use cadastre_types::{Code, Error, RegionInfo, Result};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};

use crate::error::from_object_store;

/// Name of the object.
const FILE: &str = "sealed";

const HEAD: &str = "cadastre sealed region\nformat 1\nreplaced-by";

/// Longest seal that is read, bytes; one with two names has about 120.
const FILE_MAX: u64 = 4096;

fn object(region: &str) -> Path {
    Path::from(region).join(FILE)
}

/// The text that seals a region for these.
pub(crate) fn text(targets: &[RegionInfo]) -> String {
    let mut text = HEAD.to_owned();
    for target in targets {
        text.push(' ');
        text.push_str(target.encoded_name().as_str());
    }
    text.push('\n');
    text
}

/// A region's seal.
pub(crate) async fn read(objects: &dyn ObjectStore, region: &str) -> Result<Option<String>> {
    let path = object(region);
    let found = match objects.get(&path).await {
        Err(object_store::Error::NotFound { .. }) => return Ok(None),
        found => found.map_err(|e| from_object_store(&e))?,
    };
    let damaged = || Error::corrupt(format!("the file '{path}' is damaged"));
    if found.meta.size > FILE_MAX {
        return Err(damaged());
    }
    let bytes = found.bytes().await.map_err(|e| from_object_store(&e))?;
    let text = String::from_utf8(bytes.to_vec()).map_err(|_| damaged())?;
    if text.starts_with(HEAD) && text.ends_with('\n') {
        Ok(Some(text))
    } else {
        Err(damaged())
    }
}

/// Seals a region, if nobody did.
pub(crate) async fn put(objects: &dyn ObjectStore, region: &str, text: &str) -> Result<()> {
    let path = object(region);
    let bytes = text.to_owned().into_bytes();
    match objects
        .put_opts(&path, bytes.into(), PutMode::Create.into())
        .await
    {
        Ok(_) | Err(object_store::Error::AlreadyExists { .. }) => {}
        Err(error) => return Err(from_object_store(&error)),
    }
    match read(objects, region).await? {
        Some(there) if there == text => Ok(()),
        other => Err(refusal(region, other.as_deref())),
    }
}

/// Takes a seal away. Done before is done.
pub(crate) async fn remove(objects: &dyn ObjectStore, region: &str) -> Result<()> {
    match objects.delete(&object(region)).await {
        Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(from_object_store(&error)),
    }
}

/// Refuses a region that has a seal.
pub(crate) async fn check_none(objects: &dyn ObjectStore, region: &str) -> Result<()> {
    match read(objects, region).await? {
        None => Ok(()),
        there => Err(refusal(region, there.as_deref())),
    }
}

/// The answer for a region with this seal.
pub(crate) fn refusal(region: &str, text: Option<&str>) -> Error {
    let names = text.and_then(|text| text.strip_prefix(HEAD));
    Error::new(
        Code::RegionState,
        format!(
            "{region} was split or merged and is never opened again; in its place are{}",
            names.unwrap_or(" others").trim_end()
        ),
    )
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use cadastre_types::TableName;
    use object_store::memory::InMemory;

    use super::*;

    fn region(id: u64) -> RegionInfo {
        let table = TableName::parse("t1").unwrap();
        RegionInfo::new(table, Bytes::new(), Bytes::new(), id)
    }

    #[test]
    fn golden() {
        let text = text(&[region(1_700_000_000_000)]);
        assert_eq!(
            text,
            "cadastre sealed region\nformat 1\nreplaced-by 43ae7364b4a555b93267937f9bc49ec1\n"
        );
    }

    #[tokio::test]
    async fn a_seal_holds_for_whom_it_names() {
        let objects = InMemory::new();
        let (ours, others) = (text(&[region(1), region(2)]), text(&[region(3)]));
        check_none(&objects, "data/r").await.unwrap();
        put(&objects, "data/r", &ours).await.unwrap();
        put(&objects, "data/r", &ours).await.unwrap();
        let refused = put(&objects, "data/r", &others).await.unwrap_err();
        assert_eq!(refused.code(), Code::RegionState);
        let name = region(2).encoded_name();
        assert!(refused.message().contains(name.as_str()), "{refused}");
        assert!(check_none(&objects, "data/r").await.is_err());
        remove(&objects, "data/r").await.unwrap();
        remove(&objects, "data/r").await.unwrap();
        check_none(&objects, "data/r").await.unwrap();
        let path = object("data/r");
        objects.put(&path, "garbage".into()).await.unwrap();
        let damaged = check_none(&objects, "data/r").await.unwrap_err();
        assert_eq!(damaged.code(), Code::Corrupt);
    }
}
