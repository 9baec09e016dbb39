//! The error type of all parsers in this crate.

/// Text that is not a valid quantity, with the expected form and an example.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is {relation} {expected}; write for example \"{example}\"")]
pub struct ParseError {
    text: String,
    relation: &'static str,
    expected: &'static str,
    example: &'static str,
}

/// Implements `Debug` of errors by `Display`: `fn main() -> Result<(), E>` prints `Debug`, and users should read the sentence there.
#[macro_export]
macro_rules! debug_is_display {
    ($($error:ty),+) => {$(
        impl ::core::fmt::Debug for $error {
            fn fmt(&self, formatter: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Display::fmt(self, formatter)
            }
        }
    )+};
}

debug_is_display!(ParseError);

impl ParseError {
    /// Creates an error for `text`, which is not `expected` (a noun with its article, as in "a bandwidth in bit/s"),
    /// with a valid `example`.
    pub fn new(text: &str, expected: &'static str, example: &'static str) -> Self {
        Self { text: text.to_owned(), relation: "not", expected, example }
    }

    /// As [`new`](Self::new), for text of the right form whose number is too large.
    pub(crate) fn too_large(text: &str, expected: &'static str, example: &'static str) -> Self {
        Self { relation: "too large for", ..Self::new(text, expected, example) }
    }

    /// Returns the rejected text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns a description of the expected form.
    pub fn expected(&self) -> &'static str {
        self.expected
    }

    /// Returns a text that would be accepted.
    pub fn example(&self) -> &'static str {
        self.example
    }
}
