//! The commands that talk to a running cluster: tables, rows, the directory, files. Each is a few calls of `client` and the printing of what they
//! answered.
//!
//! Bytes are read and written in HBase's notation (`\xNN`), so that what one command prints another one takes. Answers go to standard
//! output, as text or with `--json` as one JSON value a line; progress and errors go to standard error. The exit code says how it
//! ended ([`exit`]). This module must not know how a cluster is made, only how to connect to one.

mod arguments;
mod connect;
mod counters;
pub mod hdfs;
mod locate;
mod meta;
mod namespace;
mod output;
mod progress;
mod rows;
pub mod rule;
mod scan;
mod sharded;
mod status;
mod table;
mod transfer;

use std::io::Write;
use std::process::ExitCode;

use cadastre_client::Client;
use cadastre_env::{Env, RealEnv, RealEnvConfig};
use cadastre_types::{Code, Error, ErrorKind, Result};
use clap::Subcommand;

pub use connect::ConnectArgs;
use output::Output;

/// How a command ended.
pub mod exit {
    /// It did what was asked.
    pub const DONE: u8 = 0;
    /// It found nothing: no cell, no row.
    pub const NOTHING: u8 = 1;
    /// It can never succeed as it was asked: wrong arguments (clap's code, too), no such table, …
    pub const REFUSED: u8 = 2;
    /// The cluster could not do it: not reachable, too busy, time over. Trying again may help.
    pub const FAILED: u8 = 3;
}

const EXIT_CODES: &str = "Exit codes: 0 done, 1 nothing found, 2 refused (wrong arguments, no such table), 3 failed (not \
                          reachable, time over).\nBytes are written as HBase does: printable ASCII as it is, all else as \\xNN.";

/// A command that talks to a cluster.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create, list, describe, alter, enable, disable, truncate and drop tables; flush, compact, move, balance
    #[command(subcommand, after_help = format!("Examples:\n  cadastre table create t1 f:VERSIONS=3 --splits g,p\n  cadastre table list\n  cadastre table drop t1 --force\n\n{EXIT_CODES}"))]
    Table(table::TableCommand),
    /// Create, list, describe, alter and drop namespaces
    #[command(subcommand, after_help = format!("Examples:\n  cadastre namespace create sales --set owner=kim\n  cadastre namespace list\n\n{EXIT_CODES}"))]
    Namespace(namespace::NamespaceCommand),
    /// Write cells of a row
    #[command(after_help = format!("Examples:\n  cadastre put t1 row1 f:name Ada f:age '\\x00\\x00\\x00\\x24'\n  cadastre put orders 7 f:total 12 --rule orders.rule        # into the table of its row\n\n{EXIT_CODES}"))]
    Put(rows::PutArgs),
    /// Read a row
    #[command(after_help = format!("Examples:\n  cadastre get t1 row1 f:name --versions 3\n  cadastre get orders 7 --rule orders\n\n{EXIT_CODES}"))]
    Get(rows::GetArgs),
    /// Delete a row, families or columns of it
    #[command(after_help = format!("Examples:\n  cadastre delete t1 row1 f:name\n  cadastre delete orders 7 --rule orders\n\n{EXIT_CODES}"))]
    Delete(rows::DeleteArgs),
    /// Add to a counter and show its new value
    #[command(after_help = format!("Examples:\n  cadastre incr t1 page-1 f:visits\n  cadastre incr t1 page-1 f:visits -5\n  cadastre incr orders 7 f:items --rule orders\n\n{EXIT_CODES}"))]
    Incr(counters::IncrArgs),
    /// Put bytes behind a value and show the new one
    #[command(after_help = format!("Examples:\n  cadastre append t1 row1 f:log ' again'\n  cadastre append orders 7 f:log ' paid' --rule orders\n\n{EXIT_CODES}"))]
    Append(counters::AppendArgs),
    /// Read rows in order
    #[command(after_help = format!("Examples:\n  cadastre scan t1 --start g --stop p --limit 10\n  cadastre scan orders --rule orders --where 'id between 7 and 9'   # only of the tables that can hold them\n\n{EXIT_CODES}"))]
    Scan(scan::ScanArgs),
    /// Count the rows of a table
    #[command(after_help = format!("Examples:\n  cadastre count t1 --prefix user-\n  cadastre count orders --rule orders --where 'id > 1000' --order rule\n\n{EXIT_CODES}"))]
    Count(scan::CountArgs),
    /// Show which server serves rows, or every region of a table, and who said so
    #[command(after_help = format!("Examples:\n  cadastre locate t1 row1 row2\n  cadastre locate t1 --json\n\n{EXIT_CODES}"))]
    Locate(locate::LocateArgs),
    /// Show hbase:meta, and whether each key of each table lies in exactly one region
    #[command(after_help = format!("Examples:\n  cadastre meta\n  cadastre meta t1 --json\n  cadastre meta --check\n\n{EXIT_CODES}\nHere 3 also says that a hole, an overlap or damage was found."))]
    Meta(meta::MetaArgs),
    /// Write a table to a file as CSV or JSON lines
    #[command(after_help = format!("Examples:\n  cadastre dump t1 --output t1.jsonl --versions 3\n  cadastre dump t1 --output t1.csv --columns row,f:name,f:age\n  cadastre dump t1 --output t1.csv --columns row,f:name,f:age --resume\n\n{EXIT_CODES}"))]
    Dump(Box<transfer::dump::DumpArgs>),
    /// Write the rows of a CSV or of JSON lines into a table
    #[command(after_help = format!("Examples:\n  cadastre load t1 t1.jsonl\n  cadastre load t1 people.csv --columns row,f:name,-,f:age\n  cadastre load t1 people.csv --columns row,f:name,-,f:age --resume\n\n{EXIT_CODES}"))]
    Load(Box<transfer::load::LoadArgs>),
    /// Show the cluster's servers and tables
    #[command(after_help = format!("Example:\n  cadastre status --zookeeper zk1:2181,zk2:2181\n\n{EXIT_CODES}"))]
    Status(status::StatusArgs),
}

