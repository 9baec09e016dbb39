//! Writing pcapng (draft-ietf-opsawg-pcapng): one section, any number of interfaces, then packets and secrets.
//!
//! Every interface carries bare IP packets (LINKTYPE_RAW) and counts time in nanoseconds since the
//! Unix epoch.

use std::io::{self, ErrorKind, Write};

use festina_units::Instant;

/// Writes a capture to a file or to any other sink.
///
/// It does not buffer: wrap a file into a [`BufWriter`](io::BufWriter).
#[derive(Debug)]
pub struct PcapngWriter<W> {
    sink: W,
    interface_count: u32,
    /// The block under construction.
    block: Vec<u8>,
}

/// An interface of one capture; made by [`PcapngWriter::add_interface`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InterfaceId(u32);

impl<W: Write> PcapngWriter<W> {
    /// Begins a capture.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn new(sink: W) -> io::Result<Self> {
        let mut writer = Self { sink, interface_count: 0, block: Vec::new() };
        writer.write_section_header()?;
        Ok(writer)
    }

    /// Adds an interface, under whose `name` a reader can filter.
    ///
    /// # Errors
    /// If the sink fails, or with [`ErrorKind::InvalidInput`] if the name is longer than 65,535 bytes.
    pub fn add_interface(&mut self, name: &str) -> io::Result<InterfaceId> {
        const LINKTYPE_RAW: u16 = 101;
        const RESERVED: u16 = 0;
        const SNAP_LEN_UNLIMITED: u32 = 0;
        const NANOSECONDS: u8 = 9;

        self.begin();
        self.block.extend(LINKTYPE_RAW.to_le_bytes());
        self.block.extend(RESERVED.to_le_bytes());
        self.block.extend(SNAP_LEN_UNLIMITED.to_le_bytes());
        self.push_option(option::IF_NAME, name.as_bytes())?;
        self.push_option(option::IF_TSRESOL, &[NANOSECONDS])?;
        self.push_option(option::END, &[])?;
        self.write_block(block_type::INTERFACE_DESCRIPTION)?;

        let id = InterfaceId(self.interface_count);
        self.interface_count += 1;
        Ok(id)
    }

    /// Adds an IP packet that was seen on `interface` at `at`, counted from the Unix epoch.
    ///
    /// # Errors
    /// If the sink fails, or with [`ErrorKind::InvalidInput`] if the comment is longer than 65,535 bytes,
    /// if the packet does not fit into a block, or if the interface is not of this capture.
    pub fn write_packet(
        &mut self,
        interface: InterfaceId,
        at: Instant,
        packet: &[u8],
        comment: Option<&str>,
    ) -> io::Result<()> {
        if interface.0 >= self.interface_count {
            return Err(invalid("the interface belongs to another capture"));
        }
        let len = u32::try_from(packet.len()).map_err(|_| invalid("the packet is too long"))?;
        let (nanos_high, nanos_low) = halves(at.as_nanos());

        self.begin();
        for field in [interface.0, nanos_high, nanos_low, len, len] {
            self.block.extend(field.to_le_bytes());
        }
        self.block.extend(packet);
        self.pad();
        if let Some(comment) = comment {
            self.push_option(option::COMMENT, comment.as_bytes())?;
            self.push_option(option::END, &[])?;
        }
        self.write_block(block_type::ENHANCED_PACKET)
    }

    /// Adds secrets of TLS as lines of a key log in the format of NSS, with which readers decrypt the packets that follow (Decryption
    /// Secrets Block, §4.7).
    ///
    /// # Errors
    /// If the sink fails, or with [`ErrorKind::InvalidInput`] if the text does not fit into a block.
    pub fn write_secrets(&mut self, key_log: &str) -> io::Result<()> {
        let len = u32::try_from(key_log.len()).map_err(|_| invalid("the secrets are too long"))?;
        self.begin();
        self.block.extend(SECRETS_TLS_KEY_LOG.to_le_bytes());
        self.block.extend(len.to_le_bytes());
        self.block.extend(key_log.as_bytes());
        self.pad();
        self.write_block(block_type::DECRYPTION_SECRETS)
    }

    /// Flushes the sink and returns it.
    ///
    /// # Errors
    /// If flushing fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.sink.flush()?;
        Ok(self.sink)
    }

    fn write_section_header(&mut self) -> io::Result<()> {
        const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
        const VERSION_MAJOR: u16 = 1;
        const VERSION_MINOR: u16 = 0;
        const SECTION_LEN_UNKNOWN: u64 = u64::MAX;

        self.begin();
        self.block.extend(BYTE_ORDER_MAGIC.to_le_bytes());
        self.block.extend(VERSION_MAJOR.to_le_bytes());
        self.block.extend(VERSION_MINOR.to_le_bytes());
        self.block.extend(SECTION_LEN_UNKNOWN.to_le_bytes());
        self.push_option(option::SHB_USERAPPL, b"festina")?;
        self.push_option(option::END, &[])?;
        self.write_block(block_type::SECTION_HEADER)
    }

    /// Starts a new block, leaving room for its type and length.
    fn begin(&mut self) {
        self.block.clear();
        self.block.extend([0; BLOCK_HEADER_BYTES]);
    }

    fn push_option(&mut self, code: u16, value: &[u8]) -> io::Result<()> {
        let len = u16::try_from(value.len()).map_err(|_| invalid("the text is too long"))?;
        self.block.extend(code.to_le_bytes());
        self.block.extend(len.to_le_bytes());
        self.block.extend(value);
        self.pad();
        Ok(())
    }

    /// Fills up to a multiple of four bytes.
    fn pad(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    /// Completes the block and writes it.
    fn write_block(&mut self, block_type: u32) -> io::Result<()> {
        let total_len = u32::try_from(self.block.len() + BLOCK_TRAILER_BYTES)
            .map_err(|_| invalid("the packet is too long"))?
            .to_le_bytes();
        let (type_field, rest) = self.block.split_at_mut(4);
        type_field.copy_from_slice(&block_type.to_le_bytes());
        let (len_field, _) = rest.split_at_mut(4);
        len_field.copy_from_slice(&total_len);
        self.block.extend(total_len);
        self.sink.write_all(&self.block)
    }
}

