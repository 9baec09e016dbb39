//! Binding requests of ICE and their answers (RFC 8489, RFC 8445), as far as a lite agent needs them.

use std::net::{IpAddr, SocketAddr};

use ring::hmac;

const MAGIC_COOKIE: u32 = 0x2112_A442;
const HEADER_BYTES: usize = 20;
const BINDING_REQUEST: u16 = 0x0001;
const BINDING_SUCCESS: u16 = 0x0101;
const BINDING_ERROR: u16 = 0x0111;

const USERNAME: u16 = 0x0006;
const MESSAGE_INTEGRITY: u16 = 0x0008;
const ERROR_CODE: u16 = 0x0009;
const UNKNOWN_ATTRIBUTES: u16 = 0x000A;
const XOR_MAPPED_ADDRESS: u16 = 0x0020;
const PRIORITY: u16 = 0x0024;
const USE_CANDIDATE: u16 = 0x0025;
const FINGERPRINT: u16 = 0x8028;
const ICE_CONTROLLED: u16 = 0x8029;

const INTEGRITY_BYTES: usize = 20;
const FINGERPRINT_XOR: u32 = 0x5354_554E;
/// Unknown attributes that an answer lists, at most.
const UNKNOWN_MAX: usize = 8;

/// The identifier of a transaction.
pub(crate) type Transaction = [u8; 12];

/// A binding request that is whole and carries a right FINGERPRINT. Its MESSAGE-INTEGRITY is not checked yet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BindingRequest<'a> {
    pub(crate) transaction: Transaction,
    /// The two fragments of user names: that of this side and that of the peer.
    pub(crate) username: (&'a str, &'a str),
    pub(crate) use_candidate: bool,
    /// The peer claims the controlled role, which is ours.
    pub(crate) is_controlled: bool,
    unknown: Vec<u16>,
    /// Where MESSAGE-INTEGRITY begins.
    integrity_at: usize,
    bytes: &'a [u8],
}

impl<'a> BindingRequest<'a> {
    /// Reads a request with USERNAME, MESSAGE-INTEGRITY and FINGERPRINT; `None` if `bytes` is anything else.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        if read_u16(bytes, 0)? != BINDING_REQUEST || read_u32(bytes, 4)? != MAGIC_COOKIE {
            return None;
        }
        if usize::from(read_u16(bytes, 2)?) + HEADER_BYTES != bytes.len() {
            return None;
        }
        let transaction = bytes.get(8..HEADER_BYTES)?.try_into().ok()?;
        let (mut username, mut integrity_at, mut fingerprint) = (None, None, None);
        let (mut use_candidate, mut is_controlled, mut unknown) = (false, false, Vec::new());
        let mut at = HEADER_BYTES;
        while at < bytes.len() {
            let kind = read_u16(bytes, at)?;
            let length = usize::from(read_u16(bytes, at + 2)?);
            let value = bytes.get(at + 4..at + 4 + length)?;
            match kind {
                FINGERPRINT => {
                    fingerprint = Some((at, read_u32(value, 0)?));
                    // It is the last attribute.
                    break;
                }
                // Attributes after it are not protected, so they are ignored (RFC 8489 §14.5).
                _ if integrity_at.is_some() => {}
                MESSAGE_INTEGRITY if length == INTEGRITY_BYTES => integrity_at = Some(at),
                USERNAME => username = std::str::from_utf8(value).ok()?.split_once(':'),
                USE_CANDIDATE => use_candidate = true,
                ICE_CONTROLLED => is_controlled = true,
                PRIORITY => {}
                // The upper half may be ignored by those who do not know it.
                _ if kind < 0x8000 && unknown.len() < UNKNOWN_MAX => unknown.push(kind),
                _ => {}
            }
            at += 4 + length.next_multiple_of(4);
        }
        let (end, claimed) = fingerprint?;
        if end + 8 != bytes.len() || crc32fast::hash(bytes.get(..end)?) ^ FINGERPRINT_XOR != claimed {
            return None;
        }
        let (username, integrity_at) = (username?, integrity_at?);
        Some(Self { transaction, username, use_candidate, is_controlled, unknown, integrity_at, bytes })
    }

    /// Returns whether the request was made with this password.
    pub(crate) fn is_by(&self, password: &str) -> bool {
        let Some(covered) = self.bytes.get(..self.integrity_at) else { return false };
        let Some(tag) = self.bytes.get(self.integrity_at + 4..self.integrity_at + 4 + INTEGRITY_BYTES) else {
            return false;
        };
        let mut covered = covered.to_vec();
        set_length(&mut covered, 4 + INTEGRITY_BYTES);
        hmac::verify(&key(password), &covered, tag).is_ok()
    }

    /// Returns the answer: an error if the request needs attributes that this side does not know or claims the wrong role.
    pub(crate) fn answer(&self, from: SocketAddr, password: &str) -> Vec<u8> {
        if !self.unknown.is_empty() {
            let list: Vec<u8> = self.unknown.iter().flat_map(|kind| kind.to_be_bytes()).collect();
            let attributes = [(ERROR_CODE, error_code(420)), (UNKNOWN_ATTRIBUTES, list)];
            return message(BINDING_ERROR, self.transaction, &attributes, password);
        }
        if self.is_controlled {
            return message(BINDING_ERROR, self.transaction, &[(ERROR_CODE, error_code(487))], password);
        }
        message(BINDING_SUCCESS, self.transaction, &[(XOR_MAPPED_ADDRESS, mapped(from, self.transaction))], password)
    }

    /// Returns whether the answer is no error.
    pub(crate) fn is_acceptable(&self) -> bool {
        self.unknown.is_empty() && !self.is_controlled
    }
}

