//! A client that follows a published rule: it is registered as alive, sees each change, and says what it has seen once nothing of its own goes by
//! anything older (R71).
//!
//! 1. A session; an ephemeral znode says that the client lives.
//! 2. Then the set is read, with a watch. What it shows becomes visible.
//! 3. When every operation under an older version has ended, the znode says so.
//! 4. When the session ends nothing is visible; then again from the start.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cadastre_coordination::{Mode, Session, State, error_code};
use cadastre_env::{Clock, Env, Task};
use cadastre_sharding::script;
use cadastre_sharding::versions::{RuleSet, View};
use cadastre_types::{Code, Error, Result};
use tokio::sync::watch;

use super::rules::{RuleCenter, acknowledgement, clients_path, rule_path};
use crate::Client;
use crate::planted::Planted;

/// Pause before a new session is made when one could not be, or ended.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// What a client goes by.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) visible: Option<Arc<Visible>>,
    /// Why nothing is, or what went wrong last.
    pub(super) problem: Option<Arc<str>>,
}

impl Seen {
    /// Why nothing can be done.
    pub(super) fn unknown(&self) -> String {
        match (&self.problem, &self.visible) {
            (Some(problem), _) => format!("which rule is in force is not known: {problem}"),
            (None, Some(_)) => "which rule is in force is not certain: the session with the coordination service may be over".to_owned(),
            (None, None) => "which rule is in force is not known yet".to_owned(),
        }
    }
}

/// Versions that are visible, and who uses them.
#[derive(Debug)]
pub(super) struct Visible {
    pub(super) view: View,
    pub(super) revision: u64,
    /// A receiver for each operation that goes by them.
    pub(super) in_use: watch::Sender<()>,
    /// None: nobody publishes the rule.
    pub(super) session: Option<Session>,
}

impl Visible {
    pub(super) fn fixed(view: View) -> Self {
        Self {
            view,
            revision: 0,
            in_use: watch::Sender::new(()),
            session: None,
        }
    }
}

/// A client that follows a rule. It counts as alive until it is closed, dropped or cut off.
pub struct RuleWatch<E: Env> {
    env: E,
    name: String,
    seen: Arc<watch::Sender<Seen>>,
    task: Task,
}

impl<E: Env> Drop for RuleWatch<E> {
    fn drop(&mut self) {
        // The last handles of the session go with the task and with what is visible.
        self.task.abort();
        self.seen.send_replace(Seen::default());
    }
}

impl<E: Env> RuleWatch<E> {
    /// Follows the rule of this name, as it is published on the client's cluster. `label` is what publishers are told about this client.
    pub fn start(client: &Client<E>, name: &str, label: &str) -> Self {
        let seen = Arc::new(watch::Sender::new(Seen::default()));
        let follower = Follower {
            client: client.clone(),
            name: name.to_owned(),
            label: label.to_owned(),
            seen: Arc::clone(&seen),
        };
        Self {
            env: client.env().clone(),
            name: name.to_owned(),
            task: client.env().spawn("rule-watch", follower.run()),
            seen,
        }
    }

    /// The rule's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn seen(&self) -> watch::Receiver<Seen> {
        self.seen.subscribe()
    }

    /// Waits until something is visible.
    ///
    /// # Errors
    /// [`Code::NotSent`] with the reason, when the time is over.
    pub async fn ready(&self, time: Duration) -> Result<()> {
        let mut seen = self.seen();
        let visible = async { seen.wait_for(|it| it.visible.is_some()).await.is_ok() };
        if self.env.clock().timeout(time, visible).await == Ok(true) {
            return Ok(());
        }
        let text = self.seen.borrow().unknown();
        Err(Error::new(Code::NotSent, text))
    }

    /// What is visible now: the set's revision and its versions; an error says why nothing is.
    ///
    /// # Errors
    /// [`Code::NotSent`] with the reason.
    pub fn current(&self) -> Result<(u64, View)> {
        let seen = self.seen.borrow();
        match &seen.visible {
            Some(visible) => Ok((visible.revision, visible.view.clone())),
            None => Err(Error::new(Code::NotSent, seen.unknown())),
        }
    }

    /// Waits until something else is visible, or nothing any more.
    pub async fn changed(&self, than: Option<u64>) -> Option<u64> {
        let mut seen = self.seen();
        let revision = |it: &Seen| it.visible.as_ref().map(|it| it.revision);
        match seen.wait_for(|it| revision(it) != than).await {
            Ok(it) => revision(&it),
            // This one holds the sender.
            Err(_) => None,
        }
    }

    /// Ends it, and tells the coordination service, so that nobody waits for this client.
    pub async fn close(self) {
        let session = {
            let seen = self.seen.borrow();
            seen.visible.as_ref().and_then(|it| it.session.clone())
        };
        let clock = self.env.clock().clone();
        drop(self);
        if let Some(session) = session {
            // Answered or not: the session ends by its time-out in any case.
            let _ = clock.timeout(CLOSE_TIMEOUT, session.close()).await;
        }
    }
}

/// How long a closing session is waited for.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

