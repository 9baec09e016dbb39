//! Explicit congestion notification as a peer sees it (RFC 3168; ECNE and CWR of RFC 4960 appendix A).

use festina_netsim::LinkConfig;
use festina_sctp::{Carrier, CongestionControl, Extensions, Message};
use festina_units::{Duration, EcnCodepoint, Probability};

use super::*;
use crate::pair::Pair;
use crate::rfc9260::packet::{
    COOKIE_ACK, COOKIE_ECHO, DATA, Data, INIT, INIT_ACK, SACK, Sent, cookie_echo, data, u32_at,
};
use crate::rfc9260::peer::{Peer, ms};

const ECN_CAPABLE: u16 = 0x8000;
const ECNE: u8 = 12;
const CWR: u8 = 13;

/// The caller sees the IP header.
const WITH_ECN: Carrier = Carrier { ecn: true, protected_by_dtls: false, overhead_bytes: 0 };

fn offering() -> Config {
    Config { carrier: WITH_ECN, ..config() }
}

fn capable() -> Vec<u8> {
    tlv(ECN_CAPABLE, b"")
}

fn ecne(tsn: u32) -> Vec<u8> {
    chunk(ECNE, 0, &tsn.to_be_bytes())
}

fn cwr(tsn: u32) -> Vec<u8> {
    chunk(CWR, 0, &tsn.to_be_bytes())
}

/// Established with a peer that takes part.
fn agreed() -> Peer {
    agreed_with(offering())
}

fn agreed_with(config: Config) -> Peer {
    Peer::serving(config, &init_ack_with(&[capable()]))
}

fn tsn_of(sent: &Sent, kind: u8) -> u32 {
    u32_at(&sent.the(kind).value, 0)
}

fn cwnd(peer: &mut Peer) -> u64 {
    peer.association().stats().path.cwnd_bytes
}

/// The highest TSN sent since the last look.
fn last_sent(peer: &mut Peer) -> u32 {
    peer.take_tsns().concat().into_iter().max().expect("something was sent")
}

/// Established with a peer that takes part, and sending without a pause: the last TSN that was acknowledged, the last that was sent, and
/// the window, of 24 packets at least.
fn busy(config: Config) -> (Peer, u32, u32, u64) {
    let mut peer = agreed_with(config);
    peer.send_full(400);
    let (mut acked, mut sent) = (0, last_sent(&mut peer));
    while cwnd(&mut peer) < 24 * 1_220 {
        peer.wait(ms(50));
        let flight = sent;
        while acked < flight {
            acked += 1;
            peer.ack(acked);
            sent = sent.max(peer.take_tsns().concat().into_iter().max().unwrap_or(0));
        }
    }
    assert!(sent - acked > 16, "{} packets are on the way", sent - acked);
    let window = cwnd(&mut peer);
    (peer, acked, sent, window)
}

#[test]
fn init_says_so_and_init_ack_answers_only_one_that_does() {
    for config in [config(), offering()] {
        let is_offered = config.carrier.ecn;
        let init = Peer::connecting(config.clone()).take_one().init();
        assert_eq!(init.all(ECN_CAPABLE).len(), usize::from(is_offered));
        for parameters in [vec![], vec![capable()]] {
            let is_agreed = is_offered && !parameters.is_empty();
            let mut peer = Peer::new(config.clone());
            peer.give_tagged(0, &[init_with(&parameters).chunk(INIT)]);
            assert_eq!(peer.take_one().init().all(ECN_CAPABLE).len(), usize::from(is_agreed));
            let mut peer = Peer::client(config.clone(), &init_with(&parameters));
            assert_eq!(peer.association().peer_extensions().contains(Extensions::ECN), !parameters.is_empty());
            peer.send("hello");
            assert_eq!(peer.take_one().ecn == EcnCodepoint::Capable, is_agreed);
        }
    }
}

#[test]
fn rfc3168_6_1_only_packets_with_data_and_none_of_the_handshake_are_capable() {
    let mut peer = Peer::connecting(offering());
    let init = peer.take_one();
    (peer.tag, peer.initial_tsn) = (init.init().tag, init.init().tsn);
    peer.send("with the cookie");
    peer.give(&[init_ack_with(&[capable()]).chunk(INIT_ACK)]);
    let cookie_echo = peer.take_one();
    assert_eq!(cookie_echo.kinds(), [COOKIE_ECHO, DATA]);
    peer.give(&[chunk(COOKIE_ACK, 0, b""), data(1)]);
    let sack = peer.take_one();
    assert_eq!(sack.kinds(), [SACK]);
    for packet in [init, cookie_echo, sack] {
        assert_eq!(packet.ecn, EcnCodepoint::NotCapable);
    }
    peer.give(&[data(2)]);
    peer.send("with a SACK");
    let sent = peer.take_one();
    assert_eq!((sent.kinds(), sent.ecn), (vec![SACK, DATA], EcnCodepoint::Capable));
}

