//! Relative links of Markdown files.

use std::path::{Component, Path, PathBuf};

use crate::tree::File;

/// Complains about relative links of a Markdown file that point at nothing. `exists` is asked with paths below the root.
#[must_use]
pub fn broken(file: &File, exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
    let mut complaints = Vec::new();
    let mut fenced = false;
    for (index, line) in file.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for target in targets(line).filter(|target| is_relative(target)) {
            let path = target.split('#').next().unwrap_or(target);
            if resolve(folder, path).is_none_or(|path| !exists(&path)) {
                complaints.push(format!("{}:{}: the link to {target} leads nowhere", file.path, index + 1));
            }
        }
    }
    complaints
}

/// The targets of the inline links and of a link definition in a line.
pub(crate) fn targets(line: &str) -> impl Iterator<Item = &str> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let definition = line.starts_with('[').then(|| line.split_once("]: ")).flatten().map(|(_, target)| target.trim());
    inline.chain(definition)
}

fn is_relative(target: &str) -> bool {
    !target.starts_with('#') && !target.contains("://") && !target.starts_with("mailto:")
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
        let file = File { path: "docs/a.md".to_owned(), text: text.to_owned() };
        broken(&file, |path| path == Path::new("README.md") || path == Path::new("docs/b.md"))
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        assert!(
            complaints("[b](b.md), [up](../README.md#part) and [here](#a)\n[web](https://example.org/x)\n").is_empty()
        );
        assert!(complaints("[b]: b.md\n```\n[x](nowhere.md)\n```\n").is_empty());
    }

    #[test]
    fn links_that_lead_nowhere_are_told_with_their_line() {
        assert_eq!(complaints("\n[b](b.md) [c](c.md)\n"), ["docs/a.md:2: the link to c.md leads nowhere"]);
        assert_eq!(complaints("[c]: c.md\n").len(), 1);
    }

    #[test]
    fn links_must_stay_in_the_repository() {
        assert_eq!(complaints("[out](../../README.md)\n[abs](/README.md)\n").len(), 2);
    }
}
