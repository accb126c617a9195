//! Where the versions of rules are kept, and how they are published (R26 to R29, R71).
//!
//! The table [`RULES_TABLE`] decides and lasts; the znodes under [`ZNODES`] are what clients go by and watch. A change is a
//! check-and-mutate on the table, then the znode follows; whoever finds it behind moves it on. It never goes back, since the
//! znode's version is read before the table.

use bytes::Bytes;
use cadastre_coordination::{ErrorCode, Mode, Session, error_code};
use cadastre_env::{Clock, Env};
use cadastre_sharding::versions::{Acknowledgements, RuleSet, SetError};
use cadastre_types::{
    Cell, Code, CompareOp, Condition, EncodedFilter, Error, FamilyDescriptor, LATEST_TIMESTAMP,
    Mutation, MutationKind, Result, TableDescriptor, TableName, TimeRange,
};
use cadastre_wire::{encode, pb};
use std::time::Duration;

use crate::Client;
use crate::admin::Namespace;
use crate::data::{new_get, new_mutation};

/// The table that holds each rule's versions: row = name, `r:set`, `r:revision`.
pub const RULES_TABLE: &str = "cadastre:rules";

/// Parent of the rules' znodes.
pub const ZNODES: &str = "/cadastre/rules";

const FAMILY: &[u8] = b"r";
const SET: &[u8] = b"set";
const REVISION: &[u8] = b"revision";

/// Tries to move a znode on while others do the same.
const TRIES: usize = 16;

/// Longest name of a client that is told to publishers, bytes.
const LABEL_BYTES_MAX: usize = 256;

/// A client that lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveClient {
    /// Its znode's name.
    pub znode: String,
    /// What it calls itself.
    pub label: String,
    /// The newest revision that it has seen, nothing of its own being under way by an older one.
    pub revision: u64,
}

/// The publisher's side of a cluster's rules.
pub struct RuleCenter<E: Env> {
    client: Client<E>,
    session: Session,
}

pub(super) fn rule_path(name: &str) -> Result<String> {
    let good = |it: char| it.is_ascii_alphanumeric() || it == '_';
    match !name.is_empty() && name.chars().all(good) {
        true => Ok(format!("{ZNODES}/{name}")),
        false => Err(Error::invalid(format!("'{name}' is no name of a rule"))),
    }
}

pub(super) fn clients_path(name: &str) -> Result<String> {
    Ok(format!("{}/clients", rule_path(name)?))
}

/// What a client's znode says: the revision, 8 bytes big-endian, then its name.
pub(super) fn acknowledgement(revision: u64, label: &str) -> Bytes {
    let mut label = label;
    while label.len() > LABEL_BYTES_MAX {
        let end = (0..=LABEL_BYTES_MAX)
            .rev()
            .find(|at| label.is_char_boundary(*at));
        label = &label[..end.unwrap_or(0)];
    }
    [&revision.to_be_bytes()[..], label.as_bytes()]
        .concat()
        .into()
}

fn read_acknowledgement(znode: &str, bytes: &[u8]) -> LiveClient {
    let (revision, label) = bytes.split_first_chunk().unwrap_or((&[0; 8], b"?"));
    LiveClient {
        znode: znode.to_owned(),
        label: String::from_utf8_lossy(label).into_owned(),
        revision: u64::from_be_bytes(*revision),
    }
}

/// An error of changing a set, as a caller of this crate gets it.
fn refused(error: &SetError) -> Error {
    match error {
        // Somebody else was faster: read again.
        SetError::Conflict { .. } => Error::new(Code::Io, error.to_string()),
        _ => Error::invalid(error.to_string()),
    }
}

impl<E: Env> RuleCenter<E> {
    /// The rules of a client's cluster, by a session of its own.
    ///
    /// # Errors
    /// [`Code::DoNotRetryIo`] if the client does not know the cluster's coordination service (RPC registry); [`Code::NotSent`] if
    /// none of its servers answers.
    pub async fn open(client: &Client<E>) -> Result<Self> {
        Ok(Self {
            session: client.coordination_session().await?,
            client: client.clone(),
        })
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// Ends its session.
    pub async fn close(self) {
        self.session.close().await;
    }

    /// The versions of a rule, with those that were in force before. `None` if there is no such rule. Clients see it from now on, too.
    ///
    /// # Errors
    /// What the table's cluster says; [`Code::Corrupt`] for damaged bytes.
    pub async fn load(&self, name: &str) -> Result<Option<RuleSet>> {
        let found = Self::published(&self.client, name).await?;
        // Whoever looks moves the znode on that a publisher has left behind.
        if found.is_some() {
            self.restore(name).await?;
        }
        Ok(found)
    }

    /// The same without a session.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub async fn published(client: &Client<E>, name: &str) -> Result<Option<RuleSet>> {
        rule_path(name)?;
        let get = new_get(Bytes::copy_from_slice(name.as_bytes()));
        let found = match client.get(&table(), &get).await {
            Err(error) if is_no_table(&error) => return Ok(None),
            found => found?,
        };
        let Some(bytes) = found.value(FAMILY, SET) else {
            return Ok(None);
        };
        let set = RuleSet::decode(bytes);
        let set = set.map_err(|fault| Error::corrupt(format!("the rule {name}: {fault}")))?;
        Ok(Some(set))
    }

