//! `rule publish`, `withdraw`, `rollback`, `history`, `status` and `watch`: versions of rules on a live cluster (R26 to R29, R71).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cadastre_client::Client;
use cadastre_client::sharded::{RuleCenter, RuleWatch};
use cadastre_env::{Clock, Env};
use cadastre_sharding::versions::{Action, Both, RuleSet, SetError, State, VersionEntry, View};
use cadastre_sharding::{Program, script};
use cadastre_types::{Code, Error, Result};
use clap::Args;
use serde_json::{Value as Json, json};

use super::census::{self, ClustersArgs};
use super::{Stop, second};
use crate::commands::connect::ConnectArgs;
use crate::commands::output::{Output, usage};
use crate::commands::{exit, sharded};

/// How a version comes into force; part of `publish` and `rollback`.
#[derive(Debug, Clone, Args)]
pub(super) struct HowArgs {
    /// Stop when all clients hold what moves: for whoever copies rows. `--continue` goes on, `rule withdraw` goes back
    #[arg(long, conflicts_with = "copied")]
    hold: bool,
    /// Rows that move have been copied to their new places: do not count them
    #[arg(long)]
    copied: bool,
    /// How long live clients are waited for, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u64,
    #[command(flatten)]
    clusters: ClustersArgs,
    #[command(flatten)]
    pub(super) connect: ConnectArgs,
}

#[derive(Debug, Args)]
pub struct PublishArgs {
    /// The new version: a file; with --continue the name of the rule
    #[arg(value_name = "FILE|NAME")]
    rule: String,
    /// Go on with a version that is on offer
    #[arg(long = "continue")]
    go_on: bool,
    #[command(flatten)]
    pub(super) how: HowArgs,
}

#[derive(Debug, Args)]
pub struct RollbackArgs {
    /// Name of the rule
    name: String,
    /// The version whose content comes back, under a new number
    version: u64,
    #[command(flatten)]
    pub(super) how: HowArgs,
}

#[derive(Debug, Args)]
pub struct NameArgs {
    /// Name of the rule
    name: String,
    #[command(flatten)]
    pub(super) connect: ConnectArgs,
}

#[derive(Debug, Args)]
pub struct HistoryArgs {
    /// Name of the rule
    name: String,
    /// Print this version in the rule language
    #[arg(long, value_name = "VERSION")]
    show: Option<u64>,
    #[command(flatten)]
    pub(super) connect: ConnectArgs,
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Name of the rule; all without it
    name: Option<String>,
    #[command(flatten)]
    pub(super) connect: ConnectArgs,
}

#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Name of the rule
    name: String,
    /// End after so many seconds
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
    #[command(flatten)]
    pub(super) connect: ConnectArgs,
}

pub(super) async fn publish<E: Env>(
    client: &Client<E>,
    args: &PublishArgs,
    output: &mut Output<'_>,
) -> Result<u8> {
    let program = match args.go_on {
        true => None,
        false => Some(Arc::new(sharded::program(&PathBuf::from(&args.rule))?)),
    };
    let center = RuleCenter::open(client).await?;
    let done = async {
        match &program {
            Some(program) => bring(client, &center, program, &args.how, output).await,
            None => {
                let set = existing(&center, &args.rule).await?;
                finish(client, &center, &set, &args.how, true, output).await
            }
        }
    }
    .await;
    center.close().await;
    done
}

pub(super) async fn rollback<E: Env>(
    client: &Client<E>,
    args: &RollbackArgs,
    output: &mut Output<'_>,
) -> Result<u8> {
    let center = RuleCenter::open(client).await?;
    let done = async {
        let set = existing(&center, &args.name).await?;
        let rule = set.rollback(args.version).map_err(refused)?;
        let program = Program::compile_with(rule, &script::compile);
        let program = program.map_err(|fault| Error::invalid(fault.to_string()))?;
        second::ensure(&program).map_err(Stop::into_error)?;
        bring(client, &center, &Arc::new(program), &args.how, output).await
    }
    .await;
    center.close().await;
    done
}

