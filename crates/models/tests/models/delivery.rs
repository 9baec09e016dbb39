//! Messages with a lifetime, and the effects of the sender's settings on them.

use std::sync::Arc;

use festina_models::host::Host;
use festina_models::packet::Packet;
use festina_models::sctp_host::{AssociationRecord, Delivery, Important, SctpHost, SctpSender, observe};
use festina_models::workload::{Periodic, Workload};
use festina_netsim::{Duplex, LinkConfig, LossModel, Simulation, Topology};
use festina_sctp::{Config, Expiry, Profile};
use festina_units::{ByteCount, Duration, Instant, Probability};

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// A message every 5 ms for ten seconds over a path that takes 50 ms each way and loses one packet in ten towards the receiver.
fn run(expiry: Expiry, delivery: Delivery) -> AssociationRecord {
    run_listed(expiry, delivery, None)
}

/// The same, where a list says which messages are important.
fn run_listed(expiry: Expiry, delivery: Delivery, important: Option<Arc<[bool]>>) -> AssociationRecord {
    let loss = LossModel::Independent(Probability::from_percent(10));
    let [forth, back] = [loss, LossModel::None].map(|loss| LinkConfig { delay: ms(50), loss, ..LinkConfig::default() });
    let path = Topology::path(&[Duplex { forward: forth, backward: back }]);
    let workload = Workload::Periodic(Periodic { interval: ms(5), size: ByteCount::from_bytes(100) });
    let stops_at = Some(Instant::from_secs(11));
    let sending = SctpSender { stops_at, delivery, important, ..SctpSender::new(path.receiver, workload) };
    let mut config = Config { message_events: true, ..Config::published(Profile::Rfc9260) };
    config.partial_reliability.expiry = expiry;
    let host = |node| SctpHost::new(node, 7, config.clone()).expect("the settings are within their ranges");
    let hosts = vec![host(path.sender).with_sender(&sending).into(), host(path.receiver).listening().into()];
    let mut simulation: Simulation<Packet, Host> = Simulation::new(path.topology, hosts, 7);
    simulation.run_until(Instant::from_secs(60));
    let ends = [path.sender, path.receiver].map(|node| simulation.node(node).as_sctp().expect("it is of SCTP"));
    observe(ends[0], ends[1]).pop().expect("the association was begun")
}

/// One in five is reliable; the others have a lifetime of 20 ms, less than the one-way delay.
fn mixed() -> Delivery {
    let important = Some(Important { share: Probability::from_percent(20), lifetime: None });
    Delivery { unordered: true, lifetime: Some(ms(20)), important, ..Delivery::default() }
}

#[test]
fn important_messages_arrive_all_and_what_became_of_each_message_adds_up() {
    for expiry in Expiry::all() {
        let record = run(expiry, mixed());
        let messages = &record.truth.messages;
        let [important, normal] = [None, Some(ms(20))]
            .map(|lifetime| messages.iter().filter(|message| message.lifetime == lifetime).collect::<Vec<_>>());
        assert_eq!(messages.len(), 2_000);
        assert!((350..450).contains(&important.len()), "{}", important.len());
        assert!(important.iter().all(|message| message.delivered_at.is_some()), "{expiry:?}");
        let lost = normal.iter().filter(|message| message.delivered_at.is_none()).count();
        assert!((normal.len() / 20..normal.len()).contains(&lost), "{expiry:?}: {lost}");
        let late = record.truth.retransmissions.iter().filter(|resent| {
            let message = messages[resent.sequence as usize];
            message.lifetime.is_some_and(|lifetime| resent.at >= message.sent_at + lifetime)
        });
        assert_eq!(late.count(), 0, "{expiry:?}: nothing is retransmitted after its lifetime");
        assert_eq!(record.sender.path.send_buffer_bytes, 0);
    }
}

#[test]
fn a_list_says_which_messages_are_important_and_those_beyond_it_are_drawn() {
    let listed: Arc<[bool]> = (0..1_500).map(|number| number % 3 == 0).collect();
    let record = run_listed(Expiry::WhenOverdue, mixed(), Some(listed));
    let is_important: Vec<bool> = record.truth.messages.iter().map(|message| message.lifetime.is_none()).collect();
    assert_eq!(is_important.len(), 2_000);
    assert!((0..1_500).all(|number| is_important[number] == (number % 3 == 0)));
    let drawn = is_important[1_500..].iter().filter(|important| **important).count();
    assert!((60..140).contains(&drawn), "a fifth of 500, not {drawn}");
}

#[test]
fn a_sender_that_looks_at_lifetimes_before_retransmissions_only_sends_every_message_once() {
    let left = |expiry| run(expiry, mixed()).truth.first_transmissions;
    assert_eq!(left(Expiry::BeforeRetransmission), 2_000);
    assert_eq!(left(Expiry::WhenMissing), 2_000);
    assert!(left(Expiry::BeforeTransmission) < 2_000);
}

#[test]
fn a_message_that_replaces_leaves_no_older_one_to_be_sent_again() {
    let reliable = run(Expiry::AtOnce, Delivery::default());
    let replacing = run(Expiry::AtOnce, Delivery { replaces: true, ..Delivery::default() });
    assert!(reliable.truth.messages.iter().all(|message| message.delivered_at.is_some()));
    assert!(reliable.truth.retransmissions.len() > 100);
    assert!(replacing.truth.retransmissions.len() < 10, "{}", replacing.truth.retransmissions.len());
    let last = replacing.truth.messages.last().expect("there are some");
    assert!(last.delivered_at.is_some(), "nothing replaces the last one");
}

#[test]
fn small_messages_that_gather_leave_in_fuller_packets_and_none_is_forgotten() {
    let packets = |gathers| {
        let record = run(Expiry::AtOnce, Delivery { gathers, ..Delivery::default() });
        assert_eq!(record.truth.messages.len(), 2_000);
        assert!(record.truth.messages.iter().all(|message| message.delivered_at.is_some()));
        record.sender.sent.packets
    };
    let [at_once, gathered] = [None, Some(1_000)].map(packets);
    // Nine of these fill a packet.
    assert!(gathered < at_once / 3, "{gathered} {at_once}");
}
