//! All profiles from the handshakes to the last message.

use anyhow::{Context as _, Result};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::capture::Capture;
use super::outcome::Outcome;
use super::progress::Progress;
use super::rig::{Rig, Sent};
use super::scenario::{BREATH, POLL_INTERVAL, SETTLE_MAX, Scenario};
use super::simulated;
use crate::signal;

/// The results of all profiles.
pub(crate) struct Compared {
    /// In the order of the scenario's profiles.
    pub(crate) outcomes: Vec<Outcome>,
    /// When the user ended the comparison, in words, if it is not complete.
    pub(crate) interrupted: Option<String>,
}

/// Runs the scenario, all profiles at the same time, until it is complete or the user has enough.
///
/// # Errors
/// If a handshake or the emulated network fails.
pub(crate) async fn run(scenario: &Scenario, capture: Option<&Capture>) -> Result<Compared> {
    let progress = Progress::new();
    progress.stage("connecting", None);
    let epoch = Instant::now();
    let mut connecting = JoinSet::new();
    for (index, profile) in scenario.profiles.iter().copied().enumerate() {
        let tap = capture.map(|capture| capture.tap(index));
        let mut rig = Rig::build(scenario, profile, epoch, tap).await?;
        let scenario = scenario.clone();
        connecting.spawn(async move { rig.connect(&scenario).await.map(|()| (index, rig)) });
    }
    let mut rigs = Vec::new();
    while let Some(connected) = connecting.join_next().await {
        rigs.push(connected.context("a task failed")??);
    }
    rigs.sort_by_key(|(index, _)| *index);

    let interruption = signal::interruption();
    tokio::pin!(interruption);
    let (stop, stopped) = watch::channel(());
    let start = Instant::now() + BREATH;
    let senders: Vec<JoinSet<Sent>> =
        rigs.iter().map(|(index, rig)| rig.start(scenario, *index, start, &stopped)).collect();
    let mut interrupted = tokio::select! {
        biased;
        () = observe(scenario, &rigs, start, &progress) => None,
        () = &mut interruption => {
            stop.send_replace(());
            Some(format!("after {:.1} s", start.elapsed().as_secs_f64()))
        }
    };
    let mut outcomes = Vec::new();
    for ((_, rig), senders) in rigs.into_iter().zip(senders) {
        let (messages_sent, faults) = count(senders).await?;
        outcomes.push(rig.finish(messages_sent, faults)?);
    }
    // Only now, so that nothing disturbs the measurement.
    if interrupted.is_none() {
        tokio::select! {
            biased;
            simulated = simulated::simulate(scenario, &progress) => {
                for (outcome, simulated) in outcomes.iter_mut().zip(simulated?) {
                    outcome.simulated = simulated;
                }
            }
            () = interruption => interrupted = Some("during the simulation".to_owned()),
        }
    }
    progress.finish();
    Ok(Compared { outcomes, interrupted })
}

/// Returns when every message has arrived and been acknowledged, or when the time for that is over.
async fn observe(scenario: &Scenario, rigs: &[(usize, Rig)], start: Instant, progress: &Progress) {
    let expected = scenario.messages().saturating_mul(rigs.len() as u64);
    let last_sent_at = start + scenario.duration;
    let deadline = last_sent_at + scenario.drain;
    progress.stage("measuring", Some((expected, "messages")));
    let mut was_sending = true;
    loop {
        let delivered: u64 = rigs.iter().map(|(_, rig)| rig.delivered()).sum();
        progress.reached(delivered);
        let now = Instant::now();
        if delivered >= expected || now >= deadline {
            break;
        }
        let is_sending = now < last_sent_at;
        if was_sending && !is_sending {
            progress.stage("waiting for late messages", Some((expected, "messages")));
            progress.reached(delivered);
        }
        was_sending = is_sending;
        progress.left(if is_sending { last_sent_at } else { deadline } - now);
        sleep(POLL_INTERVAL).await;
    }
    let settled_by = deadline.min(Instant::now() + SETTLE_MAX);
    for (_, rig) in rigs {
        rig.settle(settled_by).await;
    }
}

/// How many messages the tasks sent, and what kept them from sending more.
async fn count(mut senders: JoinSet<Sent>) -> Result<(u64, Vec<String>)> {
    let mut messages = 0;
    let mut faults = Vec::new();
    while let Some(sent) = senders.join_next().await {
        let sent = sent.context("a task failed")?;
        messages += sent.messages;
        faults.extend(sent.problem.map(|problem| format!("an association stopped sending: {problem}")));
    }
    Ok((messages, faults))
}
