//! Runs the connections of one thread: one system call waits for all of them, edge-triggered, so that a request costs the
//! client one write, one read and its share of a wait. Nothing lighter would still be a client with a socket.

use super::failure::BenchError;
use super::link::Link;
use super::report::Tally;
use super::session::ANSWER_WAIT;
use rustix::event::{Timespec, epoll};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Events taken from the kernel at a time.
const EVENTS: usize = 256;

/// When a run of one thread begins to count, when it ends, and how fast it may go.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Exchanges that end before are not counted.
    pub count_from: Instant,
    /// No request is started afterwards.
    pub stop_at: Option<Instant>,
    /// Most requests of each connection.
    pub requests_max: Option<u64>,
    /// Time between two requests of one connection; without it the next one follows the reply.
    pub interval: Option<Duration>,
}

struct Seat {
    link: Link,
    started: u64,
    /// When the next request is due.
    due: Instant,
    /// When the request in flight was due.
    was_due: Instant,
    done: bool,
}

/// Wakes the wait for connections when a request is due: the wait's own timeout counts whole milliseconds only, which is
/// too coarse for a pace.
struct Alarm(OwnedFd);

/// What its events carry in the place of the index of a connection.
const ALARM: u64 = u64::MAX;

impl Alarm {
    fn new(poll: &OwnedFd) -> rustix::io::Result<Alarm> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        // Edge-triggered, so that it need not be read: setting it again is enough.
        epoll::add(poll, &timer, epoll::EventData::new_u64(ALARM), epoll::EventFlags::IN | epoll::EventFlags::ET)?;
        Ok(Alarm(timer))
    }

    fn set(&self, wait: Duration) -> rustix::io::Result<()> {
        // Zero would switch it off.
        let it_value = timespec(wait.max(Duration::from_nanos(1)));
        let once = Itimerspec { it_interval: timespec(Duration::ZERO), it_value };
        timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once).map(|_| ())
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs() as i64, tv_nsec: duration.subsec_nanos().into() }
}

/// Runs the links until each has done its part, and tells what they did.
///
/// # Errors
/// The first failure of any connection; silence of all of them for half a minute.
pub fn run(links: Vec<Link>, plan: &Plan) -> Result<Tally, BenchError> {
    let io = |error: rustix::io::Errno| BenchError::io("wait for connections", error.into());
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io)?;
    let alarm = plan.interval.map(|_| Alarm::new(&poll)).transpose().map_err(io)?;
    let begin = Instant::now();
    let mut tally = Tally::new(plan.count_from);
    let count = links.len() as u32;
    let mut seats: Vec<Seat> = Vec::new();
    for (index, link) in links.into_iter().enumerate() {
        let interest = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        epoll::add(&poll, link.fd(), epoll::EventData::new_u64(index as u64), interest).map_err(io)?;
        // Connections with a pace start spread over one interval, so that they do not all send at the same moment.
        let due = begin + plan.interval.unwrap_or_default() * index as u32 / count.max(1);
        seats.push(Seat { link, started: 0, due, was_due: due, done: false });
    }
    let mut events = Vec::with_capacity(EVENTS);
    let mut heard = begin;
    loop {
        let now = Instant::now();
        for seat in seats.iter_mut().filter(|seat| seat.link.is_idle() && !seat.done) {
            start_if_due(seat, plan, now)?;
        }
        if seats.iter().all(|seat| seat.done) {
            return Ok(tally);
        }
        let next_due = seats.iter().filter(|seat| seat.link.is_idle() && !seat.done).map(|seat| seat.due).min();
        if let (Some(alarm), Some(due)) = (&alarm, next_due) {
            alarm.set(due.saturating_duration_since(now)).map_err(io)?;
        }
        events.clear();
        match epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), Some(&timespec(ANSWER_WAIT))) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(io(error)),
        }
        let now = Instant::now();
        if !events.is_empty() {
            heard = now;
        } else if next_due.is_none() && now.duration_since(heard) >= ANSWER_WAIT {
            return Err(BenchError::Silence(ANSWER_WAIT.as_secs()));
        }
        for event in &events {
            let Some(seat) = seats.get_mut(event.data.u64() as usize) else { continue };
            if let Some(exchanged) = seat.link.advance()? {
                let ended = Instant::now();
                tally.count(ended, &exchanged, plan.interval.is_some().then_some(seat.was_due));
                start_if_due(seat, plan, ended)?;
            }
        }
    }
}

/// Starts the next request of an idle connection, or finds that it has done its part.
fn start_if_due(seat: &mut Seat, plan: &Plan, now: Instant) -> Result<(), BenchError> {
    if plan.stop_at.is_some_and(|stop| now >= stop) || plan.requests_max.is_some_and(|max| seat.started >= max) {
        seat.done = true;
        return Ok(());
    }
    if let Some(interval) = plan.interval {
        if now < seat.due {
            return Ok(());
        }
        seat.was_due = seat.due;
        seat.due += interval;
    }
    seat.started += 1;
    seat.link.start(now)
}
