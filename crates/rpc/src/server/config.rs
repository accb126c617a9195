//! What a server's limits are (INV-9). Must not know where they are read from: `cli` fills them in.

use std::time::Duration;

use cadastre_types::limits;

/// Limits and names of one server.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Who this is, in log lines and as the label `server` of metrics: `master`, `region_server`.
    pub name: String,
    /// Connections open at one time; further ones are closed at once.
    pub connections_max: usize,
    /// Time for preamble and connection header.
    pub start_timeout: Duration,
    /// A frame that has begun must go on within this time.
    pub read_stall: Duration,
    /// A peer must take some of what it is owed within this time.
    pub write_stall: Duration,
    /// A connection without calls is closed after this time. `None`, the default, as in HBase: some clients never open a
    /// connection again (hbase-protocol.md 11.4), and vanished peers are found by TCP keepalive.
    pub idle: Option<Duration>,
    /// Largest request frame, bytes; also the most that its cell block may hold once decompressed (`hbase.ipc.max.request.size`).
    pub request_bytes_max: usize,
    /// Request bytes in flight on one connection, from the first byte that came until the answer.
    pub connection_request_bytes_max: usize,
    /// The same, all connections together (`hbase.ipc.server.max.callqueue.size`).
    pub request_bytes_in_flight_max: usize,
    /// Calls waiting or running on one connection.
    pub connection_calls_max: usize,
    /// Calls of one connection that run at one time; the others wait.
    pub connection_running_max: usize,
    /// Calls waiting or running, all connections together. The last eighth is for priorities from
    /// [`HIGH_PRIORITY`](super::HIGH_PRIORITY) on.
    pub calls_in_flight_max: usize,
    /// Answers of one connection that its peer does not take, bytes; over it the connection is closed.
    pub connection_response_bytes_max: usize,
    /// The same, all connections together: over it connections that owe more than they may are closed.
    pub response_bytes_max: usize,
    /// A call that takes longer is logged (`hbase.ipc.warn.response.time`).
    pub slow_call: Duration,
    /// A larger answer is logged, bytes (`hbase.ipc.warn.response.size`).
    pub large_answer_bytes: usize,
    /// When the server stops, calls that still run have this long.
    pub drain: Duration,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            name: "server".to_owned(),
            // Twice what the project promises to serve.
            connections_max: 20_000,
            start_timeout: Duration::from_secs(10),
            read_stall: Duration::from_secs(60),
            write_stall: Duration::from_secs(60),
            idle: None,
            request_bytes_max: limits::REQUEST_MAX_DEFAULT,
            connection_request_bytes_max: limits::REQUEST_MAX_DEFAULT,
            // The largest request always fits when nothing else is in flight.
            request_bytes_in_flight_max: limits::REQUEST_MAX_DEFAULT,
            // Asynchronous clients send thousands of single gets at once.
            connection_calls_max: 4096,
            // Enough for one connection to fill a group commit.
            connection_running_max: 256,
            calls_in_flight_max: 32_768,
            // A hundred parallel scans with the Java client's default of 2 MiB an answer.
            connection_response_bytes_max: 256 * 1024 * 1024,
            response_bytes_max: 512 * 1024 * 1024,
            slow_call: Duration::from_secs(10),
            large_answer_bytes: 100 * 1024 * 1024,
            drain: Duration::from_secs(10),
        }
    }
}