    /// Names of all rules.
    ///
    /// # Errors
    /// What the table's cluster says.
    pub async fn names(&self) -> Result<Vec<String>> {
        let scan = cadastre_types::Scan {
            filter: Some(crate::first_key_only_filter()),
            ..crate::new_scan()
        };
        let mut rows = self.client.scan(&table(), scan)?;
        let mut names = Vec::new();
        loop {
            match rows.next().await {
                Ok(Some(row)) => {
                    names.extend(row.key().map(|it| String::from_utf8_lossy(it).into_owned()))
                }
                Ok(None) => return Ok(names),
                Err(error) if is_no_table(&error) => return Ok(Vec::new()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Changes a set: the first version from none, or what [`RuleSet`] can make of one. `change` sees the newest state.
    ///
    /// # Errors
    /// What `change` says; [`Code::Io`] if somebody else changed it meanwhile.
    pub async fn change(
        &self,
        name: &str,
        change: impl FnOnce(Option<&RuleSet>) -> Result<RuleSet, SetError>,
    ) -> Result<RuleSet> {
        let before = self.load(name).await?;
        let after = change(before.as_ref()).map_err(|error| refused(&error))?;
        if after.name() != name {
            return Err(Error::invalid(format!(
                "the rule is called {}, not {name}",
                after.name()
            )));
        }
        self.store(&after, before.as_ref().map(RuleSet::revision))
            .await?;
        self.restore(name).await?;
        Ok(after)
    }

    async fn store(&self, set: &RuleSet, expected: Option<u64>) -> Result<()> {
        if expected.is_none() {
            self.make_table().await?;
        }
        let row = Bytes::copy_from_slice(set.name().as_bytes());
        let cell = |qualifier: &'static [u8], value: Bytes| {
            Cell::put(
                row.clone(),
                Bytes::from_static(FAMILY),
                Bytes::from_static(qualifier),
                LATEST_TIMESTAMP,
                value,
            )
        };
        let revision = Bytes::copy_from_slice(&set.revision().to_be_bytes());
        let put = Mutation {
            cells: vec![cell(REVISION, revision), cell(SET, set.encode().into())],
            ..new_mutation(MutationKind::Put, row.clone())
        };
        let condition = Condition {
            row: row.clone(),
            family: Bytes::from_static(FAMILY),
            qualifier: Bytes::from_static(REVISION),
            op: CompareOp::Equal,
            comparator: Some(comparator(expected)),
            filter: None,
            time_range: TimeRange::ALL,
            query_metrics: false,
        };
        match self
            .client
            .check_and_mutate(&table(), &condition, put)
            .await
        {
            Ok(done) if done.applied => Ok(()),
            Ok(_) => Err(Error::new(
                Code::Io,
                format!(
                    "somebody else changed the rule {} meanwhile: look at it again",
                    set.name()
                ),
            )),
            // Nobody knows but the table.
            Err(error) if error.code() == Code::OutcomeUnknown => {
                match self.load(set.name()).await? {
                    Some(found) if found == *set => Ok(()),
                    _ => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }

    async fn make_table(&self) -> Result<()> {
        let admin = self.client.admin();
        let table = table();
        let namespace = Namespace {
            name: table.namespace().to_owned(),
            configuration: std::collections::BTreeMap::default(),
        };
        match admin.create_namespace(&namespace).await {
            Err(error) if error.code() == Code::NamespaceExist => {}
            made => made?,
        }
        let descriptor = TableDescriptor::new(table)
            .with_family(FamilyDescriptor::new(Bytes::from_static(FAMILY)));
        match admin.create_table(&descriptor, Vec::new()).await {
            Err(error) if error.code() == Code::TableExists => Ok(()),
            made => made,
        }
    }

    /// Moves the znode on to what the table holds, if it is behind or missing: a publisher died, or the embedded coordination service was
    /// started anew.
    pub(super) async fn restore(&self, name: &str) -> Result<()> {
        let path = rule_path(name)?;
        for _ in 0..TRIES {
            // In this order: what is read of the table is not older than the znode.
            let znode = self.session.get(&path).await?;
            let Some(set) = Self::published(&self.client, name).await? else {
                return Ok(());
            };
            let bytes = set.visible().encode();
            let moved = match znode {
                Some((held, _)) if held == bytes => return Ok(()),
                Some((_, stat)) => {
                    let moved = self.session.set(&path, bytes, Some(stat.version)).await;
                    moved.map(|_| ())
                }
                None => {
                    self.make_parents().await?;
                    let made = self.session.create(&path, bytes, Mode::Persistent).await;
                    made.map(|_| ())
                }
            };
            match moved {
                Ok(()) => return Ok(()),
                Err(error)
                    if matches!(
                        error_code(&error),
                        Some(ErrorCode::BadVersion | ErrorCode::NodeExists | ErrorCode::NoNode)
                    ) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::new(
            Code::Io,
            format!("{path} changes too often to be set"),
        ))
    }

    async fn make_parents(&self) -> Result<()> {
        for (at, _) in ZNODES
            .match_indices('/')
            .skip(1)
            .chain([(ZNODES.len(), "")])
        {
            let path = &ZNODES[..at];
            match self
                .session
                .create(path, Bytes::new(), Mode::Persistent)
                .await
            {
                Err(error) if error_code(&error) == Some(ErrorCode::NodeExists) => {}
                made => drop(made?),
            }
        }
        Ok(())
    }

    /// The clients that live, with what they have seen.
    ///
    /// # Errors
    /// What the coordination service says.
    pub async fn clients(&self, name: &str) -> Result<Vec<LiveClient>> {
        let parent = clients_path(name)?;
        let znodes = self.session.children(&parent).await?;
        self.read_clients(&parent, znodes.unwrap_or_default()).await
    }

    async fn read_clients(&self, parent: &str, znodes: Vec<String>) -> Result<Vec<LiveClient>> {
        let mut clients = Vec::new();
        for znode in znodes {
            // One that is gone meanwhile does not live.
            if let Some((bytes, _)) = self.session.get(&format!("{parent}/{znode}")).await? {
                clients.push(read_acknowledgement(&znode, &bytes));
            }
        }
        Ok(clients)
    }

    /// Waits until every live client has seen a revision, but not longer than this; gives those that have not (R71).
    ///
    /// # Errors
    /// What the coordination service says.
    pub async fn acknowledged(
        &self,
        name: &str,
        revision: u64,
        time: Duration,
    ) -> Result<Vec<LiveClient>> {
        let clock = self.client.env().clock();
        let parent = clients_path(name)?;
        let until = clock.mono() + time;
        loop {
            // One that comes later reads what was written before, or newer.
            let (znodes, comes_or_goes) = self.session.watch_children(&parent).await?;
            let znodes = znodes.unwrap_or_default();
            let mut lacking = self.read_clients(&parent, znodes).await?;
            lacking.retain(|it| it.revision < revision);
            let left = until.saturating_sub(clock.mono());
            let Some(first) = lacking.first().filter(|_| !left.is_zero()) else {
                return Ok(lacking);
            };
            let first = format!("{parent}/{}", first.znode);
            let (_, speaks) = self.session.watch_data(&first).await?;
            let waited = clock.timeout(left.min(LOOK_AGAIN), async {
                tokio::select! {
                    biased;
                    _ = speaks.changed() => {}
                    _ = comes_or_goes.changed() => {}
                }
            });
            // Either way everything is looked at again.
            let _ = waited.await;
        }
    }

    /// What live clients have seen, as [`RuleSet::publish`] wants it.
    ///
    /// # Errors
    /// What the coordination service says.
    pub async fn acknowledgements(&self, name: &str) -> Result<Acknowledgements> {
        let mut all = Acknowledgements::new();
        for client in self.clients(name).await? {
            let called = format!("{} ({})", client.label, client.znode);
            all.seen(&called, client.revision);
        }
        Ok(all)
    }
}

/// How often clients that lack are looked at, whatever the watches say: only one of them is watched, and not from the moment on when it was read.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

fn table() -> TableName {
    TableName::parse(RULES_TABLE).expect("a constant, tested")
}

fn is_no_table(error: &Error) -> bool {
    matches!(error.code(), Code::TableNotFound | Code::NamespaceNotFound)
}

fn comparator(expected: Option<u64>) -> EncodedFilter {
    let (class, body) = match expected {
        None => ("NullComparator", Bytes::new()),
        Some(revision) => {
            let value = Bytes::copy_from_slice(&revision.to_be_bytes());
            let body = encode(&pb::BinaryComparator {
                comparable: pb::ByteArrayComparable { value: Some(value) },
            });
            ("BinaryComparator", body)
        }
    };
    EncodedFilter {
        class: format!("org.apache.hadoop.hbase.filter.{class}"),
        body,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn znodes_of_clients_have_this_form() {
        let bytes = acknowledgement(7, "shop-1");
        assert_eq!(bytes, &b"\0\0\0\0\0\0\0\x07shop-1"[..]);
        let client = read_acknowledgement("c-0000000003", &bytes);
        assert_eq!((client.revision, client.label.as_str()), (7, "shop-1"));
        // A stranger's.
        assert_eq!(read_acknowledgement("x", b"short").revision, 0);
        let long = acknowledgement(1, &"ä".repeat(500));
        assert_eq!(long.len(), 8 + LABEL_BYTES_MAX);
        assert_eq!(table().as_str(), RULES_TABLE);
    }

    #[test]
    fn names_of_rules_are_names_of_znodes() {
        assert_eq!(rule_path("orders_2").unwrap(), "/cadastre/rules/orders_2");
        for name in ["", "a/b", "..", "a b"] {
            rule_path(name).unwrap_err();
        }
    }
}