#[test]
fn data_beside_cookie_ack_is_not_capable_and_does_not_count_as_a_trial() {
    let mut peer = Peer::new(offering());
    let cookie = peer.begin(&init_with(&[capable()]));
    peer.give(&[cookie_echo(&cookie)]);
    peer.take();
    let now = peer.now;
    peer.association().send(now, Message::new("waits for COOKIE ACK")).expect("it is taken");
    peer.give(&[cookie_echo(&cookie), data(1)]);
    let sent = peer.take_one();
    assert_eq!((sent.kinds()[0], sent.has(DATA), sent.ecn), (COOKIE_ACK, true, EcnCodepoint::NotCapable));
    peer.ack(1);
    for number in 1..=5 {
        peer.send("tries");
        let is_capable = peer.take_one().ecn == EcnCodepoint::Capable;
        assert_eq!(is_capable, number <= 4, "packet {number}: nothing is proven yet");
    }
}

#[test]
fn a_retransmission_is_capable_once_the_path_has_delivered_such_a_packet() {
    let mut peer = agreed();
    peer.send("one");
    assert_eq!(peer.take_one().ecn, EcnCodepoint::Capable);
    peer.wait_for_packet();
    assert_eq!(peer.take_one().ecn, EcnCodepoint::NotCapable, "the path may drop ECN-capable packets");
    peer.ack(1);
    peer.send("two");
    assert_eq!(peer.take_one().ecn, EcnCodepoint::Capable);
    peer.ack(2);
    peer.send("three");
    peer.take();
    peer.wait_for_packet();
    let sent = peer.take_one();
    assert_eq!((peer.tsns(&sent), sent.ecn), (vec![3], EcnCodepoint::NotCapable), "a timeout restarts the test");
    let (mut peer, acked, ..) = busy(offering());
    for up_to in acked + 2..=acked + 4 {
        peer.ack_gaps(acked, &[(acked + 2, up_to)]);
    }
    let sent = peer.take();
    assert!(sent.iter().any(|sent| peer.tsns(sent) == [acked + 1] && sent.ecn == EcnCodepoint::Capable), "{sent:?}");
}

#[test]
fn a_marked_packet_is_reported_at_once_and_with_each_sack_until_cwr_comes() {
    let mut peer = agreed();
    peer.give(&[data(1)]);
    peer.take();
    peer.give_marked(&[data(2), data(3)]);
    let report = peer.take_one();
    assert_eq!((report.kinds(), tsn_of(&report, ECNE)), (vec![ECNE, SACK], 2), "the lowest TSN of the packet");
    peer.give(&[data(4)]);
    peer.nothing_sent();
    peer.give(&[data(5)]);
    assert_eq!(peer.take_one().kinds(), [ECNE, SACK], "the first report may have been lost");
    peer.give_marked(&[data(6)]);
    peer.give(&[cwr(2), data(7)]);
    let report = peer.take_one();
    assert_eq!(tsn_of(&report, ECNE), 6, "that answer was for an earlier mark");
    peer.give(&[cwr(6), data(8)]);
    peer.give(&[data(9)]);
    assert_eq!(peer.take_one().kinds(), [SACK]);
    assert_eq!(peer.association().stats().received.packets_marked, 2);
}

#[test]
fn a_report_has_the_number_of_packets_marked_since_the_last_answer_without_which_usrsctp_drops_what_stands_behind() {
    let mut peer = agreed();
    let reported = |peer: &mut Peer| u32_at(&peer.take_one().the(ECNE).value, 4);
    peer.give_marked(&[data(1)]);
    assert_eq!(reported(&mut peer), 1);
    peer.give_marked(&[data(2)]);
    peer.give_marked(&[data(3)]);
    assert_eq!(reported(&mut peer), 3);
    peer.give(&[cwr(3)]);
    peer.give_marked(&[data(4)]);
    assert_eq!(reported(&mut peer), 1);
}

