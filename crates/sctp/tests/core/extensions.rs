//! Conformance to RFC 3758, RFC 8260 and RFC 6525 as a peer sees it: each test names the section whose rule it holds. The table of rules and
//! their tests is `docs/conformance.tsv`.

mod ecn;
mod enhanced_forward_tsn;
mod forward_tsn;
mod i_data;
mod nr_sack;
mod re_config;
mod repair;
mod zero_checksum;

use festina_sctp::Config;

use crate::rfc9260::packet::{Init, chunk, tlv};
use crate::rfc9260::peer::{config, init_ack, offer};

const I_DATA: u8 = 0x40;
const FORWARD_TSN: u8 = 0xc0;
const NR_SACK: u8 = 0x10;
const RE_CONFIG: u8 = 0x82;
const I_FORWARD_TSN: u8 = 0xc2;
const ENHANCED_FORWARD_TSN: u8 = 0xf5;

const SUPPORTED_EXTENSIONS: u16 = 0x8008;
const FORWARD_TSN_SUPPORTED: u16 = 0xc000;

/// The settings of the other tests, with interleaving on.
fn interleaving() -> Config {
    let mut config = config();
    config.interleaving = true;
    config
}

/// The peer's INIT with these parameters.
fn init_with(parameters: &[Vec<u8>]) -> Init {
    Init { parameters: parameters.concat(), ..offer() }
}

/// The peer's INIT ACK with these parameters besides the cookie.
fn init_ack_with(parameters: &[Vec<u8>]) -> Init {
    let init_ack = init_ack();
    Init { parameters: [init_ack.parameters.clone(), parameters.concat()].concat(), ..init_ack }
}

fn forward_tsn_supported() -> Vec<u8> {
    tlv(FORWARD_TSN_SUPPORTED, b"")
}

fn extensions(chunk_types: &[u8]) -> Vec<u8> {
    tlv(SUPPORTED_EXTENSIONS, chunk_types)
}

/// FORWARD-TSN with a stream and an SSN per entry.
fn forward_tsn(new_cumulative: u32, streams: &[(u16, u16)]) -> Vec<u8> {
    let mut value = new_cumulative.to_be_bytes().to_vec();
    for (stream, ssn) in streams {
        value.extend(stream.to_be_bytes());
        value.extend(ssn.to_be_bytes());
    }
    chunk(FORWARD_TSN, 0, &value)
}

/// I-FORWARD-TSN with stream, U bit and MID per entry.
fn i_forward_tsn(new_cumulative: u32, streams: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut value = new_cumulative.to_be_bytes().to_vec();
    for (stream, unordered, mid) in streams {
        value.extend(stream.to_be_bytes());
        value.extend(unordered.to_be_bytes());
        value.extend(mid.to_be_bytes());
    }
    chunk(I_FORWARD_TSN, 0, &value)
}

/// I-DATA on stream 0 with these flags; `last_field` is the PPID or the FSN.
fn i_data(tsn: u32, mid: u32, flags: u8, last_field: u32, payload: &[u8]) -> Vec<u8> {
    let mut value = tsn.to_be_bytes().to_vec();
    value.extend([0; 4]);
    value.extend(mid.to_be_bytes());
    value.extend(last_field.to_be_bytes());
    value.extend(payload);
    chunk(I_DATA, flags, &value)
}