/// Writes a binding request as a browser does, for load generators, fuzzing and tests.
pub fn binding_request(transaction: [u8; 12], username: &str, password: &str, use_candidate: bool) -> Vec<u8> {
    const ICE_CONTROLLING: u16 = 0x802A;
    let mut attributes = vec![
        (USERNAME, username.as_bytes().to_vec()),
        (ICE_CONTROLLING, vec![0; 8]),
        (PRIORITY, 0x6E00_1EFF_u32.to_be_bytes().to_vec()),
    ];
    if use_candidate {
        attributes.push((USE_CANDIDATE, Vec::new()));
    }
    message(BINDING_REQUEST, transaction, &attributes, password)
}

/// Writes a binding request with any bytes as attributes, in front of a right MESSAGE-INTEGRITY and FINGERPRINT, for fuzzing.
pub fn binding_request_of(transaction: [u8; 12], attributes: &[u8], password: &str) -> Vec<u8> {
    let mut bytes = header(BINDING_REQUEST, transaction);
    bytes.extend(attributes);
    protect(bytes, password)
}

fn message(kind: u16, transaction: Transaction, attributes: &[(u16, Vec<u8>)], password: &str) -> Vec<u8> {
    let mut bytes = header(kind, transaction);
    for (kind, value) in attributes {
        put(&mut bytes, *kind, value);
    }
    protect(bytes, password)
}

fn header(kind: u16, transaction: Transaction) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(128);
    bytes.extend(kind.to_be_bytes());
    bytes.extend([0; 2]);
    bytes.extend(MAGIC_COOKIE.to_be_bytes());
    bytes.extend(transaction);
    bytes
}

fn protect(mut bytes: Vec<u8>, password: &str) -> Vec<u8> {
    set_length(&mut bytes, 4 + INTEGRITY_BYTES);
    let tag = hmac::sign(&key(password), &bytes);
    put(&mut bytes, MESSAGE_INTEGRITY, tag.as_ref());
    set_length(&mut bytes, 8);
    let checksum = crc32fast::hash(&bytes) ^ FINGERPRINT_XOR;
    put(&mut bytes, FINGERPRINT, &checksum.to_be_bytes());
    bytes
}

fn key(password: &str) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, password.as_bytes())
}