/// Block type and total length.
const BLOCK_HEADER_BYTES: usize = 8;
/// The total length again.
const BLOCK_TRAILER_BYTES: usize = 4;

/// The kind of secrets of a Decryption Secrets Block that holds a key log: TLSK.
pub(crate) const SECRETS_TLS_KEY_LOG: u32 = 0x544c_534b;

mod block_type {
    pub(super) const SECTION_HEADER: u32 = 0x0a0d_0d0a;
    pub(super) const INTERFACE_DESCRIPTION: u32 = 1;
    pub(super) const ENHANCED_PACKET: u32 = 6;
    pub(super) const DECRYPTION_SECRETS: u32 = 10;
}

mod option {
    pub(super) const END: u16 = 0;
    pub(super) const COMMENT: u16 = 1;
    pub(super) const IF_NAME: u16 = 2;
    pub(super) const SHB_USERAPPL: u16 = 4;
    pub(super) const IF_TSRESOL: u16 = 9;
}

/// The high and the low 32 bits.
#[expect(clippy::cast_possible_truncation, reason = "the two halves are cut out on purpose")]
const fn halves(x: u64) -> (u32, u32) {
    ((x >> 32) as u32, x as u32)
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits a capture into (type, body) and checks the framing on the way.
    fn blocks(mut file: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
        let mut blocks = Vec::new();
        while !file.is_empty() {
            let len = word(&file[4..8]) as usize;
            assert_eq!(len % 4, 0);
            assert_eq!(word(&file[len - 4..len]) as usize, len);
            blocks.push((word(&file[..4]), file[8..len - 4].to_vec()));
            file = &file[len..];
        }
        blocks
    }

    fn capture(write: impl FnOnce(&mut PcapngWriter<Vec<u8>>)) -> Vec<(u32, Vec<u8>)> {
        let mut capture = PcapngWriter::new(Vec::new()).expect("memory does not fail");
        write(&mut capture);
        blocks(&capture.finish().expect("memory does not fail"))
    }

    #[test]
    fn a_capture_begins_with_a_section_header() {
        let blocks = capture(|_| {});
        let [(block_type, body)] = blocks.as_slice() else {
            panic!("{blocks:?}");
        };
        assert_eq!(*block_type, 0x0a0d_0d0a);
        assert_eq!(body[..8], [0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0]);
        assert_eq!(body[8..16], [0xff; 8]);
    }

    #[test]
    fn an_interface_has_its_link_type_name_and_resolution() {
        let blocks = capture(|capture| {
            capture.add_interface("eth0+").expect("written");
        });
        let (block_type, body) = &blocks[1];
        assert_eq!(*block_type, 1);
        #[rustfmt::skip]
        assert_eq!(body[..], [
            101, 0, 0, 0, 0, 0, 0, 0,
            2, 0, 5, 0, b'e', b't', b'h', b'0', b'+', 0, 0, 0,
            9, 0, 1, 0, 9, 0, 0, 0,
            0, 0, 0, 0,
        ]);
    }

    #[test]
    fn a_packet_has_its_time_its_length_and_its_comment() {
        let blocks = capture(|capture| {
            capture.add_interface("first").expect("written");
            let second = capture.add_interface("second").expect("written");
            let at = Instant::from_nanos(0x0102_0304_0506_0708);
            capture.write_packet(second, at, &[0xaa; 5], Some("why")).expect("written");
        });
        let (block_type, body) = &blocks[3];
        assert_eq!(*block_type, 6);
        #[rustfmt::skip]
        assert_eq!(body[..], [
            1, 0, 0, 0, 4, 3, 2, 1, 8, 7, 6, 5,
            5, 0, 0, 0, 5, 0, 0, 0,
            0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0, 0, 0,
            1, 0, 3, 0, b'w', b'h', b'y', 0,
            0, 0, 0, 0,
        ]);
    }

    #[test]
    fn a_packet_without_comment_has_no_options() {
        let blocks = capture(|capture| {
            let interface = capture.add_interface("only").expect("written");
            capture.write_packet(interface, Instant::ZERO, &[1, 2, 3, 4], None).expect("written");
        });
        assert_eq!(blocks[2].1.len(), 5 * 4 + 4);
    }

    #[test]
    fn secrets_have_their_kind_and_their_length_without_padding() {
        let blocks = capture(|capture| capture.write_secrets("A 01\n").expect("written"));
        let (block_type, body) = &blocks[1];
        assert_eq!(*block_type, 10);
        #[rustfmt::skip]
        assert_eq!(body[..], [
            b'K', b'S', b'L', b'T', 5, 0, 0, 0,
            b'A', b' ', b'0', b'1', b'\n', 0, 0, 0,
        ]);
    }

    #[test]
    fn wrong_input_is_an_error_and_leaves_the_capture_whole() {
        let blocks = capture(|capture| {
            let long = "x".repeat(65_536);
            let error = capture.add_interface(&long).expect_err("too long");
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            let stranger = InterfaceId(0);
            let error = capture.write_packet(stranger, Instant::ZERO, &[], None).expect_err("no interface yet");
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            let interface = capture.add_interface("good").expect("written");
            assert_eq!(interface, InterfaceId(0));
            capture.write_packet(interface, Instant::ZERO, &[], Some(&long)).expect_err("too long");
        });
        assert_eq!(blocks.len(), 2);
    }

    #[test]
    fn a_sink_that_is_full_is_an_error() {
        let mut room = [0u8; 10];
        assert!(PcapngWriter::new(&mut room[..]).is_err());
    }
}
