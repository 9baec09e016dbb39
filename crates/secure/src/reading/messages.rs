//! The handshake messages that a capture shows (RFC 8446 §4.1.2, §4.3.1), as far as a reader needs them.

use crate::parameters::Parameters;

const CLIENT_HELLO: u8 = 1;
const ENCRYPTED_EXTENSIONS: u8 = 8;
/// The extension that holds the parameters (RFC 9001 §8.2).
const PARAMETERS: u16 = 0x39;
/// Type and length of a message, and the version in a hello.
const RANDOM_AT: usize = 4 + 2;

/// Returns the client's random value, which names its session in key logs.
pub(super) fn client_random(text: &[u8]) -> Option<[u8; 32]> {
    text.first().filter(|kind| **kind == CLIENT_HELLO)?;
    text.get(RANDOM_AT..)?.first_chunk().copied()
}

/// Returns whether the first message is complete.
pub(super) fn is_complete(text: &[u8]) -> bool {
    text.split_first().is_some_and(|(_, mut rest)| vector(&mut rest, 3).is_some())
}

/// Returns the parameters in the client's hello.
pub(super) fn client_parameters(text: &[u8]) -> Option<Parameters> {
    let mut hello = message(text, CLIENT_HELLO)?.get(2 + 32..)?;
    let [_session, _suites, _compression, extensions] =
        [vector(&mut hello, 1)?, vector(&mut hello, 2)?, vector(&mut hello, 1)?, vector(&mut hello, 2)?];
    parameters(extensions)
}

/// Returns the parameters in the server's answer.
pub(super) fn server_parameters(text: &[u8]) -> Option<Parameters> {
    parameters(vector(&mut message(text, ENCRYPTED_EXTENSIONS)?, 2)?)
}

/// The body of the first message, if it has this type.
fn message(text: &[u8], kind: u8) -> Option<&[u8]> {
    let (first, mut rest) = text.split_first()?;
    if *first == kind { vector(&mut rest, 3) } else { None }
}

/// Splits off a vector behind its length (RFC 8446 §3.4).
fn vector<'a>(bytes: &mut &'a [u8], length_bytes: usize) -> Option<&'a [u8]> {
    let (length, rest) = bytes.split_at_checked(length_bytes)?;
    let length = length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
    let (content, rest) = rest.split_at_checked(length)?;
    *bytes = rest;
    Some(content)
}

fn parameters(mut extensions: &[u8]) -> Option<Parameters> {
    while let Some((kind, rest)) = extensions.split_first_chunk() {
        extensions = rest;
        let content = vector(&mut extensions, 2)?;
        if u16::from_be_bytes(*kind) == PARAMETERS {
            return Parameters::read(content).ok();
        }
    }
    None
}
