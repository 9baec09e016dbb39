//! Offers, requests of ICE and DTLS records from strangers, to a gateway with one browser on its way.

use std::net::SocketAddr;
use std::sync::OnceLock;

use arbitrary::Arbitrary;
use festina_units::{Duration, Instant};
use festina_web::gateway::{Gateway, GatewayLimits, PeerId, binding_request};

pub(crate) const OFFER: &str = "v=0\r\nm=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\na=ice-ufrag:here\r\na=mid:0\r\na=setup:actpass\r\n\
    a=sctp-port:5000\r\na=fingerprint:sha-256 00:01:02:03:04:05:06:07:08:09:0A:0B:0C:0D:0E:0F:10:11:12:13:14:15:16:17:18:19:1A:1B:1C:1D:1E:1F\r\n";

#[derive(Arbitrary, Debug)]
enum Step<'a> {
    /// An offer; with a number, for a restart.
    Offer(Option<u8>, &'a str),
    /// The offer of the browser, with one line more.
    Line(&'a str),
    Datagram(u8, &'a [u8]),
    /// A request with the browser's password.
    Ask(u8, u8, bool),
    /// The header of a record in front of the bytes.
    Record(u8, u8, &'a [u8]),
    Send(u8, &'a [u8]),
    Close(u8),
    Wait(u16),
}

/// The user name's first part and the password of an answer.
pub(crate) fn credentials(answer: &str) -> (&str, &str) {
    let of = |name: &str| answer.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    (of("a=ice-ufrag:"), of("a=ice-pwd:"))
}

pub(crate) fn gateway(now: Instant) -> Gateway {
    static CLOCK: OnceLock<std::time::Instant> = OnceLock::new();
    let clock = *CLOCK.get_or_init(clock);
    let mut limits = GatewayLimits::default();
    limits.peers_max = 8;
    Gateway::new(now, clock, vec![SocketAddr::from(([192, 0, 2, 1], 9))], limits).unwrap()
}

/// Runs an input.
///
/// # Panics
/// If more is sent to an address than three times the bytes received from it, a limit is exceeded, or time stands still.
pub fn run(data: &[u8]) {
    let Some(steps) = crate::read::<Vec<Step<'_>>>(data) else { return };
    let mut now = Instant::from_secs(1);
    let mut gateway = gateway(now);
    let (_, answer) = gateway.answer(now, OFFER).unwrap();
    let (user, password) = credentials(&answer);
    let user = format!("{user}:here");
    let (mut received, mut sent) = (0, 0);
    for step in steps.iter().take(64) {
        let mut arrive = |gateway: &mut Gateway, from: u8, bytes: &[u8]| {
            received += bytes.len();
            gateway.handle_datagram(
                now,
                SocketAddr::from(([198, 51, 100, 1], 1_000 + u16::from(from % 8))),
                None,
                bytes,
            );
        };
        match *step {
            Step::Offer(None, text) => drop(gateway.answer(now, text)),
            Step::Offer(Some(peer), text) => drop(gateway.restart(peer.into(), text)),
            Step::Line(line) => drop(gateway.answer(now, &format!("{OFFER}{line}"))),
            Step::Datagram(from, bytes) => arrive(&mut gateway, from, bytes),
            Step::Ask(from, number, chosen) => {
                let request = binding_request([number; 12], &user, password, chosen);
                arrive(&mut gateway, from, &request);
            }
            Step::Record(from, kind, bytes) => {
                let mut record = vec![20 + kind % 8, 254, 253, 0, 0, 0, 0, 0, 0, 0, kind];
                record.extend((bytes.len() as u16).to_be_bytes());
                record.extend(bytes);
                arrive(&mut gateway, from, &record);
            }
            Step::Send(peer, bytes) => {
                let label = SocketAddr::from(([0x100, 0, 0, u16::from(peer), 0, 0, 0, 1], 5_000));
                PeerId::from_label(label).into_iter().for_each(|peer| gateway.send(now, peer, bytes));
            }
            Step::Close(peer) => {
                let label = SocketAddr::from(([0x100, 0, 0, u16::from(peer), 0, 0, 0, 1], 5_000));
                PeerId::from_label(label).into_iter().for_each(|peer| gateway.close(peer));
            }
            Step::Wait(milliseconds) => {
                now += Duration::from_millis(milliseconds.into());
                gateway.handle_timeout(now);
                assert!(gateway.poll_deadline().is_none_or(|deadline| deadline > now), "a deadline has passed");
            }
        }
        sent += std::iter::from_fn(|| gateway.poll_datagram()).map(|datagram| datagram.bytes.len()).sum::<usize>();
        assert!(sent <= 3 * received, "{sent} bytes for {received}");
        assert!(gateway.peers() <= 8);
        assert_eq!(gateway.poll_packet(), None, "no handshake is complete");
        while gateway.poll_event().is_some() {}
    }
}

#[expect(clippy::disallowed_methods, reason = "DTLS takes the standard library's instants; only differences count")]
fn clock() -> std::time::Instant {
    std::time::Instant::now()
}
