//! Phrases that make English sound translated.

use crate::tree::File;

/// Phrases to replace by a noun, an active verb or the field's term. CONTRIBUTING.md says how.
const PHRASES: [&[&str]; 38] = [
    &["is", "told"],
    &["was", "told"],
    &["are", "told"],
    &["be", "told"],
    &["being", "told"],
    &["so", "many"],
    &["so", "much"],
    &["in", "vain"],
    &["begin", "anew"],
    &["begins", "anew"],
    &["what", "is"],
    &["what", "was"],
    &["what", "has"],
    &["what", "are"],
    &["what", "have"],
    &["what", "it"],
    &["what", "they"],
    &["what", "this"],
    &["what", "that"],
    &["who", "is"],
    &["who", "was"],
    &["who", "has"],
    &["who", "are"],
    &["who", "have"],
    &["who", "it"],
    &["who", "they"],
    &["who", "this"],
    &["who", "that"],
    &["whoever"],
    &["whatever"],
    &["nobody"],
    &["of", "which"],
    &["come", "of", "it"],
    &["comes", "of", "it"],
    &["no", "more", "than", "what"],
    &["but", "that"],
    &["for", "so", "long"],
    &["as", "ever"],
];

/// Folders that are free of the phrases above, and of these.
const STRICT: [&str; 10] = [
    "crates/code",
    "crates/emulate",
    "crates/minbuf",
    "crates/netsim",
    "crates/recovery",
    "crates/sctp",
    "crates/secure",
    "crates/trace",
    "crates/units",
    "fuzz",
];

/// Phrases that also count in the folders of `STRICT`. Move a phrase to `PHRASES` once no folder has it.
const STRICT_PHRASES: [&[&str]; 20] = [
    &["anew"],
    &["beside"],
    &["gives", "way"],
    &["goes", "on"],
    &["hear", "of"],
    &["hears", "of"],
    &["leave", "again"],
    &["leaves", "again"],
    &["left", "again"],
    &["once", "more"],
    &["somebody"],
    &["what", "came"],
    &["what", "comes"],
    &["what", "follows"],
    &["what", "goes"],
    &["what", "leaves"],
    &["what", "left"],
    &["what", "lies"],
    &["what", "may"],
    &["what", "must"],
];

/// Endings of the files with prose in them.
const ENDINGS: [&str; 5] = [".rs", ".md", ".py", ".h", ".toml"];

/// Complains about each line with such a phrase. Quotations of standards and of papers do not count, nor does this crate.
#[must_use]
pub fn stiff_lines(file: &File) -> Vec<String> {
    let File { path, text } = file;
    if path.starts_with("crates/tidy/") || !ENDINGS.iter().any(|ending| path.ends_with(ending)) {
        return Vec::new();
    }
    let is_strict = STRICT.iter().any(|folder| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')));
    let stiff = text.lines().enumerate().filter(|(_, line)| is_stiff(line, is_strict));
    stiff.map(|(index, line)| format!("{path}:{}: {}", index + 1, line.trim())).collect()
}

fn is_stiff(line: &str, is_strict: bool) -> bool {
    let lower = line.to_lowercase();
    let words: Vec<&str> = lower.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty()).collect();
    let strict = STRICT_PHRASES.iter().filter(|_| is_strict);
    PHRASES.iter().chain(strict).any(|phrase| words.windows(phrase.len()).any(|window| window == *phrase))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_found_as_whole_words_in_any_case() {
        for line in [
            "/// What is sent.",
            "Nobody knows",
            "a timer that fires in vain",
            "of which three",
            "no more than what fits",
        ] {
            assert!(is_stiff(line, false), "{line}");
        }
        for line in ["/// Returns the packet.", "whatsoever it", "nobody_listens()", "in vainglory", "what"] {
            assert!(!is_stiff(line, true), "{line}");
        }
    }

    #[test]
    fn folders_without_stiff_phrases_are_held_to_more_of_them() {
        let complaints = |path: &str| {
            stiff_lines(&File { path: path.to_owned(), text: "/// What follows.\n/// The rest.\nnobody\n".to_owned() })
        };
        assert_eq!(
            complaints("crates/trace/src/a.rs"),
            ["crates/trace/src/a.rs:1: /// What follows.", "crates/trace/src/a.rs:3: nobody"]
        );
        assert_eq!(complaints("crates/tracer/src/a.rs"), ["crates/tracer/src/a.rs:3: nobody"]);
        assert!(complaints("crates/tidy/src/a.rs").is_empty() && complaints("docs/picture.svg").is_empty());
    }
}
