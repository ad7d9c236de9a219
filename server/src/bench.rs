//! `whippet bench`: a load driver for any server that speaks protocol 0.11 over TCP, this one or a compatible one.
//!
//! One request is in flight on each connection, as with the official tools. Batches and their checksums are prepared
//! before the run, so that the client's work does not hide the server's. Figures of two servers are comparable when they
//! come from one machine in alternating runs; report the ratio.

mod body;
mod driver;
mod failure;
mod link;
mod report;
mod server_process;
mod session;
mod workload;

pub use failure::BenchError;

use driver::Plan;
use link::Link;
use report::{Report, Tally};
use server_process::Usage;
use session::{Session, is_already_there};
use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};
use whippet_metadata::options::quantity;
use whippet_protocol::Command as Wire;
use whippet_protocol::limits::{BATCH_HEADER_SIZE, FRAME_HEADER_SIZE, FRAME_SIZE_MAX, MESSAGE_HEADER_SIZE};
use workload::{Consume, Produce, Target, Workload};

/// Name of the topic in each stream.
const TOPIC: &str = "bench";
/// How long a run lasts when neither time nor amount is given.
const DURATION_DEFAULT: Duration = Duration::from_secs(10);

const AFTER_HELP: &str = "\
Examples:
  whippet bench produce --producers 4 --streams 4 --duration 10s --pid $(pidof whippet)
  whippet bench produce --rate 200MB/s --total-bytes 2GB
  whippet bench consume --consumers 4 --streams 4
  whippet bench small --json --cleanup

Streams bench-1, bench-2, … are made when they are missing, and stay unless --cleanup is given.";

/// `whippet bench …`
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP, arg_required_else_help = true)]
pub struct Arguments {
    #[command(subcommand)]
    scenario: Scenario,
}

#[derive(Debug, clap::Subcommand)]
enum Scenario {
    /// Sends batches of messages
    Produce(ProduceArguments),
    /// Polls messages that `produce` has left, by offset, from the start of each partition to its end, and again
    Consume(ConsumeArguments),
    /// Sends single small messages over many connections: requests a second instead of bytes a second
    Small(SmallArguments),
}

#[derive(Debug, clap::Args)]
struct ProduceArguments {
    /// Connections; each sends to one partition
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    producers: u32,
    /// Messages a request
    #[arg(long, default_value_t = 250, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    messages_per_batch: u32,
    /// Payload bytes of a message
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=60_000_000))]
    message_size: u32,
    /// Ends after this much payload, all connections together, such as 4GB
    #[arg(long, value_parser = size)]
    total_bytes: Option<u64>,
    /// Keeps to this pace, all connections together, such as 200MB/s
    #[arg(long, value_parser = rate)]
    rate: Option<u64>,
    #[command(flatten)]
    run: RunArguments,
}

#[derive(Debug, clap::Args)]
struct ConsumeArguments {
    /// Connections; each polls one partition
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    consumers: u32,
    /// Most messages a request
    #[arg(long, default_value_t = 250, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    messages_per_batch: u32,
    #[command(flatten)]
    run: RunArguments,
}

#[derive(Debug, clap::Args)]
struct SmallArguments {
    /// Connections; each sends to one partition
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    producers: u32,
    /// Payload bytes of a message
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=60_000_000))]
    message_size: u32,
    #[command(flatten)]
    run: RunArguments,
}

