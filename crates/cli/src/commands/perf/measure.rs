//! The client: a thin stream, alone at first, and then under load.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use festina::{Association, Endpoint, Message, SendError, SendErrorKind};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::hello::{self, Hello};
use super::plan::{Measured, Plan, THIN_BYTES, THIN_INTERVAL};
use super::report;
use super::tally::{Phase, Tally};
use crate::commands::recording::Recording;
use crate::commands::{ViaArgs, next_message, say_goodbye};
use crate::dial::Dialer;
use crate::{keys, output, signal};

/// How long messages of the thin stream that are still under way at the end are waited for.
const THIN_PATIENCE: Duration = Duration::from_secs(2);
/// The server sends a little longer than it is measured, so that the load does not end first.
const DOWNLOAD_MARGIN: Duration = Duration::from_secs(5);

/// Measures until the time is over or the user has enough.
pub(super) async fn run(
    plan: &Plan,
    addresses: Vec<SocketAddr>,
    (client, own): (keys::Client, ViaArgs),
    recording: &Recording,
) -> Result<Measured> {
    let tally = Arc::new(Tally::default());
    let ways = Ways { addresses, client, own, recording, endpoints: Vec::new() };
    let mut client = Client { plan, ways, tally, thin: None, load: [Vec::new(), Vec::new()], tasks: JoinSet::new() };
    let mut began_at = None;
    let (ended, patience) = tokio::select! {
        ended = client.measure(&mut began_at) => (ended, plan.patience),
        () = signal::interrupted() => (Ok(()), plan.patience.min(THIN_PATIENCE)),
    };
    let is_whole = began_at.is_some_and(|began_at| began_at.elapsed() >= plan.time);
    let loaded_for = began_at.map_or(Duration::ZERO, |began_at| began_at.elapsed());
    let bytes = client.tally.bytes();
    let ended = match ended {
        Ok(()) if loaded_for > Duration::ZERO => client.hear_from_all(patience).await,
        ended => ended,
    };
    client.tally.enter(Phase::Over);
    let retransmissions = client.load.iter().flatten().map(|load| load.stats().sent.retransmitted.total()).sum();
    client.load.iter().flatten().for_each(|load| load.abort("the measurement is over"));
    if ended.is_ok() && loaded_for > Duration::ZERO {
        client.wait_for_thin().await;
    }
    client.tasks.shutdown().await;
    let remote = client.ways.remote()?;
    client.ways.leave().await;
    ended?;
    Ok(Measured { remote, loaded_for, is_whole, bytes, retransmissions, thin: client.tally.streams() })
}

/// How associations come to the server: each from a UDP port of its own, as the connections of other programs do. A router that has a
/// queue for each flow thus keeps the thin stream apart from the load.
struct Ways<'a> {
    /// The server's; from the first association on the one that has answered.
    addresses: Vec<SocketAddr>,
    client: keys::Client,
    own: ViaArgs,
    recording: &'a Recording,
    endpoints: Vec<Endpoint>,
}

impl Ways<'_> {
    async fn connect(&mut self) -> Result<Association> {
        let dialer = Dialer::new(self.client.clone()).via(&self.own.via);
        let dialled = dialer.connect(&self.addresses, |endpoint| self.recording.watch(endpoint)).await;
        self.endpoints.extend(dialer.endpoints());
        let (_, association) = dialled?;
        self.addresses = vec![association.remote_addr()];
        Ok(association)
    }

    fn remote(&self) -> Result<SocketAddr> {
        self.addresses.first().copied().ok_or_else(|| anyhow!("the server has no address"))
    }

    /// Closes all at the same time.
    async fn leave(self) {
        let leaving = self.endpoints.into_iter().map(|endpoint| async move { say_goodbye(&endpoint).await });
        leaving.collect::<JoinSet<()>>().join_all().await;
    }
}

