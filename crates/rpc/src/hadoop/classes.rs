//! What a Java exception, or a fault of a socket, is in the policy's table (hadoop-ha-rpc.md B.3, E.6). Matching is by full name, as in Hadoop.

use std::io;
use std::sync::Arc;

use cadastre_types::{Code, Detail, Error};
use cadastre_wire::hadoop::RemoteException;

use crate::ha::policy::Class;
use crate::ha::{Executed, Failure};

const STANDBY: &str = "org.apache.hadoop.ipc.StandbyException";
const OBSERVER_RETRY_ON_ACTIVE: &str = "org.apache.hadoop.ipc.ObserverRetryOnActiveException";
const RETRIABLE: &str = "org.apache.hadoop.ipc.RetriableException";
const SAFE_MODE: &str = "org.apache.hadoop.hdfs.server.namenode.SafeModeException";

/// The failure that a server's exception is.
pub(super) fn remote(from: &Arc<str>, exception: &RemoteException) -> Failure {
    let (class, executed) = match exception.class.as_str() {
        // Thrown before the server looks whether it has done the call before.
        STANDBY => (Class::Standby, Executed::No),
        OBSERVER_RETRY_ON_ACTIVE => (Class::ObserverRetryOnActive, Executed::No),
        RETRIABLE => (Class::Retriable, Executed::No),
        SAFE_MODE => (Class::SafeMode, Executed::Refused),
        _ if exception.is_of_method() => (Class::Remote, Executed::Refused),
        _ => (Class::Remote, Executed::No),
    };
    let passes = matches!(
        class,
        Class::Standby | Class::ObserverRetryOnActive | Class::Retriable | Class::SafeMode
    );
    let error = Error::new(Code::Remote, format!("{from}: {}", exception.message)).with_detail(
        Detail::Remote {
            class: exception.class.clone(),
            do_not_retry: !passes,
        },
    );
    Failure::new(class, executed, from, error)
}

/// Why a connection did not come about.
pub(super) fn connect(error: &io::Error) -> Class {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Class::Refused,
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Class::NoRoute,
        io::ErrorKind::TimedOut => Class::ConnectTimeout,
        _ => Class::NotSent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(class: &str, detail: i32) -> (Class, Executed) {
        let exception = RemoteException {
            class: class.to_owned(),
            message: "m".to_owned(),
            detail,
        };
        let failure = remote(&Arc::from("nn0"), &exception);
        assert_eq!(failure.error.message(), "nn0: m");
        (failure.class, failure.executed)
    }

    #[test]
    fn names_are_matched_whole() {
        assert_eq!(class(STANDBY, 1), (Class::Standby, Executed::No));
        assert_eq!(class(RETRIABLE, 1), (Class::Retriable, Executed::No));
        assert_eq!(class(SAFE_MODE, 1), (Class::SafeMode, Executed::Refused));
        let observer = (Class::ObserverRetryOnActive, Executed::No);
        assert_eq!(class(OBSERVER_RETRY_ON_ACTIVE, 1), observer);
        for other in ["StandbyException", "java.io.FileNotFoundException", ""] {
            assert_eq!(class(other, 1), (Class::Remote, Executed::Refused));
            // Not the method's own: no such method, not authorized.
            assert_eq!(class(other, 2), (Class::Remote, Executed::No));
            assert_eq!(class(other, 15), (Class::Remote, Executed::No));
        }
    }

    #[test]
    fn faults_before_a_connection() {
        let of = |kind: io::ErrorKind| connect(&kind.into());
        assert_eq!(of(io::ErrorKind::ConnectionRefused), Class::Refused);
        assert_eq!(of(io::ErrorKind::HostUnreachable), Class::NoRoute);
        assert_eq!(of(io::ErrorKind::NetworkUnreachable), Class::NoRoute);
        assert_eq!(of(io::ErrorKind::TimedOut), Class::ConnectTimeout);
        assert_eq!(of(io::ErrorKind::AddrNotAvailable), Class::NotSent);
    }
}
