//! A third kind of channel needs this file and one line in the list of kinds.

use festina_sctp::{AssociationState, Config, Context, Ports};

use super::*;

/// Inverts all bits of its packets.
struct Inverting(sctp::Association);

fn invert(bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|byte| *byte ^= 0xff);
}

impl Channel for Inverting {
    fn core(&self) -> &sctp::Association {
        &self.0
    }

    fn core_mut(&mut self) -> &mut sctp::Association {
        &mut self.0
    }

    fn name(&self) -> Name {
        Name::Tag(self.0.local_tag())
    }

    fn handle_packet(&mut self, now: Instant, path: Path, ecn: EcnCodepoint, mut packet: BytesMut) -> Handled {
        invert(&mut packet);
        handled(self.0.handle_packet(now, path.remote, ecn, &packet.freeze()).is_ok(), || true)
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let before = buffer.len();
        let transmit = self.0.poll_transmit(now, buffer)?;
        invert(buffer.get_mut(before..).unwrap_or_default());
        Some(transmit)
    }
}

kinds! {
    Three {
        Plain(Plain),
        #[expect(dead_code, reason = "the kinds are those of the endpoint, and one more")]
        Secure(Box<Secure>),
        Inverting(Inverting),
    }
}

/// Hands all packets of one side to the other. Returns how many there were.
fn carry(now: Instant, from: &mut Three, to: &mut Three) -> usize {
    let mut packets = 0;
    let mut buffer = Vec::new();
    while from.poll_transmit(now, &mut buffer).is_some() {
        let path = Path { remote: "10.0.0.1:1".parse().unwrap(), local: None };
        assert_ne!(
            to.handle_packet(now, path, EcnCodepoint::NotCapable, BytesMut::from(&buffer[..])),
            Handled::Dropped
        );
        buffer.clear();
        packets += 1;
    }
    packets
}

#[test]
fn a_third_kind_of_channel_carries_messages() {
    let context = Context::new(Config::default(), [1; 16]).unwrap();
    let (now, remote) = (Instant::from_secs(3_600), "10.0.0.1:1".parse().unwrap());
    let kinds: [fn(sctp::Association) -> Three; 2] =
        [|core| Three::Plain(Plain(core)), |core| Three::Inverting(Inverting(core))];
    for kind in kinds {
        // Both sides begin (RFC 9260 §5.2.1), so that no listener is needed.
        let ends = [(5_001, 5_000, 1), (5_000, 5_001, 2)];
        let [mut near, mut far] = ends.map(|(local, peer, nonce)| {
            kind(sctp::Association::connect(now, &context, remote, Ports { local, peer }, nonce))
        });
        while carry(now, &mut near, &mut far) + carry(now, &mut far, &mut near) > 0 {}
        assert_eq!(near.core().state(), AssociationState::Established);
        near.core_mut().send(now, Message::new("over there")).unwrap();
        carry(now, &mut near, &mut far);
        assert_eq!(far.poll_message().map(|message| message.payload().len()), Some(10));
        assert_eq!((near.overhead_bytes(), near.origin(), near.secure().is_none()), (0, None, true));
    }
}
