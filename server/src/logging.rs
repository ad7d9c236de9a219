//! Log lines on standard error.

use crate::config::{LogConfig, LogFormat};
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// Whether a text is a filter for log lines.
///
/// # Errors
/// What is wrong with it.
pub fn check_filter(text: &str) -> Result<(), String> {
    EnvFilter::builder().parse(text).map(|_| ()).map_err(|error| error.to_string())
}

/// Sends log lines to standard error from now on, and panics of any thread with them.
///
/// # Panics
/// When it was called before, or with a filter that was not checked.
pub fn start(log: &LogConfig) {
    let filter = EnvFilter::builder().parse(&log.level).expect("the configuration was checked");
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match log.format {
        LogFormat::Text => lines.init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let message = panic.payload_as_str().unwrap_or("no message");
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        // Empty unless RUST_BACKTRACE is set.
        let backtrace = std::backtrace::Backtrace::capture();
        let backtrace = if backtrace.status() == std::backtrace::BacktraceStatus::Captured {
            backtrace.to_string()
        } else {
            String::new()
        };
        tracing::error!(backtrace, "thread '{}' panicked at {place}: {message}", thread.name().unwrap_or("unnamed"));
    }));
}

#[cfg(test)]
mod tests {
    use super::check_filter;

    #[test]
    fn levels_and_filters_by_module_are_accepted() {
        for filter in ["info", "warn", "off", "info,whippet_http=debug", "whippet_runtime::host=trace"] {
            assert_eq!(check_filter(filter), Ok(()), "{filter}");
        }
        for filter in ["a=b=c", "whippet=loud"] {
            assert!(check_filter(filter).is_err(), "{filter}");
        }
    }
}