/// The first version comes into force at once; any other is offered first.
async fn bring<E: Env>(
    client: &Client<E>,
    center: &RuleCenter<E>,
    program: &Arc<Program>,
    how: &HowArgs,
    output: &mut Output<'_>,
) -> Result<u8> {
    let name = program.rule().name.clone();
    let Some(before) = center.load(&name).await? else {
        let set = center
            .change(&name, |found| match found {
                None => Ok(RuleSet::create(program)),
                Some(set) => Err(SetError::Conflict {
                    expected: 0,
                    actual: set.revision(),
                }),
            })
            .await?;
        in_force(&set, output);
        return Ok(exit::DONE);
    };
    if before.current().hash == program.hash() {
        return Err(usage(format!(
            "version {} of the rule {name} is in force already",
            program.rule().version
        )));
    }
    let current = Arc::new(compile(before.current())?);
    let offered = center
        .change(&name, |found| {
            let found = found.ok_or(SetError::NoOffer)?;
            found.offer(before.revision(), &current, program)
        })
        .await?;
    output.answer(
        format!(
            "version {} of the rule {name} is on offer: what moves is held by every client that has seen it",
            program.rule().version
        ),
        || json!({ "rule": name, "done": "offered", "version": program.rule().version, "revision": offered.revision() }),
    );
    finish(client, center, &offered, how, false, output).await
}

/// Waits for all live clients, sees that nothing gets out of reach, and puts the version on offer into force.
async fn finish<E: Env>(
    client: &Client<E>,
    center: &RuleCenter<E>,
    offered: &RuleSet,
    how: &HowArgs,
    resumed: bool,
    output: &mut Output<'_>,
) -> Result<u8> {
    let name = offered.name();
    let State::Two { current, next } = offered.state() else {
        return Err(refused(SetError::NoOffer));
    };
    let wait = Duration::from_secs(how.wait);
    let lacking = center.acknowledged(name, offered.revision(), wait).await?;
    if !lacking.is_empty() {
        for client in &lacking {
            output.answer(
                format!("{} ({}) has seen revision {} only", client.label, client.znode, client.revision),
                || json!({ "lacks": client.label, "znode": client.znode, "revision": client.revision }),
            );
        }
        return Err(Error::new(
            Code::Io,
            format!(
                "{} of the live clients have not seen revision {} within {} s. The version stays on offer: `cadastre rule publish --continue \
                 {name}` goes on, `cadastre rule withdraw {name}` takes it back",
                lacking.len(),
                offered.revision(),
                how.wait
            ),
        ));
    }
    let live = center.clients(name).await?.len();
    output.answer(
        format!("all {live} live clients have seen it"),
        || json!({ "rule": name, "done": "seen", "clients": live }),
    );
    if how.hold {
        output.answer(
            format!("held: `cadastre rule publish --continue {name}` goes on, `cadastre rule withdraw {name}` goes back"),
            || json!({ "rule": name, "done": "held" }),
        );
        return Ok(exit::DONE);
    }
    if !how.copied {
        let fault = |fault: cadastre_sharding::RuleError| Error::invalid(fault.to_string());
        let both =
            Both::new(Arc::new(compile(current)?), Arc::new(compile(next)?)).map_err(fault)?;
        let moving = out_of_reach(client, &both, how, output).await;
        if !matches!(moving, Ok(0)) {
            // Somebody asked for it to be held: that stays so.
            if !resumed {
                withdrawn(center, offered).await?;
            }
            let rows = moving?;
            let taken_back = match resumed {
                true => "The version stays on offer",
                false => "The offer was taken back",
            };
            return Err(Error::invalid(format!(
                "{rows} rows would be out of reach, since they are still in their old places. {taken_back}: copy them while a version is held \
                 (--hold), and say so with --copied; or place only new rows elsewhere (docs/rules.md, 7)"
            )));
        }
    }
    let clients = center.acknowledgements(name).await?;
    let set = center
        .change(name, |found| {
            let found = found.ok_or(SetError::NoOffer)?;
            found.publish(offered.revision(), &clients, false)
        })
        .await?;
    in_force(&set, output);
    Ok(exit::DONE)
}

