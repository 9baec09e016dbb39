//! The handshake messages of TLS (RFC 8446 §4), as far as they are read here: before TLS runs, and in captures.

use crate::parameters::Parameters;

const CLIENT_HELLO: u8 = 1;
const ENCRYPTED_EXTENSIONS: u8 = 8;
const CERTIFICATE: u8 = 11;
/// The extension that holds the server's name (RFC 6066 §3), and the kind of name that it has.
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;
/// The extension that lists application protocols (RFC 7301 §3.1).
const ALPN: u16 = 16;
/// The extension that holds the parameters (RFC 9001 §8.2).
const PARAMETERS: u16 = 0x39;
/// Type and length of a message, and the version in a hello.
const RANDOM_AT: usize = 4 + 2;

/// Returns the client's random value, which names its session in key logs.
pub(crate) fn client_random(text: &[u8]) -> Option<[u8; 32]> {
    text.first().filter(|kind| **kind == CLIENT_HELLO)?;
    text.get(RANDOM_AT..)?.first_chunk().copied()
}

/// Returns whether the first message is complete.
pub(crate) fn is_complete(text: &[u8]) -> bool {
    text.split_first().is_some_and(|(_, mut rest)| vector(&mut rest, 3).is_some())
}

/// The parts of a client's hello that decide whether it is admitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientHello<'a> {
    /// The blob of parameters.
    pub(crate) parameters: Option<&'a [u8]>,
    pub(crate) server_name: Option<&'a str>,
    /// The list of application protocols.
    protocols: &'a [u8],
}

impl<'a> ClientHello<'a> {
    /// Reads the first message. `None` if it is no well-formed hello.
    pub(crate) fn read(text: &'a [u8]) -> Option<Self> {
        let mut rest = message(text, CLIENT_HELLO)?.get(2 + 32..)?;
        let [_session, _suites, _compression, mut extensions] =
            [vector(&mut rest, 1)?, vector(&mut rest, 2)?, vector(&mut rest, 1)?, vector(&mut rest, 2)?];
        let mut hello = Self::default();
        while !extensions.is_empty() {
            let (kind, mut content) = extension(&mut extensions)?;
            match kind {
                SERVER_NAME => hello.server_name = host_name(vector(&mut content, 2)?),
                ALPN => hello.protocols = vector(&mut content, 2)?,
                PARAMETERS => hello.parameters = Some(content),
                _ => {}
            }
        }
        Some(hello)
    }

    /// Returns the application protocol that a server with these protocols chooses (RFC 7301 §3.2).
    pub(crate) fn choose_protocol(&self, own: &[Vec<u8>]) -> Option<Vec<u8>> {
        let mut rest = self.protocols;
        let offered: Vec<&[u8]> = std::iter::from_fn(|| vector(&mut rest, 1)).collect();
        own.iter().find(|own| offered.contains(&&own[..])).cloned()
    }
}

fn host_name(mut list: &[u8]) -> Option<&str> {
    let (kind, rest) = list.split_first()?;
    list = rest;
    vector(&mut list, 2).filter(|_| *kind == HOST_NAME).and_then(|name| str::from_utf8(name).ok())
}

/// Returns the parameters in the client's hello.
pub(crate) fn client_parameters(text: &[u8]) -> Option<Parameters> {
    Parameters::read(ClientHello::read(text)?.parameters?).ok()
}

/// Whether the text begins as a client's hello, as far as it was received.
pub(crate) fn may_be_hello(text: &[u8]) -> bool {
    text.first().is_none_or(|kind| *kind == CLIENT_HELLO)
}

/// Splits off the first message if it is complete.
pub(crate) fn split_message<'a>(text: &mut &'a [u8]) -> Option<&'a [u8]> {
    let mut rest = text.get(1..)?;
    let length = 1 + 3 + vector(&mut rest, 3)?.len();
    let (first, rest) = text.split_at_checked(length)?;
    *text = rest;
    Some(first)
}

