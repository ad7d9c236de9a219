//! The command line.

use crate::bench;
use crate::config::environment::CONFIG_VARIABLE;
use crate::config::raw::Inputs;
use crate::config::{Config, document};
use crate::simulate;
use clap::{Parser, Subcommand};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

const AFTER_HELP: &str = "\
Examples:
  whippet --dev                          try it out: user iggy, password iggy, this machine only
  whippet --config /etc/whippet.toml     serve as the file says
  WHIPPET_DATA_DIR=/srv/whippet whippet  one setting from the environment, the rest as usual
  whippet --print-config                 what holds, and where each value comes from
  whippet bench produce --duration 10s   how fast is the server on 127.0.0.1:8090?
  whippet simulate --seeds 100           does replication keep its promises?

Settings:
  Every setting has an environment variable: WHIPPET_ and its path in upper case, joined by underscores.
    data_dir            WHIPPET_DATA_DIR           where the data lies               (data)
    tcp.address         WHIPPET_TCP_ADDRESS        for SDKs and their command line   (127.0.0.1:8090)
    http.address        WHIPPET_HTTP_ADDRESS       for REST and JSON                 (127.0.0.1:3000)
    root.username       WHIPPET_ROOT_USERNAME      first user; IGGY_ROOT_USERNAME works too
    root.password       WHIPPET_ROOT_PASSWORD      its password; IGGY_ROOT_PASSWORD works too
    log.level           WHIPPET_LOG_LEVEL          what is logged to standard error  (info)
  The environment wins over the file. All settings: configs/whippet.toml, docs/configuration.md.

Without --dev and without a configured root user, the first start makes up a password and shows it once.
SIGTERM and SIGINT stop the server cleanly within 5 seconds.";

const SIMULATE_HELP: &str = "\
Examples:
  whippet simulate --seeds 200                 200 seeds of small clusters with many faults
  whippet simulate --seed 7 --verbose          one seed: its faults, and the replicas at its end
  whippet simulate --profile wide --seeds 2    1,000 partitions on three nodes

The same seed gives the same run. When a rule is broken, the exit status is 1 and the last lines name the rule, the
seed and the command that repeats the run with the fewest faults. WHIPPET_TRACE=1 prints every frame.";

/// A message-streaming server that speaks the Apache Iggy protocol: producers append batches of messages to the
/// partitions of a topic, consumers poll them by offset, time or stored position.
#[derive(Parser)]
#[command(name = "whippet", version, about, after_help = AFTER_HELP)]
struct Arguments {
    /// Reads settings from this file
    #[arg(long, value_name = "FILE", env = CONFIG_VARIABLE, hide_env_values = true)]
    config: Option<PathBuf>,
    /// For trying things out: root user iggy with password iggy; refuses to listen on anything but loopback
    #[arg(long)]
    dev: bool,
    /// Prints the effective configuration, with the source of each value and without secrets, and ends
    #[arg(long)]
    print_config: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Measures a server that speaks protocol 0.11 over TCP, this one or a compatible one
    Bench(bench::Arguments),
    /// Runs whole clusters with simulated disks, networks and clients from a seed, and looks for broken promises
    #[command(after_help = SIMULATE_HELP)]
    Simulate(simulate::Arguments),
}

/// Runs the program with the arguments and environment of the process.
pub fn run() -> ExitCode {
    let started = Instant::now();
    let arguments = Arguments::parse();
    match arguments.command {
        Some(Command::Bench(command)) => ended(bench::run(&command)),
        Some(Command::Simulate(command)) => ended(simulate::simulate(&command)),
        None => serve(&arguments, started),
    }
}

fn serve(arguments: &Arguments, started: Instant) -> ExitCode {
    let inputs =
        Inputs { dev: arguments.dev, file: arguments.config.clone(), environment: std::env::vars_os().collect() };
    match Config::load(&inputs) {
        Err(refused) => ended(Err(refused)),
        Ok((_, raw)) if arguments.print_config => ended(
            std::io::stdout()
                .write_all(document::effective(&raw).as_bytes())
                .map_err(|error| format!("print the configuration: {error}")),
        ),
        Ok((config, _)) => ended(crate::serve::serve(&config, started)),
    }
}

/// An error becomes a sentence on standard error and exit code 1.
fn ended<E: std::fmt::Display>(result: Result<(), E>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "whippet: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_help_names_settings_that_exist() {
        use crate::config::schema::SETTINGS;
        let variables: Vec<String> = SETTINGS.iter().map(|setting| setting.environment_name()).collect();
        let mut named = 0;
        for word in AFTER_HELP.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.')) {
            if word.starts_with("WHIPPET_") && word != "WHIPPET_" {
                assert!(variables.iter().any(|variable| variable == word), "{word}");
                named += 1;
            }
        }
        assert!(named >= 6);
    }
}
