//! The error of every parser in this crate.

/// A text that does not name a quantity: it says which text, what was expected, and gives an example.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not {expected}; write for example \"{example}\"")]
pub struct ParseError {
    text: String,
    expected: &'static str,
    example: &'static str,
}

impl ParseError {
    /// An error for `text`, which should have been `expected` (a noun with its article, as in "a
    /// bandwidth in bit/s"), for instance `example`.
    pub fn new(text: &str, expected: &'static str, example: &'static str) -> Self {
        Self { text: text.to_owned(), expected, example }
    }

    /// The text that was refused.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What the text should have been.
    pub fn expected(&self) -> &'static str {
        self.expected
    }

    /// A text that would have been accepted.
    pub fn example(&self) -> &'static str {
        self.example
    }
}
