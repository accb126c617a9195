//! Which versions of a rule are visible, as a value that is replaced by compare-and-set on its revision (R26 to R29, R71).
//! The coordination service keeps its bytes, clients watch them; both live elsewhere.
//!
//! ```text
//! create → One(v0) → offer → Two(v0, v1) → publish → One(v1)
//!                              └─ withdraw → One(v0)
//! ```

use std::{collections::BTreeMap, sync::Arc};

use super::both::Both;
use crate::{
    Program, Rule, RuleError, RuleHash,
    code::{Reader, Writer, decode, hash},
    limits,
    program::ScriptCompiler,
};

/// Versions that are kept for rollback, and entries of the history; the oldest are forgotten. A change of rules comes
/// every three to six months (R35), so this is eight years.
pub const HISTORY_MAX: usize = 32;

const MAGIC: &[u8; 6] = b"CDRSET";
const FORMAT: u8 = 1;

/// One version: its bytes and their hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionEntry {
    /// Version.
    pub version: u64,
    /// Hash of the bytes.
    pub hash: RuleHash,
    /// The rule's bytes.
    pub bytes: Arc<[u8]>,
}

impl VersionEntry {
    fn of(program: &Program) -> VersionEntry {
        VersionEntry {
            version: program.rule().version,
            hash: program.hash(),
            bytes: program.bytes().into(),
        }
    }

    /// Compiles it; bytes of another hash are refused.
    pub fn compile(&self, scripts: ScriptCompiler<'_>) -> Result<Program, RuleError> {
        Program::decode_with(&self.bytes, self.hash, scripts)
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Action {
    /// The first version came into force.
    Create = 0,
    /// A version was made visible beside the one in force.
    Offer = 1,
    /// It came into force.
    Publish = 2,
    /// It was taken back.
    Withdraw = 3,
}

/// An entry of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Revision that the action led to.
    pub revision: u64,
    /// What was done.
    pub action: Action,
    /// With which version.
    pub version: u64,
    /// Its hash.
    pub hash: RuleHash,
}

/// What is visible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Read and write by this one (R27, R29).
    One(VersionEntry),
    /// Both are visible: what stays goes on, what moves is held (R28, R31).
    Two {
        /// In force.
        current: VersionEntry,
        /// To come.
        next: VersionEntry,
    },
}

/// The versions of one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSet {
    name: String,
    revision: u64,
    state: State,
    /// Versions that were in force before, oldest first.
    former: Vec<VersionEntry>,
    history: Vec<Entry>,
}

/// Why a set cannot be changed so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// Somebody else was faster: read the set again.
    #[error("the rule set is at revision {actual}, not {expected}")]
    Conflict {
        /// What the caller thought.
        expected: u64,
        /// What it is.
        actual: u64,
    },
    /// Another version is on offer already: at most two are visible at once.
    #[error("version {0} is on offer already; publish or withdraw it first")]
    OfferOpen(u64),
    /// Nothing is on offer.
    #[error("no version is on offer")]
    NoOffer,
    /// Versions grow.
    #[error("version {given} does not lie above {newest}, the newest there was")]
    NotNewer {
        /// Given.
        given: u64,
        /// Newest of the history.
        newest: u64,
    },
    /// Live clients have not seen the offer (R71).
    #[error("not all clients have seen revision {revision}: {waiting}", waiting = waiting.join(", "))]
    NotSeen {
        /// The revision that they must have seen.
        revision: u64,
        /// Who has not.
        waiting: Vec<String>,
    },
    /// There is no such version to go back to.
    #[error("version {0} is not kept")]
    Unknown(u64),
    /// The rule is not one that can follow.
    #[error(transparent)]
    Rule(#[from] RuleError),
}

/// Which revision every live client has seen (R71). Who is alive, the coordination service knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acknowledgements {
    seen: BTreeMap<String, u64>,
}

impl Acknowledgements {
    /// Nobody lives.
    pub fn new() -> Acknowledgements {
        Acknowledgements::default()
    }

    /// A client lives and has seen this revision; an older report that comes late changes nothing.
    pub fn seen(&mut self, client: &str, revision: u64) {
        let seen = self.seen.entry(client.to_owned()).or_default();
        *seen = (*seen).max(revision);
    }

    /// A client is gone.
    pub fn gone(&mut self, client: &str) {
        self.seen.remove(client);
    }