/// How many rows the new version would not find. Exact: those that move are held.
async fn out_of_reach<E: Env>(
    client: &Client<E>,
    both: &Both,
    how: &HowArgs,
    output: &mut Output<'_>,
) -> Result<u64> {
    let clusters = &how.clusters.clusters;
    let (all, others) = sharded::connect_all(client, clusters, &how.connect).await?;
    let counted = census::walk(client, &all, both, true).await;
    for other in others {
        other.close().await;
    }
    let counted = counted?;
    census::print(&counted, output);
    let refused = counted.diff.new_version().refused().values().sum::<u64>();
    Ok(counted.diff.moves().rows.saturating_add(refused))
}

async fn withdrawn<E: Env>(center: &RuleCenter<E>, offered: &RuleSet) -> Result<RuleSet> {
    center
        .change(offered.name(), |found| {
            let found = found.ok_or(SetError::NoOffer)?;
            found.withdraw(offered.revision())
        })
        .await
}

pub(super) async fn withdraw<E: Env>(
    client: &Client<E>,
    args: &NameArgs,
    output: &mut Output<'_>,
) -> Result<u8> {
    let center = RuleCenter::open(client).await?;
    let done = async {
        let set = existing(&center, &args.name).await?;
        withdrawn(&center, &set).await
    }
    .await;
    center.close().await;
    in_force(&done?, output);
    Ok(exit::DONE)
}

async fn existing<E: Env>(center: &RuleCenter<E>, name: &str) -> Result<RuleSet> {
    let found = center.load(name).await?;
    found.ok_or_else(|| Error::invalid(format!("no rule {name} is published")))
}

fn refused(error: SetError) -> Error {
    Error::invalid(error.to_string())
}

fn compile(entry: &VersionEntry) -> Result<Program> {
    let program = entry.compile(&script::compile);
    program.map_err(|fault| Error::invalid(fault.to_string()))
}

fn in_force(set: &RuleSet, output: &mut Output<'_>) {
    let current = set.current();
    output.answer(
        format!("version {} of the rule {} is in force", current.version, set.name()),
        || json!({ "rule": set.name(), "done": "in force", "version": current.version, "hash": current.hash.to_string(), "revision": set.revision() }),
    );
}

pub(super) async fn history<E: Env>(
    client: &Client<E>,
    args: &HistoryArgs,
    output: &mut Output<'_>,
) -> Result<u8> {
    let found = RuleCenter::published(client, &args.name).await?;
    let set = found.ok_or_else(|| Error::invalid(format!("no rule {} is published", args.name)))?;
    if let Some(version) = args.show {
        return show(&set, version, output);
    }
    let word = |action| match action {
        Action::Create => "created",
        Action::Offer => "offered",
        Action::Publish => "published",
        Action::Withdraw => "withdrawn",
    };
    if output.is_json() {
        for it in set.history() {
            output.line(json!({
                "revision": it.revision, "done": word(it.action), "version": it.version, "hash": it.hash.to_string(),
            }));
        }
        return Ok(exit::DONE);
    }
    let mut rows = vec![
        ["revision", "done", "version", "hash"]
            .map(str::to_owned)
            .to_vec(),
    ];
    rows.extend(set.history().iter().map(|it| {
        vec![
            it.revision.to_string(),
            word(it.action).to_owned(),
            it.version.to_string(),
            it.hash.to_string(),
        ]
    }));
    output.table(&rows);
    Ok(exit::DONE)
}

fn show(set: &RuleSet, version: u64, output: &mut Output<'_>) -> Result<u8> {
    let visible = match set.state() {
        State::One(current) => vec![current],
        State::Two { current, next } => vec![current, next],
    };
    let kept = visible.into_iter().chain(set.former());
    let entry = kept.into_iter().find(|it| it.version == version);
    let entry = entry.ok_or_else(|| refused(SetError::Unknown(version)))?;
    let program = compile(entry)?;
    let text = program.rule().to_string();
    output.answer(
        text.trim_end(),
        || json!({ "version": version, "hash": entry.hash.to_string(), "text": text }),
    );
    Ok(exit::DONE)
}

