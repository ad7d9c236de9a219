//! The product against its users: the official Rust SDK over TCP and HTTP, raw frames, crashes, damaged disks, simulated
//! clusters, and the official command-line client. Every test starts its own server process on free ports and fails on log lines of level
//! WARN or ERROR that it did not allow.
//!
//! | environment variable | meaning |
//! |---|---|
//! | `WHIPPET_BINARY` | the binary to test; without it the package `whippet` is built |
//! | `WHIPPET_TEST_PROFILE` | cargo profile of that build, `release` by default |
//! | `WHIPPET_TEST_KEEP` | keep the data directory of a failed test and print where it is |
//! | `WHIPPET_KILL_ROUNDS`, `WHIPPET_KILL_SEED` | rounds of `kill -9` (8 by default, 100 by hand) and the seed that repeats a run |
//! | `WHIPPET_TAIL_ALL` | damage every byte of the last two records instead of a selection (takes minutes) |
//! | `WHIPPET_DEEP_SEEDS`, `WHIPPET_WIDE_SEEDS` | seeds of small and of large simulated clusters (200 and 10 by default) |
//! | `IGGY_CLI` | the official command-line client; `install-cli.sh` installs it into `target/cli` |
//!
//! Tests that mount a file system need root and say "not run" without it; so do the tests of the command-line client where
//! it is missing.

/// Runs each listed `async fn(&Context)` of the calling module over TCP and over HTTP.
macro_rules! over_both_transports {
    ($($test:ident),+ $(,)?) => {
        mod tcp {
            $(#[test] fn $test() { $crate::support::run($crate::support::Transport::Tcp, |context| Box::pin(super::$test(context))); })+
        }
        mod http {
            $(#[test] fn $test() { $crate::support::run($crate::support::Transport::Http, |context| Box::pin(super::$test(context))); })+
        }
    };
}

/// Runs each listed `async fn(&Context)` of the calling module over TCP only, for what HTTP does not have.
macro_rules! over_tcp {
    ($($test:ident),+ $(,)?) => {
        mod tcp_only {
            $(#[test] fn $test() { $crate::support::run($crate::support::Transport::Tcp, |context| Box::pin(super::$test(context))); })+
        }
    };
}

mod cli;
mod disk;
mod kill;
mod raw;
mod sdk;
mod simulate;
mod support;