    /// Live clients that have not seen the revision.
    pub fn waiting(&self, revision: u64) -> Vec<String> {
        let waiting = self.seen.iter().filter(|(_, seen)| **seen < revision);
        waiting.map(|(client, _)| client.clone()).collect()
    }

    /// How many clients live.
    pub fn live(&self) -> usize {
        self.seen.len()
    }
}

impl RuleSet {
    /// The first version comes into force.
    pub fn create(program: &Program) -> RuleSet {
        let entry = VersionEntry::of(program);
        let mut set = RuleSet {
            name: program.rule().name.clone(),
            revision: 0,
            state: State::One(entry.clone()),
            former: Vec::new(),
            history: Vec::new(),
        };
        set.advance(Action::Create, &entry);
        set
    }

    /// The rule's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Grows with every change.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// What is visible.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// What was done, oldest first.
    pub fn history(&self) -> &[Entry] {
        &self.history
    }

    /// Versions that were in force and are kept, oldest first.
    pub fn former(&self) -> &[VersionEntry] {
        &self.former
    }

    /// The set without the versions that are not visible any more: what clients need, small enough for a znode.
    pub fn visible(&self) -> RuleSet {
        RuleSet {
            former: Vec::new(),
            ..self.clone()
        }
    }

    /// The version in force.
    pub fn current(&self) -> &VersionEntry {
        match &self.state {
            State::One(current) | State::Two { current, .. } => current,
        }
    }

    fn newest(&self) -> u64 {
        self.history.iter().map(|it| it.version).max().unwrap_or(0)
    }

    fn check(&self, expected: u64) -> Result<(), SetError> {
        match self.revision == expected {
            true => Ok(()),
            false => Err(SetError::Conflict {
                expected,
                actual: self.revision,
            }),
        }
    }

    fn advance(&mut self, action: Action, entry: &VersionEntry) {
        self.revision += 1;
        self.history.push(Entry {
            revision: self.revision,
            action,
            version: entry.version,
            hash: entry.hash,
        });
        let surplus = self.history.len().saturating_sub(HISTORY_MAX);
        self.history.drain(..surplus);
    }

    /// Makes a version visible beside the one in force. It must be able to follow it: same rule, a higher number than any
    /// before, fields that one record serves both.
    pub fn offer(
        &self,
        expected_revision: u64,
        current: &Arc<Program>,
        next: &Arc<Program>,
    ) -> Result<RuleSet, SetError> {
        self.check(expected_revision)?;
        if let State::Two { next, .. } = &self.state {
            return Err(SetError::OfferOpen(next.version));
        }
        if current.hash() != self.current().hash {
            return Err(RuleError::new("the program is not the version in force").into());
        }
        let given = next.rule().version;
        if given <= self.newest() {
            return Err(SetError::NotNewer {
                given,
                newest: self.newest(),
            });
        }
        Both::new(Arc::clone(current), Arc::clone(next))?;
        let entry = VersionEntry::of(next);
        let mut set = self.clone();
        set.state = State::Two {
            current: self.current().clone(),
            next: entry.clone(),
        };
        set.advance(Action::Offer, &entry);
        Ok(set)
    }

    /// The version on offer comes into force. Every live client must have seen the offer (else it would go on writing by
    /// the old version without knowing), unless a person forces it.
    pub fn publish(
        &self,
        expected_revision: u64,
        clients: &Acknowledgements,
        force: bool,
    ) -> Result<RuleSet, SetError> {
        self.check(expected_revision)?;
        let State::Two { current, next } = &self.state else {
            return Err(SetError::NoOffer);
        };
        let waiting = clients.waiting(self.revision);
        if !force && !waiting.is_empty() {
            return Err(SetError::NotSeen {
                revision: self.revision,
                waiting,
            });
        }
        let mut set = self.clone();
        set.former.push(current.clone());
        let surplus = set.former.len().saturating_sub(HISTORY_MAX);
        set.former.drain(..surplus);
        set.state = State::One(next.clone());
        set.advance(Action::Publish, next);
        Ok(set)
    }

    /// The version on offer is taken back: everything is as it was (R65).
    pub fn withdraw(&self, expected_revision: u64) -> Result<RuleSet, SetError> {
        self.check(expected_revision)?;
        let State::Two { current, next } = &self.state else {
            return Err(SetError::NoOffer);
        };
        let mut set = self.clone();
        set.state = State::One(current.clone());
        set.advance(Action::Withdraw, next);
        Ok(set)
    }

