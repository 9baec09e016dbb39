//! Relative links of Markdown files and their anchors.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use crate::tree::File;

/// The anchors of each Markdown file, by path.
pub type Anchors = BTreeMap<PathBuf, BTreeSet<String>>;

/// Collects the anchors of Markdown files.
#[must_use]
pub fn anchors<'f>(files: impl Iterator<Item = &'f File>) -> Anchors {
    files.map(|file| (PathBuf::from(&file.path), headings(&file.text))).collect()
}

/// Complains about relative links of a Markdown file that point at no file, or at no heading of a Markdown file. `exists` is asked with
/// paths below the root.
#[must_use]
pub fn broken(file: &File, exists: impl Fn(&Path) -> bool, anchors: &Anchors) -> Vec<String> {
    let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
    let mut complaints = Vec::new();
    for (index, line) in unfenced(&file.text) {
        for target in targets(line).filter(|target| is_relative(target)) {
            let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
            let path = if path.is_empty() { Some(PathBuf::from(&file.path)) } else { resolve(folder, path) };
            let leads = path.filter(|path| anchors.contains_key(path) || exists(path)).is_some_and(|path| {
                anchor.is_none_or(|anchor| anchors.get(&path).is_none_or(|anchors| anchors.contains(anchor)))
            });
            if !leads {
                complaints.push(format!("{}:{}: the link to {target} leads nowhere", file.path, index + 1));
            }
        }
    }
    complaints
}

/// The lines outside of code blocks, with their numbers.
fn unfenced(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        !fenced && !is_fence
    })
}

/// The anchors that a renderer makes from headings, and explicit ones (`<a id="...">`).
fn headings(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, line) in unfenced(text) {
        if let Some((_, rest)) = line.split_once("<a id=\"") {
            anchors.extend(rest.split('"').next().map(str::to_owned));
        }
        let Some((_, heading)) = line.split_once("# ").filter(|(marks, _)| marks.chars().all(|c| c == '#')) else {
            continue;
        };
        let slug = slug(heading);
        let numbered = (1..).map(|number| format!("{slug}-{number}"));
        let free = std::iter::once(slug.clone()).chain(numbered).find(|anchor| !anchors.contains(anchor));
        anchors.extend(free);
    }
    anchors
}

fn slug(heading: &str) -> String {
    // Of a link only the text counts.
    let mut plain = String::new();
    let mut rest = heading;
    while let Some((before, after)) = rest.split_once("](") {
        plain.push_str(before);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    plain.push_str(rest);
    let kept = plain.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The targets of the inline links and of a link definition in a line.
pub(crate) fn targets(line: &str) -> impl Iterator<Item = &str> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let definition = line.starts_with('[').then(|| line.split_once("]: ")).flatten().map(|(_, target)| target.trim());
    inline.chain(definition)
}

fn is_relative(target: &str) -> bool {
    !target.contains("://") && !target.starts_with("mailto:")
}

/// The path below the root that a link means, or nothing if it leaves the repository.
fn resolve(folder: &Path, target: &str) -> Option<PathBuf> {
    let mut path = folder.to_path_buf();
    for component in Path::new(target).components() {
        match component {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !path.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(text: &str) -> Vec<String> {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let files = [
            file("docs/a.md", text),
            file("README.md", "# A `part`: of it\n## Twice\n## Twice\n"),
            file("docs/b.md", ""),
        ];
        broken(&files[0], |path| path == Path::new("docs/c.rs"), &anchors(files.iter()))
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        let text =
            "# Here\n[b](b.md), [up](../README.md#a-part-of-it), [here](#here), [web](https://example.org/x#y)\n";
        assert!(complaints(text).is_empty());
        assert!(complaints("[second](../README.md#twice-1), [code](c.rs#L1)\n").is_empty());
        assert!(complaints("[b]: b.md\n```\n[x](nowhere.md)\n```\n").is_empty());
        assert!(complaints("# The [b](b.md) list\n[here](#the-b-list)\n").is_empty());
    }

    #[test]
    fn links_that_lead_nowhere_are_reported_with_their_line() {
        assert_eq!(complaints("\n[b](b.md) [c](c.md)\n"), ["docs/a.md:2: the link to c.md leads nowhere"]);
        assert_eq!(complaints("[c]: c.md\n").len(), 1);
        assert_eq!(complaints("[gone](../README.md#gone) [gone](#gone) [third](../README.md#twice-2)\n").len(), 3);
        assert_eq!(complaints("```\n# No heading\n```\n[x](#no-heading)\n").len(), 1);
    }

    #[test]
    fn links_must_stay_in_the_repository() {
        assert_eq!(complaints("[out](../../README.md)\n[abs](/README.md)\n").len(), 2);
    }
}
