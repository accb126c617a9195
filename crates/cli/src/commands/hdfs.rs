//! `cadastre hdfs`: a small HDFS shell over the HA proxy; enough to see who is active, and with `--trace` what each try met.
//!
//! The configuration is Hadoop's own (core-site.xml and hdfs-site.xml in `HADOOP_CONF_DIR`), or `--namenodes`, or `-D key=value` over
//! either. This module must not know how a call fails over; files' contents are out of its reach.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use cadastre_env::{RealEnv, RealEnvConfig};
use cadastre_rpc::ha::config::Conf;
use cadastre_rpc::ha::{
    Engine, Engines, Event, Events, Protocol, Settings, Source, connections, create_proxy,
};
use cadastre_rpc::hadoop::{
    CLIENT_PROTOCOL, ClientProtocol, ClientProtocolClient, HA_SERVICE_PROTOCOL, HaService,
    HaServiceClient, HadoopEngine, server_state,
};
use cadastre_types::{Code, Detail, Error, ErrorKind, Result};
use cadastre_wire::hadoop::{User, pb};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::exit;

/// Files of a configuration directory, later ones winning, as in Hadoop.
const FILES: [&str; 2] = ["core-site.xml", "hdfs-site.xml"];

/// The nameservice that `--namenodes` makes.
const OWN_NAMESERVICE: &str = "namenodes";

const PROVIDER: &str = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider";

/// Pages of a listing at most (INV-9): a NameNode sends a thousand names a page.
const PAGES_MAX: usize = 10_000;

const AFTER_HELP: &str = "Examples:\n  cadastre hdfs --conf-dir /etc/hadoop/conf ls /\n  cadastre hdfs --namenodes nn0=h0:8020,nn1=h1:8020 --trace stat /tmp\n  \
                          cadastre hdfs haadmin state\n\nExit codes: 0 done, 1 nothing found, 2 refused, 3 failed (not reachable, or the outcome is unknown).";

/// Arguments of `cadastre hdfs`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct HdfsArgs {
    /// Directory with core-site.xml and hdfs-site.xml
    #[arg(long, value_name = "DIR", env = "HADOOP_CONF_DIR")]
    conf_dir: Option<PathBuf>,
    /// The NameNodes themselves, without Hadoop's files
    #[arg(long, value_name = "ID=HOST:PORT,…", value_delimiter = ',')]
    namenodes: Vec<String>,
    /// A setting by Hadoop's name, over those of the files
    #[arg(short = 'D', value_name = "KEY=VALUE")]
    define: Vec<String>,
    /// Who calls; the operating system's user if it is not given
    #[arg(long, env = "HADOOP_USER_NAME")]
    user: Option<String>,
    /// In whose name, if the user may do that
    #[arg(long, value_name = "USER")]
    proxy_user: Option<String>,
    /// Tell on standard error what each try met
    #[arg(long)]
    trace: bool,
    /// Print JSON, one value a line
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List a directory
    Ls {
        /// hdfs://nameservice/path, or a path of fs.defaultFS
        #[arg(default_value = "/")]
        path: String,
    },
    /// Show what a path is
    Stat {
        /// The path
        path: String,
    },
    /// Make a directory, and those above it
    Mkdir {
        /// The path
        path: String,
    },
    /// Rename; refuses to overwrite
    Mv {
        /// What
        from: String,
        /// Its new path
        to: String,
    },
    /// Remove
    Rm {
        /// The path
        path: String,
        /// With all that is below it
        #[arg(short, long)]
        recursive: bool,
    },
    /// Who is active; and change it
    Haadmin {
        /// The nameservice, as hdfs://nameservice; of fs.defaultFS if it is not given
        #[arg(long, value_name = "URI")]
        of: Option<String>,
        #[command(subcommand)]
        command: Haadmin,
    },
}

#[derive(Debug, Subcommand)]
enum Haadmin {
    /// Show the state of each NameNode
    State,
    /// Make a NameNode active
    Active {
        /// Its id
        id: String,
    },
    /// Make a NameNode standby
    Standby {
        /// Its id
        id: String,
    },
    /// Make one standby, then the other active
    Failover {
        /// Id of the one that is active
        from: String,
        /// Id of the one that is to be
        to: String,
    },
}

