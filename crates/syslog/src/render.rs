//! Formats lines for outputs and chooses their files. The contents of a line can neither control a terminal nor escape its directory.

use std::fmt::Write as _;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Deserialize;

use crate::line::{Header, read_header};
use crate::record::{MARK_CUT, MARK_UNPARSED, Record};

/// The most characters that a line gives to the name of a file.
const NAME_CHARACTERS_MAX: usize = 64;

/// Format of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// As it came, with control characters escaped.
    #[default]
    Raw,
    /// One JSON object.
    Json,
}

/// The record as one line of an output, with its line feed.
pub fn render(record: &Record, format: Format, into: &mut Vec<u8>) {
    match format {
        Format::Raw => {
            escape(&record.line, into);
            if record.marks & MARK_CUT != 0 {
                into.extend_from_slice(b" [cut]");
            }
        }
        Format::Json => render_json(record, into),
    }
    into.push(b'\n');
}

/// Control characters, also those beyond ASCII, and bytes that are no UTF-8 as `\x1b`; all else as it is.
pub fn escape(line: &[u8], into: &mut Vec<u8>) {
    if is_plain(line) {
        into.extend_from_slice(line);
        return;
    }
    for chunk in line.utf8_chunks() {
        for character in chunk.valid().chars() {
            let mut utf8 = [0; 4];
            let bytes = character.encode_utf8(&mut utf8).as_bytes();
            if character.is_control() && character != '\t' || is_format(character) {
                bytes.iter().for_each(|&byte| escape_byte(byte, into));
            } else {
                into.extend_from_slice(bytes);
            }
        }
        chunk.invalid().iter().for_each(|&byte| escape_byte(byte, into));
    }
}

/// Whether it is printable ASCII and tabs alone. Nearly all lines are: bits without a branch can be computed for many bytes at once.
fn is_plain(line: &[u8]) -> bool {
    let other = |byte: u8| u8::from(byte.wrapping_sub(b' ') > b'~' - b' ') & u8::from(byte != b'\t');
    line.iter().fold(0, |others, &byte| others | other(byte)) == 0
}

