//! A server of the binary's own, on free ports and a data directory of its own.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// The binary under test.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_cadastre");

/// A running server; it ends when this is dropped.
pub(crate) struct Server {
    process: Child,
    /// The ready line.
    pub(crate) ready: Value,
    _data: tempfile::TempDir,
}

impl Server {
    /// Starts one with so many region servers, and waits until it is ready.
    pub(crate) fn start(region_servers: u32) -> Self {
        let data = tempfile::tempdir().unwrap();
        let (process, ready) = Self::launch(&data, region_servers);
        Self {
            process,
            ready,
            _data: data,
        }
    }

    /// Kills it, and starts another one on its data (not with many region servers).
    #[allow(dead_code, reason = "not all tests need it")]
    pub(crate) fn restart(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        (self.process, self.ready) = Self::launch(&self._data, 1);
    }

    fn launch(data: &tempfile::TempDir, region_servers: u32) -> (Child, Value) {
        let mut process = Command::new(BINARY)
            .args(["start", "--json", "--data"])
            .arg(data.path().join("data"))
            .args(["--zookeeper-port", "0", "--master-port", "0"])
            .args(["--region-server-port", "0", "--admin-port", "0"])
            .args(["--region-servers", &region_servers.to_string()])
            // Of the tests' own; to a server it would be a setting that there is none of.
            .env_remove("CADASTRE_SHARDED_CASES")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(process.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(ready["event"], "ready");
        (process, ready)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its data goes with it: how it ends does not matter here.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