/// Runs the command on its own surroundings.
#[allow(clippy::print_stderr, reason = "the command's answer")]
pub fn run(args: HdfsArgs) -> ExitCode {
    let json = args.json;
    let outcome = match start(args) {
        Ok(outcome) => outcome,
        Err(error) => Err(error),
    };
    ExitCode::from(outcome.unwrap_or_else(|error| {
        if json {
            let code = format!("{:?}", error.code());
            let value = json!({ "error": { "code": code, "class": class(&error), "message": error.message() } });
            eprintln!("{value}");
        } else {
            eprintln!("error: {error}");
        }
        match error.kind() {
            ErrorKind::Invalid | ErrorKind::TooBig => exit::REFUSED,
            _ => exit::FAILED,
        }
    }))
}

fn start(args: HdfsArgs) -> Result<Result<u8>> {
    let internal = |error: io::Error| Error::new(Code::Internal, error.to_string());
    let mut conf = args.conf()?;
    let config = connections(&mut conf)?;
    warn(conf.warnings());
    let user = args.user()?;
    let env = RealEnv::start(&RealEnvConfig {
        // A client keeps no files; the directory is there already.
        data_dir: std::env::temp_dir(),
        cores: 1,
        background_threads: 1,
    })
    .map_err(internal)?;
    let shell = Shell {
        engine: Arc::new(HadoopEngine::new(env.clone(), config)),
        env: env.clone(),
        conf,
        user,
        trace: args.trace,
        json: args.json,
    };
    let outcome = env.block_on(async move { shell.run(args.command).await });
    env.shutdown();
    // None only if the command's task panicked, which was reported then.
    Ok(outcome.unwrap_or_else(|| Err(Error::new(Code::Internal, "the command broke off"))))
}

#[allow(clippy::print_stderr, reason = "the command's answer")]
fn warn(warnings: &[String]) {
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
}

fn class(error: &Error) -> Option<&str> {
    match error.detail() {
        Some(Detail::Remote { class, .. }) => Some(class),
        _ => None,
    }
}

impl HdfsArgs {
    fn conf(&self) -> Result<Conf> {
        let mut conf = Conf::default();
        if let Some(dir) = &self.conf_dir {
            read_dir(&mut conf, dir)?;
        }
        let mut ids = Vec::new();
        for (at, namenode) in self.namenodes.iter().enumerate() {
            let numbered = format!("nn{at}");
            let (id, address) = namenode.split_once('=').unwrap_or((&numbered, namenode));
            let key = format!("dfs.namenode.rpc-address.{OWN_NAMESERVICE}.{id}");
            conf.set(&key, address, "--namenodes");
            ids.push(id.to_owned());
        }
        if !ids.is_empty() {
            for (key, value) in [
                ("dfs.nameservices".to_owned(), OWN_NAMESERVICE.to_owned()),
                (format!("dfs.ha.namenodes.{OWN_NAMESERVICE}"), ids.join(",")),
                (
                    format!("dfs.client.failover.proxy.provider.{OWN_NAMESERVICE}"),
                    PROVIDER.to_owned(),
                ),
                (
                    "fs.defaultFS".to_owned(),
                    format!("hdfs://{OWN_NAMESERVICE}"),
                ),
            ] {
                conf.set(&key, &value, "--namenodes");
            }
        }
        for define in &self.define {
            let Some((key, value)) = define.split_once('=') else {
                return Err(Error::invalid(format!("-D {define}: write key=value")));
            };
            conf.set(key.trim(), value, "-D");
        }
        Ok(conf)
    }

    fn user(&self) -> Result<User> {
        let own = match &self.user {
            Some(user) => user.clone(),
            None => system_user()
                .ok_or_else(|| Error::invalid("nothing says who calls: give --user"))?,
        };
        Ok(match &self.proxy_user {
            None => User::new(own),
            Some(other) => User {
                effective: other.clone(),
                real: Some(own),
            },
        })
    }
}

/// The operating system's user.
pub(crate) fn system_user() -> Option<String> {
    let of = |name| {
        let user = std::env::var(name).ok();
        user.filter(|user| !user.is_empty())
    };
    of("USER").or_else(|| of("LOGNAME"))
}

/// Reads Hadoop's own files.
///
/// # Errors
/// If there are none, or they are no configuration.
pub(crate) fn read_dir(conf: &mut Conf, dir: &Path) -> Result<()> {
    let mut found = false;
    for name in FILES {
        let path = dir.join(name);
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                found = true;
                conf.read(&path.display().to_string(), &text)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::invalid(format!("{}: {error}", path.display()))),
        }
    }
    if found {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{} has neither {} nor {}",
        dir.display(),
        FILES[0],
        FILES[1]
    )))
}

/// A place in HDFS.
struct Place {
    /// `hdfs://authority`.
    uri: String,
    path: String,
}

