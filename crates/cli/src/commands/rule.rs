//! `cadastre rule …`: rules tried out before anybody uses them, without a cluster; and versions of rules on a live cluster.
//!
//! Each command reads a rule file (text, or the bytes that are published) and, as a stream, records from CSV or JSON
//! lines. Answers go to standard output as a table or with `--json` as one JSON value a line; progress goes to standard
//! error. What rules mean is `sharding`'s; this module only reads, counts and prints.

mod bench;
mod census;
mod check;
mod diff;
mod enumerate;
mod eval;
mod import;
mod load;
mod observed;
mod plan;
mod publish;
mod records;
pub(super) mod second;
mod simulate;
pub(super) mod source;
mod steps;
mod svg;

use std::io::Write;
use std::process::ExitCode;

use cadastre_env::Env;
use clap::Subcommand;

use super::connect::ConnectArgs;
use super::output::Output;

/// How a command ended.
mod exit {
    /// It did what was asked, and found nothing to complain of.
    pub(super) const DONE: u8 = 0;
    /// It found something: a bad rule, a record without a place, a condition that is refused.
    pub(super) const FOUND: u8 = 1;
    /// Wrong arguments or unreadable files (clap's code, too).
    pub(super) const USAGE: u8 = 2;
}

/// What ends a command at once: what to say, and the exit code.
#[derive(Debug)]
pub(super) struct Stop {
    code: u8,
    message: String,
}

impl Stop {
    /// The user's to correct: arguments, files.
    fn usage(message: impl Into<String>) -> Self {
        Self {
            code: exit::USAGE,
            message: message.into(),
        }
    }

    /// The same for commands that talk to a cluster.
    pub(super) fn into_error(self) -> cadastre_types::Error {
        cadastre_types::Error::invalid(self.message)
    }

    /// A rule, or what it was asked, is refused.
    fn refused(message: impl Into<String>) -> Self {
        Self {
            code: exit::FOUND,
            message: message.into(),
        }
    }
}

/// Exit code or what ended it.
type Outcome = Result<u8, Stop>;

const EXIT_CODES: &str = "Exit codes: 0 done, 1 something was found or refused, 2 wrong arguments or unreadable files.\nThe language \
                          of rules is described in docs/rules.md.";

const LIVE_CODES: &str = "Exit codes: 0 done, 1 nothing found, 2 refused, 3 failed (not reachable, clients that have not seen it).\n\
                          docs/rules.md says how a rule changes.";