#[test]
fn marks_on_packets_that_were_overtaken_or_came_twice_report_no_lower_tsn() {
    let mut peer = agreed();
    peer.give_marked(&[data(3)]);
    assert_eq!(tsn_of(&peer.take_one(), ECNE), 3);
    peer.give_marked(&[data(2)]);
    peer.give_marked(&[data(2)]);
    let reports = peer.take();
    assert!(reports.len() == 2 && reports.iter().all(|report| tsn_of(report, ECNE) == 3));
}

#[test]
fn marks_across_the_end_of_the_number_space() {
    let first = u32::MAX;
    let mut peer = Peer::serving(offering(), &Init { tsn: first, ..init_ack_with(&[capable()]) });
    let piece = |tsn: u32| Data::new(tsn, u16::try_from(tsn.wrapping_sub(first)).expect("few"), b"d").chunk();
    peer.give_marked(&[piece(first), piece(0)]);
    assert_eq!(tsn_of(&peer.take_one(), ECNE), first);
    peer.give_marked(&[piece(1)]);
    peer.give(&[cwr(first), piece(2)]);
    let report = peer.take().pop().expect("a SACK");
    assert_eq!(tsn_of(&report, ECNE), 1);
}

#[test]
fn without_agreement_marks_mean_nothing_and_both_chunks_end_their_packet() {
    let mut peer = Peer::serving(config(), &init_ack_with(&[capable()]));
    peer.give_marked(&[data(1)]);
    assert_eq!(peer.take_one().kinds(), [SACK]);
    for (number, unknown) in [(2, ecne(peer.tsn(1))), (3, cwr(1))] {
        peer.give(&[data(number), unknown, data(number + 1)]);
        peer.wait(ms(500));
        assert_eq!(
            peer.take_one().sack().cumulative,
            number,
            "chunks behind one of unknown type 0x0c or 0x0d are dropped"
        );
    }
}

#[test]
fn rfc3168_6_1_2_a_report_halves_the_window_once_per_round_trip() {
    let (mut peer, acked, last, before) = busy(offering());
    peer.give(&[ecne(peer.tsn(acked + 1))]);
    assert_eq!(cwnd(&mut peer), before / 2);
    peer.give(&[ecne(peer.tsn(acked + 1))]);
    peer.give(&[ecne(peer.tsn(last))]);
    assert_eq!(cwnd(&mut peer), before / 2, "that left before the window was halved");
    peer.nothing_sent();
    peer.ack(last);
    let next = last_sent(&mut peer);
    assert!(next > last);
    let before = cwnd(&mut peer);
    peer.give(&[ecne(peer.tsn(next))]);
    assert_eq!(cwnd(&mut peer), before / 2, "that left later");
    assert_eq!(peer.association().stats().sent.marks_reported, 4);
}

#[test]
fn a_report_is_answered_by_the_next_packet_and_never_by_one_of_its_own() {
    let mut peer = agreed();
    peer.send("one");
    peer.take();
    let (report, ack) = (ecne(peer.tsn(1)), peer.sack(1, 60_000, &[]).chunk());
    peer.give(&[report, ack]);
    peer.nothing_sent();
    peer.send("two");
    let sent = peer.take_one();
    assert_eq!((sent.kinds(), tsn_of(&sent, CWR)), (vec![CWR, DATA], peer.tsn(1)));
    peer.send("three");
    assert_eq!(peer.take_one().kinds(), [DATA], "once for each report");
}

#[test]
fn of_several_reports_in_one_packet_the_first_counts() {
    let mut peer = agreed();
    peer.send("one");
    peer.send("two");
    peer.take();
    let reports = [1, 2, 1, 2].map(|number| ecne(peer.tsn(number)));
    peer.give(&reports);
    assert_eq!(peer.association().stats().sent.marks_reported, 1);
    peer.send("three");
    assert_eq!(tsn_of(&peer.take_one(), CWR), peer.tsn(1));
}

#[test]
fn a_report_of_what_was_never_sent_is_passed_over() {
    let mut peer = agreed();
    let before = cwnd(&mut peer);
    for never in [1, 2, 1 << 30] {
        peer.give(&[ecne(peer.tsn(never))]);
    }
    assert_eq!(cwnd(&mut peer), before);
    peer.send("one");
    assert_eq!(peer.take_one().kinds(), [DATA]);
    assert_eq!(peer.association().stats().sent.marks_reported, 0);
}

