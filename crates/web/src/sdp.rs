//! Offers of browsers and the answers to them (RFC 8866, RFC 8839, RFC 8841), as far as data channels need them.

use std::fmt::Write as _;
use std::net::SocketAddr;

/// An offer longer than this is refused.
pub(crate) const OFFER_BYTES_MAX: usize = 64 * 1024;
/// Bytes of the largest message that this side takes.
pub(crate) const MESSAGE_BYTES_MAX: usize = 256 * 1024;
/// The same of a browser that does not say (RFC 8841 §6).
const MESSAGE_BYTES_UNSAID: usize = 64 * 1024;
/// Port of SCTP inside DTLS (RFC 8841 §5.1).
pub(crate) const SCTP_PORT: u16 = 5_000;

/// Why an offer was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OfferError {
    /// The text is too long.
    #[error("the offer is longer than 65,536 bytes")]
    TooLong,
    /// A line that every offer of a data channel has.
    #[error("the offer has no valid line {0:?}")]
    Missing(&'static str),
    /// The offer has audio, video or several sections.
    #[error("the offer must have one section, m=application with UDP/DTLS/SCTP, and no audio or video")]
    Sections,
    /// The browser wants to wait for a DTLS handshake that the server begins.
    #[error("the offer says a=setup:passive; the browser must begin the DTLS handshake")]
    Passive,
    /// Another SCTP port than 5000.
    #[error("the offer's a=sctp-port is not 5000")]
    Port,
    /// Every peer that the limits allow is connected.
    #[error("the server has as many peers as it takes")]
    TooMany,
    /// The peer that is to be restarted does not exist or has another certificate.
    #[error("no peer has this identity and certificate")]
    UnknownPeer,
}

/// What an offer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) ufrag: String,
    /// SHA-256 of the certificate.
    pub(crate) fingerprint: [u8; 32],
    mid: String,
    /// The INIT chunk of the browser (draft-hancke-tsvwg-snap), in base 64.
    pub(crate) init: Option<String>,
    /// Bytes of the largest message that the browser takes (RFC 8841 §6).
    pub(crate) message_bytes_max: usize,
}

impl Offer {
    pub(crate) fn parse(text: &str) -> Result<Self, OfferError> {
        if text.len() > OFFER_BYTES_MAX {
            return Err(OfferError::TooLong);
        }
        let lines = || text.lines().map(str::trim_end);
        let attribute = |name: &'static str| lines().find_map(|line| line.strip_prefix(name));
        let mut sections = lines().filter_map(|line| line.strip_prefix("m="));
        let is_data = |section: &str| {
            let mut words = section.split(' ');
            words.next() == Some("application") && words.nth(1) == Some("UDP/DTLS/SCTP")
        };
        if !sections.next().is_some_and(is_data) || sections.next().is_some() {
            return Err(OfferError::Sections);
        }
        let missing = OfferError::Missing;
        // RFC 8839 §5.4: 4 to 256 characters of this alphabet.
        let is_ice = |text: &&str| {
            (4..=256).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(&byte))
        };
        let ufrag = attribute("a=ice-ufrag:").filter(is_ice).ok_or(missing("a=ice-ufrag"))?;
        // RFC 8866 §9: a token, here of visible characters alone.
        let is_token = |text: &&str| (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        let mid = attribute("a=mid:").filter(is_token).ok_or(missing("a=mid"))?;
        let sha256 = |line: &str| line.strip_prefix("a=fingerprint:").and_then(fingerprint);
        let fingerprint = lines().find_map(sha256).ok_or(missing("a=fingerprint:sha-256"))?;
        match attribute("a=setup:").ok_or(missing("a=setup"))? {
            "actpass" | "active" => {}
            "passive" => return Err(OfferError::Passive),
            _ => return Err(missing("a=setup")),
        }
        match attribute("a=sctp-port:").map(str::parse) {
            Some(Ok(SCTP_PORT)) => {}
            Some(Ok(_)) => return Err(OfferError::Port),
            _ => return Err(missing("a=sctp-port")),
        }
        let message_bytes_max = match attribute("a=max-message-size:").map(str::parse) {
            None => MESSAGE_BYTES_UNSAID,
            Some(Ok(0)) => MESSAGE_BYTES_MAX,
            Some(Ok(bytes)) => bytes,
            Some(Err(_)) => return Err(missing("a=max-message-size")),
        };
        let init = attribute("a=sctp-init:").map(str::to_owned);
        Ok(Self { ufrag: ufrag.to_owned(), fingerprint, mid: mid.to_owned(), init, message_bytes_max })
    }

    /// Writes the answer of a lite agent, which waits for the browser's handshake.
    pub(crate) fn answer(&self, answer: &Answer<'_>) -> String {
        let mut text = String::with_capacity(1024);
        let colons = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":");
        let lines = [
            "v=0".to_owned(),
            format!("o=- {} 1 IN IP4 127.0.0.1", answer.session),
            "s=-".to_owned(),
            "t=0 0".to_owned(),
            format!("a=group:BUNDLE {}", self.mid),
            "a=ice-lite".to_owned(),
            "m=application 9 UDP/DTLS/SCTP webrtc-datachannel".to_owned(),
            "c=IN IP4 0.0.0.0".to_owned(),
            format!("a=mid:{}", self.mid),
            format!("a=ice-ufrag:{}", answer.ufrag),
            format!("a=ice-pwd:{}", answer.password),
            format!("a=fingerprint:sha-256 {}", colons(&answer.fingerprint)),
            "a=setup:passive".to_owned(),
            format!("a=sctp-port:{SCTP_PORT}"),
            format!("a=max-message-size:{MESSAGE_BYTES_MAX}"),
        ];
        for line in lines {
            let _ = write!(text, "{line}\r\n");
        }
        for (index, address) in answer.addresses.iter().enumerate() {
            // RFC 8445 §5.1.2.1: type preference 126, one component.
            let preference = 65_535 - u32::try_from(index).unwrap_or(0);
            let priority = (126 << 24) + (preference << 8) + 255;
            let _ =
                write!(text, "a=candidate:{index} 1 udp {priority} {} {} typ host\r\n", address.ip(), address.port());
        }
        text.push_str("a=end-of-candidates\r\n");
        text
    }
}

