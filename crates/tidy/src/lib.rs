//! The rules of the house. `cargo test -p festina-tidy` holds them over the whole tree.
//!
//! - [`tree`]: the files of the repository;
//! - [`measure`]: the lines of code of a Rust file, the lines of its functions, the fields of its structs;
//! - [`ratchet`]: limits, and the listed exceptions that may only shrink;
//! - [`source`]: what a Rust file must and must not contain;
//! - [`structure`]: the structure of the sender in figures;
//! - [`passage`]: which functions a message and its acknowledgement enter, in a copy of the core that reports it;
//! - [`text`]: words that no file may contain;
//! - [`prose`]: phrases that make English sound translated;
//! - [`conformance`]: the requirements of the standards, their tests, and the deviations that a page states;
//! - [`constants`]: constants that several documents quote;
//! - [`names`]: names of the code that documents quote;
//! - [`evidence`]: the tests that show what the tables of a document state;
//! - [`reports`]: public reports of faults in other projects, and the tests that show them here;
//! - [`metadata`]: what cargo knows about the packages of the workspace and of their dependencies;
//! - [`dependencies`]: which crate may use which, and under which licences.
//!
//! A rule takes text and returns what is wrong with it as sentences that start with the place. The rules are tested here on
//! small examples, and `tests/tidy.rs` applies them to the repository.
//!
//! ```
//! let measures = festina_tidy::measure::measure("fn double(x: u32) -> u32 {\n    // Twice.\n    2 * x\n}\n").unwrap();
//! assert_eq!(measures.code_lines, 3);
//! assert_eq!(measures.functions["double"], 4);
//! ```

#![forbid(unsafe_code)]

pub mod circles;
pub mod conformance;
pub mod constants;
pub mod dependencies;
pub mod evidence;
pub mod measure;
pub mod metadata;
pub mod names;
pub mod passage;
pub mod prose;
pub mod ratchet;
pub mod reports;
pub mod source;
pub mod structure;
pub mod text;
pub mod tree;
