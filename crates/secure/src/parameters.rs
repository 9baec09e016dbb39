//! The parameter blob that each side puts into its TLS handshake, where QUIC has its transport parameters (RFC 9001 §8.2).
//!
//! It has the form of those (RFC 9000 §18): identifier, length and value. The first two are variable-length integers, written in one or two bytes.
//! TLS authenticates it. Unknown parameters are ignored, and none may be there twice.

use std::collections::BTreeSet;

use std::fmt;

use festina_units::Preview;

use crate::wire::{CONNECTION_ID_BYTES, ConnectionId};

/// The longest token that a client may present.
pub const TOKEN_BYTES_MAX: usize = 1_024;
/// The secret that ends a datagram by which an endpoint without state resets a connection.
pub type ResetToken = [u8; 16];

/// Maximum number of connection IDs for further addresses: an association has eight paths at most.
pub(crate) const FURTHER_IDS_MAX: usize = 7;

/// The longest blob that is read.
const BLOB_BYTES_MAX: usize = 4_096;

/// The connection ID that the client chose for the server in its first packet (RFC 9000 §7.3). Sent by servers.
const ORIGINAL_DESTINATION: u16 = 0x00;
/// The token of stateless resets for this connection (RFC 9000 §10.3). Sent by servers.
const RESET_TOKEN: u16 = 0x02;
/// The longest datagram that the sender wants to receive (RFC 9000 §18.2, `max_udp_payload_size`).
const DATAGRAM_BYTES_MAX: u16 = 0x03;
/// The connection ID that the sender chose for itself (RFC 9000 §7.3).
const INITIAL_SOURCE: u16 = 0x0f;
/// An INIT chunk with its chunk header (RFC 9260 §3.3.2).
const INIT: u16 = 0x3f01;
/// SCTP ports of the client and of the server. Sent by clients.
const PORTS: u16 = 0x3f02;
/// The application's token. Sent by clients.
const TOKEN: u16 = 0x3f03;
/// Connection IDs for packets to further addresses of the server. A server that sends this parameter takes the addresses of clients.
const FURTHER_IDS: u16 = 0x3f04;
/// The connection ID that takes the place of the server's at a move, and its token of stateless resets, if there is one.
const SPARE: u16 = 0x3f05;

/// A connection ID that takes the place of the present one when one side moves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Spare {
    /// The connection ID.
    pub id: ConnectionId,
    /// The token of stateless resets for it.
    pub reset_token: Option<ResetToken>,
}

impl Spare {
    /// Appends both.
    pub(crate) fn write(&self, buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(&self.id.0);
        buffer.extend(self.reset_token.into_iter().flatten());
    }

    /// Reads both; `None` if the bytes have another length.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (id, token) = bytes.split_first_chunk()?;
        let reset_token = (!token.is_empty()).then_some(token);
        let reset_token = reset_token.map(ResetToken::try_from).transpose().ok()?;
        Some(Self { id: ConnectionId(*id), reset_token })
    }
}

/// Does not show the token of resets.
impl fmt::Debug for Spare {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Spare").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The parameters of one side.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Parameters {
    /// The connection ID that the client chose for the server.
    pub original_destination: Option<ConnectionId>,
    /// The token of stateless resets for this connection.
    pub reset_token: Option<ResetToken>,
    /// The longest datagram that the sender wants to receive, in bytes. Only values below 16,384 are written.
    pub datagram_bytes_max: Option<u16>,
    /// The connection ID that the sender chose for itself.
    pub initial_source: Option<ConnectionId>,
    /// The INIT chunk.
    pub init: Vec<u8>,
    /// The client's SCTP port and the server's.
    pub ports: Option<(u16, u16)>,
    /// The application's token.
    pub token: Vec<u8>,
    /// The connection IDs for packets to further addresses of the server; `None` if its associations have one path.
    pub further_ids: Option<Vec<ConnectionId>>,
    /// The connection ID that takes the place of the server's at a move; `None` if its associations may have several paths.
    pub spare: Option<Spare>,
}