/// Characters that change how those around them are shown: direction of writing, line and paragraph separators.
fn is_format(character: char) -> bool {
    matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escape_byte(byte: u8, into: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    into.extend_from_slice(&[b'\\', b'x', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

fn render_json(record: &Record, into: &mut Vec<u8>) {
    let header = read_header(&record.line);
    let mut object = serde_json::Map::new();
    let mut put = |key: &str, value: serde_json::Value| object.insert(key.to_owned(), value);
    put("received", time(record.received_us).to_rfc3339_opts(SecondsFormat::Micros, true).into());
    put("source", String::from_utf8_lossy(&record.source).into());
    put("severity", header.severity.name().into());
    put("facility", header.facility.name().into());
    put("host", header.host.as_deref().into());
    put("app", header.app.as_deref().into());
    match std::str::from_utf8(&record.line) {
        Ok(text) => put("line", text.into()),
        // Lossless: each byte that is no UTF-8 is escaped, and a mark says that it was done.
        Err(_) => {
            let mut text = Vec::new();
            escape(&record.line, &mut text);
            put("escaped", true.into());
            put("line", String::from_utf8_lossy(&text).into())
        }
    };
    if record.marks & MARK_CUT != 0 {
        put("cut", true.into());
    }
    if record.marks & MARK_UNPARSED != 0 {
        put("unparsed", true.into());
    }
    // The remaining control characters in the JSON text, DEL and non-ASCII ones, only occur in strings, where they may be escaped.
    for character in serde_json::Value::Object(object).to_string().chars() {
        if character.is_control() || is_format(character) {
            into.extend_from_slice(format!("\\u{:04x}", u32::from(character)).as_bytes());
        } else {
            into.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
}

fn time(microseconds: u64) -> DateTime<Utc> {
    i64::try_from(microseconds).ok().and_then(DateTime::from_timestamp_micros).unwrap_or_default()
}

/// The file for a record: the template with its placeholders filled in.
pub fn file_name(template: &str, record: &Record) -> String {
    if !template.contains('{') {
        return template.to_owned();
    }
    let header = if template.contains("{app}") { read_header(&record.line) } else { Header::unread() };
    let mut name = String::with_capacity(template.len() + 32);
    for piece in template.split_inclusive('}') {
        let (before, placeholder) = piece.split_once('{').unwrap_or((piece, ""));
        name.push_str(before);
        match placeholder {
            "source}" => push_name(&mut name, &String::from_utf8_lossy(&record.source)),
            "app}" => push_name(&mut name, header.app.as_deref().unwrap_or("")),
            "severity}" => name.push_str(record.severity.name()),
            "date}" => {
                let _ = write!(name, "{}", time(record.received_us).format("%Y-%m-%d"));
            }
            _ => {}
        }
    }
    name
}

/// The file for lines that cannot have their own: the template with a word in place of each placeholder.
pub fn overflow_name(template: &str, word: &str) -> String {
    let mut name = String::with_capacity(template.len() + 32);
    for piece in template.split_inclusive('}') {
        match piece.split_once('{') {
            Some((before, _)) => name.extend([before, word]),
            None => name.push_str(piece),
        }
    }
    name
}

/// Appends a peer-supplied text to a name: only letters, digits, `.`, `-`, `_` and `:`, and no leading dot.
fn push_name(name: &mut String, text: &str) {
    let start = name.len();
    for character in text.chars().take(NAME_CHARACTERS_MAX) {
        let plain = character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | ':');
        let inner_dot = character == '.' && name.len() > start;
        name.push(if plain || inner_dot { character } else { '_' });
    }
    if name.len() == start {
        name.push_str("unknown");
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::line::Severity;

    fn record(source: &'static str, line: &'static [u8]) -> Record {
        let (source, line) = (Bytes::from_static(source.as_bytes()), Bytes::from_static(line));
        Record { sequence: 1, received_us: 1_700_000_000_000_000, marks: 0, severity: Severity::NOTICE, source, line }
    }

    fn rendered(line: &'static [u8], format: Format) -> String {
        let mut bytes = Vec::new();
        render(&record("10.0.0.1", line), format, &mut bytes);
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn control_characters_and_bytes_that_are_no_text_are_escaped_and_all_else_stays() {
        assert_eq!(
            rendered(b"a\tb\x1b[2J\n\0\xff \xc3\xa9 \xc2\x9b", Format::Raw),
            "a\tb\\x1b[2J\\x0a\\x00\\xff é \\xc2\\x9b\n"
        );
        assert_eq!(rendered("\u{202e}evil".as_bytes(), Format::Raw), "\\xe2\\x80\\xaeevil\n");
    }

    #[test]
    fn json_is_one_line_that_is_read_back() {
        for line in [&b"<34>Oct 11 22:14:15 box su: \"quoted\"\n\x1b[2J"[..], b"\xff\0"] {
            let text = rendered(line, Format::Json);
            assert_eq!(text.matches('\n').count(), 1);
            let object: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            assert_eq!(object["received"], "2023-11-14T22:13:20.000000Z");
            assert_eq!(object["source"], "10.0.0.1");
            match std::str::from_utf8(line) {
                Ok(line) => assert_eq!((&object["line"], &object["app"]), (&line.into(), &"su".into())),
                Err(_) => assert_eq!((&object["line"], &object["escaped"]), (&"\\xff\\x00".into(), &true.into())),
            }
        }
    }

    #[test]
    fn names_of_files_cannot_leave_their_directory() {
        let name = |source, line| file_name("/log/{source}/{app}-{severity}-{date}.log", &record(source, line));
        assert_eq!(name("10.0.0.1", b"<34>Oct 11 22:14:15 box su: x"), "/log/10.0.0.1/su-notice-2023-11-14.log");
        assert_eq!(name("../..", b"x"), "/log/_._../unknown-notice-2023-11-14.log");
        assert_eq!(overflow_name("/log/{source}/{app}-x.log", "overflow"), "/log/overflow/overflow-x.log");
        assert_eq!(name("/etc/passwd", b"x"), "/log/_etc_passwd/unknown-notice-2023-11-14.log");
    }
}
