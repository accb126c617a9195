//! Namespaces (hbase-protocol.md 8.6).

use std::collections::BTreeMap;

use bytes::Bytes;
use cadastre_env::Env;
use cadastre_rpc::ha::MasterService;
use cadastre_types::Result;
use cadastre_wire::pb;

use super::Admin;

/// A namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// Name.
    pub name: String,
    /// Free settings.
    pub configuration: BTreeMap<String, String>,
}

impl Namespace {
    fn to_pb(&self) -> pb::NamespaceDescriptor {
        let pairs = self.configuration.iter();
        pb::NamespaceDescriptor {
            name: Bytes::copy_from_slice(self.name.as_bytes()),
            configuration: pairs
                .map(|(name, value)| pb::NameStringPair {
                    name: name.clone(),
                    value: value.clone(),
                })
                .collect(),
        }
    }

    fn from_pb(namespace: pb::NamespaceDescriptor) -> Self {
        let pairs = namespace.configuration.into_iter();
        Self {
            name: String::from_utf8_lossy(&namespace.name).into_owned(),
            configuration: pairs.map(|pair| (pair.name, pair.value)).collect(),
        }
    }
}

impl<E: Env> Admin<E> {
    /// Makes a namespace.
    ///
    /// # Errors
    /// [`Code::NamespaceExist`](cadastre_types::Code::NamespaceExist) and what else the master says.
    pub async fn create_namespace(&self, namespace: &Namespace) -> Result<()> {
        let request = pb::CreateNamespaceRequest {
            namespace_descriptor: namespace.to_pb(),
            nonce_group: Some(self.nonce_group()),
            nonce: Some(self.client.nonce()),
        };
        let answer = self.master().create_namespace(request).await?;
        self.wait("create namespace", answer.proc_id).await
    }

    /// Removes an empty namespace.
    ///
    /// # Errors
    /// [`Code::NamespaceNotFound`](cadastre_types::Code::NamespaceNotFound), [`Code::Constraint`](cadastre_types::Code::Constraint) and what else the master says.
    pub async fn delete_namespace(&self, name: &str) -> Result<()> {
        let request = pb::DeleteNamespaceRequest {
            namespace_name: name.to_owned(),
            nonce_group: Some(self.nonce_group()),
            nonce: Some(self.client.nonce()),
        };
        let answer = self.master().delete_namespace(request).await?;
        self.wait("delete namespace", answer.proc_id).await
    }

    /// All namespaces.
    ///
    /// # Errors
    /// What the master says.
    pub async fn list_namespaces(&self) -> Result<Vec<Namespace>> {
        let request = pb::ListNamespaceDescriptorsRequest {};
        let answer = self.master().list_namespace_descriptors(request).await?;
        Ok(answer
            .namespace_descriptor
            .into_iter()
            .map(Namespace::from_pb)
            .collect())
    }

    /// A namespace.
    ///
    /// # Errors
    /// [`Code::NamespaceNotFound`](cadastre_types::Code::NamespaceNotFound) and what else the master says.
    pub async fn describe_namespace(&self, name: &str) -> Result<Namespace> {
        let request = pb::GetNamespaceDescriptorRequest {
            namespace_name: name.to_owned(),
        };
        let answer = self.master().get_namespace_descriptor(request).await?;
        Ok(Namespace::from_pb(answer.namespace_descriptor))
    }

    /// Gives a namespace new settings in place of the old ones.
    ///
    /// # Errors
    /// [`Code::NamespaceNotFound`](cadastre_types::Code::NamespaceNotFound) and what else the master says.
    pub async fn modify_namespace(&self, namespace: &Namespace) -> Result<()> {
        let request = pb::ModifyNamespaceRequest {
            namespace_descriptor: namespace.to_pb(),
            nonce_group: Some(self.nonce_group()),
            nonce: Some(self.client.nonce()),
        };
        let answer = self.master().modify_namespace(request).await?;
        self.wait("modify namespace", answer.proc_id).await
    }
}