#[derive(Clone, Debug, clap::Args)]
struct RunArguments {
    /// The server: host and port of its TCP listener
    #[arg(long, default_value = "127.0.0.1:8090")]
    address: String,
    /// User name
    #[arg(long, default_value = "iggy")]
    username: String,
    /// Password
    #[arg(long, default_value = "iggy", env = "IGGY_ROOT_PASSWORD", hide_env_values = true)]
    password: String,
    /// Streams that the connections are spread over
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    streams: u32,
    /// Partitions of the topic in each stream
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    partitions: u32,
    /// Durability of topics that are made: replicated or persisted; the server's default when absent
    #[arg(long, value_parser = ["replicated", "persisted"])]
    durability: Option<String>,
    /// Ends after this time, such as 10s
    #[arg(long, value_parser = duration)]
    duration: Option<Duration>,
    /// Runs this long before counting begins
    #[arg(long, value_parser = duration, default_value = "0s")]
    warmup: Duration,
    /// Threads of the client
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    threads: u32,
    /// Process of the server on this machine, for its processor time and memory
    #[arg(long)]
    pid: Option<u32>,
    /// Deletes the streams afterwards
    #[arg(long)]
    cleanup: bool,
    /// Prints one JSON object instead of text
    #[arg(long)]
    json: bool,
}

fn size(text: &str) -> Result<u64, String> {
    quantity::byte_size(text).map_err(|error| error.to_string()).and_then(positive)
}

fn rate(text: &str) -> Result<u64, String> {
    size(text.strip_suffix("/s").unwrap_or(text))
}

fn positive(number: u64) -> Result<u64, String> {
    if number == 0 { Err("must be more than 0".to_owned()) } else { Ok(number) }
}

fn duration(text: &str) -> Result<Duration, String> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("a unit is missing, as in `10s`".to_owned());
    }
    quantity::duration_us(text).map(Duration::from_micros).map_err(|error| error.to_string())
}

/// What the scenarios have in common.
struct Job<'a> {
    run: &'a RunArguments,
    title: String,
    connections: u32,
    messages: u32,
    /// Payload bytes of a message; `None` for consumers.
    message_size: Option<u32>,
    total_bytes: Option<u64>,
    rate: Option<u64>,
}

/// Runs a benchmark and prints its report on standard output.
///
/// # Errors
/// What ended it early.
pub fn run(arguments: &Arguments) -> Result<(), BenchError> {
    let job = match &arguments.scenario {
        Scenario::Produce(produce) => Job {
            run: &produce.run,
            title: format!(
                "{} producers, {} × {} B a batch",
                produce.producers, produce.messages_per_batch, produce.message_size
            ),
            connections: produce.producers,
            messages: produce.messages_per_batch,
            message_size: Some(produce.message_size),
            total_bytes: produce.total_bytes,
            rate: produce.rate,
        },
        Scenario::Consume(consume) => Job {
            run: &consume.run,
            title: format!("{} consumers, up to {} messages a poll", consume.consumers, consume.messages_per_batch),
            connections: consume.consumers,
            messages: consume.messages_per_batch,
            message_size: None,
            total_bytes: None,
            rate: None,
        },
        Scenario::Small(small) => Job {
            run: &small.run,
            title: format!("{} producers, 1 × {} B a request", small.producers, small.message_size),
            connections: small.producers,
            messages: 1,
            message_size: Some(small.message_size),
            total_bytes: None,
            rate: None,
        },
    };
    let report = job.measure()?;
    let text = if job.run.json { report.json() } else { report.text() };
    std::io::stdout().write_all(text.as_bytes()).map_err(|error| BenchError::io("print the report", error))
}