    /// The rule of a former version under a new number, to be offered like any other: rows that moved have to move back.
    pub fn rollback(&self, version: u64) -> Result<Rule, SetError> {
        let former = self.former.iter().rev().find(|it| it.version == version);
        let former = former.ok_or(SetError::Unknown(version))?;
        let mut rule = decode(&former.bytes)?;
        rule.version = self.newest() + 1;
        Ok(rule)
    }

    /// The bytes that are kept.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.bytes.extend_from_slice(MAGIC);
        out.byte(FORMAT);
        out.blob(self.name.as_bytes());
        out.unsigned(self.revision);
        let entry = |out: &mut Writer, it: &VersionEntry| {
            out.unsigned(it.version);
            out.bytes.extend_from_slice(&it.hash.0);
            out.blob(&it.bytes);
        };
        match &self.state {
            State::One(current) => {
                out.byte(1);
                entry(&mut out, current);
            }
            State::Two { current, next } => {
                out.byte(2);
                entry(&mut out, current);
                entry(&mut out, next);
            }
        }
        out.count(self.former.len());
        self.former.iter().for_each(|it| entry(&mut out, it));
        out.count(self.history.len());
        for it in &self.history {
            out.unsigned(it.revision);
            out.byte(it.action as u8);
            out.unsigned(it.version);
            out.bytes.extend_from_slice(&it.hash.0);
        }
        let sum = hash(&out.bytes);
        out.bytes.extend_from_slice(&sum.0);
        out.bytes
    }

    /// Reads kept bytes. Damage is found by a hash at their end; rules themselves are checked when they are compiled.
    pub fn decode(bytes: &[u8]) -> Result<RuleSet, RuleError> {
        let fault = || RuleError::new("these bytes are no rule set, or damaged");
        let (body, sum) = bytes
            .len()
            .checked_sub(32)
            .and_then(|at| bytes.split_at_checked(at))
            .ok_or_else(fault)?;
        if hash(body).0 != sum || !body.starts_with(MAGIC) {
            return Err(fault());
        }
        let mut reader = Reader::new(&body[MAGIC.len()..]);
        if reader.byte()? != FORMAT {
            return Err(fault());
        }
        let name = reader.name()?;
        let revision = reader.unsigned()?;
        let entry = |reader: &mut Reader<'_>| -> Result<VersionEntry, RuleError> {
            Ok(VersionEntry {
                version: reader.unsigned()?,
                hash: reader.hash()?,
                bytes: reader.blob(limits::CODE_BYTES_MAX)?.into(),
            })
        };
        let state = match reader.byte()? {
            1 => State::One(entry(&mut reader)?),
            2 => State::Two {
                current: entry(&mut reader)?,
                next: entry(&mut reader)?,
            },
            _ => return Err(fault()),
        };
        let former = reader.many(HISTORY_MAX, entry)?;
        let history = reader.many(HISTORY_MAX, |it| {
            Ok(Entry {
                revision: it.unsigned()?,
                action: match it.byte()? {
                    0 => Action::Create,
                    1 => Action::Offer,
                    2 => Action::Publish,
                    3 => Action::Withdraw,
                    _ => return Err(fault()),
                },
                version: it.unsigned()?,
                hash: it.hash()?,
            })
        })?;
        if !reader.is_empty() {
            return Err(fault());
        }
        Ok(RuleSet {
            name,
            revision,
            state,
            former,
            history,
        })
    }
}

/// What a client goes by.
#[derive(Clone, Debug)]
pub enum View {
    /// One version: reads and writes go by it.
    One(Arc<Program>),
    /// Two: what stays goes on, what moves is held.
    Two(Both),
}

impl View {
    /// What a set shows. Programs of a former view are used again if their hashes are the same.
    pub fn of(
        set: &RuleSet,
        former: Option<&View>,
        scripts: ScriptCompiler<'_>,
    ) -> Result<View, RuleError> {
        let known = |entry: &VersionEntry| -> Result<Arc<Program>, RuleError> {
            let programs = match former {
                None => Vec::new(),
                Some(View::One(one)) => vec![one],
                Some(View::Two(both)) => vec![both.old(), both.new_version()],
            };
            match programs.into_iter().find(|it| it.hash() == entry.hash) {
                Some(program) => Ok(Arc::clone(program)),
                None => Ok(Arc::new(entry.compile(scripts)?)),
            }
        };
        Ok(match set.state() {
            State::One(current) => View::One(known(current)?),
            State::Two { current, next } => View::Two(Both::new(known(current)?, known(next)?)?),
        })
    }
}