/// A command on rules.
#[derive(Debug, Subcommand)]
pub enum RuleCommand {
    /// Say whether a rule is right, and what may be wrong with it
    #[command(after_help = format!("Examples:\n  cadastre rule check orders.rule\n  cadastre rule check orders.rule orders.csv       # and on samples\n\n{EXIT_CODES}"))]
    Check(check::CheckArgs),
    /// Show how one record is placed, step by step
    #[command(after_help = format!("Example:\n  cadastre rule explain orders.rule user_id=2000 gmt=2012-01-31T10:00:00Z\n\n{EXIT_CODES}"))]
    Explain(eval::ExplainArgs),
    /// Show the slot and place of each record
    #[command(after_help = format!("Examples:\n  cadastre rule eval orders.rule orders.csv\n  mysql … | cadastre rule eval orders.rule --format csv --json\n  cadastre rule eval orders.rule keys.txt --format keys\n\n{EXIT_CODES}"))]
    Eval(eval::EvalArgs),
    /// Show which few places can hold rows that meet a condition
    #[command(after_help = format!("Example:\n  cadastre rule enumerate orders.rule \"user_id = 7 and gmt between timestamp '2012-01-30' and timestamp '2012-02-02'\"\n\n{EXIT_CODES}"))]
    Enumerate(enumerate::EnumerateArgs),
    /// Compare two versions: what moves, from where to where, and how even the load is before and after
    #[command(after_help = format!("Examples:\n  cadastre rule diff orders-1.rule orders-2.rule orders.csv\n  cadastre rule diff orders-1.rule orders-2.rule            # by slots, if only places differ\n  cadastre rule diff orders-1.rule orders-2.rule --scan     # the rows of a live cluster, exactly\n\n{EXIT_CODES}"))]
    Diff(diff::DiffArgs),
    /// Show the load of each place, before and after a change
    #[command(after_help = format!("Examples:\n  cadastre rule simulate orders.rule orders.csv\n  cadastre rule simulate orders-1.rule orders.csv --new orders-2.rule --svg load.svg\n  cadastre rule simulate orders.rule --synthetic 100000\n  cadastre rule simulate pages-1.rule reads.csv --new pages-2.rule --steps 10   # a cache\n\n{EXIT_CODES}"))]
    Simulate(simulate::SimulateArgs),
    /// Propose new versions of a rule for growth or for a hot spot; the first one always moves nothing, if there is one
    #[command(after_help = format!("Examples:\n  cadastre rule plan orders.rule orders.csv --add c4 --add c5 --beyond id=1000000\n  cadastre rule plan orders.rule orders.csv --to c4            # for what is hot\n  cadastre rule plan orders.rule --slots counts.csv --to c4\n\n{EXIT_CODES}"))]
    Plan(plan::PlanArgs),
    /// Print rules of TDDL (XML) or ShardingSphere (YAML) in our language
    #[command(after_help = format!("Examples:\n  cadastre rule import tddl-rule.xml --zone Asia/Shanghai\n  cadastre rule import sharding.yaml --table t_order > t_order.rule\n\n{EXIT_CODES}"))]
    Import(import::ImportArgs),
    /// Measure how fast a rule is evaluated here
    #[command(after_help = format!("Examples:\n  cadastre rule bench orders.rule\n  cadastre rule bench orders.rule orders.csv --seconds 5\n\n{EXIT_CODES}"))]
    Bench(bench::BenchArgs),
    /// Publish a version of a rule: the first at once; any other is offered, waits until every live client has seen it, and comes into force if no
    /// row would get out of reach
    #[command(after_help = format!("Examples:\n  cadastre rule publish orders.rule\n  cadastre rule publish orders-2.rule --hold; …copy rows…; cadastre rule publish --continue orders --copied\n\n{LIVE_CODES}"))]
    Publish(publish::PublishArgs),
    /// Take back the version on offer: everything is as it was
    #[command(after_help = format!("Example:\n  cadastre rule withdraw orders\n\n{LIVE_CODES}"))]
    Withdraw(publish::NameArgs),
    /// Publish the content of a former version under a new number
    #[command(after_help = format!("Example:\n  cadastre rule rollback orders 3\n\n{LIVE_CODES}"))]
    Rollback(publish::RollbackArgs),
    /// Show what was published when, or print a version
    #[command(after_help = format!("Examples:\n  cadastre rule history orders\n  cadastre rule history orders --show 3 > orders-3.rule\n\n{LIVE_CODES}"))]
    History(publish::HistoryArgs),
    /// Show what is in force, and which live clients have seen it
    #[command(after_help = format!("Examples:\n  cadastre rule status\n  cadastre rule status orders --json\n\n{LIVE_CODES}"))]
    Status(publish::StatusArgs),
    /// Follow a rule as a client does, and tell each change
    #[command(after_help = format!("Example:\n  cadastre rule watch orders --json\n\n{LIVE_CODES}"))]
    Watch(publish::WatchArgs),
    /// What a second process is asked of a script: reads a rule's bytes and samples, prints a number that stands for all answers
    #[command(hide = true)]
    Fingerprint,
}

impl RuleCommand {
    /// How the cluster is found, if the command needs one.
    fn live(&self) -> Option<&ConnectArgs> {
        match self {
            Self::Diff(args) if args.scan.scan => Some(&args.connect),
            Self::Publish(args) => Some(&args.how.connect),
            Self::Rollback(args) => Some(&args.how.connect),
            Self::Withdraw(args) => Some(&args.connect),
            Self::History(args) => Some(&args.connect),
            Self::Status(args) => Some(&args.connect),
            Self::Watch(args) => Some(&args.connect),
            _ => None,
        }
    }

