//! Reads the header of a line: priority, host, application (RFC 5424 §6, otherwise RFC 3164 §4, leniently).
//!
//! `syslog_loose` reads the header. A line that it cannot read is kept unchanged and marked, with the severity and facility that RFC 3164 §4.3.3
//! gives to such lines: user, notice.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use chrono::Utc;
use syslog_loose::Variant;

/// How bad it is (RFC 5424 §6.2.1, table 2). The order is from the most to the least important.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Severity(u8);

impl Severity {
    /// A line that does not say (RFC 3164 §4.3.3).
    pub const NOTICE: Self = Self(5);

    /// From its number, 0 to 7; the lowest three bits count.
    pub fn new(number: u8) -> Self {
        Self(number & 7)
    }

    /// 0, the most important, to 7.
    pub fn number(self) -> u8 {
        self.0
    }

    /// As an index of a table of eight.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The name as syslog.conf has it.
    pub fn name(self) -> &'static str {
        SEVERITIES[self.index()]
    }
}

const SEVERITIES: [&str; 8] = ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Severity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = SEVERITIES.iter().position(|&name| name == text);
        let number = number.or_else(|| text.parse().ok().filter(|&number: &usize| number < SEVERITIES.len()));
        let number = number.and_then(|number| u8::try_from(number).ok());
        number.map(Self).ok_or_else(|| format!("\"{text}\" is no severity; they are {}", SEVERITIES.join(", ")))
    }
}

/// Which part of the system it is from (RFC 5424 §6.2.1, table 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facility(u8);

const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp", "ntp",
    "audit", "console", "clock", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
];

impl Facility {
    /// A line that does not say (RFC 3164 §4.3.3).
    pub const USER: Self = Self(1);

    /// The name as syslog.conf has it.
    pub fn name(self) -> &'static str {
        FACILITIES.get(usize::from(self.0)).copied().unwrap_or("unknown")
    }
}

impl FromStr for Facility {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = FACILITIES.iter().position(|&name| name == text).and_then(|number| u8::try_from(number).ok());
        number.map(Self).ok_or_else(|| format!("\"{text}\" is no facility; they are {}", FACILITIES.join(", ")))
    }
}

/// The header fields of a line, as far as they could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// Severity.
    pub severity: Severity,
    /// Facility.
    pub facility: Facility,
    /// The host that the line names.
    pub host: Option<Cow<'a, str>>,
    /// The application that the line names.
    pub app: Option<Cow<'a, str>>,
    /// The line could be read. If not, all else is a guess.
    pub parsed: bool,
}

impl Header<'_> {
    /// The header of an unreadable line (RFC 3164 §4.3.3).
    pub(crate) fn unread() -> Self {
        Self { severity: Severity::NOTICE, facility: Facility::USER, host: None, app: None, parsed: false }
    }
}

/// Bytes of a line that are looked at: no header is longer, and the reader's work stays bounded.
const LOOKED_AT_BYTES: usize = 2_048;

/// Reads the header of a line. Never fails: what cannot be read is marked.
pub fn read_header(line: &[u8]) -> Header<'_> {
    match String::from_utf8_lossy(&line[..line.len().min(LOOKED_AT_BYTES)]) {
        Cow::Borrowed(text) => read_text(text),
        Cow::Owned(text) => {
            let header = read_text(&text);
            let own = |name: Option<Cow<'_, str>>| name.map(|name| Cow::Owned(name.into_owned()));
            Header { host: own(header.host), app: own(header.app), ..header }
        }
    }
}

/// Reads only the fields that a policy without names needs: host and application may be missing. The most common form is recognised quickly, at a
/// small part of the cost of [`read_header`].
pub fn read_worth(line: &[u8]) -> Header<'_> {
    match priority(line) {
        Some((facility, severity)) if is_dated(line) => {
            Header { severity, facility, host: None, app: None, parsed: true }
        }
        _ => read_header(line),
    }
}

/// Whether a time of RFC 3164 §4.1.2 stands behind the priority, `Oct 11 22:14:15 `, on a day that every month has.
fn is_dated(line: &[u8]) -> bool {
    let Some(end) = line.iter().take(5).position(|&byte| byte == b'>') else { return false };
    let Some(&[m0, m1, m2, b' ', d0, d1, b' ', h0, h1, b':', n0, n1, b':', s0, s1, b' ']) = line.get(end + 1..end + 17)
    else {
        return false;
    };
    let two = |tens: u8, ones: u8, below: u8| {
        tens.is_ascii_digit() && ones.is_ascii_digit() && (tens - b'0') * 10 + (ones - b'0') < below
    };
    let day = two(d0, d1, 29) && (d0, d1) != (b'0', b'0') && d0 != b'0' || d0 == b' ' && matches!(d1, b'1'..=b'9');
    MONTHS.contains(&[m0, m1, m2]) && day && two(h0, h1, 24) && two(n0, n1, 60) && two(s0, s1, 60)
}

const MONTHS: [[u8; 3]; 12] =
    [*b"Jan", *b"Feb", *b"Mar", *b"Apr", *b"May", *b"Jun", *b"Jul", *b"Aug", *b"Sep", *b"Oct", *b"Nov", *b"Dec"];

