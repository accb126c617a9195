//! Calls about a replication peer or a snapshot by name, neither of which can be made here: HBase's answer for a name that is unknown.
//!
//! Making one is refused as a call that is not supported; lists are empty. So each answer is true.

use cadastre_rpc::{Call, Reply};
use cadastre_types::{Code, Detail, Error, Result};
use cadastre_wire::pb;

use super::param;

/// HBase's exceptions for names that are unknown, the last one where it is asked how far a snapshot is.
const NO_PEER: &str = "org.apache.hadoop.hbase.ReplicationPeerNotFoundException";
const NO_SNAPSHOT: &str = "org.apache.hadoop.hbase.snapshot.SnapshotDoesNotExistException";
const UNKNOWN_SNAPSHOT: &str = "org.apache.hadoop.hbase.snapshot.UnknownSnapshotException";

fn unknown(class: &str, message: String) -> Error {
    Error::new(Code::Remote, message).with_detail(Detail::Remote {
        class: class.to_owned(),
        do_not_retry: true,
    })
}

/// Whether a snapshot is done: none is under way.
pub(super) fn snapshot_done(call: &Call) -> Result<Reply> {
    let request: pb::IsSnapshotDoneRequest = param(call)?;
    let name = request.snapshot.map(|snapshot| snapshot.name);
    Err(unknown(
        UNKNOWN_SNAPSHOT,
        match name {
            Some(name) => format!("Snapshot '{name}' is neither under way nor there"),
            None => "which snapshot?".to_owned(),
        },
    ))
}

/// Asking for, removing, enabling or disabling a peer. All these requests begin with its id.
pub(super) fn peer(call: &Call) -> Result<Reply> {
    let request: pb::GetReplicationPeerConfigRequest = param(call)?;
    Err(unknown(NO_PEER, request.peer_id))
}

/// Deleting, restoring or cloning a snapshot. These requests begin with its description.
pub(super) fn snapshot(call: &Call) -> Result<Reply> {
    let request: pb::DeleteSnapshotRequest = param(call)?;
    let name = request.snapshot.name;
    Err(unknown(
        NO_SNAPSHOT,
        format!("Snapshot '{name}' does not exist"),
    ))
}
