//! Every delivery policy against an SCTP stack that echoes with the policy that a message asks for: `validation/kernel-sctp` runs it against the
//! Linux kernel's.
//!
//! ```text
//! cargo run -p festina --example policies -- ADDRESS LOSS_PERCENT MESSAGES SECONDS_MAX [PART_OF_A_NAME]
//! cargo run -p festina --example policies -- accept LOSS_PERCENT MESSAGES SECONDS_MAX [PART_OF_A_NAME]
//! ```
//!
//! With `accept` the peer connects, to one port for each case. All cases run at once, each with an association of its own. Each prints a line:
//! `RESULT`, then the columns that the first line names. The exit code is 1 if a case failed or took more than `SECONDS_MAX`. `LOSS_PERCENT` is only
//! printed: the caller provides the path.

mod case;
mod conversation;
mod echoes;
mod wire;

use std::process::ExitCode;
use std::time::Duration;

use case::Case;
use conversation::Role;
use tokio::task::JoinSet;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((role, loss, messages, time_max)) = settings(&arguments) else {
        eprintln!("usage: policies IP:PORT|accept LOSS_PERCENT MESSAGES SECONDS_MAX [PART_OF_A_NAME]");
        return ExitCode::from(2);
    };
    let wanted = |case: &Case| arguments.get(4).is_none_or(|part| case.to_string().contains(part));
    let mut running = JoinSet::new();
    for (case, index) in case::all().into_iter().filter(wanted).zip(0..) {
        running.spawn(async move { (case, conversation::hold(case, role, index, messages, time_max).await) });
    }
    let begins = if role == Role::Accepts { "peer" } else { "festina" };
    println!("RESULT,begins,loss_percent,policy,order,framing,resets,profile,{},verdict", conversation::COLUMNS);
    let (mut passed, mut failed) = (0, 0);
    while let Some(ended) = running.join_next().await {
        let (case, outcome) = ended.expect("no case panics");
        let verdict = if outcome.faults.is_empty() { "ok".into() } else { outcome.faults.join("; ") };
        println!("RESULT,{begins},{loss},{case},{},{verdict}", outcome.counts);
        *(if outcome.faults.is_empty() { &mut passed } else { &mut failed }) += 1;
    }
    println!("TOTAL begun by {begins}, loss {loss}%: {passed} passed, {failed} failed");
    ExitCode::from(u8::from(failed > 0))
}

fn settings(arguments: &[String]) -> Option<(Role, &str, u32, Duration)> {
    let [peer, loss, messages, seconds_max] = arguments.get(..4)? else { return None };
    let role = if peer == "accept" { Role::Accepts } else { Role::Connects(peer.parse().ok()?) };
    let time_max = Duration::from_secs(seconds_max.parse().ok()?);
    Some((role, loss, messages.parse().ok()?, time_max))
}
