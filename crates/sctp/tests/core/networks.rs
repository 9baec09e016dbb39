//! A client and a server with an address on each of the networks between them: a stream of numbered messages, its delays, and outages.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use festina_netsim::{Datagram, LinkConfig, LossModel, Networks, Node};
use festina_sctp::wire::chunk_type;
use festina_sctp::{
    Association, Config, Context, Event, Fragmentation, Incoming, Listener, Message, Multihoming, Ports, Transmit,
};
use festina_units::{Duration, EcnCodepoint, Instant, Probability};

use crate::pair::{CLIENT_PORT, SERVER_PORT};

/// An address of a host on one of the networks.
pub(crate) fn address(host: usize, network: usize) -> SocketAddr {
    let prefix = [[192, 0, 2], [198, 51, 100]][network];
    let last = u8::try_from(host + 1).unwrap();
    SocketAddr::from(([prefix[0], prefix[1], prefix[2], last], 9_899))
}

/// A link with this delay and loss.
pub(crate) fn link(delay: Duration, loss: Probability) -> LinkConfig {
    LinkConfig { delay, loss: LossModel::Independent(loss), ..LinkConfig::default() }
}

/// Client or server.
pub(crate) struct Host {
    index: usize,
    pub(crate) association: Option<Association>,
    listener: Listener,
    reply: Option<Datagram>,
    /// Its packets, if another carries them than the networks.
    pub(crate) outbox: Option<Vec<Datagram>>,
    /// Messages in the order of their delivery, and when.
    received: Vec<(u32, Instant)>,
    pub(crate) events: Vec<(Instant, Event)>,
    /// Sizes of its probes.
    pub(crate) probes: Vec<usize>,
    /// When its timers were handled last, and how often since the last packet.
    timed: (Instant, u32),
}

impl Host {
    fn new(index: usize, context: &Arc<Context>) -> Self {
        let mut listener = Listener::new(context);
        listener.listen(SERVER_PORT);
        Self {
            index,
            association: None,
            listener,
            reply: None,
            outbox: None,
            received: Vec::new(),
            events: Vec::new(),
            probes: Vec::new(),
            timed: (Instant::ZERO, 0),
        }
    }

    fn datagram(&mut self, transmit: Transmit, bytes: Vec<u8>) -> Datagram {
        let Transmit { destination, fragmentation, .. } = transmit;
        if bytes[12] == chunk_type::HEARTBEAT && bytes.get(28) == Some(&chunk_type::PAD) {
            assert_eq!(fragmentation, Fragmentation::Never);
            self.probes.push(bytes.len());
        }
        let network = (0..2).find(|&network| address(1 - self.index, network) == destination).unwrap();
        let addresses = [address(self.index, network), destination];
        let is_fragmented = fragmentation == Fragmentation::Needed;
        Datagram { network, addresses, bytes, is_fragmented }
    }
}