/// What an answer says.
pub(crate) struct Answer<'a> {
    pub(crate) session: u64,
    pub(crate) ufrag: &'a str,
    pub(crate) password: &'a str,
    pub(crate) fingerprint: [u8; 32],
    pub(crate) addresses: &'a [SocketAddr],
}

/// Reads `sha-256 AA:BB:...`.
fn fingerprint(text: &str) -> Option<[u8; 32]> {
    let (algorithm, digits) = text.split_once(' ')?;
    if !algorithm.eq_ignore_ascii_case("sha-256") {
        return None;
    }
    let mut digest = [0; 32];
    let mut pairs = digits.trim().split(':');
    for byte in &mut digest {
        let pair =
            pairs.next().filter(|pair| pair.len() == 2 && pair.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
        *byte = u8::from_str_radix(pair, 16).ok()?;
    }
    pairs.next().is_none().then_some(digest)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An offer as Chromium writes it, with the fingerprint of `certificate_digest`.
    pub(crate) fn offer(ufrag: &str, certificate_digest: [u8; 32]) -> String {
        let digits: Vec<String> = certificate_digest.iter().map(|byte| format!("{byte:02X}")).collect();
        [
            "v=0",
            "o=- 4611731400430051336 2 IN IP4 127.0.0.1",
            "s=-",
            "t=0 0",
            "a=group:BUNDLE 0",
            "a=extmap-allow-mixed",
            "a=msid-semantic: WMS",
            "m=application 58712 UDP/DTLS/SCTP webrtc-datachannel",
            "c=IN IP4 192.0.2.7",
            "a=candidate:1 1 udp 2113937151 8c7a.local 58712 typ host generation 0 network-cost 999",
            &format!("a=ice-ufrag:{ufrag}"),
            "a=ice-pwd:R1kyZmXtcVlIZYcDqfy7ldhV",
            "a=ice-options:trickle",
            &format!("a=fingerprint:sha-256 {}", digits.join(":")),
            "a=setup:actpass",
            "a=mid:0",
            "a=sctp-port:5000",
            "a=max-message-size:262144",
            "",
        ]
        .join("\r\n")
    }

    #[test]
    fn a_browsers_offer_is_read_and_answered() {
        let text = offer("ETEn", [0xAB; 32]);
        let offer = Offer::parse(&text).expect("a valid offer");
        assert_eq!((offer.ufrag.as_str(), offer.fingerprint), ("ETEn", [0xAB; 32]));
        assert_eq!(offer.message_bytes_max, 262_144);
        let size = |to: &str| {
            Offer::parse(&text.replace("a=max-message-size:262144", to)).map(|offer| offer.message_bytes_max)
        };
        assert_eq!([size("a=max-message-size:0"), size("a=x")], [Ok(MESSAGE_BYTES_MAX), Ok(65_536)]);
        let addresses = ["192.0.2.1:9".parse().unwrap(), "[2001:db8::1]:9".parse().unwrap()];
        let answer =
            Answer { session: 7, ufrag: "abcd", password: "secret", fingerprint: [1; 32], addresses: &addresses };
        let answer = offer.answer(&answer);
        for line in
            ["a=setup:passive", "a=ice-lite", "a=mid:0", "a=candidate:1 1 udp 2130706175 2001:db8::1 9 typ host"]
        {
            assert!(answer.contains(&format!("{line}\r\n")), "{line} in {answer}");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let whole = offer("ETEn", [1; 32]);
        for name in ["a=ice-ufrag", "a=mid", "a=fingerprint", "a=setup", "a=sctp-port"] {
            let cut: String =
                whole.lines().filter(|line| !line.starts_with(name)).map(|line| format!("{line}\n")).collect();
            assert!(
                matches!(Offer::parse(&cut), Err(OfferError::Missing(missing)) if missing.starts_with(name)),
                "{name}"
            );
        }
    }

    #[test]
    fn what_cannot_be_served_is_refused() {
        let whole = offer("ETEn", [1; 32]);
        let with = |from: &str, to: &str| Offer::parse(&whole.replace(from, to)).unwrap_err();
        assert_eq!(with("actpass", "passive"), OfferError::Passive);
        assert_eq!(with("sctp-port:5000", "sctp-port:5001"), OfferError::Port);
        assert_eq!(with("UDP/DTLS", "TCP/DTLS"), OfferError::Sections);
        assert_eq!(with("a=mid:0\r\n", "a=mid:0\r\nm=audio 9 UDP/TLS/RTP/SAVPF 111\r\n"), OfferError::Sections);
        assert_eq!(with("a=ice-ufrag:ETEn", "a=ice-ufrag:E n"), OfferError::Missing("a=ice-ufrag"));
        assert_eq!(with("size:262144", "size:-1"), OfferError::Missing("a=max-message-size"));
        assert_eq!(with(":01\r", ":01:01\r"), OfferError::Missing("a=fingerprint:sha-256"));
        assert_eq!(Offer::parse(&"a".repeat(70_000)), Err(OfferError::TooLong));
    }
}
