//! All profiles from the handshakes to the last message.

use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::capture::Capture;
use super::outcome::Outcome;
use super::progress::Progress;
use super::rig::{Rig, Sent};
use super::scenario::Scenario;
use super::simulated;

/// How often it is looked how far things are.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Between the last handshake and the first message.
pub(super) const BREATH: Duration = Duration::from_millis(200);

/// After the last message has arrived, its acknowledgement may still be lost and the message be sent again. That counts,
/// within this time.
pub(super) const SETTLE_MAX: Duration = Duration::from_secs(2);

/// Runs the scenario, all profiles at the same time. The outcomes are in the order of the scenario's profiles.
pub(crate) async fn run(scenario: &Scenario, capture: Option<&Capture>) -> Result<Vec<Outcome>> {
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

    let start = Instant::now() + BREATH;
    let senders: Vec<JoinSet<Sent>> = rigs.iter().map(|(index, rig)| rig.start(scenario, *index, start)).collect();
    watch(scenario, &rigs, start, &progress).await;
    let mut outcomes = Vec::new();
    for ((_, rig), senders) in rigs.into_iter().zip(senders) {
        let (messages_sent, faults) = count(senders).await?;
        outcomes.push(rig.finish(messages_sent, faults)?);
    }
    // Only now, so that nothing disturbs the measurement.
    progress.stage("simulating the same", None);
    for (outcome, simulated) in outcomes.iter_mut().zip(simulated::simulate(scenario).await?) {
        outcome.simulated = simulated;
    }
    progress.finish();
    Ok(outcomes)
}

/// Returns when every message has arrived and been acknowledged, or when the time for that is over.
async fn watch(scenario: &Scenario, rigs: &[(usize, Rig)], start: Instant, progress: &Progress) {
    let expected = scenario.messages().saturating_mul(rigs.len() as u64);
    let last_sent_at = start + scenario.duration;
    let deadline = last_sent_at + scenario.drain;
    progress.stage("measuring", Some(expected));
    loop {
        let delivered: u64 = rigs.iter().map(|(_, rig)| rig.delivered()).sum();
        progress.reached(delivered);
        let now = Instant::now();
        if delivered >= expected || now >= deadline {
            break;
        }
        if now >= last_sent_at {
            progress.stage("waiting for the last messages", Some(expected));
        }
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
