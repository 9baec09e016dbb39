//! Text for a terminal of 80 columns.

/// The default width of a terminal.
const COLUMNS: usize = 80;

/// Breaks each line between words, so that none is longer than [`COLUMNS`] unless one word is. Further lines of one that was broken begin
/// with `indent` blanks; the blanks that a line begins with stay.
pub(crate) fn folded(text: &str, indent: usize) -> String {
    text.split('\n').map(|line| folded_behind("", line, indent)).collect::<Vec<_>>().join("\n")
}

/// One line that begins with `columns`, which is not broken, and `line` behind it, which is.
pub(crate) fn folded_behind(columns: &str, line: &str, indent: usize) -> String {
    let words = line.trim_start();
    let mut folded = format!("{columns}{}", &line[..line.len() - words.len()]);
    let mut column = folded.chars().count();
    for (number, word) in words.split(' ').enumerate() {
        let length = word.chars().count();
        if number > 0 && column + 1 + length > COLUMNS {
            folded.push('\n');
            folded.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        } else if number > 0 {
            folded.push(' ');
            column += 1;
        }
        folded += word;
        column += length;
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words_and_keep_their_blanks_and_what_fits_stays_as_it_is() {
        let text = format!("  name: {}\n\nshort  and wide", ["word"; 20].join(" "));
        let folded = folded(&text, 4);
        assert!(folded.lines().all(|line| line.len() <= COLUMNS), "{folded}");
        assert!(folded.starts_with("  name: word"), "{folded}");
        assert!(folded.ends_with("\n\nshort  and wide"), "{folded}");
        assert_eq!(folded.lines().nth(1).map(|line| line.starts_with("    word")), Some(true), "{folded}");
        assert_eq!(folded.matches("word").count(), 20);
    }

    #[test]
    fn a_line_of_exactly_eighty_columns_stays_one_and_a_longer_word_stands_alone() {
        let exact = format!("{} {}", "a".repeat(39), "ö".repeat(40));
        assert_eq!(folded(&exact, 2), exact);
        let long = "x".repeat(100);
        assert_eq!(folded(&format!("before {long} after"), 2), format!("before\n  {long}\n  after"));
    }
}
