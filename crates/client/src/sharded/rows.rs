//! Operations on single rows: each goes to the one place of its row.

use bytes::Bytes;
use cadastre_env::Env;
use cadastre_types::{Cell, Condition, Error, Get, Mutation, Result};

use super::routing::{self, Where};
use super::{Effect, InUse, ShardedTable, everywhere};
use crate::data::new_mutation;
use crate::requests::{Mutated, check_row};
use crate::row::Row;

/// Where a row is written, and under which version.
struct Placed {
    used: InUse,
    place: cadastre_sharding::Place,
}

impl<E: Env> ShardedTable<E> {
    async fn place(&self, row: &Bytes) -> Result<Placed> {
        check_row(row)?;
        match self.route(row, self.held_until()).await? {
            (used, Where::At(place)) => Ok(Placed { used, place }),
            _ => Err(everywhere(row)),
        }
    }

    /// Reads a row. A row that may be anywhere by the rule (`else all`) is looked for in every table.
    ///
    /// # Errors
    /// Those of [`Client::get`](crate::Client::get); [`Code::RegionTooBusy`](cadastre_types::Code::RegionTooBusy) if the row moves to
    /// another place and was held for as long as the options say; [`Code::DoNotRetryIo`](cadastre_types::Code::DoNotRetryIo) if the
    /// rule has no place for it.
    pub async fn get(&self, get: &Get) -> Result<Row> {
        check_row(&get.row)?;
        let (used, found) = self.route(&get.row, self.held_until()).await?;
        let places = match found {
            Where::At(place) => vec![place],
            _ => routing::places(&used.visible.view)
                .into_iter()
                .cloned()
                .collect(),
        };
        for place in &places {
            let (client, table) = self.at(place)?;
            let row = self
                .during(&used, Effect::Read, client.get(&table, get))
                .await?;
            if !row.is_empty() || row.exists == Some(true) || places.len() == 1 {
                return Ok(row);
            }
        }
        Ok(Row::default())
    }

    /// Whether a get finds a cell; none is sent back.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn exists(&self, get: &Get) -> Result<bool> {
        let get = Get {
            existence_only: true,
            ..get.clone()
        };
        let row = self.get(&get).await?;
        Ok(row.exists.unwrap_or(!row.is_empty()))
    }

    /// Changes a row. Increments and appends get a nonce, which stays the same over all tries (INV-5).
    ///
    /// # Errors
    /// As [`Self::get`], and [`Code::OutcomeUnknown`](cadastre_types::Code::OutcomeUnknown) if the client's session ended meanwhile.
    pub async fn mutate(&self, mutation: Mutation) -> Result<Row> {
        let Placed { used, place } = self.place(&mutation.row).await?;
        let (client, table) = self.at(&place)?;
        self.during(&used, Effect::Write, client.mutate(&table, mutation))
            .await
    }

    /// Writes cells of one row, the row being that of the first.
    ///
    /// # Errors
    /// As [`Self::mutate`].
    pub async fn put(&self, cells: Vec<Cell>) -> Result<()> {
        let row = cells.first().map(|cell| cell.row.clone());
        let row = row.ok_or_else(|| Error::invalid("No columns to insert"))?;
        let put = Mutation {
            cells,
            ..new_mutation(cadastre_types::MutationKind::Put, row)
        };
        self.mutate(put).await.map(|_| ())
    }

    /// Deletes by markers of one row (see [`delete_cell`](crate::delete_cell)), or the whole row without any.
    ///
    /// # Errors
    /// As [`Self::mutate`].
    pub async fn delete(&self, row: Bytes, markers: Vec<Cell>) -> Result<()> {
        let delete = Mutation {
            cells: markers,
            ..new_mutation(cadastre_types::MutationKind::Delete, row)
        };
        self.mutate(delete).await.map(|_| ())
    }

    /// Adds to a counter and gives its new value.
    ///
    /// # Errors
    /// As [`Self::mutate`].
    pub async fn increment(
        &self,
        row: Bytes,
        family: Bytes,
        qualifier: Bytes,
        delta: i64,
    ) -> Result<i64> {
        let Placed { used, place } = self.place(&row).await?;
        let (client, table) = self.at(&place)?;
        let add = client.increment(&table, row, family, qualifier, delta);
        self.during(&used, Effect::Write, add).await
    }

    /// Puts bytes behind a value and gives the new one.
    ///
    /// # Errors
    /// As [`Self::mutate`].
    pub async fn append(
        &self,
        row: Bytes,
        family: Bytes,
        qualifier: Bytes,
        value: Bytes,
    ) -> Result<Bytes> {
        let Placed { used, place } = self.place(&row).await?;
        let (client, table) = self.at(&place)?;
        let append = client.append(&table, row, family, qualifier, value);
        self.during(&used, Effect::Write, append).await
    }

    /// Changes a row if a condition on the same row holds; `applied` says whether it did.
    ///
    /// # Errors
    /// As [`Self::mutate`].
    pub async fn check_and_mutate(
        &self,
        condition: &Condition,
        mutation: Mutation,
    ) -> Result<Mutated> {
        let Placed { used, place } = self.place(&mutation.row).await?;
        let (client, table) = self.at(&place)?;
        let change = client.check_and_mutate(&table, condition, mutation);
        self.during(&used, Effect::Write, change).await
    }

    /// Applies several mutations of one row together, if a condition holds or without one.
    ///
    /// # Errors
    /// As [`Self::mutate`].
    pub async fn mutate_row(
        &self,
        condition: Option<&Condition>,
        mutations: Vec<Mutation>,
    ) -> Result<Mutated> {
        let row = mutations.first().map(|it| it.row.clone());
        let row = row.ok_or_else(|| Error::invalid("no mutations"))?;
        let Placed { used, place } = self.place(&row).await?;
        let (client, table) = self.at(&place)?;
        let change = client.mutate_row(&table, condition, mutations);
        self.during(&used, Effect::Write, change).await
    }
}
