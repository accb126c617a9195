//! Making and dropping all physical tables of a logical one.

use bytes::Bytes;
use cadastre_env::Env;
use cadastre_sharding::Place;
use cadastre_types::{Code, Result, TableDescriptor};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};

use super::{ShardedTable, routing};

/// Tables that are made or dropped at one time.
const AT_ONCE: usize = 8;

/// What was done to physical tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Made {
    /// Made or dropped.
    pub done: usize,
    /// They were so before.
    pub before: usize,
}

impl<E: Env> ShardedTable<E> {
    /// The places that the visible versions have, each once: those of both while two are visible.
    ///
    /// # Errors
    /// If nothing is visible.
    pub async fn places(&self) -> Result<Vec<Place>> {
        let until = self.held_until();
        let decided = self.settled(until, |view| {
            let places = routing::places(view).into_iter().cloned().collect();
            Ok(super::Decision::Go(places))
        });
        Ok(decided.await?.1)
    }

    /// Makes every physical table like this one (its name is not used), each with these split keys. Tables that exist are left as
    /// they are, so that what broke off can be done again.
    ///
    /// # Errors
    /// The first of what the masters say, with the table's name.
    pub async fn create_tables(
        &self,
        like: &TableDescriptor,
        split_keys: &[Bytes],
        progress: impl Fn(Made) + Send,
    ) -> Result<Made> {
        self.each(Act::Create(like, split_keys), progress).await
    }

    /// Disables and drops every physical table; those that do not exist are no failure.
    ///
    /// # Errors
    /// The first of what the masters say, with the table's name.
    pub async fn drop_tables(&self, progress: impl Fn(Made) + Send) -> Result<Made> {
        self.each(Act::Drop, progress).await
    }

    /// Does something to every place, some at a time.
    async fn each(&self, act: Act<'_>, progress: impl Fn(Made) + Send) -> Result<Made> {
        let places = self.places().await?;
        let mut running: Vec<BoxFuture<'_, Result<bool>>> = Vec::new();
        for place in &places {
            running.push(self.act(act, place).boxed());
        }
        let mut running = futures::stream::iter(running).buffer_unordered(AT_ONCE);
        let mut made = Made::default();
        while let Some(done) = running.try_next().await? {
            match done {
                true => made.done += 1,
                false => made.before += 1,
            }
            progress(made);
        }
        Ok(made)
    }

    /// Whether anything had to be done.
    async fn act(&self, act: Act<'_>, place: &Place) -> Result<bool> {
        let done = match act {
            Act::Create(like, split_keys) => self.create(like, split_keys, place).await,
            Act::Drop => self.drop(place).await,
        };
        done.map_err(|error| error.context(format_args!("table {place}")))
    }

    async fn create(
        &self,
        like: &TableDescriptor,
        split_keys: &[Bytes],
        place: &Place,
    ) -> Result<bool> {
        let (client, name) = self.at(place)?;
        let table = TableDescriptor {
            name,
            ..like.clone()
        };
        let admin = client.admin();
        match admin.create_table(&table, split_keys.to_vec()).await {
            Err(error) if error.code() == Code::TableExists => Ok(false),
            made => made.map(|()| true),
        }
    }

    async fn drop(&self, place: &Place) -> Result<bool> {
        let (client, name) = self.at(place)?;
        let admin = client.admin();
        match admin.disable_table(&name).await {
            Err(error) if error.code() == Code::TableNotEnabled => {}
            Err(error) if error.code() == Code::TableNotFound => return Ok(false),
            disabled => disabled?,
        }
        admin.delete_table(&name).await.map(|()| true)
    }
}

/// What is done to each table.
#[derive(Debug, Clone, Copy)]
enum Act<'a> {
    Create(&'a TableDescriptor, &'a [Bytes]),
    Drop,
}
