//! The page about all runs in a folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::document::{Header, Overview};
use super::files::write_whole;
use super::html::{MISSED_NOTE, checks_table, comparisons_table, table};
use super::{PAGE, ReportError, SUMMARY};
use crate::page::{document, escape};

/// The page about all runs, within their folder.
pub const INDEX: &str = "index.html";
/// Other processes' reports appear while the page is written; so often it is written again.
const ROUNDS_MAX: usize = 100;

/// Writes `index.html` into `folder`, about every run that has a folder of its own in there, by name. Folders without a
/// readable summary are left out. Returns the page's path.
///
/// Of several processes that end together each may write a page without the others' reports; therefore the page is written again until it is that of
/// the folder.
///
/// # Errors
/// If the folder cannot be read or the page cannot be written.
pub fn write_index(folder: &Path) -> Result<PathBuf, ReportError> {
    let path = folder.join(INDEX);
    let mut written = None;
    for _ in 0..ROUNDS_MAX {
        let page = page(&runs(folder).map_err(|source| ReportError::File { path: folder.to_owned(), source })?);
        if written.as_ref() == Some(&page) {
            break;
        }
        write_whole(&path, &page)?;
        written = Some(page);
    }
    Ok(path)
}

/// The runs with a summary in `folder`, by name.
fn runs(folder: &Path) -> io::Result<Vec<(String, Overview)>> {
    let mut runs = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path().join(SUMMARY);
        // Reading a pipe would never end.
        let is_file = fs::metadata(&path).is_ok_and(|metadata| metadata.is_file());
        let summary = if is_file { fs::read_to_string(path).ok() } else { None };
        let overview = summary.and_then(|text| serde_json::from_str::<Overview>(&text).ok());
        if let (Some(overview), Ok(name)) = (overview, entry.file_name().into_string()) {
            runs.push((name, overview));
        }
    }
    runs.sort_by(|(name, _), (other, _)| name.cmp(other));
    Ok(runs)
}

fn page(runs: &[(String, Overview)]) -> String {
    let rows: Vec<Vec<String>> = runs.iter().map(|(name, overview)| row(name, &overview.header)).collect();
    let heading = ["run", "experiment", "what", "source", "scale", "checks", "published numbers"].map(str::to_owned);
    let mut body = format!("<h1>Festina's laboratory</h1>\n{}", table(&heading, &rows, 7));
    for (name, overview) in runs {
        body += &section(name, overview);
    }
    if runs.iter().any(|(_, overview)| !overview.comparisons.is_empty()) {
        body += MISSED_NOTE;
    }
    document("laboratory", &body)
}

/// A run's checks, and its numbers with the published ones.
fn section(name: &str, overview: &Overview) -> String {
    let (checks, comparisons) = (checks_table(&overview.checks), comparisons_table(&overview.comparisons));
    format!("<h2>{}: {}</h2>\n{checks}{comparisons}", link(name), escape(&overview.header.title))
}

fn link(name: &str) -> String {
    format!("<a href=\"{}/{PAGE}\">{}</a>", percent_encoded(name), escape(name))
}

/// The part of a path that a name is in a URL (RFC 3986, section 2.1).
fn percent_encoded(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let encoded = name.bytes().map(|byte| match byte {
        byte if is_plain(byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    encoded.collect()
}

fn row(name: &str, header: &Header) -> Vec<String> {
    let checks = counts(&[
        (header.checks_broken, "broken", "broken"),
        (header.checks_held, "hold", "holds"),
        (header.checks_undecided, "undecided", "undecided"),
        (header.checks_not_tested, "not tested", "not-tested"),
    ]);
    let published = counts(&[
        (header.published_missed, "missed", "missed"),
        (header.published_met, "met", "met"),
        (header.published_undecided, "undecided", "undecided"),
        (header.published_fitted, "fitted", "fitted"),
        (header.published_not_tested, "not tested", "not-tested"),
    ]);
    let [experiment, title, reference, scale] =
        [&header.experiment, &header.title, &header.reference, &header.scale].map(|text| escape(text));
    vec![link(name), experiment, title, reference, scale, checks, published]
}

/// Returns the count of each verdict that occurs, with its word and its class.
fn counts(verdicts: &[(usize, &str, &str)]) -> String {
    let occurring = verdicts.iter().filter(|(count, ..)| *count > 0);
    let words = occurring.map(|(count, word, class)| format!("<span class=\"{class}\">{count} {word}</span>"));
    let text = words.collect::<Vec<_>>().join(", ");
    if text.is_empty() { "none".to_owned() } else { text }
}
