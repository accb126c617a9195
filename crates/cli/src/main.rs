//! The binary `cadastre`.

use std::process::ExitCode;

use cadastre_cli::config::StartArgs;
use cadastre_cli::{commands, start};
use clap::{Parser, Subcommand};

/// Measured in facts/storage-engine.md: a get costs a tenth less than with glibc's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// An HBase-compatible wide-column store in one binary.
#[derive(Parser)]
#[command(
    name = "cadastre",
    version,
    after_help = "Examples:\n  cadastre start --data /var/lib/cadastre\n  cadastre table create t1 f:VERSIONS=3 --splits g,p\n  cadastre put t1 row1 f:q value\n  cadastre get t1 row1"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start a server in the foreground
    #[command(
        after_help = "Example:\n  cadastre start --data /var/lib/cadastre --memory 4GiB\nThen let an HBase client connect with hbase.zookeeper.quorum=127.0.0.1\n\nEach setting can also stand in the environment (CADASTRE_MEMORY) or in a file (--config); see docs/configuration.md."
    )]
    Start(Box<StartArgs>),
    #[command(flatten)]
    Client(Box<commands::Command>),
    /// Check, try out, compare, plan and import placement rules; no cluster is needed
    #[command(subcommand)]
    Rule(Box<commands::rule::RuleCommand>),
    /// Files of an HDFS with NameNodes that fail over, and who is active
    Hdfs(Box<commands::hdfs::HdfsArgs>),
    /// Print the reference of all settings (Markdown)
    #[command(hide = true)]
    DocsConfiguration,
}

#[allow(clippy::print_stdout, reason = "the command's answer")]
fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Start(args) => start::run(&args),
        Command::Client(command) => commands::run(*command),
        Command::Rule(command) => commands::rule::run(*command),
        Command::Hdfs(args) => commands::hdfs::run(*args),
        Command::DocsConfiguration => {
            print!("{}", cadastre_cli::config::documentation());
            ExitCode::SUCCESS
        }
    }
}
