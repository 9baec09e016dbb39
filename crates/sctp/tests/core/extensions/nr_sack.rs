//! NR-SACK: negotiation, and what either side does with it.

use super::*;
use festina_sctp::{ClosedReason, Event};

use crate::rfc9260::packet::{ABORT, ERROR, SACK, data};
use crate::rfc9260::peer::{Peer, ms};

fn nr_sack(cumulative: u32) -> Vec<u8> {
    let mut value = cumulative.to_be_bytes().to_vec();
    value.extend(60_000_u32.to_be_bytes());
    value.extend([0; 8]);
    chunk(NR_SACK, 0, &value)
}

/// NR-SACK of the association's TSNs, counted from 1; the blocks are offsets from the cumulative TSN.
fn nr_sack_of(peer: &Peer, cumulative: u32, gaps: &[(u16, u16)], nr_gaps: &[(u16, u16)]) -> Vec<u8> {
    let mut value = peer.tsn(cumulative).to_be_bytes().to_vec();
    value.extend(60_000_u32.to_be_bytes());
    for blocks in [gaps, nr_gaps] {
        value.extend(u16::try_from(blocks.len()).unwrap().to_be_bytes());
    }
    value.extend([0; 4]);
    for (start, end) in gaps.iter().chain(nr_gaps) {
        value.extend(start.to_be_bytes());
        value.extend(end.to_be_bytes());
    }
    chunk(NR_SACK, 0, &value)
}

/// An association that has sent this number of messages.
fn having_sent(messages: usize) -> Peer {
    let mut peer = Peer::serving(config(), &init_ack_with(&[extensions(&[NR_SACK])]));
    (0..messages).for_each(|_| peer.send(vec![7; 700]));
    assert_eq!(peer.take_tsns().concat().len(), messages);
    peer
}

#[test]
fn nr_sack_whose_blocks_overlap_reports_what_either_list_says() {
    // TSN 3 is renegable and reported, TSN 2 is in both lists: only TSN 1 is missing.
    for (gaps, nr_gaps) in [([(2, 3)], [(2, 2)]), ([(2, 2)], [(2, 3)]), ([(2, 3)], [(2, 3)]), ([(3, 3)], [(2, 3)])] {
        let mut peer = having_sent(3);
        let report = nr_sack_of(&peer, 0, &gaps, &nr_gaps);
        peer.give(&[report]);
        peer.wait(ms(1_500));
        assert_eq!(peer.take_tsns(), [[1]], "{gaps:?} {nr_gaps:?}");
        peer.ack(3);
        peer.wait(ms(5_000));
        peer.nothing_sent();
        assert!(peer.closed().is_none() && peer.events.contains(&Event::Drained));
    }
}

#[test]
fn nr_sack_that_takes_back_what_was_settled_ends_nothing_while_the_peer_may_move_on() {
    for (cumulative, gaps, nr_gaps) in [
        (1, vec![], vec![]),
        (1, vec![], vec![(4, 4)]),
        (1, vec![], vec![(2, 2)]),
        (0, vec![(2, 5)], vec![]),
        (0, vec![], vec![(3, 3)]),
    ] {
        let mut peer = having_sent(6);
        let settled = nr_sack_of(&peer, 0, &[], &[(2, 5)]);
        peer.give(&[settled]);
        let withdrawn = nr_sack_of(&peer, cumulative, &gaps, &nr_gaps);
        peer.give(&[withdrawn]);
        peer.wait(ms(1_500));
        let sent = peer.take_tsns().concat();
        assert!(!sent.is_empty() && sent.iter().all(|tsn| [1, 6].contains(tsn)), "{sent:?}: settled payloads are gone");
        peer.ack(6);
        assert!(peer.closed().is_none() && peer.events.contains(&Event::Drained), "{cumulative} {gaps:?} {nr_gaps:?}");
    }
    let mut peer = having_sent(6);
    let settled = nr_sack_of(&peer, 0, &[], &[(2, 6)]);
    peer.give(&[settled]);
    peer.ack(1);
    assert!(peer.take().iter().any(|sent| sent.has(ABORT)), "nothing could move the peer on");
    assert!(matches!(peer.closed(), Some(ClosedReason::ProtocolViolation(_))));
}

#[test]
fn nr_sack_that_reports_the_tsn_behind_the_cumulative_one_contradicts_itself_and_is_not_believed() {
    let mut peer = having_sent(3);
    let report = nr_sack_of(&peer, 0, &[(1, 1)], &[(2, 2)]);
    peer.give(&[report]);
    peer.wait(ms(1_500));
    assert_eq!(peer.take_tsns().concat()[0], 1, "RFC 9260 §3.3.4: the cumulative TSN ack would be 1");
    peer.ack(3);
    assert!(peer.closed().is_none());
}

#[test]
fn nr_sack_is_sent_where_both_sides_announce_it_and_something_is_missing() {
    let mut peer = Peer::serving(config(), &init_ack_with(&[extensions(&[NR_SACK])]));
    peer.give(&[data(1)]);
    assert_eq!(peer.take_one().kinds(), [SACK], "there is nothing that could be taken back");
    peer.give(&[data(3)]);
    assert_eq!(peer.take_one().kinds(), [NR_SACK]);
}

#[test]
fn nr_sack_is_an_unknown_chunk_where_it_was_not_agreed_on_and_sack_is_sent() {
    let mut peer = Peer::established();
    peer.give(&[data(2)]);
    assert_eq!(peer.take_one().kinds(), [SACK]);
    peer.give(&[nr_sack(0)]);
    assert!(
        peer.take().iter().all(|packet| packet.kinds() != [ERROR]),
        "type 0x10 is skipped in silence or ends the packet"
    );
    assert!(!peer.association().is_closed());
}

#[test]
fn nr_sack_is_not_announced_and_not_sent_where_the_settings_refuse_it() {
    let mut config = config();
    config.partial_reliability.nr_sack = false;
    let init = Peer::connecting(config.clone()).take_one().init();
    assert_eq!(init.all(SUPPORTED_EXTENSIONS), [[FORWARD_TSN, RE_CONFIG]]);
    let mut peer = Peer::serving(config, &init_ack_with(&[extensions(&[NR_SACK])]));
    peer.give(&[data(3)]);
    assert_eq!(peer.take_one().kinds(), [SACK]);
}