/// Shows only the length of the token, which is often a secret, and not the token of resets.
impl fmt::Debug for Parameters {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { original_destination, reset_token: _, datagram_bytes_max, initial_source, .. } = self;
        let Self { init, ports, token, further_ids, spare, .. } = self;
        let mut fields = formatter.debug_struct("Parameters");
        fields.field("original_destination", original_destination).field("initial_source", initial_source);
        fields.field("datagram_bytes_max", datagram_bytes_max).field("init", &Preview(init)).field("ports", ports);
        fields.field("token_bytes", &token.len()).field("further_ids", further_ids);
        fields.field("spare", spare).finish_non_exhaustive()
    }
}

/// A blob that is truncated, too long, or contains a parameter twice. An unknown one counts too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the parameters are malformed")]
pub struct Malformed;

impl Parameters {
    /// Returns the blob.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut blob = Vec::new();
        for (identifier, id) in
            [(ORIGINAL_DESTINATION, self.original_destination), (INITIAL_SOURCE, self.initial_source)]
        {
            if let Some(ConnectionId(id)) = id {
                put(&mut blob, identifier, &id);
            }
        }
        if let Some(token) = self.reset_token {
            put(&mut blob, RESET_TOKEN, &token);
        }
        if let Some(bytes) = self.datagram_bytes_max.filter(|bytes| *bytes < 1 << 14) {
            let mut value = Vec::new();
            put_integer(&mut value, bytes);
            put(&mut blob, DATAGRAM_BYTES_MAX, &value);
        }
        put(&mut blob, INIT, &self.init);
        if let Some((client, server)) = self.ports {
            let [c0, c1] = client.to_be_bytes();
            let [s0, s1] = server.to_be_bytes();
            put(&mut blob, PORTS, &[c0, c1, s0, s1]);
        }
        if !self.token.is_empty() {
            put(&mut blob, TOKEN, &self.token);
        }
        if let Some(ids) = &self.further_ids {
            put(&mut blob, FURTHER_IDS, &ids.iter().flat_map(|id| id.0).collect::<Vec<_>>());
        }
        if let Some(spare) = &self.spare {
            let mut value = Vec::new();
            spare.write(&mut value);
            put(&mut blob, SPARE, &value);
        }
        blob
    }

    /// Reads a blob.
    ///
    /// # Errors
    /// The blob is malformed.
    pub fn read(mut blob: &[u8]) -> Result<Self, Malformed> {
        if blob.len() > BLOB_BYTES_MAX {
            return Err(Malformed);
        }
        let mut parameters = Self::default();
        let mut seen = BTreeSet::new();
        while !blob.is_empty() {
            let identifier = integer(&mut blob)?;
            let length = integer(&mut blob)?;
            let length = usize::try_from(length).map_err(|_| Malformed)?;
            let (value, rest) = blob.split_at_checked(length).ok_or(Malformed)?;
            blob = rest;
            if !seen.insert(identifier) {
                return Err(Malformed);
            }
            if let Ok(identifier) = u16::try_from(identifier) {
                parameters.take(identifier, value)?;
            }
        }
        Ok(parameters)
    }

    fn take(&mut self, identifier: u16, value: &[u8]) -> Result<(), Malformed> {
        match identifier {
            ORIGINAL_DESTINATION => self.original_destination = Some(id(value)?),
            INITIAL_SOURCE => self.initial_source = Some(id(value)?),
            RESET_TOKEN => self.reset_token = Some(value.try_into().map_err(|_| Malformed)?),
            DATAGRAM_BYTES_MAX => {
                let mut rest = value;
                let bytes = integer(&mut rest)?;
                self.datagram_bytes_max = Some(u16::try_from(bytes).unwrap_or(u16::MAX));
                if !rest.is_empty() {
                    return Err(Malformed);
                }
            }
            INIT => self.init = value.to_vec(),
            PORTS => {
                let &[c0, c1, s0, s1] = value else { return Err(Malformed) };
                self.ports = Some((u16::from_be_bytes([c0, c1]), u16::from_be_bytes([s0, s1])));
            }
            TOKEN if value.len() > TOKEN_BYTES_MAX => return Err(Malformed),
            TOKEN => self.token = value.to_vec(),
            FURTHER_IDS => self.further_ids = Some(read_ids(value).ok_or(Malformed)?),
            SPARE => self.spare = Some(Spare::read(value).ok_or(Malformed)?),
            // Unknown parameters are passed over.
            _ => {}
        }
        Ok(())
    }
}

