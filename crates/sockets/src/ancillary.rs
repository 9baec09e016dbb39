//! Control messages (RFC 6458 §5.3), in Linux's layout of `struct cmsghdr`.

use crate::numbers::{Errno, IPPROTO_SCTP, cmsg, flag};
use crate::wire::{Header, mark};

/// Bytes of a `struct cmsghdr` on this system.
const CMSG_BYTES: usize = size_of::<usize>() + 8;

fn aligned(length: usize) -> usize {
    length.next_multiple_of(size_of::<usize>())
}

/// Iterates over control messages: level, type, contents.
struct Messages<'a>(&'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = Result<(i32, i32, &'a [u8]), Errno>;

    fn next(&mut self) -> Option<Self::Item> {
        let number = |at: usize| Some(i32::from_ne_bytes(*self.0.get(at..)?.first_chunk()?));
        let length = usize::from_ne_bytes(*self.0.first_chunk()?);
        let (level, kind) = (number(size_of::<usize>())?, number(size_of::<usize>() + 4)?);
        let Some(contents) = self.0.get(CMSG_BYTES..length) else {
            self.0 = &[];
            return Some(Err(Errno::EINVAL));
        };
        self.0 = self.0.get(aligned(length)..).unwrap_or_default();
        Some(Ok((level, kind, contents)))
    }
}

/// Reads numbers of a fixed layout.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn two(&mut self) -> u16 {
        let (number, rest) = self.0.split_first_chunk().unwrap_or((&[0; 2], &[]));
        self.0 = rest;
        u16::from_ne_bytes(*number)
    }

    fn four(&mut self) -> u32 {
        let (number, rest) = self.0.split_first_chunk().unwrap_or((&[0; 4], &[]));
        self.0 = rest;
        u32::from_ne_bytes(*number)
    }
}

/// Flags that a program may set.
const FLAGS: u16 =
    flag::UNORDERED | flag::ADDR_OVER | flag::ABORT | flag::SACK_IMMEDIATELY | flag::SENDALL | flag::EOF | flag::POLICY;

/// Reads how a program wants to send a message into `header`.
///
/// # Errors
/// A control message is malformed, or asks for something that is unknown.
pub fn read(control: &[u8], header: &mut Header) -> Result<(), Errno> {
    for message in Messages(control) {
        let (level, kind, contents) = message?;
        if level != IPPROTO_SCTP {
            continue;
        }
        let wanted = match kind {
            cmsg::INIT => 8,
            cmsg::SNDRCV => 32,
            cmsg::SNDINFO => 16,
            cmsg::PRINFO => 8,
            _ => return Err(Errno::EINVAL),
        };
        if contents.len() != wanted {
            return Err(Errno::EINVAL);
        }
        read_one(kind, contents, header)?;
    }
    Ok(())
}

fn read_one(kind: i32, contents: &[u8], header: &mut Header) -> Result<(), Errno> {
    let mut fields = Fields(contents);
    match kind {
        cmsg::SNDRCV => {
            header.stream = fields.two();
            let _ssn = fields.two();
            header.flags |= fields.two();
            let _padding = fields.two();
            (header.ppid, header.context) = (fields.four(), fields.four());
            let lifetime = fields.four();
            let _tsns = (fields.four(), fields.four());
            header.association = fields.four().cast_signed();
            if lifetime > 0 && header.marks & mark::HAS_POLICY == 0 {
                set_policy(header, flag::TTL, lifetime);
            }
            header.marks |= mark::HAS_INFO;
        }
        cmsg::SNDINFO => {
            (header.stream, header.flags) = (fields.two(), header.flags | fields.two());
            (header.ppid, header.context) = (fields.four(), fields.four());
            header.association = fields.four().cast_signed();
            header.marks |= mark::HAS_INFO;
        }
        cmsg::PRINFO => {
            let policy = fields.two();
            let _padding = fields.two();
            if policy & !flag::POLICY != 0 {
                return Err(Errno::EINVAL);
            }
            let value = fields.four();
            set_policy(header, policy, value);
        }
        // An association that a message sets up has the socket's settings.
        _ => return Err(Errno::EOPNOTSUPP),
    }
    if header.flags & !FLAGS != 0 { Err(Errno::EINVAL) } else { Ok(()) }
}

fn set_policy(header: &mut Header, policy: u16, value: u32) {
    header.flags = header.flags & !flag::POLICY | policy;
    header.policy_value = value;
    header.marks |= mark::HAS_POLICY;
}

/// Reads the 32 bytes of a `struct sctp_sndrcvinfo` or the 16 of a `struct sctp_sndinfo`, as defaults of a socket.
///
/// # Errors
/// It asks for something that is unknown.
pub fn read_default(kind: i32, contents: &[u8], header: &mut Header) -> Result<(), Errno> {
    read_one(kind, contents, header)
}

