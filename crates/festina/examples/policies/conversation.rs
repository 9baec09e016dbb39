//! One association from its beginning to its end.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use festina::{
    Association, ClosedReason, ConnectOptions, Direction, Endpoint, Event, Message, ReconfigureError, StreamId,
};
use tokio::sync::mpsc;

use crate::case::{Case, payload};
use crate::echoes::Echoes;
use crate::wire::{self, Wire};

/// The stream of commands to the peer; it is never reset.
const CONTROL: u16 = 4;
/// The streams that are reset.
const RESET: [u16; 2] = [5, 6];
const RESET_ROUNDS: u32 = 4;
/// Messages around resets have numbers from here on.
const FIRST_RESET_NUMBER: u32 = 1_000_000;
/// At 20 % loss the handshake may take long.
const HANDSHAKE_MAX: Duration = Duration::from_secs(600);
/// SCTP ports of associations that Festina initiates.
const FIRST_LOCAL_PORT: u16 = 10_000;
/// Time for messages in flight at the end.
const REST: Duration = Duration::from_secs(5);

/// Which side initiates the association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Festina, to this peer.
    Connects(SocketAddr),
    /// The peer, to UDP and SCTP ports that the case names.
    Accepts,
}

/// A change of streams that came about.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Reset(Direction, Vec<u16>),
    Added { outbound: u16, inbound: u16 },
}

struct Conversation {
    case: Case,
    /// Answers until the case has ended.
    _endpoint: Endpoint,
    association: Association,
    echoes: Mutex<Echoes>,
}

/// Outcome of a case.
pub(crate) struct Outcome {
    /// In the order of [`COLUMNS`].
    pub(crate) counts: String,
    /// What went wrong.
    pub(crate) faults: Vec<String>,
}

/// The counted columns: messages by outcome, echoes, chunks in either direction, and the peer's reports of abandoned echoes and of stream changes.
pub(crate) const COLUMNS: &str = "sent,acked,abandoned_unsent,abandoned_sent,echoes,reliable_echoes,forward_tsn_out,forward_tsn_in,\
                                  re_config_out,re_config_in,peer_received,peer_echoed,peer_abandoned_unsent,peer_abandoned_sent,\
                                  peer_resets,peer_changes,peer_refused,peer_errors";

/// Runs a case.
pub(crate) async fn hold(case: Case, role: Role, index: u16, messages: u32, time_max: Duration) -> Outcome {
    let held = begin(case, role, index).await;
    let ended = match held {
        Ok((conversation, wire)) => Arc::new(conversation).finish(&wire, messages, time_max).await,
        Err(error) => Err(error),
    };
    ended.unwrap_or_else(|error| Outcome { counts: ",".repeat(COLUMNS.matches(',').count()), faults: vec![error] })
}