struct Shell {
    env: RealEnv,
    engine: Arc<dyn Engine>,
    conf: Conf,
    user: User,
    trace: bool,
    json: bool,
}

#[allow(clippy::print_stderr, reason = "the trace")]
fn trace() -> Events {
    Arc::new(|event: &Event<'_>| eprintln!("{event}"))
}

impl Shell {
    async fn run(&self, command: Command) -> Result<u8> {
        match command {
            Command::Ls { path } => self.ls(&self.place(&path)?).await,
            Command::Stat { path } => self.stat(&self.place(&path)?).await,
            Command::Mkdir { path } => self.mkdir(&self.place(&path)?).await,
            Command::Mv { from, to } => self.mv(&self.place(&from)?, &self.place(&to)?).await,
            Command::Rm { path, recursive } => self.rm(&self.place(&path)?, recursive).await,
            Command::Haadmin { of, command } => {
                let place = self.place(of.as_deref().unwrap_or("/"))?;
                self.haadmin(&place, command).await
            }
        }
    }

    fn place(&self, text: &str) -> Result<Place> {
        let (uri, path) = match text.split_once("://") {
            Some((scheme, rest)) => {
                let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
                (format!("{scheme}://{authority}"), format!("/{path}"))
            }
            None => {
                let Some(default) = self.conf.get("fs.defaultFS")? else {
                    return Err(Error::invalid(
                        "fs.defaultFS is not set: give --conf-dir (HADOOP_CONF_DIR), --namenodes, or the whole hdfs://name/path",
                    ));
                };
                (default.trim_end_matches('/').to_owned(), text.to_owned())
            }
        };
        if !path.starts_with('/') {
            return Err(Error::invalid(format!("'{text}' does not begin with /")));
        }
        let path = match path.trim_end_matches('/') {
            "" => "/".to_owned(),
            path => path.to_owned(),
        };
        Ok(Place { uri, path })
    }

    async fn proxy(
        &self,
        uri: &str,
        protocol: &'static Protocol,
    ) -> Result<Arc<dyn cadastre_rpc::ha::Caller>> {
        let engines = Engines::new(Arc::clone(&self.engine)).with_hadoop(&self.engine);
        let events = self.trace.then(trace);
        let source = Source::Uri(uri);
        let created = create_proxy(
            &self.env, &self.conf, source, protocol, &self.user, &engines, events,
        );
        Ok(created.await?.proxy)
    }

    async fn client(&self, place: &Place) -> Result<ClientProtocolClient> {
        let proxy = self.proxy(&place.uri, &CLIENT_PROTOCOL).await?;
        Ok(ClientProtocolClient::new(proxy))
    }

    /// Writes lines; whoever reads them may have had enough.
    fn print(&self, lines: impl IntoIterator<Item = String>) -> Result<u8> {
        let mut out = io::stdout().lock();
        for line in lines {
            match writeln!(out, "{line}") {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
                Err(error) => return Err(Error::new(Code::Internal, error.to_string())),
            }
        }
        Ok(exit::DONE)
    }

    async fn ls(&self, place: &Place) -> Result<u8> {
        let client = self.client(place).await?;
        let mut start_after = bytes::Bytes::new();
        for _ in 0..PAGES_MAX {
            let request = pb::GetListingRequestProto {
                src: place.path.clone(),
                start_after: start_after.clone(),
                need_location: false,
            };
            let Some(page) = client.get_listing(request).await?.dir_list else {
                return Ok(exit::NOTHING);
            };
            let lines = page.partial_listing.iter().map(|status| self.line(status));
            self.print(lines)?;
            match page.partial_listing.last() {
                Some(last) if page.remaining_entries > 0 => start_after = last.path.clone(),
                _ => return Ok(exit::DONE),
            }
        }
        let path = &place.path;
        Err(Error::invalid(format!(
            "{path} has more entries than can be listed"
        )))
    }

    fn line(&self, status: &pb::HdfsFileStatusProto) -> String {
        let name = String::from_utf8_lossy(&status.path);
        if self.json {
            return status_json(&name, status).to_string();
        }
        format!(
            "{} {:>3} {:<10} {:<10} {:>14} {name}",
            mode(status),
            status.block_replication(),
            status.owner,
            status.group,
            status.length,
        )
    }

    async fn stat(&self, place: &Place) -> Result<u8> {
        let client = self.client(place).await?;
        let request = pb::GetFileInfoRequestProto {
            src: place.path.clone(),
        };
        let Some(status) = client.get_file_info(request).await?.fs else {
            return Ok(exit::NOTHING);
        };
        let value = status_json(&place.path, &status);
        if self.json {
            return self.print([value.to_string()]);
        }
        let fields = value.as_object().into_iter().flatten();
        self.print(fields.map(|(name, value)| match value {
            Value::String(text) => format!("{name:<13} {text}"),
            other => format!("{name:<13} {other}"),
        }))
    }

    async fn mkdir(&self, place: &Place) -> Result<u8> {
        let request = pb::MkdirsRequestProto {
            src: place.path.clone(),
            masked: pb::FsPermissionProto { perm: 0o755 },
            create_parent: true,
            unmasked: Some(pb::FsPermissionProto { perm: 0o777 }),
        };
        let answer = self.client(place).await?.mkdirs(request).await?;
        if answer.result {
            return Ok(exit::DONE);
        }
        Err(Error::invalid(format!("{} cannot be made", place.path)))
    }

    async fn mv(&self, from: &Place, to: &Place) -> Result<u8> {
        if from.uri != to.uri {
            return Err(Error::invalid(format!(
                "{} and {} are different file systems",
                from.uri, to.uri
            )));
        }
        let request = pb::Rename2RequestProto {
            src: from.path.clone(),
            dst: to.path.clone(),
            overwrite_dest: false,
            move_to_trash: None,
        };
        self.client(from).await?.rename2(request).await?;
        Ok(exit::DONE)
    }

    async fn rm(&self, place: &Place, recursive: bool) -> Result<u8> {
        if place.path == "/" {
            return Err(Error::invalid("/ is not removed"));
        }
        let request = pb::DeleteRequestProto {
            src: place.path.clone(),
            recursive,
        };
        let answer = self.client(place).await?.delete(request).await?;
        Ok(if answer.result {
            exit::DONE
        } else {
            exit::NOTHING
        })
    }

    async fn haadmin(&self, place: &Place, command: Haadmin) -> Result<u8> {
        let host = place.uri.split_once("://").map_or("", |(_, host)| host);
        let Some(settings) = Settings::of(&self.conf, host)? else {
            return Err(Error::invalid(format!(
                "'{host}' has no failover: dfs.client.failover.proxy.provider.{host} is not set"
            )));
        };
        let servers = settings.nameservice.servers;
        let by_id = |id: &str| {
            let found = servers.iter().find(|(known, _)| known == id);
            found.map(|(_, address)| address).ok_or_else(|| {
                let known: Vec<&str> = servers.iter().map(|(id, _)| id.as_str()).collect();
                Error::invalid(format!("there is no '{id}', only {}", known.join(", ")))
            })
        };
        match command {
            Haadmin::State => return self.states(&servers).await,
            Haadmin::Active { id } => self.make_active(by_id(&id)?).await?,
            Haadmin::Standby { id } => self.make_standby(by_id(&id)?).await?,
            Haadmin::Failover { from, to } => {
                let (from, to) = (by_id(&from)?, by_id(&to)?);
                // In this order: nothing fences two active ones here.
                self.make_standby(from).await?;
                self.make_active(to).await?;
            }
        }
        Ok(exit::DONE)
    }

    async fn one(&self, address: &cadastre_env::HostPort) -> Result<HaServiceClient> {
        let uri = format!("hdfs://{address}");
        Ok(HaServiceClient::new(
            self.proxy(&uri, &HA_SERVICE_PROTOCOL).await?,
        ))
    }

    async fn states(&self, servers: &[(String, cadastre_env::HostPort)]) -> Result<u8> {
        let mut reached = false;
        for (id, address) in servers {
            let status = match self.one(address).await {
                Ok(client) => {
                    let request = pb::GetServiceStatusRequestProto {};
                    client.get_service_status(request).await
                }
                Err(error) => Err(error),
            };
            reached |= status.is_ok();
            let (state, note) = match status {
                Ok(status) => {
                    let state = format!("{:?}", server_state(status.state)?).to_lowercase();
                    (state, status.not_ready_reason.unwrap_or_default())
                }
                Err(error) => ("unreachable".to_owned(), error.message().to_owned()),
            };
            let line = if self.json {
                let address = address.to_string();
                json!({ "id": id, "address": address, "state": state, "note": note }).to_string()
            } else {
                format!("{id:<8} {address:<24} {state:<12} {note}")
            };
            self.print([line.trim_end().to_owned()])?;
        }
        Ok(if reached { exit::DONE } else { exit::FAILED })
    }

    async fn make_active(&self, address: &cadastre_env::HostPort) -> Result<()> {
        let request = pb::TransitionToActiveRequestProto {
            req_info: by_user(),
        };
        let client = self.one(address).await?;
        client.transition_to_active(request).await.map(|_| ())
    }

    async fn make_standby(&self, address: &cadastre_env::HostPort) -> Result<()> {
        let request = pb::TransitionToStandbyRequestProto {
            req_info: by_user(),
        };
        let client = self.one(address).await?;
        client.transition_to_standby(request).await.map(|_| ())
    }
}

/// Refused by NameNodes that fail over by themselves.
fn by_user() -> pb::HaStateChangeRequestInfoProto {
    pb::HaStateChangeRequestInfoProto {
        req_source: pb::HaRequestSource::RequestByUser as i32,
    }
}

fn kind(status: &pb::HdfsFileStatusProto) -> (char, &'static str) {
    use pb::hdfs_file_status_proto::FileType;
    match FileType::try_from(status.file_type) {
        Ok(FileType::IsDir) => ('d', "directory"),
        Ok(FileType::IsFile) => ('-', "file"),
        Ok(FileType::IsSymlink) => ('l', "symlink"),
        Err(_) => ('?', "unknown"),
    }
}

/// As `ls -l` shows it.
fn mode(status: &pb::HdfsFileStatusProto) -> String {
    let mut text = String::from(kind(status).0);
    for shift in [6, 3, 0] {
        for (bit, letter) in [(4, 'r'), (2, 'w'), (1, 'x')] {
            let is_set = status.permission.perm >> shift & bit != 0;
            text.push(if is_set { letter } else { '-' });
        }
    }
    text
}

fn status_json(name: &str, status: &pb::HdfsFileStatusProto) -> Value {
    json!({
        "path": name,
        "type": kind(status).1,
        "mode": format!("{:04o}", status.permission.perm),
        "owner": status.owner,
        "group": status.group,
        "length": status.length,
        "replication": status.block_replication(),
        "block_size": status.blocksize(),
        "modified_ms": status.modification_time,
        "accessed_ms": status.access_time,
        "file_id": status.file_id(),
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: HdfsArgs,
    }

    fn parse(line: &str) -> HdfsArgs {
        let words = std::iter::once("hdfs").chain(line.split(' '));
        Cli::try_parse_from(words).unwrap().args
    }

    #[test]
    fn namenodes_make_a_nameservice() {
        let args = parse("--namenodes a=h0:8020,h1:8021 -D dfs.client.failover.max.attempts=2 ls");
        let conf = args.conf().unwrap();
        let settings = Settings::of(&conf, OWN_NAMESERVICE).unwrap().unwrap();
        let servers: Vec<String> = (settings.nameservice.servers.iter())
            .map(|(id, address)| format!("{id} {address}"))
            .collect();
        assert_eq!(servers, ["a h0:8020", "nn1 h1:8021"]);
        assert_eq!(settings.failover.failovers_max, 2);
        assert_eq!(
            conf.get("fs.defaultFS").unwrap().unwrap(),
            "hdfs://namenodes"
        );
        assert!(parse("-D x ls").conf().is_err());
    }

    #[test]
    fn lines_of_the_manual_parse() {
        for line in [
            "ls",
            "stat hdfs://ns/a",
            "--trace --json mkdir /a/b",
            "mv /a /b",
            "rm -r /a",
            "haadmin state",
            "haadmin --of hdfs://ns failover nn0 nn1",
            "--user alice --proxy-user bob haadmin active nn1",
        ] {
            parse(line);
        }
        let user = parse("--user alice --proxy-user bob ls").user().unwrap();
        assert_eq!(
            (&*user.effective, user.real.as_deref()),
            ("bob", Some("alice"))
        );
    }

    #[test]
    fn directories_without_a_configuration_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap();
        let error = parse(&format!("--conf-dir {path} ls")).conf().unwrap_err();
        assert!(error.message().contains("core-site.xml"));
        std::fs::write(dir.path().join("hdfs-site.xml"), "<x/>").unwrap();
        let error = parse(&format!("--conf-dir {path} ls")).conf().unwrap_err();
        assert!(error.message().contains("hdfs-site.xml: <x>"));
    }

    #[test]
    fn modes() {
        let status = |file_type, perm| pb::HdfsFileStatusProto {
            file_type,
            permission: pb::FsPermissionProto { perm },
            ..Default::default()
        };
        assert_eq!(mode(&status(1, 0o755)), "drwxr-xr-x");
        assert_eq!(mode(&status(2, 0o640)), "-rw-r-----");
    }
}
