//! Every delivery policy against an SCTP stack that echoes with the policy that a message asks for: `validation/kernel-sctp` runs it
//! against the Linux kernel's.
//!
//! ```text
//! cargo run -p festina --example policies -- ADDRESS LOSS_PERCENT MESSAGES SECONDS_MAX [PART_OF_A_NAME]
//! ```
//!
//! All cases run at once, each with an association of its own, and print a line each: `RESULT`, then what the first line names.
//! The exit code is 1 if one has failed, for which any case that takes more than `SECONDS_MAX` counts. `LOSS_PERCENT` is only printed: the
//! path is the caller's.

mod case;
mod conversation;
mod echoes;
mod wire;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use case::Case;
use tokio::task::JoinSet;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((address, loss, messages, time_max)) = settings(&arguments) else {
        eprintln!("usage: policies IP:PORT LOSS_PERCENT MESSAGES SECONDS_MAX [PART_OF_A_NAME]");
        return ExitCode::from(2);
    };
    let wanted = |case: &Case| arguments.get(4).is_none_or(|part| case.to_string().contains(part));
    let mut running = JoinSet::new();
    for (case, local_port) in case::all().into_iter().filter(wanted).zip(10_000..) {
        running.spawn(async move { (case, conversation::hold(case, address, local_port, messages, time_max).await) });
    }
    println!("RESULT,loss_percent,policy,order,framing,resets,profile,{},verdict", conversation::COLUMNS);
    let (mut passed, mut failed) = (0, 0);
    while let Some(ended) = running.join_next().await {
        let (case, outcome) = ended.expect("no case panics");
        let verdict = if outcome.faults.is_empty() { "ok".into() } else { outcome.faults.join("; ") };
        println!("RESULT,{loss},{case},{},{verdict}", outcome.counts);
        *(if outcome.faults.is_empty() { &mut passed } else { &mut failed }) += 1;
    }
    println!("TOTAL loss {loss}%: {passed} passed, {failed} failed");
    ExitCode::from(u8::from(failed > 0))
}

fn settings(arguments: &[String]) -> Option<(SocketAddr, &str, u32, Duration)> {
    let [address, loss, messages, seconds_max] = arguments.get(..4)? else { return None };
    let time_max = Duration::from_secs(seconds_max.parse().ok()?);
    Some((address.parse().ok()?, loss, messages.parse().ok()?, time_max))
}
