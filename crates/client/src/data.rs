//! Gets and mutations of single rows. Tries and locations are `call`'s affair.

use bytes::Bytes;
use cadastre_env::Env;
use cadastre_types::{
    Cell, CellType, Condition, Durability, Error, Get, LATEST_TIMESTAMP, Mutation, MutationKind,
    Query, Result, TableName, TimeRange,
};

use crate::Client;
use crate::requests::{
    GetRequest, MutateRequest, Mutated, RowMutationsRequest, check_mutation, check_row,
};
use crate::row::Row;

/// A get of a whole row, newest versions.
pub fn new_get(row: Bytes) -> Get {
    Get {
        row,
        query: Query::default(),
        filter: None,
        store_limit: None,
        store_offset: 0,
        existence_only: false,
        closest_row_before: false,
        query_metrics: false,
    }
}

/// A mutation of a row without cells: complete for a delete of the row, to be filled otherwise.
pub fn new_mutation(kind: MutationKind, row: Bytes) -> Mutation {
    Mutation {
        row,
        kind,
        cells: Vec::new(),
        timestamp: LATEST_TIMESTAMP,
        durability: Durability::UseDefault,
        time_range: TimeRange::ALL,
        nonce: 0,
        return_results: true,
        ttl_ms: None,
    }
}

/// A delete marker.
pub fn delete_cell(
    row: Bytes,
    family: Bytes,
    qualifier: Bytes,
    timestamp: i64,
    cell_type: CellType,
) -> Cell {
    Cell {
        cell_type,
        ..Cell::put(row, family, qualifier, timestamp, Bytes::new())
    }
}

impl<E: Env> Client<E> {
    /// Reads a row.
    ///
    /// # Errors
    /// The last error, when tries or time are used up, or at once for one that is final.
    pub async fn get(&self, table: &TableName, get: &Get) -> Result<Row> {
        check_row(&get.row)?;
        self.region_call(table, &get.row, &GetRequest(get)).await
    }

    /// Whether a get finds a cell; none is sent back.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn exists(&self, table: &TableName, get: &Get) -> Result<bool> {
        let get = Get {
            existence_only: true,
            ..get.clone()
        };
        let row = self.get(table, &get).await?;
        Ok(row.exists.unwrap_or(!row.is_empty()))
    }

    /// Changes a row. Increments and appends get a nonce, which stays the same over all tries (INV-5).
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn mutate(&self, table: &TableName, mutation: Mutation) -> Result<Row> {
        let mutation = self.checked(mutation)?;
        let request = MutateRequest {
            mutation: &mutation,
            condition: None,
            nonce_group: self.shared.nonce_group,
        };
        Ok(self.region_call(table, &mutation.row, &request).await?.row)
    }

    /// Writes cells of one row, the row being that of the first.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn put(&self, table: &TableName, cells: Vec<Cell>) -> Result<()> {
        let row = cells
            .first()
            .map(|cell| cell.row.clone())
            .ok_or_else(|| Error::invalid("No columns to insert"))?;
        let mutation = Mutation {
            cells,
            ..new_mutation(MutationKind::Put, row)
        };
        self.mutate(table, mutation).await.map(|_| ())
    }

    /// Deletes by markers of one row (see [`delete_cell`]), or the whole row without any.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn delete(&self, table: &TableName, row: Bytes, markers: Vec<Cell>) -> Result<()> {
        let mutation = Mutation {
            cells: markers,
            ..new_mutation(MutationKind::Delete, row)
        };
        self.mutate(table, mutation).await.map(|_| ())
    }

    /// Puts bytes behind a value and gives the new one.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn append(
        &self,
        table: &TableName,
        row: Bytes,
        family: Bytes,
        qualifier: Bytes,
        value: Bytes,
    ) -> Result<Bytes> {
        let cell = Cell::put(
            row.clone(),
            family.clone(),
            qualifier.clone(),
            LATEST_TIMESTAMP,
            value,
        );
        let mutation = Mutation {
            cells: vec![cell],
            ..new_mutation(MutationKind::Append, row)
        };
        let answer = self.mutate(table, mutation).await?;
        answer
            .value(&family, &qualifier)
            .cloned()
            .ok_or_else(|| Error::corrupt("an append without its new value"))
    }

    /// Adds to a counter and gives its new value.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn increment(
        &self,
        table: &TableName,
        row: Bytes,
        family: Bytes,
        qualifier: Bytes,
        delta: i64,
    ) -> Result<i64> {
        let value = Bytes::copy_from_slice(&delta.to_be_bytes());
        let cell = Cell::put(
            row.clone(),
            family.clone(),
            qualifier.clone(),
            LATEST_TIMESTAMP,
            value,
        );
        let mutation = Mutation {
            cells: vec![cell],
            ..new_mutation(MutationKind::Increment, row)
        };
        let answer = self.mutate(table, mutation).await?;
        let value = answer
            .value(&family, &qualifier)
            .and_then(|value| Some(i64::from_be_bytes(value[..].try_into().ok()?)));
        value.ok_or_else(|| Error::corrupt("an increment without its new value"))
    }

    /// Changes a row if a condition on the same row holds; `applied` says whether it did. A try of unknown outcome is not
    /// repeated: [`Code::OutcomeUnknown`](cadastre_types::Code::OutcomeUnknown) or what the server said comes back.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn check_and_mutate(
        &self,
        table: &TableName,
        condition: &Condition,
        mutation: Mutation,
    ) -> Result<Mutated> {
        let mutation = self.checked(mutation)?;
        if condition.row != mutation.row {
            return Err(Error::invalid("Action's getRow must match"));
        }
        let request = MutateRequest {
            mutation: &mutation,
            condition: Some(condition),
            nonce_group: self.shared.nonce_group,
        };
        self.region_call(table, &mutation.row, &request).await
    }

    /// Applies several mutations of one row together, if a condition holds or without one.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn mutate_row(
        &self,
        table: &TableName,
        condition: Option<&Condition>,
        mutations: Vec<Mutation>,
    ) -> Result<Mutated> {
        let mutations = mutations
            .into_iter()
            .map(|mutation| self.checked(mutation))
            .collect::<Result<Vec<_>>>()?;
        let row = match mutations.first() {
            Some(first) => first.row.clone(),
            None => return Err(Error::invalid("no mutations")),
        };
        let elsewhere = mutations.iter().any(|mutation| mutation.row != row)
            || condition.is_some_and(|condition| condition.row != row);
        if elsewhere {
            return Err(Error::invalid("Action's getRow must match"));
        }
        let request = RowMutationsRequest {
            mutations: &mutations,
            condition,
            nonce_group: self.shared.nonce_group,
        };
        self.region_call(table, &row, &request).await
    }

    /// Refuses what no server can take, and gives increments and appends their nonce.
    pub(crate) fn checked(&self, mut mutation: Mutation) -> Result<Mutation> {
        check_mutation(&mutation, self.shared.config.cell_max)?;
        let needs_nonce = matches!(
            mutation.kind,
            MutationKind::Increment | MutationKind::Append
        );
        if needs_nonce && mutation.nonce == 0 {
            mutation.nonce = self.nonce();
        }
        Ok(mutation)
    }
}
