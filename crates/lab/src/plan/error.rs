//! Errors in plans, with their places.

use std::ops::Range;
use std::path::Path;

/// Caller: an invalid plan. Prints as `FILE:LINE:COLUMN: problem; expected value`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {problem}")]
pub struct PlanError {
    file: String,
    line: usize,
    column: usize,
    problem: String,
}

impl PlanError {
    /// The line of the plan, counted from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    /// The character within the line, counted from 1.
    pub fn column(&self) -> usize {
        self.column
    }

    /// Returns the problem and the expected value.
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

/// Whether terminals, pages and figures can show a text as it is: it has no control characters, and none that XML cannot have.
pub fn is_printable(text: &str) -> bool {
    !text.contains(is_unprintable)
}

fn is_unprintable(c: char) -> bool {
    c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}')
}

/// The text with such characters escaped.
fn printable(text: &str) -> String {
    let shown = text.chars().map(|c| if is_unprintable(c) { c.escape_unicode().to_string() } else { c.to_string() });
    shown.collect()
}

/// A plan's text and the name of its file: turns bytes of the text into places.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) file: String,
    pub(super) text: String,
}

impl Source {
    /// The folder that the file is in.
    pub(super) fn folder(&self) -> &Path {
        Path::new(&self.file).parent().unwrap_or(Path::new(""))
    }

    /// An error about the bytes `span` of the text.
    pub(super) fn error(&self, span: &Range<usize>, problem: impl Into<String>) -> PlanError {
        let before: &str = self.text.get(..span.start).unwrap_or(&self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        PlanError {
            file: printable(&self.file),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            // It may quote the plan.
            problem: printable(&problem.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_in_lines_and_characters_from_one() {
        let source = Source { file: "p.toml".to_owned(), text: "a = 1\nü = 2\n".to_owned() };
        for (span, place) in [(0..1, (1, 1)), (4..5, (1, 5)), (6..8, (2, 1)), (11..12, (2, 5)), (99..100, (3, 1))] {
            let error = source.error(&span, "wrong");
            assert_eq!((error.line(), error.column()), place, "{span:?}");
        }
        assert_eq!(source.error(&(4..5), "wrong").to_string(), "p.toml:1:5: wrong");
    }
}
