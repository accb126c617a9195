//! Namespaces (hbase-protocol.md 8.6).

use cadastre_rpc::{Call, Reply};
use cadastre_types::{Code, Error, Result};
use cadastre_wire::pb;

use super::{begin, nonce, param, reply};
use crate::active::Active;
use crate::journal::{namespace_from, namespace_pb};
use crate::procedure::{Lock, Operation};
use crate::schema::{RESERVED_NAMESPACES, check_namespace};
use crate::world::World;

pub(super) async fn create<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::CreateNamespaceRequest = param(call)?;
    let namespace = namespace_from(&request.namespace_descriptor)?;
    check_namespace(&namespace)?;
    let mark = nonce(request.nonce_group, request.nonce);
    let lock = Lock::Namespace(namespace.name.clone());
    let proc_id = begin(active, call, lock, mark, move |catalog, _| {
        if catalog.namespace(&namespace.name).is_ok() {
            return Err(Error::new(
                Code::NamespaceExist,
                format!("Namespace {} already exists", namespace.name),
            ));
        }
        Ok(Operation::CreateNamespace(namespace))
    })
    .await?;
    Ok(reply(&pb::CreateNamespaceResponse {
        proc_id: Some(proc_id),
    }))
}

pub(super) async fn modify<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::ModifyNamespaceRequest = param(call)?;
    let namespace = namespace_from(&request.namespace_descriptor)?;
    check_namespace(&namespace)?;
    let mark = nonce(request.nonce_group, request.nonce);
    let lock = Lock::Namespace(namespace.name.clone());
    let proc_id = begin(active, call, lock, mark, move |catalog, _| {
        catalog.namespace(&namespace.name)?;
        Ok(Operation::ModifyNamespace(namespace))
    })
    .await?;
    Ok(reply(&pb::ModifyNamespaceResponse {
        proc_id: Some(proc_id),
    }))
}

pub(super) async fn delete<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::DeleteNamespaceRequest = param(call)?;
    let name = request.namespace_name;
    let mark = nonce(request.nonce_group, request.nonce);
    let lock = Lock::Namespace(name.clone());
    let proc_id = begin(active, call, lock, mark, move |catalog, _| {
        let constraint = |why: String| Err(Error::new(Code::Constraint, why));
        if RESERVED_NAMESPACES.contains(&name.as_str()) {
            return constraint(format!("Reserved namespace {name} cannot be removed."));
        }
        catalog.namespace(&name)?;
        match catalog.tables_in(&name) {
            0 => Ok(Operation::DeleteNamespace(name)),
            tables => constraint(format!(
                "Only empty namespaces can be removed. Namespace {name} has {tables} tables"
            )),
        }
    })
    .await?;
    Ok(reply(&pb::DeleteNamespaceResponse {
        proc_id: Some(proc_id),
    }))
}

pub(super) fn descriptor<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::GetNamespaceDescriptorRequest = param(call)?;
    let namespace_descriptor = active
        .with_catalog(|catalog| catalog.namespace(&request.namespace_name).map(namespace_pb))?;
    Ok(reply(&pb::GetNamespaceDescriptorResponse {
        namespace_descriptor,
    }))
}

pub(super) fn descriptors<W: World>(active: &Active<W>) -> Reply {
    let all = active.with_catalog(|catalog| catalog.namespaces().map(namespace_pb).collect());
    reply(&pb::ListNamespaceDescriptorsResponse {
        namespace_descriptor: all,
    })
}

pub(super) fn names<W: World>(active: &Active<W>) -> Reply {
    let all =
        active.with_catalog(|catalog| catalog.namespaces().map(|ns| ns.name.clone()).collect());
    reply(&pb::ListNamespacesResponse {
        namespace_name: all,
    })
}
