//! Tables, namespaces and the cluster, by way of the active master (hbase-protocol.md 8.3 to 8.8).
//!
//! An operation that changes something carries a nonce, the same over all tries, and answers with a procedure's number; then the
//! procedure is asked for until it is finished. Who the active master is, and what is repeated, is the HA proxy's affair (`master`).

use bytes::Bytes;
use cadastre_env::Env;
use cadastre_rpc::ha::{MasterService, MasterServiceClient};
use cadastre_types::{Code, Error, Result, TableDescriptor, TableName};
use cadastre_wire::{convert, exception, pb};

mod namespaces;
mod regions;
mod status;

pub use self::namespaces::Namespace;
pub use self::regions::Balanced;
pub use self::status::{ClusterStatus, LiveServer, TableRegions};
use crate::Client;
use crate::locate::{Location, Position};
use crate::scan::new_scan;

/// The admin side of a client.
#[derive(Clone)]
pub struct Admin<E: Env> {
    client: Client<E>,
}

impl<E: Env> Client<E> {
    /// Tables, namespaces and the cluster.
    pub fn admin(&self) -> Admin<E> {
        Admin {
            client: self.clone(),
        }
    }
}

impl<E: Env> Admin<E> {
    /// Makes a table, with one region more than there are split keys.
    ///
    /// # Errors
    /// [`Code::TableExists`] and what else the master says.
    pub async fn create_table(
        &self,
        table: &TableDescriptor,
        split_keys: Vec<Bytes>,
    ) -> Result<()> {
        let request = pb::CreateTableRequest {
            table_schema: convert::table_schema(table, false),
            split_keys,
            nonce_group: Some(self.nonce_group()),
            nonce: Some(self.client.nonce()),
        };
        let answer = self.master().create_table(request).await?;
        self.wait("create", answer.proc_id).await
    }

    /// Removes a disabled table.
    ///
    /// # Errors
    /// [`Code::TableNotFound`], [`Code::TableNotDisabled`] and what else the master says.
    pub async fn delete_table(&self, table: &TableName) -> Result<()> {
        let request = pb::DeleteTableRequest {
            table_name: convert::table_name_pb(table),
            nonce_group: Some(self.nonce_group()),
            nonce: Some(self.client.nonce()),
        };
        let answer = self.master().delete_table(request).await?;
        self.wait("delete", answer.proc_id).await?;
        self.client.clear_table(table);
        Ok(())
    }

    /// Empties a disabled table and enables it.
    ///
    /// # Errors
    /// What the master says.
    pub async fn truncate_table(&self, table: &TableName, preserve_splits: bool) -> Result<()> {
        let request = pb::TruncateTableRequest {
            table_name: convert::table_name_pb(table),
            preserve_splits: Some(preserve_splits),
            nonce_group: Some(self.nonce_group()),
            nonce: Some(self.client.nonce()),
        };
        let answer = self.master().truncate_table(request).await?;
        self.wait("truncate", answer.proc_id).await?;
        self.client.clear_table(table);
        Ok(())
    }

    /// Starts to serve a table.
    ///
    /// # Errors
    /// [`Code::TableNotDisabled`] if it is enabled, and what else the master says.
    pub async fn enable_table(&self, table: &TableName) -> Result<()> {
        let request = pb::EnableTableRequest {
            table_name: convert::table_name_pb(table),
            nonce_group: Some(self.nonce_group()),
            nonce: Some(self.client.nonce()),
        };
        let answer = self.master().enable_table(request).await?;
        self.wait("enable", answer.proc_id).await
    }

    /// Ends serving a table.
    ///
    /// # Errors
    /// [`Code::TableNotEnabled`] if it is disabled, and what else the master says.
    pub async fn disable_table(&self, table: &TableName) -> Result<()> {
        let request = pb::DisableTableRequest {
            table_name: convert::table_name_pb(table),
            nonce_group: Some(self.nonce_group()),
            nonce: Some(self.client.nonce()),
        };
        let answer = self.master().disable_table(request).await?;
        self.wait("disable", answer.proc_id).await?;
        self.client.clear_table(table);
        Ok(())
    }

    /// Gives a table a new schema.
    ///
    /// # Errors
    /// What the master says.
    pub async fn modify_table(&self, table: &TableDescriptor) -> Result<()> {
        let request = pb::ModifyTableRequest {
            table_name: convert::table_name_pb(&table.name),
            table_schema: convert::table_schema(table, false),
            nonce_group: Some(self.nonce_group()),
            nonce: Some(self.client.nonce()),
            reopen_regions: None,
        };
        let answer = self.master().modify_table(request).await?;
        self.wait("modify", answer.proc_id).await
    }

