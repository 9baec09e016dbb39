//! When lifetimes are looked at (RFC 3758 §4.1 leaves it open; Rajiullah and Brunstrom 2012 §IV-C).

use super::*;
use crate::config::{Expiry, PartialReliability};
use crate::wire::Framing;

/// A sender whose peer supports FORWARD-TSN, with a round trip of 100 ms.
fn looking(expiry: Expiry) -> Rig {
    let partial_reliability = PartialReliability { expiry, ..PartialReliability::default() };
    let mut rig = Rig::with(&Config { partial_reliability, ..config(Profile::Rfc9260.mechanisms()) }).measured(ms(100));
    rig.sender.agree(Framing::Data, true);
    rig
}

fn brief() -> Message {
    Message::new(vec![7; 100]).with_lifetime(ms(30))
}

fn abandoned(rig: &Rig) -> u64 {
    rig.stats().sent.messages_abandoned
}

#[test]
fn what_expires_in_the_queue_leaves_once_if_only_retransmissions_count_and_never_otherwise() {
    for (expiry, leaves) in
        [(Expiry::AtOnce, false), (Expiry::BeforeTransmission, false), (Expiry::BeforeRetransmission, true)]
    {
        let mut rig = looking(expiry);
        rig.send(brief());
        rig.wait(50);
        assert_eq!(rig.packet().len(), usize::from(leaves), "{expiry:?}");
        assert_eq!(abandoned(&rig), u64::from(!leaves), "{expiry:?}");
    }
}

#[test]
fn what_is_on_its_way_at_its_deadline_is_abandoned_only_if_lifetimes_count_at_once() {
    for (expiry, given_up) in
        [(Expiry::AtOnce, true), (Expiry::BeforeTransmission, false), (Expiry::BeforeRetransmission, false)]
    {
        let mut rig = looking(expiry);
        rig.send(brief());
        rig.packet();
        rig.wait(50);
        rig.handle_timeout();
        assert_eq!(abandoned(&rig), u64::from(given_up), "{expiry:?}");
        rig.wait(50);
        rig.sack(1, &[]);
        assert_eq!(rig.stats().sent.messages_acked, u64::from(!given_up), "{expiry:?}");
    }
}

#[test]
fn what_is_lost_and_expired_is_never_sent_again_whenever_lifetimes_count() {
    for expiry in [Expiry::AtOnce, Expiry::BeforeTransmission, Expiry::BeforeRetransmission] {
        let mut rig = looking(expiry);
        rig.send(brief());
        rig.packet();
        rig.send_bytes(100);
        rig.packet();
        rig.wait(100);
        rig.sack(0, &[(2, 2)]);
        rig.wait(5_000);
        rig.handle_timeout();
        let (told, data) = rig.packet_with_forward();
        assert_eq!(told.map(|told| told.cumulative), Some(1), "{expiry:?}");
        assert_eq!(data, [], "{expiry:?}");
        assert_eq!(abandoned(&rig), 1, "{expiry:?}");
    }
}
