//! Settings of `cadastre start`: declared once, as the flags; read from a file, the environment and the flags, in this order, the
//! later winning. `docs/configuration.md` is generated from here.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use figment::Figment;
use figment::providers::{Env, Format, Serialized, Toml};
use serde::{Deserialize, Serialize};

/// Prefix of the environment variables.
const ENV_PREFIX: &str = "CADASTRE_";

/// Variables with that prefix that are no settings: the file's place, and where the tests keep what they fetched.
const NOT_SETTINGS: &[&str] = &["config", "test_cache"];

/// Smallest `--memory` that leaves every cache and memtable a working size.
const MEMORY_MIN: u64 = 64 * 1024 * 1024;

/// When a write is on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WalSync {
    /// Before it is acknowledged: survives a power cut.
    Fdatasync,
    /// Handed to the operating system before it is acknowledged: survives kill -9, as HBase does on a local disk.
    Write,
}

/// How logs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// The flags of `cadastre start`. What is not given comes from the environment, the file, or the default.
#[derive(Debug, Default, Args, Serialize)]
pub struct StartArgs {
    /// Settings file (TOML, keys as the flags with _ for -)
    #[arg(long, value_name = "FILE", env = "CADASTRE_CONFIG")]
    #[serde(skip)]
    pub config: Option<PathBuf>,
    /// Print events as JSON on standard output
    #[arg(long)]
    #[serde(skip)]
    pub json: bool,
    /// Directory that holds everything [default: cadastre-data]
    #[arg(long, value_name = "DIR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<PathBuf>,
    /// Where tables lie: hdfs://nameservice/folder, or nothing for the data directory [default: the data directory]
    #[arg(long, value_name = "URI")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// Directory with Hadoop's core-site.xml and hdfs-site.xml, for --store [default: HADOOP_CONF_DIR]
    #[arg(long, value_name = "DIR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hdfs_conf_dir: Option<PathBuf>,
    /// Who this server is to HDFS, for --store [default: HADOOP_USER_NAME, or the operating system's user]
    #[arg(long, value_name = "USER")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hdfs_user: Option<String>,
    /// Start only when whoever runs the store has shown no sign of life for 15 s, for --store [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standby: Option<bool>,
    /// Memory for all caches and memtables, e.g. 512MiB [default: 1GiB]
    #[arg(long, value_name = "SIZE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// Address to listen on [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bind: Option<IpAddr>,
    /// Host name or address that clients are told [default: the address of --bind, or this machine's name]
    #[arg(long, value_name = "HOST")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advertise: Option<String>,
    /// Port for ZooKeeper clients, 0 for any free one [default: 2181]
    #[arg(long, value_name = "PORT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zookeeper_port: Option<u16>,
    /// Port of the master, 0 for any free one [default: 16000]
    #[arg(long, value_name = "PORT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub master_port: Option<u16>,
    /// Port of the first region server, the others take the next ones; 0 for any free ones [default: 16020]
    #[arg(long, value_name = "PORT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region_server_port: Option<u16>,
    /// Port for /metrics and /healthz, 0 for any free one [default: 16010]
    #[arg(long, value_name = "PORT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_port: Option<u16>,
    /// Region servers in this process [default: 1]
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region_servers: Option<u16>,
    /// Serving cores [default: as many as the machine has]
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u16>,
    /// When a write is on the device [default: fdatasync]
    #[arg(long, value_enum, value_name = "WHEN")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wal_sync: Option<WalSync>,
    /// Calls that take longer are logged, in milliseconds [default: 1000]
    #[arg(long, value_name = "MS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_call_ms: Option<u64>,
    /// What is logged, e.g. info or cadastre_rpc=debug [default: info]
    #[arg(long, value_name = "FILTER")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// How logs are written to standard error [default: text]
    #[arg(long, value_enum, value_name = "FORMAT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_format: Option<LogFormat>,
}

/// Settings as they hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Directory that holds everything.
    pub data: PathBuf,
    /// Where tables lie; empty = in the data directory.
    pub store: String,
    /// Hadoop's configuration; empty = `HADOOP_CONF_DIR`.
    pub hdfs_conf_dir: PathBuf,
    /// Who this server is to HDFS; empty = whoever Hadoop's own clients would be.
    pub hdfs_user: String,
    /// Waits for the death of whoever runs the store.
    pub standby: bool,
    /// Memory as text.
    pub memory: String,
    /// Address to listen on.
    pub bind: IpAddr,
    /// Host that clients are told; empty = worked out from `bind`.
    pub advertise: String,
    /// Port for ZooKeeper clients.
    pub zookeeper_port: u16,
    /// Port of the master.
    pub master_port: u16,
    /// Port of the first region server.
    pub region_server_port: u16,
    /// Port for metrics and health.
    pub admin_port: u16,
    /// Region servers in this process.
    pub region_servers: u16,
    /// Serving cores; 0 = as many as the machine has.
    pub cores: u16,
    /// When a write is on the device.
    pub wal_sync: WalSync,
    /// Threshold of the slow-call log, ms.
    pub slow_call_ms: u64,
    /// Log filter.
    pub log: String,
    /// Log format.
    pub log_format: LogFormat,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            data: PathBuf::from("cadastre-data"),
            store: String::new(),
            hdfs_conf_dir: PathBuf::new(),
            hdfs_user: String::new(),
            standby: false,
            memory: "1GiB".to_owned(),
            bind: IpAddr::V4(Ipv4Addr::LOCALHOST),
            advertise: String::new(),
            zookeeper_port: 2181,
            master_port: 16000,
            region_server_port: 16020,
            admin_port: 16010,
            region_servers: 1,
            cores: 0,
            wal_sync: WalSync::Fdatasync,
            slow_call_ms: 1000,
            log: "info".to_owned(),
            log_format: LogFormat::Text,
        }
    }
}

