//! Arbitrary bytes for every reader of the syslog relay and collector: none panics, and the output contains no terminal controls.

use bytes::Bytes;
use festina_syslog::config::{CollectorConfig, Format, RelayConfig};
use festina_syslog::line::{Severity, read_header};
use festina_syslog::policy::Policy;
use festina_syslog::record::Record;
use festina_syslog::render;
use festina_syslog::spool::readable_records;
use festina_syslog::wire::Packet;

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

/// Runs one input.
///
/// # Panics
/// If an invariant is broken.
pub fn run(bytes: &[u8]) {
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
}
