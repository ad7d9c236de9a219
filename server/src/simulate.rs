//! `whippet simulate`: whole clusters from a seed, for anyone who has the program.

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeSet;
use std::io::Write;
use std::time::Instant;
use whippet_simulator::{Counters, Outcome, Profile, Scale, run, shrink};

/// Partitions of a wide run.
const WIDE: u32 = 1000;
/// Runs that the search for the fewest faults may take.
const SHRINK_RUNS: u32 = 200;

/// Few groups and many faults, or many groups and few faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ProfileName {
    /// 1 to 4 partitions; everything wraps and evicts soon
    Deep,
    /// 1,000 partitions on three nodes
    Wide,
}

/// Arguments of `whippet simulate`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The seed, or the first of several
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds, one after the other
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Shape of the runs
    #[arg(long, value_enum, default_value = "deep")]
    profile: ProfileName,
    /// Leaves these faults out, by number; as a failed run prints them
    #[arg(long, value_delimiter = ',', value_name = "FAULT,…")]
    without: Vec<u32>,
    /// Prints the faults of the run and the replicas at its end
    #[arg(long)]
    verbose: bool,
}

/// Why it ended with an error.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// A rule does not hold; the report has been printed.
    #[error("a rule was broken; see the lines before")]
    Broken,
    /// The report could not be printed.
    #[error("print: {0}")]
    Print(#[from] std::io::Error),
}

/// Runs the seeds; standard output gets the report, standard error the progress.
///
/// # Errors
/// [`SimulateError`].
pub fn simulate(arguments: &Arguments) -> Result<(), SimulateError> {
    let scale = match arguments.profile {
        ProfileName::Deep => Scale::Deep,
        ProfileName::Wide => Scale::Wide(WIDE),
    };
    let without: BTreeSet<u32> = arguments.without.iter().copied().collect();
    let mut out = std::io::stdout().lock();
    let bar = progress(arguments.seeds);
    let started = Instant::now();
    let (mut total, mut virtual_ns) = (Counters::default(), 0);
    // A broken rule may be a broken assertion; it is reported like any other.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut broken = None;
    for seed in arguments.seed..arguments.seed.saturating_add(arguments.seeds) {
        let outcome = run(seed, &Profile::draw(seed, scale), &without);
        total.add(&outcome.counters);
        virtual_ns += outcome.time_ns;
        bar.inc(1);
        if arguments.verbose {
            bar.suspend(|| describe(&mut out, seed, &outcome))?;
        }
        if outcome.violation.is_some() {
            broken = Some(seed);
            break;
        }
    }
    bar.finish_and_clear();
    if let Some(seed) = broken {
        let (left_out, outcome) = shrink(seed, &Profile::draw(seed, scale), SHRINK_RUNS);
        std::panic::set_hook(hook);
        return report(&mut out, arguments, seed, &left_out, &outcome);
    }
    std::panic::set_hook(hook);
    let Counters {
        views,
        kills,
        power_losses,
        fetches,
        snapshots,
        purges,
        answered,
        repeated,
        messages,
        frames,
        lost,
        ..
    } = total;
    writeln!(
        out,
        "{} seeds from {} ({:?}): no rule broken\n\
         {:.1} s of {:.1} min virtual time, {} faults, {kills} kills, {power_losses} power losses\n\
         {views} view changes, {fetches} repairs, {snapshots} parts of snapshots, {purges} purges, {frames} frames, {lost} of them lost\n\
         {answered} requests answered, {repeated} repeated, {messages} messages compared on every replica",
        arguments.seeds,
        arguments.seed,
        arguments.profile,
        started.elapsed().as_secs_f64(),
        virtual_ns as f64 / 60e9,
        total.faults,
    )?;
    Ok(())
}

fn progress(seeds: u64) -> ProgressBar {
    if seeds < 2 {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} seeds, {per_sec}, {eta} left");
    ProgressBar::new(seeds).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn describe(out: &mut impl Write, seed: u64, outcome: &Outcome) -> std::io::Result<()> {
    writeln!(
        out,
        "seed {seed}: trace {:016x}, {:.1} s virtual, at rest {} ms after the last fault",
        outcome.trace_hash,
        outcome.time_ns as f64 / 1e9,
        outcome.rest_ns / 1_000_000
    )?;
    for fault in &outcome.faults {
        writeln!(out, "  {fault}")?;
    }
    writeln!(out, "{}", outcome.status)
}

fn report(
    out: &mut impl Write,
    arguments: &Arguments,
    seed: u64,
    left_out: &BTreeSet<u32>,
    outcome: &Outcome,
) -> Result<(), SimulateError> {
    writeln!(out, "fewest faults with which it still happens:")?;
    for fault in outcome.faults.iter().filter(|fault| !left_out.contains(&fault.id)) {
        writeln!(out, "  {fault}")?;
    }
    writeln!(out, "{}", outcome.status)?;
    let list: Vec<String> = left_out.iter().map(ToString::to_string).collect();
    let without = if list.is_empty() { String::new() } else { format!(" --without {}", list.join(",")) };
    let profile = if arguments.profile == ProfileName::Deep { "deep" } else { "wide" };
    match &outcome.violation {
        Some(violation) => writeln!(out, "broken: {violation}")?,
        None => writeln!(out, "broken, but not a second time: the run is not deterministic")?,
    }
    writeln!(out, "seed: {seed}")?;
    writeln!(out, "replay: whippet simulate --seed {seed} --profile {profile}{without} --verbose")?;
    Err(SimulateError::Broken)
}