fn read_text(text: &str) -> Header<'_> {
    let unread = Header::unread();
    // RFC 3164 §4.3.3 defines the meaning of a line without a priority.
    let Some((facility, severity)) = priority(text.as_bytes()) else { return unread };
    // The year is not used: the receiver dates the lines.
    let read = syslog_loose::parse_message_with_year_exact_tz(text, |_| 2_000, Some(Utc), Variant::Either);
    match read {
        Ok(message) => {
            let (host, app) = match (message.hostname, message.appname) {
                (Some(tag), None) if is_tag(text, tag) => (None, Some(tag)),
                names => names,
            };
            Header { severity, facility, host: host.map(Cow::Borrowed), app: app.map(Cow::Borrowed), parsed: true }
        }
        Err(_) => Header { severity, facility, ..unread },
    }
}

/// Whether this part of a line is followed by a colon: the C library's `syslog` and `logger` name no host, and `syslog_loose` takes their tag for one.
fn is_tag(text: &str, part: &str) -> bool {
    let end = part.as_ptr().addr() + part.len() - text.as_ptr().addr();
    text.as_bytes().get(end) == Some(&b':')
}

/// `<PRI>` at the beginning: 0 to 191 (RFC 5424 §6.2.1).
fn priority(line: &[u8]) -> Option<(Facility, Severity)> {
    let rest = line.strip_prefix(b"<")?;
    let digits = rest.iter().take(4).take_while(|byte| byte.is_ascii_digit()).count();
    if !(1..=3).contains(&digits) || rest.get(digits) != Some(&b'>') {
        return None;
    }
    let value = rest[..digits].iter().fold(0_u16, |sum, byte| sum * 10 + u16::from(byte - b'0'));
    let facility = u8::try_from(value / 8).ok().filter(|&facility| usize::from(facility) < FACILITIES.len())?;
    Some((Facility(facility), Severity::new(u8::try_from(value % 8).ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_glance_agrees_with_the_reader_whatever_byte_is_wrong() {
        for line in [
            &b"<34>Oct 11 22:14:15 mymachine su: x"[..],
            b"<7>Feb  1 00:00:59 y",
            b"<191>1 2003-10-11T22:14:15Z h a - - - x",
        ] {
            for at in 0..line.len() {
                for byte in 0..=u8::MAX {
                    let mut line = line.to_vec();
                    line[at] = byte;
                    let (glance, read) = (read_worth(&line), read_header(&line));
                    let text = String::from_utf8_lossy(&line).into_owned();
                    let worth = |header: &Header<'_>| (header.severity, header.facility, header.parsed);
                    assert_eq!(worth(&glance), worth(&read), "{text}");
                }
            }
        }
    }

    #[test]
    fn a_line_of_rfc_5424_is_read() {
        let header = read_header(b"<165>1 2003-10-11T22:14:15.003Z host.example evntslog - ID47 [a@1 b=\"c\"] text");
        assert_eq!((header.severity.name(), header.facility.name()), ("notice", "local4"));
        assert_eq!((header.host.as_deref(), header.app.as_deref()), (Some("host.example"), Some("evntslog")));
        assert!(header.parsed);
    }

    #[test]
    fn a_line_of_rfc_3164_is_read() {
        let header = read_header(b"<34>Oct 11 22:14:15 mymachine su: 'su root' failed for lonvick on /dev/pts/8");
        assert_eq!((header.severity.name(), header.facility.name()), ("crit", "auth"));
        assert_eq!((header.host.as_deref(), header.app.as_deref()), (Some("mymachine"), Some("su")));
        assert!(header.parsed);
    }

    #[test]
    fn the_tag_of_a_line_without_a_host_is_its_application() {
        for (line, host, app) in [
            (&b"<13>Oct 11 22:14:15 sshd: x"[..], None, Some("sshd")),
            (b"<13>Oct 11 22:14:15 sshd[12]: x", None, Some("sshd")),
            (b"<13>Oct 11 22:14:15 %ASA-4-1: x", None, Some("%ASA-4-1")),
            (b"<13>Oct 11 22:14:15 mymachine sshd: x", Some("mymachine"), Some("sshd")),
            (b"<13>1 2003-10-11T22:14:15Z a:b - - - - x", Some("a:b"), None),
        ] {
            let header = read_header(line);
            let text = String::from_utf8_lossy(line);
            assert_eq!((header.host.as_deref(), header.app.as_deref()), (host, app), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_a_notice_of_a_user_and_marked() {
        for line in [&b"no priority"[..], b"", b"<999>x", b"<192>x", b"<>x", b"<1", b"\xff\xfe\0", b"<0001>x"] {
            let header = read_header(line);
            assert_eq!((header.severity, header.facility), (Severity::NOTICE, Facility::USER), "{line:?}");
            assert!(!header.parsed, "{line:?}");
        }
    }

    #[test]
    fn bytes_that_are_not_utf_8_do_not_hide_the_header() {
        let header = read_header(b"<34>Oct 11 22:14:15 mymachine su: \xff\xfe");
        assert_eq!((header.severity.name(), header.app.as_deref()), ("crit", Some("su")));
    }

    #[test]
    fn names_and_numbers_of_severities_are_read_back() {
        for number in 0..8 {
            let severity = Severity::new(number);
            assert_eq!(severity.name().parse(), Ok(severity));
            assert_eq!(number.to_string().parse(), Ok(severity));
        }
        assert!("bad".parse::<Severity>().is_err() && "8".parse::<Severity>().is_err());
    }
}
