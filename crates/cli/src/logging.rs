//! Structured logs on standard error.

use tracing_subscriber::EnvFilter;

use crate::config::LogFormat;

/// Begins to log. Once per process.
///
/// # Errors
/// If the filter is not one, or logging was begun before.
pub fn begin(filter: &str, format: LogFormat) -> Result<(), String> {
    let filter = EnvFilter::try_new(filter)
        .map_err(|error| format!("log = '{filter}' is not a log filter: {error}"))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => builder.with_ansi(false).try_init(),
        LogFormat::Json => builder.json().try_init(),
    }
    .map_err(|error| error.to_string())
}
