use std::io::Write as _;

use proptest::prelude::*;

use super::*;
use crate::PcapngWriter;
use crate::compression::Expanded;

type Owned = (Instant, u16, Vec<u8>, u32);

fn read(file: &[u8]) -> Result<Vec<Owned>, ReadError> {
    let mut reader = PacketReader::new(file)?;
    let mut packets = Vec::new();
    while let Some(packet) = reader.next_packet()? {
        packets.push((packet.at, packet.link_type, packet.data.to_vec(), packet.original_bytes));
    }
    Ok(packets)
}

fn words(big: bool, words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| if big { word.to_be_bytes() } else { word.to_le_bytes() }).collect()
}

/// A pcap file with one packet, cut to five bytes when captured.
fn pcap_file(big: bool, magic: u32, fraction: u32) -> Vec<u8> {
    let mut file = words(big, &[magic, 0x0004_0002, 0, 0, 65_535, 101, 1_700_000_000, fraction, 5, 1_500]);
    file.extend([1, 2, 3, 4, 5]);
    file
}

/// A pcapng block.
fn block(big: bool, block_type: u32, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(body.len() + 12).expect("short");
    let mut block = words(big, &[block_type, len]);
    block.extend(body);
    block.extend(words(big, &[len]));
    block
}

fn section_header(big: bool) -> Vec<u8> {
    block(big, 0x0a0d_0d0a, &words(big, &[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]))
}

fn pcapng_file() -> Vec<u8> {
    let mut writer = PcapngWriter::new(Vec::new()).expect("memory does not fail");
    let interfaces = ["a", "b"].map(|name| writer.add_interface(name).expect("written"));
    for (at_ns, interface, comment) in [(5, 1, Some("lost")), (1_700_000_000_123_456_789, 0, None)] {
        let at = Instant::from_nanos(at_ns);
        writer.write_packet(interfaces[interface], at, &[7; 41], comment).expect("written");
    }
    writer.finish().expect("memory does not fail")
}

#[test]
fn pcap_is_read_in_either_byte_order_and_resolution() {
    for big in [false, true] {
        for (magic, fraction) in [(0xa1b2_c3d4, 250_001), (0xa1b2_3c4d, 250_001_000)] {
            let packets = read(&pcap_file(big, magic, fraction)).expect("a sound file");
            let at = Instant::from_nanos(1_700_000_000_250_001_000);
            assert_eq!(packets, [(at, 101, vec![1, 2, 3, 4, 5], 1_500)]);
        }
    }
}

#[test]
fn what_our_writer_writes_reads_back() {
    let packets = read(&pcapng_file()).expect("a sound file");
    let expected = [5, 1_700_000_000_123_456_789].map(|ns| (Instant::from_nanos(ns), 101, vec![7; 41], 41));
    assert_eq!(packets, expected);
}

#[test]
fn pcapng_knows_resolution_offset_sections_and_blocks_of_other_kinds() {
    for big in [false, true] {
        let mut file = section_header(big);
        // Ethernet, times in 1/1024 s, ten seconds later.
        let mut interface = if big { vec![0, 1, 0, 0] } else { vec![1, 0, 0, 0] };
        interface.extend(words(big, &[0]));
        let option = |code: u16, value: &[u8]| {
            let len = u16::try_from(value.len()).expect("short");
            let mut option: Vec<u8> =
                [code, len].iter().flat_map(|half| if big { half.to_be_bytes() } else { half.to_le_bytes() }).collect();
            option.extend(value);
            option.resize(option.len().next_multiple_of(4), 0);
            option
        };
        interface.extend(option(9, &[0x80 | 10]));
        interface.extend(option(14, &if big { 10u64.to_be_bytes() } else { 10u64.to_le_bytes() }));
        file.extend(block(big, 1, &interface));
        file.extend(block(big, 0x0bad, &[1, 2, 3, 4]));
        let mut packet = words(big, &[0, 0, 512, 3, 60]);
        packet.extend([9, 9, 9, 0]);
        file.extend(block(big, 6, &packet));
        let expected = (Instant::from_millis(10_500), 1, vec![9; 3], 60);
        assert_eq!(read(&file).expect("a sound file"), std::slice::from_ref(&expected));
        // A section of the other byte order, whose interfaces are its own.
        let two = [file.clone(), pcapng_file()].concat();
        assert_eq!(read(&two).expect("a sound file").first(), Some(&expected));
        let stray = [file, section_header(big), block(big, 6, &packet)].concat();
        let error = read(&stray).expect_err("the interface belongs to the other section");
        assert!(error.to_string().contains("an interface that was not described"), "{error}");
    }
}

