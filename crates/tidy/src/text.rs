//! What no file of the repository may contain.

use crate::tree::File;

/// A rule about words.
struct Banned {
    /// Why a word is banned.
    why: &'static str,
    /// The words, in lower case. Written in two halves, so that this file keeps its own rule.
    words: &'static [&'static str],
    /// Whether tests may contain them.
    tests_may: bool,
}

const BANNED: [Banned; 4] = [
    Banned {
        why: "a path of one machine",
        words: &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/us", "ers/")],
        tests_may: false,
    },
    Banned { why: "a temporary path outside tests", words: &[concat!("/tm", "p/")], tests_may: true },
    Banned {
        why: "the host of a package registry",
        words: &[
            concat!("crates", ".io"),
            concat!("pypi", ".org"),
            concat!("npmjs", ".org"),
            concat!("proxy.golang", ".org"),
            concat!("deb.debian", ".org"),
            concat!("repo.maven", ".apache"),
        ],
        tests_may: false,
    },
    Banned {
        why: "the name of a tool that nobody needs to know of",
        words: &[
            concat!("clau", "de"),
            concat!("anthro", "pic"),
            concat!("open", "ai"),
            concat!("chat", "gpt"),
            concat!("copi", "lot"),
            concat!("language ", "model"),
        ],
        tests_may: false,
    },
];

/// Complains about every line that contains a banned word. Lock files are left alone: their tools write them.
#[must_use]
pub fn banned(file: &File) -> Vec<String> {
    if file.path.ends_with("Cargo.lock") {
        return Vec::new();
    }
    let tests_start = first_test_line(file);
    let mut complaints = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let lower = line.to_lowercase();
        for Banned { why, words, tests_may } in &BANNED {
            if *tests_may && index >= tests_start {
                continue;
            }
            let hits = words.iter().filter(|word| lower.contains(**word));
            complaints.extend(hits.map(|word| format!("{}:{}: {word}: {why}", file.path, index + 1)));
        }
    }
    complaints
}

/// Complains about a shell script that changes to a folder of a variable name while CDPATH may name others: `cd` then goes to another folder, or
/// prints the folder that it went to.
#[must_use]
pub fn cd_follows_cdpath(file: &File) -> Option<String> {
    let name = file.path.rsplit('/').next().unwrap_or_default();
    if name.contains('.') && !name.ends_with(".sh") {
        return None;
    }
    let line = file.text.lines().position(|line| line.contains("cd \"$"))?;
    let is_safe = file.text.lines().take(line).any(|line| line == "unset CDPATH");
    (!is_safe).then(|| format!("{}:{}: `cd` without `unset CDPATH` before it", file.path, line + 1))
}

/// Where the tests of a file start: at its first line if it is a file of tests.
fn first_test_line(file: &File) -> usize {
    if file.path.contains("/tests/") || file.path.ends_with("/tests.rs") {
        return 0;
    }
    file.text.lines().position(|line| line.trim() == "#[cfg(test)]").unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, text: &str) -> usize {
        banned(&File { path: path.to_owned(), text: text.to_owned() }).len()
    }

    #[test]
    fn machine_paths_are_banned_everywhere() {
        assert_eq!(complaints("README.md", concat!("see /wo", "rk/main\n")), 1);
        assert_eq!(complaints("a/tests/b.rs", concat!("\"/ho", "me/me\"\n")), 1);
        assert_eq!(complaints("README.md", "crates/units and homework/\n"), 0);
    }

    #[test]
    fn temporary_paths_are_for_tests() {
        let line = concat!("\"/tm", "p/a\"\n");
        assert_eq!(complaints("a/src/b.rs", line), 1);
        assert_eq!(complaints("a/tests/b.rs", line), 0);
        assert_eq!(complaints("a/src/b.rs", &format!("#[cfg(test)]\nmod tests {{ {line} }}\n")), 0);
    }

    #[test]
    fn a_script_that_changes_its_folder_unsets_cdpath_first() {
        let complaint =
            |path: &str, text: &str| cd_follows_cdpath(&File { path: path.to_owned(), text: text.to_owned() });
        let change = "cd \"$(dirname \"$0\")\"\n";
        let expected = "a/build:2: `cd` without `unset CDPATH` before it";
        assert_eq!(complaint("a/build", &format!("#!/bin/sh\n{change}unset CDPATH\n")).as_deref(), Some(expected));
        assert!(complaint("a/build.sh", &format!("out=$({change})")).is_some());
        assert_eq!(complaint("a/build", &format!("set -eu\nunset CDPATH\n{change}")), None);
        assert_eq!(complaint("a/build.md", change), None);
        assert_eq!(complaint("a/build", "cd crates\n"), None);
    }

    #[test]
    fn registry_hosts_are_banned_outside_lock_files() {
        let line = concat!("https://crates", ".io/\n");
        assert_eq!(complaints("a.md", line), 1);
        assert_eq!(complaints("fuzz/Cargo.lock", line), 0);
    }
}