async fn begin(case: Case, role: Role, index: u16) -> Result<(Conversation, Wire), String> {
    let (address, port) = match role {
        Role::Connects(peer) if peer.is_ipv6() => (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0),
        Role::Connects(_) => (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
        Role::Accepts => (IpAddr::V4(Ipv4Addr::UNSPECIFIED), case.own_port(index)),
    };
    let local = SocketAddr::new(address, port);
    let endpoint = Endpoint::server(local, case.config()).await.map_err(|error| error.to_string())?;
    let wire = Wire::watch(&endpoint);
    let association = match role {
        Role::Connects(peer) => {
            let options = ConnectOptions::default()
                .peer_port(case.peer_port())
                .local_port(FIRST_LOCAL_PORT + index)
                .handshake_timeout(HANDSHAKE_MAX);
            endpoint.connect_with(peer, options).await.map_err(|error| format!("no connection: {error}"))?
        }
        Role::Accepts => {
            let listener = endpoint.listen(port).map_err(|error| error.to_string())?;
            let accepted = tokio::time::timeout(HANDSHAKE_MAX, listener.accept()).await;
            accepted.ok().flatten().ok_or("no peer connects")?
        }
    };
    let echoes = Mutex::new(Echoes::new(!case.unordered));
    Ok((Conversation { case, _endpoint: endpoint, association, echoes }, wire))
}

impl Conversation {
    async fn finish(self: Arc<Self>, wire: &Wire, messages: u32, time_max: Duration) -> Result<Outcome, String> {
        let (changes_in, mut changes) = mpsc::unbounded_channel();
        let events = tokio::spawn(self.clone().follow_events(changes_in));
        let reading = tokio::spawn(self.clone().read());
        let talk = tokio::time::timeout(time_max, self.talk(messages, &mut changes)).await;
        let end = talk.unwrap_or_else(|_| Err("it took too long".into()));
        let before_end = wire.complaint();
        if end.is_err() {
            self.association.abort("the case has failed");
        }
        events.await.map_err(|error| error.to_string())?;
        reading.await.map_err(|error| error.to_string())?;
        // The peer may not know yet that the association has ended.
        tokio::time::sleep(REST).await;
        Ok(self.verdict(wire, end, before_end))
    }

    fn echoes(&self) -> MutexGuard<'_, Echoes> {
        self.echoes.lock().expect("no holder panics")
    }

    async fn read(self: Arc<Self>) {
        while let Ok(Some(echo)) = self.association.recv().await {
            self.echoes().take(&echo);
        }
    }

    async fn follow_events(self: Arc<Self>, changes: mpsc::UnboundedSender<Change>) {
        while let Some(event) = self.association.event().await {
            // Stream changes may no longer be awaited.
            match event {
                Event::StreamsReset { direction, streams } => {
                    let streams = streams.iter().map(|stream| stream.0).collect();
                    let _ = changes.send(Change::Reset(direction, streams));
                }
                Event::StreamsAdded { outbound_streams, inbound_streams } => {
                    let _ = changes.send(Change::Added { outbound: outbound_streams, inbound: inbound_streams });
                }
                Event::MessagesAbandoned { first, last, sent, .. } => self.echoes().abandon(first, last, sent),
                Event::StreamRequestFailed { .. } | Event::PeerError { .. } | Event::PeerRestarted => {
                    self.echoes().fault(format!("{event:?}"));
                }
                _ => {}
            }
        }
        if self.association.events_missed() > 0 {
            self.echoes().fault("events were missed");
        }
    }

    async fn talk(&self, messages: u32, changes: &mut mpsc::UnboundedReceiver<Change>) -> Result<(), String> {
        let resets = async { if self.case.resets { self.reset_streams(changes).await } else { Ok(()) } };
        tokio::try_join!(self.send_all(messages), resets)?;
        self.association.drained().await.map_err(|reason| format!("closed: {reason}"))?;
        self.until(|echoes| echoes.awaited() == 0).await?;
        self.command(b'?', 0).await?;
        self.until(|echoes| echoes.report.is_some()).await?;
        tokio::time::sleep(REST).await;
        self.association.shutdown().await.map_err(|reason| format!("no graceful end: {reason}"))?;
        match self.association.closed().await {
            ClosedReason::Shutdown => Ok(()),
            reason => Err(format!("closed: {reason}")),
        }
    }

    async fn send_all(&self, messages: u32) -> Result<(), String> {
        for number in 0..messages {
            self.send(number, self.case.is_reliable(number), self.case.message(number)).await?;
            tokio::time::sleep(self.case.pause_after(number)).await;
        }
        Ok(())
    }

    async fn send(&self, number: u32, reliable: bool, message: Message) -> Result<(), String> {
        self.echoes().expect(number, reliable);
        let sent = self.association.send(message).await.map_err(|error| format!("message {number}: {error}"))?;
        self.echoes().sent(sent, number);
        Ok(())
    }

    /// Has the peer do something.
    async fn command(&self, wish: u8, value: u16) -> Result<(), String> {
        let message = Message::new(payload(wish, 0, value, 0, 0)).on_stream(CONTROL);
        self.association.send(message).await.map(drop).map_err(|error| format!("a command: {error}"))
    }

    /// Waits until something holds, or something has gone wrong.
    async fn until(&self, holds: impl Fn(&Echoes) -> bool) -> Result<(), String> {
        let mut changes = self.echoes().changes();
        loop {
            if let Some(reason) = self.association.close_reason() {
                return Err(format!("closed: {reason}"));
            }
            {
                let echoes = self.echoes();
                if holds(&echoes) {
                    return Ok(());
                }
                if !echoes.faults.is_empty() {
                    return Err("it went wrong".into());
                }
            }
            tokio::select! {
                _ = changes.changed() => {}
                _ = self.association.closed() => {}
            }
        }
    }

    /// Resets streams in all four ways, with messages before and after, while other streams are busy; then adds some.
    async fn reset_streams(&self, changes: &mut mpsc::UnboundedReceiver<Change>) -> Result<(), String> {
        let mut next = FIRST_RESET_NUMBER;
        let refused = |error: ReconfigureError| format!("no reset: {error}");
        for round in 0..RESET_ROUNDS {
            for stream in RESET {
                let ids = [StreamId(stream)];
                for way in 0..4 {
                    let begun = next;
                    for number in begun..begun + 3 {
                        let message = Message::new(payload(b'E', 0, 0, number, 60)).on_stream(stream);
                        self.send(number, true, message.unordered_if(self.case.unordered)).await?;
                    }
                    next += 3;
                    // Where the peer resets, the echoes may still be on their way.
                    if way < 2 || round == 0 {
                        self.until(|echoes| (begun..next).all(|number| !echoes.is_awaited(number))).await?;
                    }
                    let direction = match way {
                        0 => self.association.reset_streams(&ids).map(|()| Direction::Outbound).map_err(refused)?,
                        1 => self.association.request_reset(&ids).map(|()| Direction::Inbound).map_err(refused)?,
                        2 => self.command(b'O', stream).await.map(|()| Direction::Inbound)?,
                        _ => self.command(b'I', stream).await.map(|()| Direction::Outbound)?,
                    };
                    self.change(changes, &Change::Reset(direction, vec![stream])).await?;
                }
            }
        }
        let before = self.association.streams();
        self.association.add_streams(1, 0).map_err(refused)?;
        self.change(changes, &Change::Added { outbound: before.outbound + 1, inbound: before.inbound }).await?;
        self.association.add_streams(0, 1).map_err(refused)?;
        self.change(changes, &Change::Added { outbound: before.outbound + 1, inbound: before.inbound + 1 }).await?;
        let message = payload(b'E', 0, 0, next, 60);
        let message = Message::new(message).on_stream(before.outbound).unordered_if(self.case.unordered);
        self.send(next, true, message).await
    }

    async fn change(&self, changes: &mut mpsc::UnboundedReceiver<Change>, wanted: &Change) -> Result<(), String> {
        let wrong = async {
            loop {
                // It ends only when something has gone wrong.
                self.until(|_| false).await?;
            }
        };
        tokio::select! {
            change = changes.recv() => match change {
                Some(change) if change == *wanted => Ok(()),
                change => Err(format!("{change:?} instead of {wanted:?}")),
            },
            wrong = wrong => wrong,
        }
    }

    fn verdict(&self, wire: &Wire, end: Result<(), String>, complaint: Option<String>) -> Outcome {
        let (stats, mut echoes) = (self.association.stats(), self.echoes());
        let abandoned = stats.abandoned.total();
        let reported = echoes.abandoned;
        if end.is_ok() && stats.sent.messages_acked + abandoned.unsent + abandoned.sent != stats.sent.messages {
            echoes.fault(format!("the counters do not add up: {:?} {abandoned:?}", stats.sent));
        }
        if end.is_ok() && abandoned.unsent + abandoned.sent != reported {
            echoes.fault(format!("{abandoned:?}, but {reported} were reported"));
        }
        let (used, unused) =
            if self.case.interleaving { (wire::I_DATA, wire::DATA) } else { (wire::DATA, wire::I_DATA) };
        if wire.sent(unused) + wire.received(unused) > 0 || wire.sent(used) == 0 || wire.received(used) == 0 {
            echoes.fault("the wrong framing");
        }
        let complaint = if end.is_ok() { wire.complaint() } else { complaint };
        let mut faults: Vec<String> =
            end.err().into_iter().chain(echoes.faults.iter().cloned()).chain(complaint).collect();
        if !faults.is_empty() {
            let chunks = (wire.sent(used), wire.received(used));
            faults.push(format!("{} echoes missing, {chunks:?} chunks, {:?}", echoes.awaited(), stats.path));
            faults.extend(wire.re_configs());
        }
        let forward_tsn = |count: &dyn Fn(u8) -> u64| count(wire::FORWARD_TSN) + count(wire::I_FORWARD_TSN);
        let counts = [
            stats.sent.messages,
            stats.sent.messages_acked,
            abandoned.unsent,
            abandoned.sent,
            echoes.returned() as u64,
            (echoes.reliable() - echoes.awaited()) as u64,
            forward_tsn(&|chunk| wire.sent(chunk)),
            forward_tsn(&|chunk| wire.received(chunk)),
            wire.sent(wire::RE_CONFIG),
            wire.received(wire::RE_CONFIG),
        ];
        let mut counts: Vec<String> = counts.iter().map(u64::to_string).collect();
        counts.push(echoes.report.clone().unwrap_or_else(|| ",".repeat(7)));
        Outcome { counts: counts.join(","), faults }
    }
}