#[test]
fn secrets_come_with_the_packet_behind_them_and_are_bounded() {
    for big in [false, true] {
        let interface = block(big, 1, if big { &[0, 101, 0, 0, 0, 0, 0, 0] } else { &[101, 0, 0, 0, 0, 0, 0, 0] });
        let packet = block(big, 6, &words(big, &[0, 0, 1, 0, 0]));
        let secrets = |kind: u32, len: u32, text: &[u8]| block(big, 10, &[&words(big, &[kind, len]), text].concat());
        let [one, two] = [b"one\0", b"two!"].map(|text| secrets(0x544c_534b, 3 + u32::from(text[3] == b'!'), text));
        let other = secrets(0x5353_484b, 4, b"else");
        let blocks = [section_header(big), interface, one.clone(), other, two, packet.clone(), packet.clone()];
        let mut seen = Vec::new();
        let file = blocks.concat();
        let mut reader = PacketReader::new(file.as_slice()).expect("a capture");
        while let Some(packet) = reader.next_packet().expect("sound blocks") {
            seen.push(packet.secrets.to_vec());
        }
        assert_eq!(seen, [&b"one\ntwo!\n"[..], b""]);

        let beyond = [section_header(big), secrets(0x544c_534b, 5, b"four")].concat();
        let error = read(&beyond).expect_err("they are longer than their block");
        assert!(error.to_string().contains("secrets that are longer than their block"), "{error}");
        let large = secrets(0x544c_534b, 3 << 23, &vec![b'x'; 3 << 23]);
        let two = [blocks[..2].concat(), large.clone(), large.clone(), packet].concat();
        assert_eq!(read(&two).expect("48 MiB").len(), 1);
        let [three, whole] = [vec![large; 3].concat(), [&words(big, &[10, (1 << 26) + 4])[..], &[0; 100]].concat()];
        for many in [three, whole] {
            let error = read(&[section_header(big), many].concat()).expect_err("too many");
            assert!(matches!(error, ReadError::TooMuch { what: "bytes of secrets before a packet", .. }), "{error}");
        }
    }
}

#[test]
fn what_is_no_capture_is_told() {
    for bytes in [&b"abc"[..], b"hello, world, this is no capture"] {
        assert!(matches!(read(bytes), Err(ReadError::NotACapture)), "{bytes:?}");
    }
    assert!(matches!(read(b""), Err(ReadError::Empty)));
    for (bytes, command) in [(&b"\xfd7zXZ\0\0"[..], "xz"), (b"BZh91AY&SY", "bzip2")] {
        assert!(matches!(read(bytes), Err(ReadError::Compressed { by }) if by == command), "{command}");
    }
}