pub(super) async fn status<E: Env>(
    client: &Client<E>,
    args: &StatusArgs,
    output: &mut Output<'_>,
) -> Result<u8> {
    let center = RuleCenter::open(client).await?;
    let told = async {
        let names = match &args.name {
            Some(name) => vec![name.clone()],
            None => center.names().await?,
        };
        let found = !names.is_empty();
        for name in names {
            one_status(&center, &name, output).await?;
        }
        Ok(if found { exit::DONE } else { exit::NOTHING })
    }
    .await;
    center.close().await;
    told
}

async fn one_status<E: Env>(
    center: &RuleCenter<E>,
    name: &str,
    output: &mut Output<'_>,
) -> Result<()> {
    let set = existing(center, name).await?;
    let clients = center.clients(name).await?;
    let (visible, next) = match set.state() {
        State::One(current) => (format!("version {}", current.version), None),
        State::Two { current, next } => (
            format!(
                "versions {} and {} (on offer)",
                current.version, next.version
            ),
            Some(next.version),
        ),
    };
    let seen = clients
        .iter()
        .filter(|it| it.revision >= set.revision())
        .count();
    if output.is_json() {
        let clients: Vec<Json> = clients
            .iter()
            .map(|it| json!({ "label": it.label, "znode": it.znode, "revision": it.revision }))
            .collect();
        output.line(json!({
            "rule": name,
            "revision": set.revision(),
            "version": set.current().version,
            "hash": set.current().hash.to_string(),
            "offered": next,
            "clients": clients,
        }));
        return Ok(());
    }
    output.line(format_args!(
        "{name}  {visible}, revision {}, seen by {seen} of {} live clients",
        set.revision(),
        clients.len()
    ));
    for client in clients {
        output.line(format_args!(
            "  {} ({}) has seen revision {}",
            client.label, client.znode, client.revision
        ));
    }
    Ok(())
}

/// A live client that does nothing but say what it sees.
pub(super) async fn watch<E: Env>(
    client: &Client<E>,
    args: &WatchArgs,
    output: &mut Output<'_>,
) -> Result<u8> {
    let clock = client.env().clock().clone();
    let until = args
        .seconds
        .map(|it| clock.mono() + Duration::from_secs(it));
    let watch = RuleWatch::start(client, &args.name, &sharded::label());
    let mut told = None;
    let mut first = true;
    loop {
        let left = until.map(|until| until.saturating_sub(clock.mono()));
        if left.is_some_and(|left| left.is_zero()) || output.is_broken() {
            break;
        }
        if !first {
            let change = watch.changed(told);
            match left {
                None => drop(change.await),
                Some(left) => {
                    if clock.timeout(left, change).await.is_err() {
                        break;
                    }
                }
            }
        }
        first = false;
        told = match watch.current() {
            Ok((revision, view)) => {
                seen(&args.name, revision, &view, output);
                Some(revision)
            }
            Err(error) => {
                output.answer(
                    error.message(),
                    || json!({ "rule": args.name, "unknown": error.message() }),
                );
                None
            }
        };
        output.flush();
    }
    watch.close().await;
    Ok(exit::DONE)
}

fn seen(name: &str, revision: u64, view: &View, output: &mut Output<'_>) {
    let (current, next) = match view {
        View::One(program) => (program.rule().version, None),
        View::Two(both) => (
            both.old().rule().version,
            Some(both.new_version().rule().version),
        ),
    };
    let text = match next {
        None => format!("{name}: version {current}, revision {revision}"),
        Some(next) => format!(
            "{name}: versions {current} and {next}, revision {revision}: what moves is held"
        ),
    };
    output.answer(
        text,
        || json!({ "rule": name, "revision": revision, "version": current, "offered": next }),
    );
}