impl Job<'_> {
    fn measure(&self) -> Result<Report, BenchError> {
        self.check()?;
        let address = resolve(&self.run.address)?;
        let open = || Session::open(address, &self.run.username, &self.run.password);
        let mut control = open()?;
        if self.message_size.is_some() {
            self.prepare(&mut control)?;
        }
        let links = (0..self.connections).map(|index| self.link(index, open()?)).collect::<Result<Vec<_>, _>>()?;
        let measured = self.drive(links);
        if self.run.cleanup {
            for stream in 1..=self.run.streams {
                control.replicated(Wire::DeleteStream, &body::stream(&stream_name(stream)))?;
            }
        }
        let (tally, server) = measured?;
        let (streams, partitions) = (self.run.streams, self.run.partitions);
        let title = format!("{}, {streams} streams × {partitions} partitions, tcp {address}", self.title);
        Ok(Report { title, tally, rate: self.rate, server })
    }

    fn check(&self) -> Result<(), BenchError> {
        let Some(message_size) = self.message_size else { return Ok(()) };
        let messages = self.messages as usize * (MESSAGE_HEADER_SIZE + message_size as usize);
        // Stream and topic names take less than this.
        let frame = FRAME_HEADER_SIZE + BATCH_HEADER_SIZE + 1024 + messages;
        if frame > FRAME_SIZE_MAX {
            let batch = self.messages;
            return Err(BenchError::Arguments(format!(
                "{batch} messages of {message_size} B make a frame of {frame} bytes, more than {FRAME_SIZE_MAX}; take smaller batches"
            )));
        }
        Ok(())
    }

    /// Makes streams and topics that are missing.
    fn prepare(&self, control: &mut Session) -> Result<(), BenchError> {
        let options: Vec<_> = self.run.durability.iter().map(|value| ("durability", value.as_str())).collect();
        for stream in 1..=self.run.streams {
            let name = stream_name(stream);
            for (command, body) in [
                (Wire::CreateStream, body::create_stream(&name)),
                (Wire::CreateTopic, body::create_topic(&name, TOPIC, self.run.partitions, &options)),
            ] {
                match control.replicated(command, &body) {
                    Err(error) if !is_already_there(&error) => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn link(&self, index: u32, session: Session) -> Result<Link, BenchError> {
        let (streams, partitions) = (self.run.streams, self.run.partitions);
        let target = Target {
            stream: stream_name(index % streams + 1),
            topic: TOPIC.to_owned(),
            partition: index / streams % partitions,
            messages: self.messages,
            message_size: self.message_size.unwrap_or(0) as usize,
        };
        let workload = match self.message_size {
            Some(_) => Workload::Produce(Produce::new(&session, &target)),
            None => Workload::Consume(Consume::new(&session, &target)),
        };
        Link::new(session, workload)
    }

    fn drive(&self, links: Vec<Link>) -> Result<(Tally, Option<(Usage, Usage)>), BenchError> {
        let payload = u64::from(self.messages) * u64::from(self.message_size.unwrap_or(0));
        let connections = u64::from(self.connections);
        let requests_max = self.total_bytes.map(|total| total.div_ceil(payload.saturating_mul(connections).max(1)));
        let duration = self.run.duration.or(requests_max.is_none().then_some(DURATION_DEFAULT));
        let interval = self.rate.map(|rate| Duration::from_secs_f64(payload as f64 * connections as f64 / rate as f64));
        let begin = Instant::now();
        let count_from = begin + self.run.warmup;
        let plan = Plan { count_from, stop_at: duration.map(|duration| count_from + duration), requests_max, interval };

        let mut hands: Vec<Vec<Link>> = (0..self.run.threads).map(|_| Vec::new()).collect();
        for (index, link) in links.into_iter().enumerate() {
            let hand = index % hands.len();
            hands[hand].push(link);
        }
        std::thread::scope(|scope| {
            let threads: Vec<_> = hands
                .into_iter()
                .filter(|hand| !hand.is_empty())
                .map(|hand| scope.spawn(move || driver::run(hand, &plan)))
                .collect();
            std::thread::sleep(count_from.saturating_duration_since(Instant::now()));
            let before = self.run.pid.map(Usage::of).transpose();
            let mut tally = Tally::new(count_from);
            for thread in threads {
                let part = thread.join().map_err(|_| BenchError::Protocol("a thread of the client panicked"))??;
                tally.add(&part)?;
            }
            let after = self.run.pid.map(Usage::of).transpose();
            Ok((tally, before?.zip(after?)))
        })
    }
}

fn stream_name(number: u32) -> String {
    format!("bench-{number}")
}

fn resolve(address: &str) -> Result<SocketAddr, BenchError> {
    let mut found = address
        .to_socket_addrs()
        .map_err(|error| BenchError::io(format!("look up {address} (host and port are wanted)"), error))?;
    found.next().ok_or_else(|| BenchError::Arguments(format!("{address} has no address")))
}

#[cfg(test)]
mod tests;