fn id(value: &[u8]) -> Result<ConnectionId, Malformed> {
    <[u8; CONNECTION_ID_BYTES]>::try_from(value).map(ConnectionId).map_err(|_| Malformed)
}

/// Reads connection IDs; `None` if there are more than an association has paths, or a part of one.
pub(crate) fn read_ids(bytes: &[u8]) -> Option<Vec<ConnectionId>> {
    let (ids, rest) = bytes.as_chunks();
    (rest.is_empty() && ids.len() <= FURTHER_IDS_MAX).then(|| ids.iter().copied().map(ConnectionId).collect())
}

fn put(blob: &mut Vec<u8>, identifier: u16, value: &[u8]) {
    put_integer(blob, identifier);
    put_integer(blob, u16::try_from(value.len()).unwrap_or(u16::MAX));
    blob.extend_from_slice(value);
}

/// Appends a variable-length integer below 2^14 (RFC 9000 §16).
fn put_integer(blob: &mut Vec<u8>, value: u16) {
    let [high, low] = value.to_be_bytes();
    if value < 64 { blob.push(low) } else { blob.extend_from_slice(&[0x40 | high & 0x3f, low]) }
}

fn integer(blob: &mut &[u8]) -> Result<u64, Malformed> {
    let first = *blob.first().ok_or(Malformed)?;
    let (bytes, rest) = blob.split_at_checked(1 << (first >> 6)).ok_or(Malformed)?;
    *blob = rest;
    let value = bytes.iter().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
    Ok(value & (u64::MAX >> (64 - 8 * bytes.len() + 2)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rfc9000_appendix_a1_integers_are_read() {
        for (mut bytes, value) in [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
        ] {
            assert_eq!(integer(&mut bytes), Ok(value));
        }
    }

    #[test]
    fn a_blob_is_read_as_it_was_written() {
        let parameters = Parameters {
            original_destination: Some(ConnectionId([1; 8])),
            reset_token: Some([4; 16]),
            datagram_bytes_max: Some(1_252),
            initial_source: Some(ConnectionId([2; 8])),
            init: vec![1; 100],
            ports: Some((5_001, 5_000)),
            token: vec![3; TOKEN_BYTES_MAX],
            further_ids: Some((5..5 + 7).map(|byte| ConnectionId([byte; 8])).collect()),
            spare: Some(Spare { id: ConnectionId([13; 8]), reset_token: Some([14; 16]) }),
        };
        let mut blob = parameters.to_bytes();
        assert_eq!(Parameters::read(&blob), Ok(parameters.clone()));
        blob.extend_from_slice(&[0x20, 1, 0]);
        assert_eq!(Parameters::read(&blob), Ok(parameters.clone()), "unknown parameters are passed over");
        for twice in [&[0x0f, 8, 1, 1, 1, 1, 1, 1, 1, 1][..], &[0x20, 0], &[0x40, 0x20, 0]] {
            let blob = [&blob[..], twice].concat();
            assert_eq!(Parameters::read(&blob), Err(Malformed), "nothing may be said twice, known or not");
        }
        for ids in [&[0x7f, 0x04, 7, 1, 2, 3, 4, 5, 6, 7][..], &[&[0x7f, 0x04, 0x40, 64][..], &[1; 64]].concat()] {
            assert_eq!(Parameters::read(ids), Err(Malformed), "a part of an ID, and eight of them");
        }
        for length in [0, 7, 9, 23, 25] {
            let spare = [&[0x7f, 0x05, length][..], &[1; 25][..length.into()]].concat();
            assert_eq!(Parameters::read(&spare), Err(Malformed), "an ID of {length} bytes");
        }
        let long = Parameters { token: vec![0; TOKEN_BYTES_MAX + 1], ..parameters };
        assert_eq!(Parameters::read(&long.to_bytes()), Err(Malformed));
    }

    proptest! {
        #[test]
        fn no_blob_does_harm(blob in prop::collection::vec(any::<u8>(), 0..300)) {
            let _parameters = Parameters::read(&blob);
        }
    }
}