fn put(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    bytes.extend(kind.to_be_bytes());
    bytes.extend(u16::try_from(value.len()).unwrap_or(0).to_be_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

/// Sets the length in the header to that of the attributes so far and of `following` bytes more.
fn set_length(bytes: &mut [u8], following: usize) {
    let length = u16::try_from(bytes.len() - HEADER_BYTES + following).unwrap_or(u16::MAX);
    bytes[2..4].copy_from_slice(&length.to_be_bytes());
}

fn error_code(code: u16) -> Vec<u8> {
    vec![0, 0, u8::try_from(code / 100).unwrap_or(0), u8::try_from(code % 100).unwrap_or(0)]
}

fn mapped(from: SocketAddr, transaction: Transaction) -> Vec<u8> {
    let cookie = MAGIC_COOKIE.to_be_bytes();
    let mask = cookie.iter().chain(&transaction);
    let (family, address) = match from.ip() {
        IpAddr::V4(address) => (1, address.octets().to_vec()),
        IpAddr::V6(address) => (2, address.octets().to_vec()),
    };
    let mut value = vec![0, family];
    value.extend(from.port().to_be_bytes().iter().zip(&cookie).map(|(byte, mask)| byte ^ mask));
    value.extend(address.iter().zip(mask).map(|(byte, mask)| byte ^ mask));
    value
}

fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sample request of RFC 5769 §2.1, whose user name and password are given there.
    const SAMPLE: [u8; 108] = [
        0x00, 0x01, 0x00, 0x58, 0x21, 0x12, 0xa4, 0x42, 0xb7, 0xe7, 0xa7, 0x01, 0xbc, 0x34, 0xd6, 0x86, 0xfa, 0x87,
        0xdf, 0xae, 0x80, 0x22, 0x00, 0x10, 0x53, 0x54, 0x55, 0x4e, 0x20, 0x74, 0x65, 0x73, 0x74, 0x20, 0x63, 0x6c,
        0x69, 0x65, 0x6e, 0x74, 0x00, 0x24, 0x00, 0x04, 0x6e, 0x00, 0x01, 0xff, 0x80, 0x29, 0x00, 0x08, 0x93, 0x2f,
        0xf9, 0xb1, 0x51, 0x26, 0x3b, 0x36, 0x00, 0x06, 0x00, 0x09, 0x65, 0x76, 0x74, 0x6a, 0x3a, 0x68, 0x36, 0x76,
        0x59, 0x20, 0x20, 0x20, 0x00, 0x08, 0x00, 0x14, 0x9a, 0xea, 0xa7, 0x0c, 0xbf, 0xd8, 0xcb, 0x56, 0x78, 0x1e,
        0xf2, 0xb5, 0xb2, 0xd3, 0xf2, 0x49, 0xc1, 0xb5, 0x71, 0xa2, 0x80, 0x28, 0x00, 0x04, 0xe5, 0x7a, 0x3b, 0xcf,
    ];
    const PASSWORD: &str = "VOkJxbRl1RmTxUk/WvJxBt";

    #[test]
    fn the_sample_of_rfc_5769_is_read_and_its_password_verified() {
        let request = BindingRequest::parse(&SAMPLE).expect("a binding request");
        assert_eq!(request.username, ("evtj", "h6vY"));
        assert!(request.is_controlled && !request.use_candidate);
        assert!(request.is_by(PASSWORD));
        assert!(!request.is_by("VOkJxbRl1RmTxUk/WvJxBu"));
    }

    /// The sample answers of RFC 5769 §2.2 and §2.3 name these values for 192.0.2.1:32853 and [2001:db8:1234:5678:11:2233:4455:6677]:32853.
    #[test]
    fn addresses_are_masked_as_in_rfc_5769() {
        let transaction = [0xb7, 0xe7, 0xa7, 0x01, 0xbc, 0x34, 0xd6, 0x86, 0xfa, 0x87, 0xdf, 0xae];
        let masked = |address: &str| mapped(address.parse().unwrap(), transaction);
        assert_eq!(masked("192.0.2.1:32853"), [0x00, 0x01, 0xa1, 0x47, 0xe1, 0x12, 0xa6, 0x43]);
        assert_eq!(
            masked("[2001:db8:1234:5678:11:2233:4455:6677]:32853"),
            [
                0, 2, 0xa1, 0x47, 0x01, 0x13, 0xa9, 0xfa, 0xa5, 0xd3, 0xf1, 0x79, 0xbc, 0x25, 0xf4, 0xb5, 0xbe, 0xd2,
                0xb9, 0xd9
            ]
        );
    }

    #[test]
    fn answers_carry_a_tag_and_a_checksum_that_verify() {
        let bytes = binding_request([7; 12], "here:there", PASSWORD, true);
        let request = BindingRequest::parse(&bytes).expect("a binding request");
        assert!(request.use_candidate && request.is_acceptable());
        let answer = request.answer("192.0.2.1:9".parse().unwrap(), PASSWORD);
        assert_eq!(read_u16(&answer, 0), Some(BINDING_SUCCESS));
        assert!(answer.len() <= bytes.len(), "an answer of {} bytes to {}", answer.len(), bytes.len());
        let (body, checksum) = answer.split_at(answer.len() - 4);
        let covered = &body[..body.len() - 4];
        assert_eq!(read_u32(checksum, 0), Some(crc32fast::hash(covered) ^ FINGERPRINT_XOR));
    }

    #[test]
    fn a_byte_that_was_changed_or_cut_off_is_noticed() {
        for at in 0..SAMPLE.len() {
            let mut changed = SAMPLE;
            changed[at] ^= 1;
            let noticed = BindingRequest::parse(&changed).is_none_or(|request| !request.is_by(PASSWORD));
            assert!(noticed, "byte {at}");
            assert_eq!(BindingRequest::parse(&SAMPLE[..at]), None);
        }
    }

    #[test]
    fn attributes_that_must_be_understood_are_refused_by_name() {
        let bytes = message(BINDING_REQUEST, [1; 12], &[(USERNAME, b"a:b".to_vec()), (0x0011, vec![0; 3])], PASSWORD);
        let request = BindingRequest::parse(&bytes).expect("a binding request");
        assert!(!request.is_acceptable());
        let answer = request.answer("[::1]:9".parse().unwrap(), PASSWORD);
        assert_eq!(read_u16(&answer, 0), Some(BINDING_ERROR));
        assert_eq!(&answer[20..28], [0, 9, 0, 4, 0, 0, 4, 20]);
        assert_eq!(&answer[28..34], [0, 10, 0, 2, 0, 0x11]);
    }
}
