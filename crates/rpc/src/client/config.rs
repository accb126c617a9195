//! What a client's limits are (INV-9). Must not know where they are read from.

use std::time::Duration;

use cadastre_types::limits;

/// Limits of a client's connections.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// Time for a connection to open (`hbase.ipc.client.socket.timeout.connect`).
    pub connect_timeout: Duration,
    /// A connection without calls is closed after this time (`hbase.ipc.client.connection.minIdleTimeBeforeClose`).
    pub idle: Duration,
    /// Calls waiting for an answer on one connection; further callers wait for their turn.
    pub calls_max: usize,
    /// Largest answer, bytes.
    pub response_bytes_max: usize,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            idle: Duration::from_secs(120),
            // A quarter of what our own server takes from one connection.
            calls_max: 1024,
            // Twice the largest scan answer and more.
            response_bytes_max: limits::REQUEST_MAX_DEFAULT,
        }
    }
}