    /// Writes what a table has in memory to its files.
    ///
    /// # Errors
    /// What the master says. Servers before HBase 2.6 do not know this call.
    pub async fn flush_table(&self, table: &TableName) -> Result<()> {
        let request = pb::FlushTableRequest {
            table_name: convert::table_name_pb(table),
            column_family: Vec::new(),
            nonce_group: Some(self.nonce_group()),
            nonce: Some(self.client.nonce()),
        };
        let answer = self.master().flush_table(request).await?;
        self.wait("flush", answer.proc_id).await
    }

    /// Schemas of all user tables, and of HBase's own if asked for.
    ///
    /// # Errors
    /// What the master says.
    pub async fn list_tables(&self, with_system_tables: bool) -> Result<Vec<TableDescriptor>> {
        self.descriptors(pb::GetTableDescriptorsRequest {
            include_sys_tables: Some(with_system_tables),
            ..Default::default()
        })
        .await
    }

    /// A table's schema.
    ///
    /// # Errors
    /// [`Code::TableNotFound`] and what else the master says.
    pub async fn describe_table(&self, table: &TableName) -> Result<TableDescriptor> {
        let found = self
            .descriptors(pb::GetTableDescriptorsRequest {
                table_names: vec![convert::table_name_pb(table)],
                include_sys_tables: Some(table.is_system()),
                ..Default::default()
            })
            .await?;
        found
            .into_iter()
            .find(|descriptor| descriptor.name == *table)
            .ok_or_else(|| Error::new(Code::TableNotFound, table.to_string()))
    }

    async fn descriptors(
        &self,
        request: pb::GetTableDescriptorsRequest,
    ) -> Result<Vec<TableDescriptor>> {
        let answer = self.master().get_table_descriptors(request).await?;
        answer
            .table_schema
            .iter()
            .map(convert::table_descriptor)
            .collect()
    }

    /// Regions of a table with their servers, in order of their start keys, as the directory has them now. Regions without a
    /// server are an error of the look-up, not left out.
    ///
    /// # Errors
    /// [`Code::TableNotFound`] and what else a look-up says.
    pub async fn table_regions(&self, table: &TableName) -> Result<Vec<std::sync::Arc<Location>>> {
        self.client.clear_table(table);
        let mut regions = Vec::new();
        let mut row = Bytes::new();
        loop {
            let found = self
                .client
                .locate_at(table, &row, Position::Holding, 0, false)
                .await?;
            row = found.region.end_key.clone();
            regions.push(found);
            if row.is_empty() {
                return Ok(regions);
            }
        }
    }

    fn nonce_group(&self) -> u64 {
        self.client.shared.nonce_group
    }

    fn master(&self) -> &MasterServiceClient {
        &self.client.shared.master
    }

    /// Waits for a procedure. Without a number there is nothing to wait for: the master did it at once.
    async fn wait(&self, what: &str, procedure: Option<u64>) -> Result<()> {
        let Some(proc_id) = procedure else {
            return Ok(());
        };
        let what = format!("procedure {proc_id} ({what})");
        self.client
            .poll(&what, || self.procedure_outcome(proc_id))
            .await
    }

    async fn procedure_outcome(&self, proc_id: u64) -> Result<Option<()>> {
        use pb::get_procedure_result_response::State;
        let request = pb::GetProcedureResultRequest { proc_id };
        let answer = self.master().get_procedure_result(request).await?;
        match State::try_from(answer.state) {
            Ok(State::Running) => Ok(None),
            // Forgotten after it was done.
            Ok(State::NotFound) => Ok(Some(())),
            Ok(State::Finished) => match answer.exception {
                None => Ok(Some(())),
                Some(failed) => Err(procedure_error(failed)),
            },
            Err(_) => Err(Error::corrupt("a procedure in an unknown state")),
        }
    }
}

/// What a procedure failed with: class and message, as in any exception.
fn procedure_error(failed: pb::ForeignExceptionMessage) -> Error {
    let generic = failed.generic_exception.unwrap_or_default();
    let class = generic.class_name.unwrap_or_default();
    let message = generic.message.unwrap_or_default();
    exception::from_response(&pb::ExceptionResponse {
        exception_class_name: Some(class.clone()),
        stack_trace: Some(format!("{class}: {message}")),
        ..Default::default()
    })
}

impl<E: Env> Client<E> {
    /// Whether `hbase:meta` can be read: one row of it, or none, but an answer.
    ///
    /// # Errors
    /// The last error of the tries.
    pub async fn ping(&self) -> Result<()> {
        let mut rows = self.scan_limited(&TableName::meta(), new_scan(), Some(1))?;
        rows.next().await.map(|_| ())
    }
}