impl Node<Datagram> for Host {
    fn handle_packet(&mut self, now: Instant, datagram: Datagram) {
        let Datagram { addresses: [from, to], network, bytes, .. } = datagram;
        let packet = Bytes::from(bytes);
        self.timed.1 = 0;
        if let Some(association) = &mut self.association {
            return association.handle_packet(now, from, EcnCodepoint::NotCapable, &packet).unwrap();
        }
        let mut reply = Vec::new();
        match self.listener.handle_packet(now, from, &packet, &|_| false, &mut reply) {
            Incoming::Accepted(association) => self.association = Some(*association),
            Incoming::Reply => {
                let addresses = [to, from];
                self.reply = Some(Datagram { network, addresses, bytes: reply, is_fragmented: false });
            }
            other => panic!("{other:?}"),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        let Some(association) = self.association.as_mut().filter(|end| end.poll_deadline().is_some_and(|at| at <= now))
        else {
            return;
        };
        let count = if self.timed.0 == now { self.timed.1 + 1 } else { 1 };
        // When a chunk is sent again on the other path, a probe for the chunks before it may be due.
        assert!(count <= 2, "a timer that was handled is still due");
        self.timed = (now, count);
        association.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        if let Some(reply) = self.reply.take() {
            return Some(reply);
        }
        let mut packet = Vec::new();
        while let Some(transmit) = self.association.as_mut()?.poll_transmit(now, &mut packet) {
            let datagram = self.datagram(transmit, core::mem::take(&mut packet));
            let Some(outbox) = &mut self.outbox else { return Some(datagram) };
            outbox.push(datagram);
        }
        let association = self.association.as_mut()?;
        while let Some(message) = association.poll_message() {
            self.received.push((u32::from_be_bytes(message.payload()[..4].try_into().unwrap()), now));
        }
        self.events.extend(core::iter::from_fn(|| association.poll_event()).map(|event| (now, event)));
        None
    }

    fn poll_deadline(&self) -> Option<Instant> {
        self.association.as_ref()?.poll_deadline()
    }
}

/// Both hosts on their networks.
pub(crate) struct World {
    pub(crate) networks: Networks<Host>,
    /// When each message was sent.
    pub(crate) sent_at: Vec<Instant>,
}

impl World {
    /// Hosts that have connected. Without the settings of several addresses, they have one.
    pub(crate) fn new(config: &Config, multihoming: Option<&Multihoming>, links: &[LinkConfig], seed: u64) -> Self {
        let contexts = [0, 1].map(|host| {
            let (config, secret) = (config.clone(), [u8::try_from(host).unwrap() + 1; 16]);
            let Some(multihoming) = multihoming else { return Context::new(config, secret).unwrap() };
            let addresses = (0..links.len()).map(|network| address(host, network).ip()).collect();
            Context::multihomed(config, secret, Multihoming { addresses, ..multihoming.clone() }).unwrap()
        });
        let hosts = [0, 1].map(|host| Host::new(host, &contexts[host]));
        let mut world = Self { networks: Networks::new(hosts, links, seed), sent_at: Vec::new() };
        let (now, ports) = (Instant::from_secs(1), Ports { local: CLIENT_PORT, peer: SERVER_PORT });
        world.networks.run_until(now);
        let client = Association::connect(now, &contexts[0], address(1, 0), ports, seed);
        world.networks.host_mut(0).association = Some(client);
        world.run_for(Duration::from_secs(5));
        world
    }

    pub(crate) fn now(&self) -> Instant {
        self.networks.now()
    }

    pub(crate) fn client(&self) -> &Association {
        self.networks.host(0).association.as_ref().unwrap()
    }

    pub(crate) fn client_mut(&mut self) -> &mut Association {
        self.networks.host_mut(0).association.as_mut().unwrap()
    }

    /// Cuts a network in both directions, or mends it.
    pub(crate) fn cut(&mut self, network: usize, is_cut: bool, loss: Probability) {
        let loss = LossModel::Independent(if is_cut { Probability::ONE } else { loss });
        self.networks.change(network, |link| link.set_loss(loss.clone()));
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        self.networks.run_for(time);
    }

    /// Sends a message with its number. Returns false if there is no room.
    pub(crate) fn send(&mut self, bytes: usize) -> bool {
        let (now, number) = (self.now(), u32::try_from(self.sent_at.len()).unwrap());
        let message = Message::new([&number.to_be_bytes()[..], &vec![7; bytes - 4]].concat());
        let is_sent = self.client_mut().send(now, message).is_ok();
        self.sent_at.extend(is_sent.then_some(now));
        is_sent
    }

    /// Sends a message of this size each interval for this time.
    pub(crate) fn stream(&mut self, bytes: usize, interval: Duration, time: Duration) {
        let end = self.now() + time;
        while self.now() < end {
            assert!(self.send(bytes));
            self.run_for(interval);
        }
    }

    pub(crate) fn delivered(&self) -> usize {
        self.networks.host(1).received.len()
    }

    /// Each message has arrived once and in order.
    pub(crate) fn assert_all_delivered(&self) {
        let numbers = self.networks.host(1).received.iter().map(|received| received.0);
        assert!(numbers.eq(0..u32::try_from(self.sent_at.len()).unwrap()), "{:?}", self.networks.host(1).received);
    }

    /// The delays of the messages from this one on.
    pub(crate) fn delays(&self, from: usize) -> impl Iterator<Item = Duration> {
        let received = self.networks.host(1).received.iter().map(|&(number, at)| (number as usize, at));
        received.filter(move |(number, _)| *number >= from).map(|(number, at)| at - self.sent_at[number])
    }

    pub(crate) fn delay_max(&self, from: usize) -> Duration {
        self.delays(from).max().unwrap()
    }
}