    fn is_json(&self) -> bool {
        match self {
            Self::Check(args) => args.json,
            Self::Explain(args) => args.json,
            Self::Eval(args) => args.json,
            Self::Enumerate(args) => args.json,
            Self::Diff(args) => args.connect.json,
            Self::Simulate(args) => args.json,
            Self::Plan(args) => args.json,
            Self::Import(args) => args.json,
            Self::Bench(args) => args.json,
            Self::Fingerprint => false,
            Self::Publish(_)
            | Self::Withdraw(_)
            | Self::Rollback(_)
            | Self::History(_)
            | Self::Status(_)
            | Self::Watch(_) => self.live().is_some_and(|it| it.json),
        }
    }
}

/// Runs a command with standard output and standard error.
pub fn run(command: RuleCommand) -> ExitCode {
    second::this_is_cadastre();
    let json = command.is_json();
    if let Some(connect) = command.live() {
        let connect = connect.clone();
        return super::run_live(json, |env| async move {
            execute_live(env, &connect, command, &mut std::io::stdout()).await
        });
    }
    match execute(command, &mut std::io::stdout()) {
        Ok(code) => ExitCode::from(code),
        Err(stop) => report(&stop, json),
    }
}

/// Runs a command on a cluster; what it prints goes to `out`.
async fn execute_live<E: Env>(
    env: E,
    connect: &ConnectArgs,
    command: RuleCommand,
    out: &mut (dyn Write + Send),
) -> cadastre_types::Result<u8> {
    let mut output = Output::new(out, connect.json);
    let client = connect.open(env).await?;
    let client = &client;
    let outcome = match &command {
        RuleCommand::Diff(args) => census::diff_scan(client, args, &mut output).await,
        RuleCommand::Publish(args) => publish::publish(client, args, &mut output).await,
        RuleCommand::Withdraw(args) => publish::withdraw(client, args, &mut output).await,
        RuleCommand::Rollback(args) => publish::rollback(client, args, &mut output).await,
        RuleCommand::History(args) => publish::history(client, args, &mut output).await,
        RuleCommand::Status(args) => publish::status(client, args, &mut output).await,
        RuleCommand::Watch(args) => publish::watch(client, args, &mut output).await,
        _ => Err(super::output::usage("no cluster is needed")),
    };
    client.close().await;
    super::ended(output, outcome)
}

/// Runs a command; what it prints goes to `out`.
fn execute(command: RuleCommand, out: &mut (dyn Write + Send)) -> Outcome {
    let mut output = Output::new(out, command.is_json());
    let outcome = match command {
        RuleCommand::Check(args) => check::check(&args, &mut output),
        RuleCommand::Explain(args) => eval::explain(&args, &mut output),
        RuleCommand::Eval(args) => eval::eval(&args, &mut output),
        RuleCommand::Enumerate(args) => enumerate::enumerate(&args, &mut output),
        RuleCommand::Diff(args) => diff::diff(&args, &mut output),
        RuleCommand::Simulate(args) => simulate::simulate(&args, &mut output),
        RuleCommand::Plan(args) => plan::plan(&args, &mut output),
        RuleCommand::Import(args) => import::import(&args, &mut output),
        RuleCommand::Bench(args) => bench::bench(&args, &mut output),
        RuleCommand::Fingerprint => second::fingerprint(&mut output),
        RuleCommand::Publish(_)
        | RuleCommand::Withdraw(_)
        | RuleCommand::Rollback(_)
        | RuleCommand::History(_)
        | RuleCommand::Status(_)
        | RuleCommand::Watch(_) => Err(Stop::usage("a cluster is needed")),
    };
    match output.end() {
        // Whoever read our output has had enough, as `head` has.
        Err(broken) if broken.kind() == std::io::ErrorKind::BrokenPipe => Ok(exit::DONE),
        Err(error) => Err(Stop::usage(format!("writing the output: {error}"))),
        Ok(()) => outcome,
    }
}

#[allow(clippy::print_stderr, reason = "the command's answer")]
fn report(stop: &Stop, json: bool) -> ExitCode {
    if json {
        eprintln!(
            "{}",
            serde_json::json!({ "error": { "message": stop.message } })
        );
    } else {
        eprintln!("error: {}", stop.message);
    }
    ExitCode::from(stop.code)
}

#[cfg(test)]
mod tests;