#[test]
fn rfc3168_6_1_2_a_loss_and_a_mark_in_one_window_halve_it_once() {
    for mark_first in [true, false] {
        let (mut peer, acked, last, before) = busy(offering());
        let (lost, mark) = (acked + 1, ecne(peer.tsn(last)));
        if mark_first {
            peer.give(std::slice::from_ref(&mark));
        }
        for up_to in lost + 1..=lost + 3 {
            peer.ack_gaps(acked, &[(lost + 1, up_to)]);
        }
        let sent = peer.take_tsns().concat();
        assert!(sent.contains(&lost), "it is repaired all the same");
        if !mark_first {
            peer.give(&[mark]);
        }
        let after = cwnd(&mut peer);
        assert!((before / 2..=before / 2 + 2_440).contains(&after), "{after} of {before}; mark first: {mark_first}");
        for up_to in lost + 4..last {
            peer.ack_gaps(acked, &[(lost + 1, up_to)]);
        }
        let newest = last_sent(&mut peer);
        assert!(newest > last, "new data leaves meanwhile");
        let (after, last) = (cwnd(&mut peer), newest);
        let newest = ecne(peer.tsn(last));
        peer.give(&[newest]);
        assert_eq!(cwnd(&mut peer), after, "packets sent in a fast recovery belong to the same congestion");
        peer.ack(last);
        let (next, before) = (last_sent(&mut peer), cwnd(&mut peer));
        assert!(next >= last + 4);
        for up_to in last + 2..=last + 4 {
            peer.ack_gaps(last, &[(last + 2, up_to)]);
        }
        assert!(cwnd(&mut peer) < before, "the loss of a later packet counts");
    }
}

#[test]
fn a_window_that_was_cut_for_nothing_is_not_given_back_once_the_network_has_marked_a_packet() {
    for is_marked in [false, true] {
        let mut config = Config::published(festina_sctp::Profile::Festina);
        config.timers.heartbeat_interval = None;
        let (mut peer, acked, last, before) =
            busy(Config { carrier: WITH_ECN, congestion: CongestionControl::Rfc9260, ..config });
        let late = acked + 1;
        for up_to in late + 1..=late + 8 {
            peer.ack_gaps(acked, &[(late + 1, up_to)]);
            peer.wait(ms(10));
        }
        assert!(peer.take_tsns().concat().contains(&late), "it counts as lost");
        let cut = cwnd(&mut peer);
        assert!(cut < before);
        if is_marked {
            peer.give(&[ecne(peer.tsn(last))]);
        }
        let mut sack = peer.sack(last, 1 << 20, &[]);
        sack.duplicates.push(peer.tsn(late));
        peer.give(&[sack.chunk()]);
        let threshold = peer.association().stats().path.ssthresh_bytes;
        assert_eq!(threshold > cut, !is_marked, "cut from {before} to {cut}; the threshold is {threshold}");
    }
}

#[test]
fn a_path_that_drops_what_is_capable_of_ecn_delays_four_messages_and_delivers_all() {
    let offering = || Config { carrier: WITH_ECN, ..Config::default() };
    let link = || LinkConfig { delay: Duration::from_millis(50), ..LinkConfig::default() };
    let mut pair = Pair::new([offering(), offering()], [link(), link()], 1);
    pair.routers.drops = Probability::ONE;
    pair.connect(0, 1);
    pair.run_for(Duration::from_secs(1));
    for _ in 0..50 {
        let now = pair.now;
        pair.hosts[0].association().send(now, Message::new("state")).expect("there is room");
        pair.drain(0);
        pair.run_for(Duration::from_millis(250));
    }
    assert_eq!((pair.hosts[1].received.len(), pair.routers.dropped), (50, 4));
}

#[test]
fn a_path_that_marks_every_packet_carries_all_the_same() {
    let config = |congestion| Config { carrier: WITH_ECN, congestion, ..Config::default() };
    for &congestion in CongestionControl::all() {
        let link = || LinkConfig { delay: Duration::from_millis(10), ..LinkConfig::default() };
        let mut pair = Pair::new([config(congestion), config(congestion)], [link(), link()], 1);
        pair.routers.marks = Probability::ONE;
        pair.connect(0, 1);
        pair.run_for(Duration::from_secs(1));
        let now = pair.now;
        pair.hosts[0].association().send(now, Message::new(vec![0; 60_000])).expect("there is room");
        pair.drain(0);
        pair.run_until(|pair| pair.hosts[1].received.len() == 1);
        let stats = pair.hosts[0].association().stats();
        assert!(stats.sent.marks_reported > 0 && stats.sent.retransmitted.total() == 0, "{stats:?}");
        let marked = pair.hosts[1].association().stats().received.packets_marked;
        assert!(marked * 10 > stats.sent.packets * 7, "{marked} of {} packets", stats.sent.packets);
    }
}