impl Command {
    fn connect(&self) -> &ConnectArgs {
        match self {
            Self::Table(command) => command.connect(),
            Self::Namespace(command) => command.connect(),
            Self::Put(args) => &args.connect,
            Self::Get(args) => &args.connect,
            Self::Delete(args) => &args.connect,
            Self::Incr(args) => &args.connect,
            Self::Append(args) => &args.connect,
            Self::Locate(args) => &args.connect,
            Self::Meta(args) => &args.connect,
            Self::Dump(args) => &args.range.connect,
            Self::Load(args) => &args.connect,
            Self::Scan(args) => &args.range.connect,
            Self::Count(args) => &args.range.connect,
            Self::Status(args) => &args.connect,
        }
    }
}

/// Runs a command on its own surroundings, with standard output and standard error.
pub fn run(command: Command) -> ExitCode {
    rule::second::this_is_cadastre();
    let json = command.connect().json;
    run_live(json, |env| async move {
        execute(env, command, &mut std::io::stdout()).await
    })
}

/// Runs what talks to a cluster on surroundings of its own; tells its error.
fn run_live<F>(json: bool, what: impl FnOnce(RealEnv) -> F) -> ExitCode
where
    F: Future<Output = Result<u8>> + Send + 'static,
{
    let env = RealEnv::start(&RealEnvConfig {
        // A client keeps no files; the directory is there already.
        data_dir: std::env::temp_dir(),
        cores: 1,
        background_threads: 1,
    });
    let outcome = match env {
        Ok(env) => {
            let outcome = env.block_on(what(env.clone()));
            env.shutdown();
            // None only if the command's task panicked, which was reported then.
            outcome.unwrap_or_else(|| Err(Error::new(Code::Internal, "the command broke off")))
        }
        Err(error) => Err(Error::new(Code::Internal, error.to_string())),
    };
    let code = outcome.unwrap_or_else(|error| report(&error, json));
    ExitCode::from(code)
}

/// Runs a command and gives its exit code.
///
/// # Errors
/// What the cluster said, to be reported.
pub async fn execute<E: Env>(env: E, command: Command, out: &mut (dyn Write + Send)) -> Result<u8> {
    let connect = command.connect();
    let mut output = Output::new(out, connect.json);
    let client = connect.open(env).await?;
    let outcome = dispatch(&client, command, &mut output).await;
    client.close().await;
    ended(output, outcome)
}

/// Hands over what was printed, and gives the exit code.
fn ended(output: Output<'_>, outcome: Result<u8>) -> Result<u8> {
    match output.end() {
        // Whoever read our output has had enough, as `head` has: that is no failure of the command.
        Err(broken) if broken.kind() == std::io::ErrorKind::BrokenPipe => Ok(exit::DONE),
        Err(error) => Err(Error::new(
            Code::Internal,
            format!("writing the output: {error}"),
        )),
        Ok(()) => outcome,
    }
}

async fn dispatch<E: Env>(
    client: &Client<E>,
    command: Command,
    output: &mut Output<'_>,
) -> Result<u8> {
    match command {
        Command::Table(command) => table::run(client, command, output).await,
        Command::Namespace(command) => namespace::run(client, command, output).await,
        Command::Put(args) => rows::put(client, args, output).await,
        Command::Get(args) => rows::get(client, args, output).await,
        Command::Delete(args) => rows::delete(client, args, output).await,
        Command::Incr(args) => counters::incr(client, args, output).await,
        Command::Append(args) => counters::append(client, args, output).await,
        Command::Locate(args) => locate::locate(client, args, output).await,
        Command::Meta(args) => meta::meta(client, args, output).await,
        Command::Dump(args) => transfer::dump::dump(client, *args, output).await,
        Command::Load(args) => transfer::load::load(client, *args, output).await,
        Command::Scan(args) => scan::scan(client, args, output).await,
        Command::Count(args) => scan::count(client, args, output).await,
        Command::Status(_) => status::status(client, output).await,
    }
}

/// Tells an error and gives its exit code.
#[allow(clippy::print_stderr, reason = "the command's answer")]
fn report(error: &Error, json: bool) -> u8 {
    if json {
        let value = serde_json::json!({
            "error": { "code": format!("{:?}", error.code()), "message": error.message() }
        });
        eprintln!("{value}");
    } else {
        eprintln!("error: {error}");
        if let Some(hint) = hint(error.code()) {
            eprintln!("{hint}");
        }
    }
    exit_code(error)
}

/// What to do about an error, where that is known.
fn hint(code: Code) -> Option<&'static str> {
    Some(match code {
        Code::TableNotFound => "`cadastre table list` shows which tables there are",
        Code::TableNotDisabled => {
            "`cadastre table disable` disables it first; `table drop --force` does both"
        }
        Code::TableNotEnabled => "`cadastre table enable` enables it",
        Code::NoSuchColumnFamily => "`cadastre table describe` shows its families",
        Code::NamespaceNotFound => "`cadastre namespace list` shows which there are",
        _ => return None,
    })
}

fn exit_code(error: &Error) -> u8 {
    match error.kind() {
        ErrorKind::Invalid | ErrorKind::TooBig => exit::REFUSED,
        ErrorKind::Retry
        | ErrorKind::Relocate
        | ErrorKind::Failover
        | ErrorKind::Fenced
        | ErrorKind::Corrupt
        | ErrorKind::Internal => exit::FAILED,
    }
}

#[cfg(test)]
mod tests;
