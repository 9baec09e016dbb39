//! One profile's endpoints and network.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use festina::{Association, ClientConfig, DEFAULT_SCTP_PORT, Endpoint, Listener, Message, ServerConfig};
use festina_emulate::{ProxyCounters, RunningProxy, Tap, UdpProxy};
use festina_sctp::Profile;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::outcome::Outcome;
use super::recorder::{HEADER_BYTES, Recorder, WARM_UP};
use super::scenario::{HANDSHAKE_MAX, HANDSHAKE_SPACING, Scenario};
use super::totals::{Cost, SentTotals};

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// An attempt that has taken this many RTO.Initial is given up for a new one, whose timer has not backed off, until [`HANDSHAKE_MAX`] has passed.
pub(crate) const ATTEMPT_RTO_INITIALS: u32 = 8;
/// A client endpoint, the network, and a server endpoint, with all associations of one profile.
pub(super) struct Rig {
    profile: Profile,
    client: Endpoint,
    proxy: RunningProxy,
    recorder: Arc<Recorder>,
    associations: Vec<Sending>,
    /// What both ends had sent before messages were measured.
    before: Cost,
    /// Ends when it is dropped.
    _server: Endpoint,
}

/// A client's association, and the packets it had sent before messages were measured.
struct Sending {
    association: Association,
    before: SentTotals,
}

impl Rig {
    /// Binds the endpoints and the network between them.
    pub(super) async fn build(scenario: &Scenario, profile: Profile, epoch: Instant, tap: Option<Tap>) -> Result<Self> {
        let server =
            Endpoint::server(LOOPBACK, ServerConfig::plain().with_transport(scenario.server_transport())).await?;
        let recorder = Arc::new(Recorder::new(epoch, scenario.associations, scenario.messages_per_association()));
        tokio::spawn(accept(server.listen(DEFAULT_SCTP_PORT)?, recorder.clone()));

        let link = scenario.link()?;
        let mut proxy = UdpProxy::bind(LOOPBACK, server.local_addr(), link.clone(), link, scenario.seed)
            .context("cannot set up the emulated network")?;
        if let Some(tap) = tap {
            proxy = proxy.with_tap(tap);
        }
        let proxy = proxy.spawn().context("cannot start the emulated network")?;

        let config = ClientConfig::plain().with_transport(scenario.client_transport(profile));
        let client = Endpoint::client(LOOPBACK, config).await?;
        Ok(Self {
            profile,
            client,
            proxy,
            recorder,
            associations: Vec::new(),
            before: Cost::default(),
            _server: server,
        })
    }

    /// Makes all associations, and has each deliver one message, so that it knows the round-trip time.
    pub(super) async fn connect(&mut self, scenario: &Scenario) -> Result<()> {
        let mut connecting = JoinSet::new();
        let attempt_max = scenario.rto_initial() * ATTEMPT_RTO_INITIALS;
        for number in 0..scenario.associations {
            let (client, remote, recorder) = (self.client.clone(), self.proxy.local_addr(), self.recorder.clone());
            connecting.spawn(async move {
                sleep(HANDSHAKE_SPACING * number).await;
                let warm_up = recorder.message(number, WARM_UP, HEADER_BYTES);
                let association = connect_and_warm_up(&client, remote, attempt_max, &warm_up).await?;
                let before = SentTotals::of(&association.stats());
                anyhow::Ok(Sending { association, before })
            });
        }
        while let Some(connected) = connecting.join_next().await {
            let connected = connected.context("a task failed")?;
            self.associations.push(connected.with_context(|| format!("profile {}: a handshake failed", self.profile))?);
        }
        self.before = cost(&self.proxy.counters());
        Ok(())
    }

