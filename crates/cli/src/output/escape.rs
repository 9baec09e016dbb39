//! Bytes from the network as text that no terminal takes for a command.

use std::fmt::Write as _;

/// The bytes as text, with every control character but line feed and tab, and every byte that is no UTF-8, as `\x1b` in its
/// place. Characters that turn the direction of writing are control characters too.
///
/// It is for people to look at and cannot be undone: a backslash stays as it is.
pub(super) fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if is_command(character) && !matches!(character, '\n' | '\t') {
                push_bytes(&mut text, character.encode_utf8(&mut [0; 4]).as_bytes());
            } else {
                text.push(character);
            }
        }
        push_bytes(&mut text, chunk.invalid());
    }
    text
}

/// Whether a terminal may act on the character instead of showing it: C0, DEL, C1 and the signs of Unicode that turn the
/// direction of writing.
fn is_command(character: char) -> bool {
    let turns =
        matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    character.is_control() || turns
}

fn push_bytes(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing into a string cannot fail.
        let _ = write!(text, "\\x{byte:02x}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_any_language_stays_as_it_is() {
        for text in ["", "a b", "Grüße, 世界 🙂", "two\nlines\tand a tab", "C:\\x1b"] {
            assert_eq!(escaped(text.as_bytes()), text);
        }
    }

    #[test]
    fn every_control_character_is_escaped_but_line_feed_and_tab() {
        for code in (0..0x20).chain(0x7f..0xa0) {
            let character = char::from(code);
            let shown = escaped(character.to_string().as_bytes());
            let stays = matches!(character, '\n' | '\t');
            assert_eq!(shown.chars().any(char::is_control), stays, "{code:#x}: {shown}");
        }
        assert_eq!(escaped(b"\x1b[2J\r\x7f"), "\\x1b[2J\\x0d\\x7f");
        assert_eq!(escaped("\u{9b}31m".as_bytes()), "\\xc2\\x9b31m");
        assert_eq!(escaped("\u{202e}txt".as_bytes()), "\\xe2\\x80\\xaetxt");
    }

    #[test]
    fn bytes_that_are_no_text_are_escaped() {
        assert_eq!(escaped(b"a\x9bb\xff\xc3"), "a\\x9bb\\xff\\xc3");
        assert_eq!(escaped(b"\xed\xa0\x80"), "\\xed\\xa0\\x80", "a surrogate is no UTF-8");
    }
}
