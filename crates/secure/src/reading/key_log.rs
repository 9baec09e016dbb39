//! Key logs in the format of NSS: a label, the client's random value and a secret in each line.

use std::collections::BTreeMap;

/// Sessions whose secrets are kept; further ones are ignored.
const SESSIONS_MAX: usize = 1 << 16;
/// Lengths of secrets: those of SHA-256 and SHA-384.
const SECRET_BYTES: [usize; 2] = [32, 48];

/// Which secret of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Secret {
    Early,
    ClientHandshake,
    ServerHandshake,
    ClientTraffic,
    ServerTraffic,
}

/// The labels of the secrets that packets are protected with (RFC 8446 §7.1), in the order of [`Secret`].
const LABELS: [&[u8]; 5] = [
    b"CLIENT_EARLY_TRAFFIC_SECRET",
    b"CLIENT_HANDSHAKE_TRAFFIC_SECRET",
    b"SERVER_HANDSHAKE_TRAFFIC_SECRET",
    b"CLIENT_TRAFFIC_SECRET_0",
    b"SERVER_TRAFFIC_SECRET_0",
];

/// The secrets of one session.
#[derive(Clone, Default)]
pub(super) struct Session([Vec<u8>; LABELS.len()]);

impl Session {
    pub(super) fn get(&self, secret: Secret) -> Option<&[u8]> {
        self.0.get(secret as usize).map(Vec::as_slice).filter(|secret| !secret.is_empty())
    }
}

/// Secrets of TLS sessions. Its debug output does not show them.
#[derive(Clone, Default)]
pub struct KeyLog {
    sessions: BTreeMap<[u8; 32], Session>,
}

impl KeyLog {
    /// Adds the lines of a key log. Lines that hold no secret of an association are ignored, and so are sessions beyond 65,536.
    pub fn add(&mut self, text: &[u8]) {
        for line in text.split(|byte| *byte == b'\n') {
            self.add_line(line.trim_ascii());
        }
    }

    fn add_line(&mut self, line: &[u8]) -> Option<()> {
        let mut fields = line.split(|byte| *byte == b' ');
        let [label, random, secret] = [fields.next()?, fields.next()?, fields.next()?];
        let place = LABELS.iter().position(|known| *known == label)?;
        let random = <[u8; 32]>::try_from(bytes(random)?).ok()?;
        let secret = bytes(secret).filter(|secret| SECRET_BYTES.contains(&secret.len()))?;
        if self.sessions.len() >= SESSIONS_MAX && !self.sessions.contains_key(&random) {
            return None;
        }
        *self.sessions.entry(random).or_default().0.get_mut(place)? = secret;
        Some(())
    }

    pub(super) fn session(&self, random: &[u8; 32]) -> Option<&Session> {
        self.sessions.get(random)
    }

    /// Returns whether it holds no secret.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }
}

impl core::fmt::Debug for KeyLog {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.debug_struct("KeyLog").field("sessions", &self.sessions.len()).finish_non_exhaustive()
    }
}

/// The bytes of at most 64 pairs of hexadecimal digits.
fn bytes(digits: &[u8]) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_chunks::<2>();
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let byte = |[high, low]: &[u8; 2]| u8::try_from(digit(*high)? << 4 | digit(*low)?).ok();
    if !rest.is_empty() || pairs.len() > 64 {
        return None;
    }
    pairs.iter().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_five_secrets_are_kept_and_all_others_are_ignored() {
        let (random, secret) = ("0a".repeat(32), "bc".repeat(48));
        let lines = [
            format!("# a comment\r\nSERVER_TRAFFIC_SECRET_0 {random} {secret}\r\n"),
            format!("EXPORTER_SECRET {random} {secret}\n"),
            format!("CLIENT_TRAFFIC_SECRET_0 {random} {}\n", &secret[2..]),
            format!("CLIENT_TRAFFIC_SECRET_0 {} {secret}\n", &random[2..]),
            format!("CLIENT_EARLY_TRAFFIC_SECRET {random} {}\n", "+f".repeat(32)),
            format!("CLIENT_HANDSHAKE_TRAFFIC_SECRET {random}"),
        ];
        let mut log = KeyLog::default();
        log.add(lines.concat().as_bytes());
        let session = log.session(&[0x0a; 32]).expect("one session");
        assert_eq!(session.get(Secret::ServerTraffic), Some(&[0xbc; 48][..]));
        for none in [Secret::Early, Secret::ClientHandshake, Secret::ServerHandshake, Secret::ClientTraffic] {
            assert_eq!(session.get(none), None, "{none:?}");
        }
        assert!(!format!("{log:?}").contains("188"), "no secret is printed");
    }

    #[test]
    fn the_number_of_sessions_is_bounded() {
        let mut log = KeyLog::default();
        for number in 0..SESSIONS_MAX + 9 {
            log.add(format!("SERVER_TRAFFIC_SECRET_0 {number:064x} {}", "00".repeat(32)).as_bytes());
        }
        assert_eq!(log.sessions.len(), SESSIONS_MAX);
    }
}