struct Follower<E: Env> {
    client: Client<E>,
    name: String,
    label: String,
    seen: Arc<watch::Sender<Seen>>,
}

impl<E: Env> Follower<E> {
    async fn run(self) {
        let clock = self.client.env().clock().clone();
        // Programs and operations of the last session.
        let mut former: Option<View> = None;
        let mut old: Vec<Arc<Visible>> = Vec::new();
        loop {
            let outcome = self.follow(&mut former, &mut old).await;
            let problem = match outcome {
                Ok(()) => "the session with the coordination service is over".to_owned(),
                Err(error) => error.to_string(),
            };
            tracing::info!(rule = %self.name, %problem, "the rule is not visible");
            self.show(None, Some(problem), &mut old);
            clock.sleep(AGAIN_AFTER).await;
        }
    }

    /// Makes something visible, or nothing; who uses what was visible before is remembered.
    fn show(
        &self,
        visible: Option<Arc<Visible>>,
        problem: Option<String>,
        old: &mut Vec<Arc<Visible>>,
    ) {
        let problem = problem.map(Arc::from);
        let before = self.seen.send_replace(Seen { visible, problem });
        old.extend(before.visible);
        old.retain(|it| it.in_use.receiver_count() > 0);
    }

    /// One session, until it ends.
    async fn follow(&self, former: &mut Option<View>, old: &mut Vec<Arc<Visible>>) -> Result<()> {
        let center = RuleCenter::open(&self.client).await?;
        let session = center.session().clone();
        let mut states = session.states();
        let path = rule_path(&self.name)?;
        center.restore(&self.name).await?;
        let mine = match self.register(&session).await {
            Err(error) if is_missing(&error) => None,
            mine => Some(mine?),
        };
        let Some(mine) = mine else {
            // Nobody has published it: wait until somebody does.
            self.show(
                None,
                Some(format!("no rule {} is published", self.name)),
                old,
            );
            let (found, watch) = session.watch_exists(&path).await?;
            if found.is_none() {
                watch.changed().await;
            }
            return Ok(());
        };
        loop {
            let (found, changed) = session.watch_data(&path).await?;
            let Some((bytes, _)) = found else {
                self.show(
                    None,
                    Some(format!("the rule {} was removed", self.name)),
                    old,
                );
                changed.changed().await;
                return Ok(());
            };
            let revision = match self.visible(&bytes, former.as_ref(), &session) {
                Ok(visible) => {
                    *former = Some(visible.view.clone());
                    let revision = visible.revision;
                    self.show(Some(Arc::new(visible)), None, old);
                    Some(revision)
                }
                // Neither used nor acknowledged.
                Err(error) => {
                    self.show(None, Some(error.to_string()), old);
                    None
                }
            };
            let acknowledge = async {
                let at_once = self.client.has(Planted::AcknowledgeAtOnce);
                for visible in old.iter().filter(|_| !at_once) {
                    visible.in_use.closed().await;
                }
                match revision {
                    Some(revision) => {
                        let told = acknowledgement(revision, &self.label);
                        session.set(&mine, told, None).await.map(|_| ())
                    }
                    None => Ok(()),
                }
            };
            let mut changed = std::pin::pin!(changed.changed());
            tokio::select! {
                biased;
                () = over(&mut states) => return Ok(()),
                _ = &mut changed => continue,
                told = acknowledge => told?,
            }
            tokio::select! {
                biased;
                () = over(&mut states) => return Ok(()),
                _ = changed => {}
            }
            old.retain(|it| it.in_use.receiver_count() > 0);
        }
    }

    async fn register(&self, session: &Session) -> Result<String> {
        let clients = clients_path(&self.name)?;
        match session
            .create(&clients, Bytes::new(), Mode::Persistent)
            .await
        {
            Err(error) if is_there(&error) => {}
            made => drop(made?),
        }
        session
            .create(
                &format!("{clients}/c-"),
                acknowledgement(0, &self.label),
                Mode::EphemeralSequential,
            )
            .await
    }

    fn visible(&self, bytes: &[u8], former: Option<&View>, session: &Session) -> Result<Visible> {
        let fault = |fault: cadastre_sharding::RuleError| {
            Error::invalid(format!(
                "the published rule {} is refused: {fault}",
                self.name
            ))
        };
        let set = RuleSet::decode(bytes).map_err(fault)?;
        let view = View::of(&set, former, &script::compile).map_err(fault)?;
        super::routing::check(&view)?;
        Ok(Visible {
            view,
            revision: set.revision(),
            in_use: watch::Sender::new(()),
            session: Some(session.clone()),
        })
    }
}

/// Waits until the session is over.
async fn over(states: &mut watch::Receiver<State>) {
    let is_over = |it: &State| matches!(it, State::Expired | State::Closed);
    // A session whose task is gone is over, too.
    let _ = states.wait_for(is_over).await;
}

fn is_there(error: &Error) -> bool {
    error_code(error) == Some(cadastre_coordination::ErrorCode::NodeExists)
}

fn is_missing(error: &Error) -> bool {
    error_code(error) == Some(cadastre_coordination::ErrorCode::NoNode)
}