/// Returns the `struct sctp_sndrcvinfo` of a message.
pub fn sndrcvinfo(header: &Header) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(32);
    for number in [header.stream, 0, header.flags, 0] {
        bytes.extend(number.to_ne_bytes());
    }
    for number in [header.ppid, header.context, 0, 0, 0, header.association.cast_unsigned()] {
        bytes.extend(number.to_ne_bytes());
    }
    bytes
}

/// Returns the control messages of a received message, those that the program asked for.
pub fn write(header: &Header, data_io: bool, rcvinfo: bool) -> Vec<u8> {
    let mut control = Vec::new();
    if rcvinfo {
        let mut contents = Vec::with_capacity(28);
        for number in [header.stream, 0, header.flags, 0] {
            contents.extend(number.to_ne_bytes());
        }
        for number in [header.ppid, 0, 0, header.context, header.association.cast_unsigned()] {
            contents.extend(number.to_ne_bytes());
        }
        push(&mut control, cmsg::RCVINFO, &contents);
    }
    if data_io {
        push(&mut control, cmsg::SNDRCV, &sndrcvinfo(header));
    }
    control
}

fn push(control: &mut Vec<u8>, kind: i32, contents: &[u8]) {
    let length = CMSG_BYTES + contents.len();
    control.extend(length.to_ne_bytes());
    control.extend(IPPROTO_SCTP.to_ne_bytes());
    control.extend(kind.to_ne_bytes());
    control.extend(contents);
    control.resize(aligned(control.len()), 0);
}

/// Returns the part of the control messages that fits into a program's buffer, and whether something was cut off.
pub fn fitting(control: &[u8], room: usize) -> (&[u8], bool) {
    if control.len() <= room {
        return (control, false);
    }
    // Whole messages only.
    let mut end = 0;
    while let Some(length) =
        control.get(end..).and_then(|rest| rest.first_chunk()).map(|bytes| usize::from_ne_bytes(*bytes))
    {
        if !(CMSG_BYTES..=room).contains(&length) || end + aligned(length) > room {
            break;
        }
        end += aligned(length);
    }
    (&control[..end], true)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::Kind;

    fn control(kind: i32, contents: &[u8]) -> Vec<u8> {
        let mut control = Vec::new();
        push(&mut control, kind, contents);
        control
    }

    #[test]
    fn sndrcvinfo_is_read_as_it_is_written() {
        let mut sent = Header::new(Kind::Data);
        (sent.stream, sent.ppid, sent.context, sent.association) = (7, 46, 1, 3);
        sent.flags = flag::UNORDERED;
        let mut read_back = Header::new(Kind::Data);
        read(&control(cmsg::SNDRCV, &sndrcvinfo(&sent)), &mut read_back).unwrap();
        sent.marks = mark::HAS_INFO;
        assert_eq!(read_back, sent);
    }

    #[test]
    fn a_lifetime_is_a_policy() {
        let mut header = Header::new(Kind::Data);
        let mut info = sndrcvinfo(&header);
        info[16..20].copy_from_slice(&250_u32.to_ne_bytes());
        read(&control(cmsg::SNDRCV, &info), &mut header).unwrap();
        assert_eq!((header.flags & flag::POLICY, header.policy_value), (flag::TTL, 250));
        let policy = [&[0x20, 0, 0, 0][..], &3_u32.to_ne_bytes()].concat();
        read(&control(cmsg::PRINFO, &policy), &mut header).unwrap();
        assert_eq!((header.flags & flag::POLICY, header.policy_value), (flag::RTX, 3));
    }

    #[test]
    fn what_linux_refuses_is_refused() {
        let header = Header::new(Kind::Data);
        for (kind, length) in [(cmsg::SNDRCV, 31), (cmsg::SNDINFO, 17), (cmsg::PRINFO, 0), (4, 8), (99, 0)] {
            let refused = read(&control(kind, &vec![0; length]), &mut header.clone());
            assert_eq!(refused, Err(Errno::EINVAL), "{kind}");
        }
        let unknown_flag = [&[0, 0, 0, 0x80][..], &[0; 12]].concat();
        assert_eq!(read(&control(cmsg::SNDINFO, &unknown_flag), &mut header.clone()), Err(Errno::EINVAL));
        let mut foreign = control(cmsg::SNDINFO, &[0; 3]);
        foreign[8] = 1;
        assert_eq!(read(&foreign, &mut header.clone()), Ok(()), "another level");
    }

    #[test]
    fn only_whole_messages_fit() {
        let both = write(&Header::new(Kind::Data), true, true);
        assert_eq!(both.len(), 48 + 48);
        assert_eq!(fitting(&both, 96), (&both[..], false));
        assert_eq!(fitting(&both, 95), (&both[..48], true));
        assert_eq!(fitting(&both, 47), (&both[..0], true));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut header = Header::new(Kind::Data);
            let _either = read(&bytes, &mut header);
            let (fits, _) = fitting(&bytes, 64);
            prop_assert!(fits.len() <= 64);
        }
    }
}