#[test]
fn damage_is_told_with_its_place() {
    let mut pcap = pcap_file(false, 0xa1b2_c3d4, 0);
    pcap[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut lengths_differ = pcapng_file();
    let last = lengths_differ.len() - 4;
    lengths_differ[last] ^= 4;
    let mut no_order = pcapng_file();
    no_order[8] = 0;
    let mut odd = section_header(false);
    odd[4] = 29;
    let simple = [section_header(false), block(false, 3, &[0; 8])].concat();
    let cases = [
        (pcap, "at byte 24: a packet of more than a megabyte"),
        (lengths_differ, "a block whose two lengths differ"),
        (no_order, "at byte 0: a section without a byte order"),
        (odd, "at byte 0: a block whose length makes no sense"),
        (simple, "packets without times"),
    ];
    for (file, expected) in cases {
        let error = read(&file).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_file_cut_off_anywhere_is_told_or_ends_between_packets() {
    for whole in [pcap_file(true, 0xa1b2_c3d4, 1), pcapng_file()] {
        for len in 4..whole.len() {
            match read(&whole[..len]) {
                Ok(packets) => assert!(packets.len() < 2),
                Err(error) => assert!(matches!(error, ReadError::CutOff { .. }), "{len}: {error}"),
            }
        }
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory does not fail");
    encoder.finish().expect("memory does not fail")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

#[test]
fn compressed_captures_read_as_bare_ones_in_one_part_or_in_several() {
    // A skippable frame of zstd, between two others.
    let skipped = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
    for whole in [pcap_file(true, 0xa1b2_c3d4, 1), pcapng_file()] {
        let expected = read(&whole).expect("a sound file");
        let (first, second) = whole.split_at(whole.len() / 2);
        for compressed in [
            gzip(&whole),
            [gzip(first), gzip(second)].concat(),
            zstd(&whole),
            [zstd(first), skipped.to_vec(), zstd(second)].concat(),
        ] {
            assert_eq!(read(&compressed).expect("a sound file"), expected);
        }
    }
}

/// The number of packets before an error, and the error.
fn packets_before_error(capture: &[u8]) -> (usize, ReadError) {
    let mut reader = PacketReader::new(capture).expect("a capture");
    for packets in 0.. {
        match reader.next_packet() {
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(error) => return (packets, error),
        }
    }
    panic!("the capture ends without an error");
}

#[test]
fn a_wrong_checksum_of_a_compressed_capture_is_an_error_behind_the_last_packet() {
    let whole = pcapng_file();
    for (mut compressed, flipped_from_end) in [(gzip(&whole), 8), (zstd(&whole), 4)] {
        let at = compressed.len() - flipped_from_end;
        compressed[at] ^= 1;
        let (packets, error) = packets_before_error(&compressed);
        assert!(matches!(error, ReadError::Io { .. }), "{error}");
        assert_eq!(packets, 2);
    }
}

#[test]
fn of_a_compressed_capture_that_was_cut_off_the_packets_before_are_read() {
    let mut file = pcap_file(false, 0xa1b2_c3d4, 1);
    let record = file[24..].to_vec();
    for _ in 0..20_000 {
        file.extend(&record);
    }
    for compressed in [gzip(&file), zstd(&file)] {
        let (packets, error) = packets_before_error(&compressed[..compressed.len() - 9]);
        let ReadError::Io { offset, .. } = error else { panic!("{error}") };
        let offset = usize::try_from(offset).expect("within the file");
        assert!((1_001..=20_001).contains(&packets), "{packets} packets");
        assert!((24 + packets * record.len()..=file.len()).contains(&offset), "byte {offset}");
        assert!(error.to_string().starts_with("the capture cannot be read beyond byte"), "{error}");
    }
}

#[test]
fn a_capture_that_expands_beyond_all_measure_is_given_up() {
    let mut dense = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    dense.write_all(&[0; 1 << 24]).expect("memory does not fail");
    let member = dense.finish().expect("memory does not fail");
    let bomb: Vec<u8> = std::iter::repeat_n(member, 96).flatten().collect();
    let mut expanded = Expanded::new(bomb.as_slice()).expect("gzip");
    let error = std::io::copy(&mut expanded, &mut std::io::sink()).expect_err("a bomb");
    assert!(error.to_string().contains("more than 800 times its size"), "{error}");
}

proptest! {
    #[test]
    fn damaged_files_never_panic(
        is_pcapng in any::<bool>(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut file = if is_pcapng { pcapng_file() } else { pcap_file(false, 0xa1b2_c3d4, 9) };
        for (index, byte) in damage {
            let index = index.index(file.len());
            file[index] = byte;
        }
        let _ = read(&file);
        for mut compressed in [gzip(&pcapng_file()), zstd(&pcapng_file())] {
            let at = usize::from(file[0]) % compressed.len();
            compressed[at] ^= 1;
            let _ = read(&compressed);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        for start in [section_header(false), words(false, &[0xa1b2_c3d4]), Vec::new()] {
            let _ = read(&[start, bytes.clone()].concat());
        }
    }
}
