//! State updates that replace each other, 30 times a second from one server to 20 clients, in virtual time and without loss: an update costs
//! one packet, whichever side has connected.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use festina_recovery::Profile;
use festina_sctp::{Association, Config, Context, Incoming, Listener, Message, Ports};
use festina_units::{EcnCodepoint, Instant};

const CLIENTS: u8 = 20;
const INTERVAL: Duration = Duration::from_micros(33_333);
const UPDATE_BYTES: usize = 120;
const DURATION: Duration = Duration::from_secs(10);
/// From the first INIT to the first update.
const STARTS_AFTER: Duration = Duration::from_millis(500);
const STEP: Duration = Duration::from_micros(500);
const PACKETS_PER_UPDATE_MAX: f64 = 1.05;

/// Which side sends the updates.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sender {
    Connecting,
    Accepting,
}

/// Packets under way in one direction, in the order of their arrival.
#[derive(Default)]
struct Way(VecDeque<(Instant, Bytes)>);

impl Way {
    fn drain(&mut self, now: Instant, delay: Duration, association: &mut Association) -> u64 {
        let mut packets = 0;
        loop {
            let mut packet = Vec::new();
            if association.poll_transmit(now, &mut packet).is_none() {
                return packets;
            }
            self.0.push_back((now + delay, packet.into()));
            packets += 1;
        }
    }

    fn take(&mut self, now: Instant) -> Option<Bytes> {
        let is_there = self.0.front().is_some_and(|(at, _)| *at <= now);
        is_there.then(|| self.0.pop_front()).flatten().map(|(_, packet)| packet)
    }
}

/// Returns the updates that were sent, and the packets of their sender from then on.
fn packets(profile: Profile, sender: Sender, delay: Duration, client: u8) -> (u64, u64) {
    let context = |secret| Context::new(Config::published(profile), [secret; 16]).expect("the profile is sound");
    let addresses: [SocketAddr; 2] = [([192, 0, 2, 1], 1).into(), ([192, 0, 2, 2], 2).into()];
    let mut listener = Listener::new(&context(2));
    listener.listen(5000);
    let ports = Ports { local: 5001, peer: 5000 };
    let mut connecting = Association::connect(Instant::ZERO, &context(client + 3), addresses[1], ports, 0);
    let mut accepting: Option<Association> = None;
    let (mut there, mut back) = (Way::default(), Way::default());
    let (mut updates, mut sent) = (0, 0);
    let mut now = Instant::ZERO;
    let mut next = now + STARTS_AFTER + INTERVAL * u32::from(client) / u32::from(CLIENTS);
    while now < Instant::ZERO + DURATION {
        while let Some(packet) = there.take(now) {
            if let Some(accepting) = &mut accepting {
                let _ = accepting.handle_packet(now, addresses[0], EcnCodepoint::NotCapable, &packet);
                continue;
            }
            let mut reply = Vec::new();
            match listener.handle_packet(now, addresses[0], &packet, &|_| false, &mut reply) {
                Incoming::Accepted(association) => accepting = Some(*association),
                Incoming::Reply => back.0.push_back((now + delay, reply.into())),
                _ => {}
            }
        }
        while let Some(packet) = back.take(now) {
            let _ = connecting.handle_packet(now, addresses[1], EcnCodepoint::NotCapable, &packet);
        }
        for association in [Some(&mut connecting), accepting.as_mut()].into_iter().flatten() {
            association.handle_timeout(now);
            while association.poll_event().is_some() {}
            while association.poll_message().is_some() {}
        }
        if now >= next
            && let Some(accepting) = &mut accepting
        {
            next += INTERVAL;
            let association = if sender == Sender::Accepting { accepting } else { &mut connecting };
            let update = Message::new(vec![1; UPDATE_BYTES]).unordered().replacing(1);
            association.send(now, update).expect("the buffer has room");
            updates += 1;
        }
        let of_connecting = there.drain(now, delay, &mut connecting);
        let of_accepting = accepting.as_mut().map_or(0, |accepting| back.drain(now, delay, accepting));
        if updates > 0 {
            sent += if sender == Sender::Accepting { of_accepting } else { of_connecting };
        }
        now += STEP;
    }
    (updates, sent)
}

#[test]
fn an_update_to_each_of_20_clients_30_times_a_second_costs_a_packet_at_any_round_trip_and_in_both_roles() {
    for profile in [Profile::Festina, Profile::Rack] {
        for sender in [Sender::Connecting, Sender::Accepting] {
            for round_trip_ms in [10, 40, 60, 100] {
                let delay = Duration::from_millis(round_trip_ms) / 2;
                let of_clients = (0..CLIENTS).map(|client| packets(profile, sender, delay, client));
                let (updates, sent) = of_clients.reduce(|sum, one| (sum.0 + one.0, sum.1 + one.1)).expect("20 clients");
                #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
                let ratio = sent as f64 / updates as f64;
                println!(
                    "{profile}, {sender:?} side sends, round trip {round_trip_ms} ms: {ratio:.3} packets an update"
                );
                assert!(updates > 5_000, "{updates}");
                assert!(ratio <= PACKETS_PER_UPDATE_MAX, "{profile}, {sender:?}, {round_trip_ms} ms: {ratio}");
            }
        }
    }
}
