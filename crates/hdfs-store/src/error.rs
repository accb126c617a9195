//! Errors: which exception of a NameNode means what here, and what object_store's callers are told.

use cadastre_types::{Code, Detail, Error};

/// Name of this store in object_store's errors.
pub(crate) const STORE: &str = "hdfs";

const FILE_NOT_FOUND: &str = "java.io.FileNotFoundException";
const PARENT_NOT_DIRECTORY: &str = "org.apache.hadoop.fs.ParentNotDirectoryException";
const EXISTS: &str = "org.apache.hadoop.fs.FileAlreadyExistsException";
const NOT_EMPTY: &str = "org.apache.hadoop.fs.PathIsNotEmptyDirectoryException";
const SAFE_MODE: &str = "org.apache.hadoop.hdfs.server.namenode.SafeModeException";
const NOT_REPLICATED_YET: &str = "org.apache.hadoop.hdfs.server.namenode.NotReplicatedYetException";
const ACCESS_CONTROL: &str = "org.apache.hadoop.security.AccessControlException";
const NO_SUCH_METHOD: &str = "org.apache.hadoop.ipc.RpcNoSuchMethodException";

/// What a NameNode's refusal means to this crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// A path, or what is above it, is not there.
    Missing,
    /// Something has that name.
    Exists,
    /// A folder still has something in it.
    NotEmpty,
    /// For now nothing can be changed.
    SafeMode,
    /// The block before is not on enough DataNodes yet.
    NotReplicatedYet,
    /// The user may not.
    Denied,
    /// An older NameNode.
    NoSuchMethod,
    /// Anything else that the NameNode said no to.
    Other,
}

/// The refusal that an error is; `None` if no NameNode said no.
pub(crate) fn refusal(error: &Error) -> Option<Refusal> {
    let Some(Detail::Remote { class, .. }) = error.detail() else {
        return None;
    };
    // An error that was made of several keeps the code of the last, but its outcome is not that one's.
    if error.code() != Code::Remote {
        return None;
    }
    Some(match class.as_str() {
        FILE_NOT_FOUND | PARENT_NOT_DIRECTORY => Refusal::Missing,
        EXISTS => Refusal::Exists,
        NOT_EMPTY => Refusal::NotEmpty,
        SAFE_MODE => Refusal::SafeMode,
        NOT_REPLICATED_YET => Refusal::NotReplicatedYet,
        ACCESS_CONTROL => Refusal::Denied,
        NO_SUCH_METHOD => Refusal::NoSuchMethod,
        _ => Refusal::Other,
    })
}

/// What object_store's callers are told of an object.
pub(crate) fn of_object(path: &str, error: Error) -> object_store::Error {
    let path = path.to_owned();
    match refusal(&error) {
        Some(Refusal::Missing) => object_store::Error::NotFound {
            path,
            source: error.into(),
        },
        Some(Refusal::Denied) => object_store::Error::PermissionDenied {
            path,
            source: error.into(),
        },
        // The one kind that SlateDB does not repeat without end: what is damaged on every DataNode stays so.
        _ if matches!(
            error.code(),
            Code::Unsupported | Code::DoNotRetryIo | Code::Corrupt
        ) =>
        {
            object_store::Error::NotSupported {
                source: error.into(),
            }
        }
        _ => object_store::Error::Generic {
            store: STORE,
            source: error.context(path).into(),
        },
    }
}

/// The same of an object that is being written: what is missing is not the object, what is damaged is a message, and the write may be
/// tried again.
pub(crate) fn of_write(path: &str, error: Error) -> object_store::Error {
    let may_be_repeated =
        refusal(&error) == Some(Refusal::Missing) || error.code() == Code::Corrupt;
    if may_be_repeated {
        return object_store::Error::Generic {
            store: STORE,
            source: error.context(path).into(),
        };
    }
    of_object(path, error)
}

/// There is no such object.
pub(crate) fn not_found(path: &str) -> object_store::Error {
    object_store::Error::NotFound {
        path: path.to_owned(),
        source: "no such file".into(),
    }
}

/// What this store does not do.
pub(crate) fn not_implemented(operation: &str) -> object_store::Error {
    object_store::Error::NotImplemented {
        operation: operation.to_owned(),
        implementer: STORE.to_owned(),
    }
}
