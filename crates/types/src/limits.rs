//! Limits that more than one crate must agree on (INV-9), each with its reason.

/// Longest row key, bytes: HBase's `HConstants.MAX_ROW_LENGTH` (a signed 16-bit length in a KeyValue).
pub const ROW_MAX: usize = 32_767;

/// Longest family name, bytes: a signed 8-bit length in a KeyValue.
pub const FAMILY_MAX: usize = 127;

/// Default of the largest cell a server takes, bytes: HBase's `hbase.server.keyvalue.maxsize`.
pub const CELL_MAX_DEFAULT: usize = 10 * 1024 * 1024;

/// Default of the largest request frame, bytes: HBase's `hbase.ipc.max.request.size`.
pub const REQUEST_MAX_DEFAULT: usize = 256 * 1024 * 1024;

/// Largest budget of one scan answer, bytes: HBase's `hbase.server.scanner.max.result.size`.
pub const SCAN_RESULT_MAX: usize = 100 * 1024 * 1024;

/// Largest row read whole, bytes: HBase's `hbase.table.max.rowsize` (1 GiB there; a quarter here, since the default of all
/// our memory is 1 GiB).
pub const ROW_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Longest life of a scanner without a call, ms: HBase's `hbase.client.scanner.timeout.period`.
pub const SCANNER_LEASE_MS: u64 = 60_000;

/// Longest life of a scanner, ms, however often it is called (C12). What its moment shows is kept while it lives, so of a row that is
/// written all the time every version. HBase knows no such bound; a day is far above what a scan of one region takes, and a Java
/// client that is told opens a new scanner behind the last row.
pub const SCANNER_AGE_MAX_MS: u64 = 24 * 60 * 60 * 1000;

/// How long the effect of a nonce is remembered, ms: HBase's `hbase.server.hashNonce.gracePeriod` (30 min).
pub const NONCE_LIFE_MS: u64 = 30 * 60 * 1000;