struct Client<'a> {
    plan: &'a Plan,
    ways: Ways<'a>,
    tally: Arc<Tally>,
    /// The association of the thin stream.
    thin: Option<Association>,
    /// The associations of the load, first those that send, then those that receive.
    load: [Vec<Association>; 2],
    /// They end by failing only.
    tasks: JoinSet<anyhow::Error>,
}

impl Client<'_> {
    async fn measure(&mut self, began_at: &mut Option<Instant>) -> Result<()> {
        let plan = self.plan;
        let thin = self.ways.connect().await?;
        thin.send(Message::new(Hello::Echo.encode())).await?;
        self.thin = Some(thin.clone());
        self.tasks.spawn(ping(thin, self.tally.clone()));
        self.wait_until(Instant::now() + plan.idle).await?;
        self.wait_for_first_echo().await?;
        // All associations are there before any of them loads the path.
        for _ in 0..plan.parallel {
            if plan.upload {
                let association = self.ways.connect().await?;
                self.load[0].push(association);
            }
            if plan.download {
                let association = self.ways.connect().await?;
                self.load[1].push(association);
            }
        }
        self.tally.enter(Phase::Loaded);
        self.begin_load().await?;
        let start = *began_at.insert(Instant::now());
        let end = start + plan.time;
        let mut shown = (start, self.tally.bytes());
        while let Some(interval) = plan.interval.filter(|interval| shown.0 + *interval <= end) {
            let until = shown.0 + interval;
            self.wait_until(until).await?;
            let bytes = self.tally.bytes();
            let line = report::interval_line([shown.0 - start, until - start], [shown.1, bytes], &self.tally);
            output::notice(&line);
            shown = (until, bytes);
        }
        self.wait_until(end).await
    }

    async fn begin_load(&mut self) -> Result<()> {
        let (message_bytes, time) = (self.plan.message_bytes, self.plan.time + DOWNLOAD_MARGIN);
        let [uploads, downloads] = self.load.clone();
        for association in uploads {
            association.send(Message::new(Hello::Upload.encode())).await?;
            self.tasks.spawn(upload(association, message_bytes, self.tally.clone()));
        }
        for association in downloads {
            association.send(Message::new(Hello::Download { message_bytes, time }.encode())).await?;
            self.tasks.spawn(download(association, message_bytes, self.tally.clone()));
        }
        Ok(())
    }

    /// Waits until something of the thin stream has come back: a peer that does not echo it is no server of this kind and gets no load.
    async fn wait_for_first_echo(&mut self) -> Result<()> {
        let end = Instant::now() + self.plan.patience;
        while self.tally.streams()[0].times.count() == 0 {
            if Instant::now() >= end {
                bail!("{} sends nothing back; does `festina perf -s` run there?", self.ways.remote()?);
            }
            self.wait_until(Instant::now() + THIN_INTERVAL / 2).await?;
        }
        Ok(())
    }

    /// Waits until then.
    ///
    /// # Errors
    /// When an association ends before.
    async fn wait_until(&mut self, then: Instant) -> Result<()> {
        tokio::select! {
            () = sleep_until(then) => Ok(()),
            Some(failed) = self.tasks.join_next() => Err(failed.unwrap_or_else(anyhow::Error::from)),
        }
    }

    /// Waits until each association has received one more packet, while thin stream and load continue. A server that has died, or an association
    /// whose path has gone dark, would otherwise look fast: only the messages before its end have times.
    ///
    /// # Errors
    /// If one receives nothing for this long, or ends.
    async fn hear_from_all(&mut self, patience: Duration) -> Result<()> {
        let all: Vec<Association> = self.thin.iter().chain(self.load.iter().flatten()).cloned().collect();
        let received = |association: &Association| association.stats().received.packets;
        let before: Vec<u64> = all.iter().map(received).collect();
        let end = Instant::now() + patience;
        while all.iter().zip(&before).any(|(association, before)| received(association) == *before) {
            if Instant::now() >= end {
                let [_, loaded] = self.tally.streams();
                let (remote, sent, missing) = (self.ways.remote()?, loaded.sent, loaded.missing());
                bail!(
                    "{remote} stopped answering before the end: {missing} of {sent} messages of the thin stream under load did not come back"
                );
            }
            self.wait_until(Instant::now() + THIN_INTERVAL / 2).await?;
        }
        Ok(())
    }

    /// Gives messages of the thin stream that are under way the time to come back.
    async fn wait_for_thin(&self) {
        let end = Instant::now() + THIN_PATIENCE;
        let is_complete = || self.tally.streams().iter().all(|stream| stream.missing() == 0);
        while Instant::now() < end && !is_complete() {
            tokio::time::sleep(THIN_INTERVAL / 2).await;
        }
    }
}

