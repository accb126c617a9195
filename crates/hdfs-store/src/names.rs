//! Names: an object's path and its file's, and the folder of files that have none yet. Knows no NameNode.

use cadastre_types::{Error, Result};
use object_store::path::Path;

/// Folder below the root for files that are being written. Objects cannot lie there.
const TEMPORARY: &str = ".cadastre-tmp";

/// Longest path that a NameNode takes, bytes (its limit is 8000 characters).
const PATH_MAX: usize = 8000;

/// The root of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Root(String);

impl Root {
    /// The path of a URI, such as `/cadastre`.
    pub(crate) fn parse(path: &str) -> Result<Self> {
        let path = path.trim_end_matches('/');
        let bad = |part: &str| matches!(part, "" | "." | "..") || part.contains([':', '\\']);
        let mut parts = path.split('/');
        let is_absolute = parts.next() == Some("");
        if !is_absolute || path.is_empty() || parts.any(bad) || path.len() > PATH_MAX / 2 {
            return Err(Error::invalid(format!(
                "'{path}' cannot be the folder of a store: write hdfs://nameservice/some/folder"
            )));
        }
        Ok(Self(path.to_owned()))
    }

    /// The root folder.
    pub(crate) fn path(&self) -> &str {
        &self.0
    }

    /// Folder of files without a name.
    pub(crate) fn temporary(&self) -> String {
        format!("{}/{TEMPORARY}", self.0)
    }

    /// An object's file.
    pub(crate) fn file(&self, object: &Path) -> Result<String> {
        let refused = |why: &str| {
            Err(Error::invalid(format!(
                "'{object}' cannot be the name of an object on HDFS: {why}"
            )))
        };
        if object.as_ref().is_empty() {
            return refused("it is empty");
        }
        if object.as_ref().contains(':') {
            return refused("it has a colon");
        }
        if is_temporary(object.as_ref()) {
            return refused("it is reserved");
        }
        let path = format!("{}/{object}", self.0);
        if path.len() > PATH_MAX {
            return refused("it is too long");
        }
        Ok(path)
    }

    /// A folder of objects: all of them, or those below a prefix.
    pub(crate) fn folder(&self, prefix: Option<&Path>) -> Result<String> {
        match prefix {
            Some(prefix) if !prefix.as_ref().is_empty() => self.file(prefix),
            _ => Ok(self.0.clone()),
        }
    }
}

/// Whether a path below the root lies in the folder of files without a name.
pub(crate) fn is_temporary(relative: &str) -> bool {
    relative.split('/').next() == Some(TEMPORARY)
}

/// The folder of a file.
pub(crate) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots() {
        assert_eq!(Root::parse("/a/b/").unwrap().path(), "/a/b");
        for bad in ["", "/", "a", "/a//b", "/a/../b", "/a:b", "/."] {
            assert!(Root::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn objects() {
        let root = Root::parse("/r").unwrap();
        let file = |name: &str| root.file(&Path::from(name));
        assert_eq!(file("data/t/x.sst").unwrap(), "/r/data/t/x.sst");
        for bad in ["", "a:b", ".cadastre-tmp/x", ".cadastre-tmp"] {
            assert!(file(bad).is_err(), "{bad}");
        }
        assert!(file(&"x".repeat(8000)).is_err());
        assert_eq!(root.folder(None).unwrap(), "/r");
        assert_eq!(root.folder(Some(&Path::from("d"))).unwrap(), "/r/d");
        assert_eq!(parent("/r/d/x"), "/r/d");
    }
}