/// The announced length of the first message, if it is a chain of certificates (RFC 8446 §4.4.2).
pub(crate) fn chain_bytes(text: &[u8]) -> Option<usize> {
    match text {
        [CERTIFICATE, high, middle, low, ..] => {
            Some(usize::from(*high) << 16 | usize::from(*middle) << 8 | usize::from(*low))
        }
        _ => None,
    }
}

/// The number of certificates in a message that is a chain.
pub(crate) fn chain_length(text: &[u8]) -> Option<usize> {
    let mut rest = message(text, CERTIFICATE)?;
    let (_context, mut entries) = (vector(&mut rest, 1)?, vector(&mut rest, 3)?);
    let mut count = 0;
    while vector(&mut entries, 3).is_some() && vector(&mut entries, 2).is_some() {
        count += 1;
    }
    Some(count)
}

/// Returns the parameters in the server's answer.
pub(crate) fn server_parameters(text: &[u8]) -> Option<Parameters> {
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

/// Splits off an extension: its type and its contents.
fn extension<'a>(extensions: &mut &'a [u8]) -> Option<(u16, &'a [u8])> {
    let (kind, rest) = extensions.split_first_chunk()?;
    *extensions = rest;
    Some((u16::from_be_bytes(*kind), vector(extensions, 2)?))
}

fn parameters(mut extensions: &[u8]) -> Option<Parameters> {
    let blob = std::iter::from_fn(|| extension(&mut extensions)).find(|(kind, _)| *kind == PARAMETERS);
    Parameters::read(blob?.1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length(bytes: usize, content: &[u8]) -> Vec<u8> {
        [&content.len().to_be_bytes()[8 - bytes..], content].concat()
    }

    #[test]
    fn a_hello_is_read_whole_or_not_at_all() {
        let extension = |kind: u16, content: &[u8]| [&kind.to_be_bytes()[..], &length(2, content)].concat();
        let name = length(2, &[&[HOST_NAME][..], &length(2, b"Server.Test")].concat());
        let protocols = length(2, &[length(1, b"one"), length(1, b"two")].concat());
        let extensions =
            [extension(SERVER_NAME, &name), extension(ALPN, &protocols), extension(PARAMETERS, b"blob")].concat();
        let body = [&[3; 34][..], &[0, 0, 2, 1, 2, 1, 0], &length(2, &extensions)].concat();
        let text = [&[CLIENT_HELLO][..], &length(3, &body)].concat();
        let hello = ClientHello::read(&text).unwrap();
        assert_eq!((hello.parameters, hello.server_name), (Some(&b"blob"[..]), Some("Server.Test")));
        let choose =
            |own: &[&str]| hello.choose_protocol(&own.iter().map(|own| own.as_bytes().to_vec()).collect::<Vec<_>>());
        assert_eq!(choose(&["three", "two", "one"]), Some(b"two".to_vec()), "the server's order counts");
        assert_eq!(choose(&["three"]), None);
        for end in 0..text.len() {
            assert_eq!(ClientHello::read(&text[..end]), None, "{end} bytes");
        }
    }

    #[test]
    fn certificates_are_counted() {
        let entry = [length(3, &[7; 300]), length(2, &[])].concat();
        let body = [length(1, &[]), length(3, &entry.repeat(3))].concat();
        let text = [&[CERTIFICATE][..], &length(3, &body)].concat();
        assert_eq!((chain_bytes(&text), chain_length(&text)), (Some(body.len()), Some(3)));
        let two = [&text[..], &[ENCRYPTED_EXTENSIONS, 0, 0, 0, 9]].concat();
        let mut rest = &two[..];
        assert_eq!(split_message(&mut rest), Some(&text[..]));
        assert_eq!(split_message(&mut rest), Some(&[ENCRYPTED_EXTENSIONS, 0, 0, 0][..]));
        assert_eq!((split_message(&mut rest), rest), (None, &[9][..]));
    }
}