/// The error for an answer that no server of this kind sends. One that sends everything back returns the request first.
fn foreign(association: &Association) -> anyhow::Error {
    anyhow!("there is no `festina perf -s` at {}: its answer is of another kind", association.remote_addr())
}

/// Sends the thin stream, and measures until each message comes back.
async fn ping(association: Association, tally: Arc<Tally>) -> anyhow::Error {
    let mut under_way: Vec<Option<(Instant, Phase)>> = Vec::new();
    let mut ticks = interval(THIN_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                let Some(phase) = tally.thin_sent() else { continue };
                let mut payload = BytesMut::with_capacity(THIN_BYTES);
                payload.put_u64(under_way.len() as u64);
                payload.resize(THIN_BYTES, 0);
                under_way.push(Some((Instant::now(), phase)));
                // A message without room in the send buffer counts as missing: to wait here would keep echoes from being read.
                match association.try_send(Message::new(payload.freeze())) {
                    Ok(_) | Err(SendError { kind: SendErrorKind::BufferFull, .. }) => {}
                    Err(error) => return error.into(),
                }
            }
            message = next_message(&association) => match message {
                Ok(message) if message.payload().len() != THIN_BYTES => return foreign(&association),
                Ok(message) => {
                    let number = message.payload().clone().try_get_u64().ok().and_then(|number| usize::try_from(number).ok());
                    let sent = number.and_then(|number| under_way.get_mut(number)).and_then(Option::take);
                    if let Some((sent_at, phase)) = sent {
                        tally.thin_returned(phase, sent_at.elapsed());
                    }
                }
                Err(reason) => return anyhow!("the thin stream: {reason}"),
            },
        }
    }
}

/// Sends as much as the path takes, and counts what the server says has arrived.
async fn upload(association: Association, message_bytes: u32, tally: Arc<Tally>) -> anyhow::Error {
    let payload = Bytes::from(vec![0; usize::try_from(message_bytes).unwrap_or_default()]);
    let offered = AtomicU64::new(0);
    let sending = async {
        loop {
            // The first bytes of a message may arrive before the send buffer has taken the last ones.
            offered.fetch_add(u64::from(message_bytes), Ordering::Relaxed);
            if let Err(error) = association.send(Message::new(payload.clone())).await {
                return anyhow::Error::from(error);
            }
        }
    };
    let counting = async {
        let mut counted = 0;
        loop {
            match next_message(&association).await {
                Ok(message) => {
                    let possible = counted..=offered.load(Ordering::Relaxed);
                    let Some(arrived) = hello::arrived(message.into_payload(), possible) else {
                        return foreign(&association);
                    };
                    tally.arrived_there(arrived - counted);
                    counted = arrived;
                }
                Err(reason) => return anyhow!("the load: {reason}"),
            }
        }
    };
    tokio::select! {
        failed = sending => failed,
        failed = counting => failed,
    }
}

/// Counts what the server sends.
async fn download(association: Association, message_bytes: u32, tally: Arc<Tally>) -> anyhow::Error {
    loop {
        match next_message(&association).await {
            Ok(message) if message.payload().len() as u64 != u64::from(message_bytes) => return foreign(&association),
            Ok(message) => tally.arrived_back(message.payload().len() as u64),
            Err(reason) => return anyhow!("the load: {reason}"),
        }
    }
}
