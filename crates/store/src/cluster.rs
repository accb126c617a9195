//! The object `cluster`: the cluster's id and the version of the whole layout. Text, so that a person can read it.
//!
//! ```text
//! cadastre store
//! format 1
//! cluster 01234567-89ab-cdef-0123-456789abcdef
//! crc32 0a1b2c3d          (of the bytes before this line)
//! ```

use std::fmt::Write as _;

use cadastre_env::Env;
use cadastre_types::{Code, Error, Result};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};
use rand::RngCore;

use crate::error::from_object_store;
use crate::store::LOCK_FILE;

/// Name of the object.
const FILE: &str = "cluster";

/// The layout this program writes and reads.
const FORMAT: u32 = 1;

/// Longest cluster file that is read, bytes; ours has about 100.
const FILE_MAX: u64 = 4096;

/// Reads the cluster's id, or makes it on an empty store.
pub(crate) async fn open<E: Env>(env: &E, objects: &dyn ObjectStore) -> Result<String> {
    let path = Path::from(FILE);
    if let Some(text) = read(objects, &path).await? {
        return parse(&text);
    }
    if let Some(other) = anything(objects).await? {
        return Err(Error::corrupt(format!(
            "there is no '{FILE}' file but there is '{other}': not a store of Cadastre, or a damaged one"
        )));
    }
    let text = render(&new_id(env));
    match objects
        .put_opts(&path, text.into_bytes().into(), PutMode::Create.into())
        .await
    {
        Ok(_) | Err(object_store::Error::AlreadyExists { .. }) => {}
        Err(error) => return Err(from_object_store(&error)),
    }
    // Whoever made it: what is there now is the cluster's.
    match read(objects, &path).await? {
        Some(text) => parse(&text),
        None => Err(Error::new(
            Code::Io,
            format!("'{FILE}' was written and is not there"),
        )),
    }
}

async fn read(objects: &dyn ObjectStore, path: &Path) -> Result<Option<Vec<u8>>> {
    let object = match objects.get(path).await {
        Err(object_store::Error::NotFound { .. }) => return Ok(None),
        object => object.map_err(|e| from_object_store(&e))?,
    };
    if object.meta.size > FILE_MAX {
        return Err(damaged("it is too long"));
    }
    let bytes = object.bytes().await.map_err(|e| from_object_store(&e))?;
    Ok(Some(bytes.to_vec()))
}

/// The name of some object, other than the data directory's lock, which is taken before and may lie in the same directory.
async fn anything(objects: &dyn ObjectStore) -> Result<Option<String>> {
    let mut listing = objects.list(None);
    while let Some(object) = listing
        .try_next()
        .await
        .map_err(|e| from_object_store(&e))?
    {
        if object.location.as_ref() != LOCK_FILE {
            return Ok(Some(object.location.to_string()));
        }
    }
    Ok(None)
}

fn new_id<E: Env>(env: &E) -> String {
    let mut bytes = [0_u8; 16];
    env.rng("cluster id").fill_bytes(&mut bytes);
    // A random UUID (version 4), as HBase's ids are.
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut id = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            id.push('-');
        }
        write!(id, "{byte:02x}").expect("writing to a string cannot fail");
    }
    id
}

fn render(id: &str) -> String {
    let head = format!("cadastre store\nformat {FORMAT}\ncluster {id}\n");
    let crc = crc32fast::hash(head.as_bytes());
    format!("{head}crc32 {crc:08x}\n")
}

fn damaged(why: &str) -> Error {
    Error::corrupt(format!("the file '{FILE}' is damaged: {why}"))
}

fn parse(bytes: &[u8]) -> Result<String> {
    let text = std::str::from_utf8(bytes).map_err(|_| damaged("it is not text"))?;
    let mut lines = text.lines();
    if lines.next() != Some("cadastre store") {
        return Err(damaged("it does not begin as one"));
    }
    let format: u32 = lines
        .next()
        .and_then(|line| line.strip_prefix("format "))
        .and_then(|format| format.parse().ok())
        .ok_or_else(|| damaged("it has no format"))?;
    // Before the checksum: a newer format may have another one.
    if format > FORMAT {
        return Err(Error::corrupt(format!(
            "the file '{FILE}' says format {format}: made by a newer program, this one knows up to {FORMAT}"
        )));
    }
    let id = lines
        .next()
        .and_then(|line| line.strip_prefix("cluster "))
        .ok_or_else(|| damaged("it has no cluster id"))?;
    if text != render(id) || id.is_empty() {
        return Err(damaged("its checksum is wrong"));
    }
    Ok(id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden() {
        let text = render("01234567-89ab-4def-8123-456789abcdef");
        assert_eq!(
            text,
            "cadastre store\nformat 1\ncluster 01234567-89ab-4def-8123-456789abcdef\ncrc32 "
                .to_owned()
                + &text[text.len() - 9..]
        );
        assert_eq!(
            parse(text.as_bytes()).unwrap(),
            "01234567-89ab-4def-8123-456789abcdef"
        );
    }

    #[test]
    fn damage_and_newer_formats_are_named() {
        let text = render("x");
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let error = parse(&bytes).unwrap_err();
            assert!(error.message().contains("'cluster'"), "{error}");
        }
        let newer = text.replace("format 1", "format 2");
        assert!(
            parse(newer.as_bytes())
                .unwrap_err()
                .message()
                .contains("newer")
        );
    }
}
