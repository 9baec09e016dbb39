//! The text of a file, and where in it something is wrong.

use std::ops::Range;

use thiserror::Error;

/// An invalid configuration file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{file}:{line}:{column}: {problem}")]
pub struct ConfigError {
    /// The file, as it was named.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The problem, and the expected value.
    pub problem: String,
}

/// A configuration file and its contents.
pub(super) struct Text {
    file: String,
    contents: String,
}

impl Text {
    pub(super) fn new(file: &str, contents: &str) -> Self {
        Self { file: file.to_owned(), contents: contents.to_owned() }
    }

    pub(super) fn contents(&self) -> &str {
        &self.contents
    }

    /// An error at these bytes of the file.
    pub(super) fn error(&self, span: Range<usize>, problem: String) -> ConfigError {
        let before = self.contents.get(..span.start).unwrap_or(&self.contents);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        ConfigError {
            file: self.file.clone(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            problem,
        }
    }
}