impl Settings {
    /// File, environment and flags over the defaults; the later wins.
    ///
    /// # Errors
    /// A sentence that names the setting and where it came from.
    pub fn load(args: &StartArgs) -> Result<Self, String> {
        let mut figment = Figment::from(Serialized::defaults(Self::default()));
        if let Some(file) = &args.config {
            if !file.is_file() {
                return Err(format!(
                    "the settings file {} does not exist",
                    file.display()
                ));
            }
            figment = figment.merge(Toml::file_exact(file));
        }
        let settings: Self = figment
            .merge(Env::prefixed(ENV_PREFIX).ignore(NOT_SETTINGS))
            .merge(Serialized::defaults(args))
            .extract()
            .map_err(|error| error.to_string())?;
        settings.validate()?;
        Ok(settings)
    }

    fn validate(&self) -> Result<(), String> {
        let memory = self.memory_bytes()?;
        if memory < MEMORY_MIN {
            return Err(format!(
                "memory = {} is too little: at least 64MiB",
                self.memory
            ));
        }
        if self.region_servers == 0 {
            return Err("region_servers must be at least 1".to_owned());
        }
        if self.standby && self.store.is_empty() {
            return Err("standby needs a store that machines share: give --store".to_owned());
        }
        if !self.store.is_empty() && !self.store.starts_with("hdfs://") {
            return Err(format!(
                "store = '{}' is no place that is known: hdfs://nameservice/folder, or nothing for the data directory",
                self.store
            ));
        }
        Ok(())
    }

    /// Memory, bytes.
    ///
    /// # Errors
    /// If it is not a size.
    pub fn memory_bytes(&self) -> Result<u64, String> {
        parse_size(&self.memory).ok_or_else(|| {
            format!(
                "memory = '{}' is not a size such as 512MiB or 1GiB",
                self.memory
            )
        })
    }

    /// Host that clients are told.
    pub fn advertise_host(&self) -> String {
        if !self.advertise.is_empty() {
            return self.advertise.clone();
        }
        if !self.bind.is_unspecified() {
            return self.bind.to_string();
        }
        let name = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        if name.is_empty() {
            "localhost".to_owned()
        } else {
            name
        }
    }
}

/// Reads 1024, 64k, 64KiB, 512MB, 1GiB; units are powers of 1024 either way.
fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().trim_end_matches('b').trim_end_matches('i') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// The text of `docs/configuration.md`.
pub fn documentation() -> String {
    let command = StartArgs::augment_args(clap::Command::new("start"));
    let mut text = String::from(
        "# Configuration\n\nGenerated from the code by `cargo xtask fix`; `cargo xtask verify` checks it.\n\nEach setting of `cadastre start` can be given in three places. The later wins: settings file (`--config FILE`, TOML) →\nenvironment → flag.\n\n| flag | environment | key in the file | what it does |\n| --- | --- | --- | --- |\n",
    );
    for arg in command.get_arguments() {
        let (Some(long), Some(help)) = (arg.get_long(), arg.get_help()) else {
            continue;
        };
        let key = long.replace('-', "_");
        let only_flag = key == "json";
        let (env, file) = match key.as_str() {
            "json" => ("–".to_owned(), "–".to_owned()),
            "config" => (format!("`{ENV_PREFIX}CONFIG`"), "–".to_owned()),
            _ => (
                format!("`{ENV_PREFIX}{}`", key.to_uppercase()),
                format!("`{key}`"),
            ),
        };
        let value = arg
            .get_value_names()
            .filter(|_| !only_flag)
            .map(|names| format!(" {}", names.join(" ")))
            .unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "| `--{long}{value}` | {env} | {file} | {help} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse_size("1024"), Some(1024));
        assert_eq!(parse_size("64k"), Some(65536));
        assert_eq!(parse_size("1 GiB"), Some(1 << 30));
        assert_eq!(parse_size("512MB"), Some(512 << 20));
        for bad in ["", "x", "1x", "-1", "99999999999999999999", "99999999999t"] {
            assert_eq!(parse_size(bad), None, "{bad}");
        }
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_defaults() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("c.toml");
        std::fs::write(&file, "memory = \"2GiB\"\nmaster_port = 7\n").unwrap();
        let args = StartArgs {
            config: Some(file.clone()),
            master_port: Some(8),
            ..StartArgs::default()
        };
        let settings = Settings::load(&args).unwrap();
        assert_eq!(
            (settings.memory.as_str(), settings.master_port),
            ("2GiB", 8)
        );
        assert_eq!(settings.zookeeper_port, 2181);
        let elsewhere = StartArgs {
            store: Some("s3://bucket".to_owned()),
            ..StartArgs::default()
        };
        let error = Settings::load(&elsewhere).unwrap_err();
        assert!(error.contains("hdfs://nameservice"), "{error}");
        std::fs::write(&file, "memry = \"2GiB\"\n").unwrap();
        let error = Settings::load(&args).unwrap_err();
        assert!(error.contains("memry"), "{error}");
    }

    #[test]
    fn the_documentation_is_what_the_code_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            committed == documentation(),
            "docs/configuration.md is out of date: run `cargo xtask fix`"
        );
    }
}
