//! Any bytes at all readers. The fuzz target `syslog` asks the same for longer.

use bytes::Bytes;
use festina_syslog::config::{CollectorConfig, Format, RELAY_TEMPLATE, RelayConfig};
use festina_syslog::framing::{Framer, Framing};
use festina_syslog::line::{Severity, read_header};
use festina_syslog::policy::Policy;
use festina_syslog::record::Record;
use festina_syslog::render;
use festina_syslog::spool::readable_records;
use festina_syslog::wire::Packet;
use rand_core::{RngCore as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Bytes that partly make sense: pieces of syslog, and damage.
fn bytes(random: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    const PIECES: [&[u8]; 14] = [
        b"<165>1 2003-10-11T22:14:15.003Z host app - ID47 [a@1 b=\"c\\]\"] text",
        b"<34>Oct 11 22:14:15 box su: x",
        b"\n",
        b"\r\n",
        b"5 <1>ab",
        b"99999999 ",
        b"123456789 ",
        b"<191>",
        b"<",
        b">1 - - - - - -",
        b"\0\xff\x1b[2J",
        b"[x y=\"",
        b"\xc3\xa9",
        b"0 ",
    ];
    let mut bytes = Vec::new();
    for _ in 0..random.next_u64() % 8 {
        match random.next_u64() % 4 {
            0 => bytes.extend_from_slice(&random.next_u64().to_le_bytes()),
            _ => bytes.extend_from_slice(PIECES[usize::try_from(random.next_u64() % 14).expect("small")]),
        }
    }
    if !bytes.is_empty() && random.next_u64().is_multiple_of(4) {
        let place = usize::try_from(random.next_u64()).unwrap_or_default() % bytes.len();
        bytes[place] ^= 1 << (random.next_u64() % 8);
    }
    bytes
}

#[test]
fn no_line_makes_a_reader_panic_or_an_output_command_a_terminal() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let policy = Policy::default();
    for _ in 0..20_000 {
        let line = bytes(&mut random);
        let header = read_header(&line);
        let _ = policy.treatment(&header, &line);
        let record = Record {
            sequence: 0,
            received_us: random.next_u64(),
            marks: 0,
            severity: Severity::NOTICE,
            source: Bytes::from(line.clone()),
            line: Bytes::from(line),
        };
        let name = render::file_name("/log/{source}/{app}", &record);
        assert_eq!(name.matches('/').count(), 3, "{name}");
        assert!(!name.contains("/.") && name.is_ascii(), "{name}");
        for format in [Format::Raw, Format::Json] {
            let mut out = Vec::new();
            render::render(&record, format, &mut out);
            let text = String::from_utf8(out).expect("an output is text");
            let body = text.strip_suffix('\n').expect("a line feed ends it");
            assert!(!body.chars().any(|character| character.is_control() && character != '\t'), "{body:?}");
        }
    }
}

#[test]
fn every_byte_of_a_stream_is_in_a_frame_or_was_cut_off_or_separates_frames() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
    for _ in 0..20_000 {
        let stream: Vec<u8> = (0..3).flat_map(|_| bytes(&mut random)).collect();
        let limit = 1 + usize::try_from(random.next_u64() % 60).expect("small");
        let framing = [Framing::Detected, Framing::Newline, Framing::OctetCounting][stream.len() % 3];
        let run = |piece: usize| {
            let (mut framer, mut frames) = (Framer::new(framing, limit), Vec::new());
            for piece in stream.chunks(piece.max(1)) {
                framer.push(piece);
                frames.extend(std::iter::from_fn(|| framer.next_frame()));
            }
            frames.extend(std::iter::from_fn(|| framer.finish()));
            frames
        };
        let frames = run(stream.len());
        assert_eq!(frames, run(1), "{stream:?}");
        let mut whole = frames.iter().flatten();
        let whole = whole.all(|frame| !frame.bytes.is_empty() && frame.bytes.len() <= limit);
        assert!(whole, "{stream:?} {frames:?}");
    }
}

#[test]
fn messages_spools_and_configurations_may_be_anything() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
    for _ in 0..20_000 {
        let mut message = bytes(&mut random);
        message.insert(0, u8::try_from(random.next_u64() % 7).expect("small"));
        if let Ok(packet) = Packet::decode(Bytes::from(message.clone())) {
            assert_eq!(Packet::decode(packet.encode()), Ok(packet));
        }
        let _ = readable_records(&message);
    }
    for length in 0..RELAY_TEMPLATE.len() {
        if let Some(text) = RELAY_TEMPLATE.get(..length) {
            let _ = RelayConfig::parse("any", text);
            let _ = CollectorConfig::parse("any", text);
        }
    }
}