    /// Starts one task per association, which sends its messages at fixed times after `start` until `stop` changes. Each task returns how many
    /// messages it sent, and why no more if the association ended.
    pub(super) fn start(
        &self,
        scenario: &Scenario,
        profile_index: usize,
        start: Instant,
        stop: &watch::Receiver<()>,
    ) -> JoinSet<Sent> {
        let mut senders = JoinSet::new();
        for (number, sending) in (0..).zip(&self.associations) {
            let association = sending.association.clone();
            let (recorder, mut stop) = (self.recorder.clone(), stop.clone());
            let first_at = start + scenario.offset(profile_index, number);
            let (interval, size) = (scenario.interval, scenario.size);
            let count = u32::try_from(scenario.messages_per_association()).unwrap_or(WARM_UP);
            senders.spawn(async move {
                for sequence in 0..count {
                    let due_at = first_at + interval * sequence;
                    let sending = async {
                        sleep_until(due_at).await;
                        recorder.note_timer(due_at.elapsed());
                        let message = recorder.message(number, sequence, usize::try_from(size).unwrap_or(usize::MAX));
                        association.send(message).await
                    };
                    let problem = tokio::select! {
                        biased;
                        _ = stop.changed() => None,
                        sent = sending => match sent {
                            Ok(_) => continue,
                            Err(error) => Some(anyhow!("{error}")),
                        },
                    };
                    return Sent { messages: sequence.into(), problem };
                }
                Sent { messages: count.into(), problem: None }
            });
        }
        senders
    }

    /// How many messages have arrived.
    pub(super) fn delivered(&self) -> u64 {
        self.recorder.delivered()
    }

    /// Waits until all that was sent has been acknowledged, but not beyond `deadline`.
    pub(super) async fn settle(&self, deadline: Instant) {
        for sending in &self.associations {
            // The outcome reports an association that has ended.
            let _ = timeout(deadline.saturating_duration_since(Instant::now()), sending.association.drained()).await;
        }
    }

    /// Counts everything up, and takes the rig down.
    pub(super) fn finish(self, messages_sent: u64, mut faults: Vec<String>) -> Result<Outcome> {
        let mut sent = SentTotals::default();
        for Sending { association, before } in &self.associations {
            sent += SentTotals::of(&association.stats()) - *before;
        }
        let arrivals = self.recorder.arrivals();
        if arrivals.unexpected > 0 {
            faults.push(format!("{} messages arrived twice or were never sent", arrivals.unexpected));
        }
        let network = self.proxy.stop().with_context(|| format!("{}: the emulated network failed", self.profile))?;
        Ok(Outcome {
            profile: self.profile,
            messages_sent,
            delays: arrivals.delays,
            sent,
            cost: cost(&network) - self.before,
            timers: arrivals.timers,
            network,
            faults,
            simulated: None,
        })
    }
}

/// What both ends have sent through the network, which counts UDP and IP headers.
fn cost(network: &ProxyCounters) -> Cost {
    Cost::of(&network.forward, &network.backward, 0)
}

/// Makes an association that has delivered the message, in as many attempts as the lossy network takes.
pub(crate) async fn connect_and_warm_up(
    client: &Endpoint,
    remote: SocketAddr,
    attempt_max: Duration,
    warm_up: &Message,
) -> Result<Association> {
    let deadline = Instant::now() + HANDSHAKE_MAX;
    loop {
        let attempt = async {
            let association = client.connect(remote).await?;
            association.send(warm_up.clone()).await?;
            association.drained().await?;
            anyhow::Ok(association)
        };
        match timeout(attempt_max, attempt).await {
            Ok(result) => return result,
            Err(_) if Instant::now() < deadline => {}
            Err(_) => bail!("{remote} could not be reached through this lossy network"),
        }
    }
}

/// The messages sent by one association's task.
pub(super) struct Sent {
    pub(super) messages: u64,
    pub(super) problem: Option<anyhow::Error>,
}

/// Takes the messages of every association that comes.
async fn accept(listener: Listener, recorder: Arc<Recorder>) {
    while let Some(association) = listener.accept().await {
        let recorder = recorder.clone();
        tokio::spawn(async move {
            while let Ok(Some(message)) = association.recv().await {
                recorder.record(message.into_payload());
            }
        });
    }
}
