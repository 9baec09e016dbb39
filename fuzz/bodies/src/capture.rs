//! Arbitrary bytes as a capture: reading, dissecting and analysing never panics in any format, and a truncated capture
//! is analysed up to its end. Encrypted associations are decrypted if the capture holds their secrets.
//!
//! The first byte selects the beginning of the capture, so that the fuzzer need not find magic numbers: pcap, pcapng,
//! gzip, zstd, or none.

use std::sync::LazyLock;

use festina_secure::reading::{KeyLog, Suites};
use festina_trace::{Analyser, AnalyserOptions, Decryption, ReceiverSide, analyse, read_flows};

static SUITES: LazyLock<Suites> =
    LazyLock::new(|| Suites::of(&rustls::crypto::ring::default_provider()).expect("ring has the suite"));

const PCAP: [u8; 24] = [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 101, 0, 0, 0];
const PCAPNG: [u8; 28] = [
    0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255,
    28, 0, 0, 0,
];

/// Runs one input.
///
/// # Panics
/// If an invariant is broken.
pub fn run(bytes: &[u8]) {
    let Some((form, rest)) = bytes.split_first() else { return };
    let start: &[u8] = match form % 6 {
        0 => &PCAP,
        1 => &PCAPNG,
        2 => &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3],
        3 => &[0x28, 0xb5, 0x2f, 0xfd],
        4 => return packets(rest),
        _ => &[],
    };
    all(&[start, rest].concat());
}

/// Packets of bare IP, each with a byte for its length and one for the time since the one before.
fn packets(mut rest: &[u8]) {
    let mut file = PCAP.to_vec();
    let mut at_us = 0u32;
    while let Some((&[len, gap], behind)) = rest.split_first_chunk::<2>() {
        let (packet, behind) = behind.split_at(usize::from(len).min(behind.len()));
        at_us += u32::from(gap) * 1_000;
        let len = packet.len() as u32;
        for word in [at_us / 1_000_000, at_us % 1_000_000, len, len] {
            file.extend(word.to_le_bytes());
        }
        file.extend(packet);
        rest = behind;
    }
    all(&file);
}

fn all(file: &[u8]) {
    let flows = read_flows(file);
    let options = AnalyserOptions { details: true, ..AnalyserOptions::default() };
    let decryption = Decryption { suites: &SUITES, keys: KeyLog::default() };
    let (mut side, _) = ReceiverSide::read_decrypting(file, decryption.clone());
    let aligned = side.align(file);
    let (summary, result) =
        analyse(file, Analyser::new(options).with_decryption(decryption).with_receiver(side), |_| {});
    assert_eq!(result.is_ok(), aligned.is_ok());
    assert!(flows.is_err() || result.is_ok());
    assert!(summary.conversations >= summary.conversations_without_data);
}
