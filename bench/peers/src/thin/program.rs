//! pion, which is written in Go: the program `pion-thin` has both ends and the path in the virtual clock of `testing/synctest`. It loses
//! the packets that the in-process stacks lose, and reports the delay of each message.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use festina_units::Probability;
use serde::{Deserialize, Serialize};

use super::task::{HEADER_BYTES, Outcome, Scale, Task, nanos, phase};
use crate::measure::{Pipe, Wire};
use crate::programs;

/// pion's settings; `None` for its default.
#[derive(Clone, Copy, Debug, Default)]
pub struct PionSettings {
    /// The longest RTO, also of the handshake. pion's RTO is at least a second otherwise.
    pub rto_max: Option<Duration>,
    /// The peer's delay of acknowledgements, for which the tail loss probe waits; 200 ms by default.
    pub delayed_ack: Option<Duration>,
}

/// Packets of a connection with a random fate, per direction: more than any setting sends.
const FATES_PER_MESSAGE: u64 = 8;
const FATES_MIN: u64 = 256;

#[derive(Serialize)]
struct Plan {
    round_trip_ns: u64,
    interval_ns: u64,
    messages: u64,
    offset_ns: u64,
    lost: [String; 2],
    rto_max_ms: f64,
    delayed_ack_ns: u64,
}

#[derive(Deserialize)]
struct Answer {
    packets: [u64; 2],
    bytes: [u64; 2],
    /// -1 for a message that never arrived.
    delays_ns: Vec<i64>,
    failure: String,
}

/// Lets pion do a task.
#[must_use]
pub(super) fn run(settings: PionSettings, task: Task, scale: Scale) -> Outcome {
    let mut outcome = Outcome::default();
    let done = Program::start().and_then(|mut program| {
        let connections = if task.interval.is_some() { scale.connections } else { scale.first_messages };
        for seed in 1..=connections {
            add(&mut outcome, program.ask(&plan(settings, task, scale, seed))?);
        }
        Ok(())
    });
    outcome.failures.extend(done.err());
    outcome
}

fn plan(settings: PionSettings, task: Task, scale: Scale, seed: u64) -> Plan {
    let delay = task.round_trip / 2;
    let wire = Wire { delay, loss: Probability::from_percent(task.loss_percent), ..Wire::default() };
    let messages = task.interval.map_or(1, |_| scale.messages);
    let fates = messages * FATES_PER_MESSAGE + FATES_MIN;
    let lost = ["there", "back"].map(|name| {
        let mut pipe = Pipe::new(delay, seed, name);
        pipe.impair(wire);
        (0..fates).map(|_| if pipe.loses_next() { '1' } else { '0' }).collect()
    });
    Plan {
        round_trip_ns: nanos(task.round_trip),
        interval_ns: nanos(task.interval.unwrap_or_default()),
        messages,
        offset_ns: nanos(task.interval.unwrap_or_default().mul_f64(phase(seed))),
        lost,
        rto_max_ms: settings.rto_max.map_or(0.0, |rto| rto.as_secs_f64() * 1e3),
        delayed_ack_ns: nanos(settings.delayed_ack.unwrap_or_default()),
    }
}

fn add(outcome: &mut Outcome, answer: Answer) {
    let Answer { packets, bytes, delays_ns, failure } = answer;
    outcome.messages += delays_ns.len() as u64;
    outcome.delays.extend(delays_ns.iter().map(|&ns| u64::try_from(ns).ok().map(Duration::from_nanos)));
    for way in 0..2 {
        outcome.packets[way] += packets[way];
        outcome.bytes[way] += bytes[way] + packets[way] * HEADER_BYTES;
    }
    if !failure.is_empty() {
        outcome.failures.push(failure);
    }
}

/// The running program. It ends when its input does.
struct Program {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Program {
    fn start() -> Result<Self, String> {
        let path = programs::folder("pion")?.join("pion-thin");
        // Goroutines on one core take turns in an order that varies less.
        let mut command = Command::new(&path);
        command.env("GOMAXPROCS", "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("{}: {error}", path.display()))?;
        let output = BufReader::new(child.stdout.take().expect("its output is piped")).lines();
        Ok(Program { input: child.stdin.take(), child, output })
    }

    fn ask(&mut self, plan: &Plan) -> Result<Answer, String> {
        let line = serde_json::to_string(plan).map_err(|error| error.to_string())? + "\n";
        let input = self.input.as_mut().expect("it is open until the end");
        input.write_all(line.as_bytes()).map_err(|error| format!("pion-thin ended: {error}"))?;
        let answer = self.output.next().ok_or("pion-thin ended")?.map_err(|error| error.to_string())?;
        serde_json::from_str(&answer).map_err(|error| format!("pion-thin wrote: {answer}: {error}"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.input.take());
        // After a failure it may be in the middle of a connection.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
