//! Arbitrary bytes for every reader of the syslog relay and collector: none panics, and what is written out commands no terminal.

#![no_main]

use bytes::Bytes;
use festina_syslog::config::{CollectorConfig, Format, RelayConfig};
use festina_syslog::framing::{Framer, Framing};
use festina_syslog::line::{Severity, read_header};
use festina_syslog::policy::Policy;
use festina_syslog::record::Record;
use festina_syslog::render;
use festina_syslog::spool::readable_records;
use festina_syslog::wire::Packet;
use libfuzzer_sys::fuzz_target;

/// Frames do not depend on the pieces in which a stream comes.
fn frames(bytes: &[u8]) {
    const LIMIT: usize = 40;
    for framing in [Framing::Detected, Framing::Newline, Framing::OctetCounting] {
        let run = |piece: usize| {
            let (mut framer, mut frames) = (Framer::new(framing, LIMIT), Vec::new());
            for piece in bytes.chunks(piece.max(1)) {
                framer.push(piece);
                frames.extend(std::iter::from_fn(|| framer.next_frame()));
            }
            frames.extend(std::iter::from_fn(|| framer.finish()));
            frames
        };
        let whole = run(bytes.len());
        assert_eq!(whole, run(1));
        assert!(whole.iter().all(|frame| (1..=LIMIT).contains(&frame.bytes.len())));
    }
}

fn outputs(line: &[u8]) {
    let header = read_header(line);
    let _ = Policy::default().treatment(&header, line);
    let (source, line) = (Bytes::copy_from_slice(line), Bytes::copy_from_slice(line));
    let record = Record { sequence: 0, received_us: 0, marks: 0, severity: Severity::NOTICE, source, line };
    let name = render::file_name("/log/{source}/{app}", &record);
    assert_eq!(name.matches('/').count(), 3);
    for format in [Format::Raw, Format::Json] {
        let mut out = Vec::new();
        render::render(&record, format, &mut out);
        let text = String::from_utf8(out).expect("an output is text");
        let body = text.strip_suffix('\n').expect("a line feed ends it");
        assert!(!body.chars().any(|character| character.is_control() && character != '\t'));
    }
}

fuzz_target!(|bytes: &[u8]| {
    frames(bytes);
    outputs(bytes);
    let message = Bytes::copy_from_slice(bytes);
    if let Ok(packet) = Packet::decode(message) {
        assert_eq!(Packet::decode(packet.encode()), Ok(packet));
    }
    let _ = readable_records(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = RelayConfig::parse("relay.toml", text);
        let _ = CollectorConfig::parse("collect.toml", text);
    }
});
