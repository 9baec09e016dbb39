//! Names of the code that documents quote.

use std::collections::BTreeSet;

use crate::tree::File;

/// Complains about paths in code marks, such as `Sender::send`, with a name that no Rust file has.
#[must_use]
pub fn unknown(page: &File, identifiers: &BTreeSet<&str>) -> Vec<String> {
    let mut complaints = Vec::new();
    for (index, line) in page.text.lines().enumerate() {
        let marked = line.split('`').skip(1).step_by(2).map(|text| text.trim_end_matches("()"));
        for path in marked.filter(|text| is_path(text)) {
            let missing = path.split("::").find(|name| !identifiers.contains(name));
            complaints.extend(missing.map(|name| format!("{}:{}: `{path}`: there is no {name}", page.path, index + 1)));
        }
    }
    complaints
}

/// The public items, as the lists in `interface` name them.
#[derive(Debug, Default)]
pub struct Interface<'a> {
    names: BTreeSet<&'a str>,
    types: BTreeSet<&'a str>,
    /// Names of the standard library.
    standard: BTreeSet<&'a str>,
    /// Names that follow each other in a path.
    pairs: BTreeSet<(&'a str, &'a str)>,
}

impl<'a> Interface<'a> {
    /// Reads the lists.
    pub fn of(lists: impl IntoIterator<Item = &'a File>) -> Self {
        let mut interface = Self::default();
        for line in lists.into_iter().flat_map(|list| list.text.lines()) {
            let declares = ["struct ", "enum ", "trait ", "type ", "union "].iter().any(|word| line.contains(word));
            // The first path of a line names its item; generic arguments may divide it.
            let mut item = None;
            for path in paths(line) {
                let names: Vec<&str> = names(path).collect();
                if path.starts_with("::") {
                    interface.pairs.extend(item.zip(names.first().copied()));
                }
                if names.len() > 1 && item.is_none() {
                    item = names.last().copied();
                    interface.types.extend(item.filter(|_| declares));
                }
                if names.first().is_some_and(|first| ["core", "std", "alloc"].contains(first)) {
                    interface.standard.extend(&names);
                }
                interface.pairs.extend(names.windows(2).map(|pair| (pair[0], pair[1])));
                interface.names.extend(names);
            }
        }
        interface
    }

    /// Complains about code marks of a page that name an item of a public type, such as `Endpoint::gone`, or a setting, such as `with_gone`, that is
    /// not listed. Guides name public types alone.
    #[must_use]
    pub fn unlisted(&self, page: &File) -> Vec<String> {
        let is_guide = ["docs/guides/", "docs/start/"].iter().any(|folder| page.path.starts_with(folder));
        let is_ours = |name: &str| {
            self.types.contains(name)
                || is_guide && name.starts_with(char::is_uppercase) && !self.standard.contains(name)
        };
        let is_gone = |path: &str| {
            let names: Vec<&str> = names(path).collect();
            names.windows(2).any(|pair| is_ours(pair[0]) && !self.pairs.contains(&(pair[0], pair[1])))
        };
        let is_unlisted = |mark: &str| {
            let setting = mark.split('(').next().filter(|name| name.starts_with("with_") && paths(name).eq([*name]));
            setting.is_some_and(|name| !self.names.contains(name)) || paths(mark).any(is_gone)
        };
        let mut complaints = Vec::new();
        let mut is_code = false;
        for (index, line) in page.text.lines().enumerate() {
            is_code ^= line.starts_with("```");
            let marks = line.split('`').skip(1).step_by(2).filter(|mark| !is_code && is_unlisted(mark));
            complaints.extend(marks.map(|mark| format!("{}:{}: `{mark}` is no public item", page.path, index + 1)));
        }
        complaints
    }
}

/// The names in a text, with the paths that they form. The rest of a path after generic arguments begins with `::`.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let paths = text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
    paths.map(|path| path.trim_end_matches(':')).filter(|path| !path.is_empty())
}

fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split("::").filter(|name| !name.is_empty())
}

/// The identifiers of a Rust file, without those of comments.
pub fn identifiers(file: &File) -> impl Iterator<Item = &str> {
    let code = file.text.lines().map(|line| line.split_once("//").map_or(line, |(code, _)| code));
    code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_')).filter(|name| !name.is_empty())
}

fn is_path(text: &str) -> bool {
    text.contains("::")
        && text.split("::").all(|name| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_item_that_a_page_names_is_listed() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let list = "pub struct a::Sender\npub fn a::Sender::send(&self, core::time::Duration)\n\
            pub enum a::b::Kind\npub a::b::Kind::Lost\npub a::Sender::limit: u8\npub fn a::Packet<'a>::parse()\npub struct a::Packet<'a>\npub fn a::Sender::with_limit(self) -> Self";
        let lists = [file("interface/a.txt", list)];
        let interface = Interface::of(&lists);
        let text = "`Sender::send(1)`, `Sender::limit`, `Kind::Lost`, `with_limit`, `with_limit(1)`, `with_...`, `Packet::parse`, `Inner::gone`, `Duration::from_secs`, `gone::x`\n\
            `Sender::gone`, `b::Kind::Gone`, `with_gone(1)`\n```\n`Sender::gone`\n```\nSender::gone";
        let complaints = |path: &str| interface.unlisted(&file(path, text));
        let gone = ["Sender::gone", "b::Kind::Gone", "with_gone(1)"];
        assert_eq!(complaints("a.md"), gone.map(|name| format!("a.md:2: `{name}` is no public item")));
        assert_eq!(complaints("docs/guides/a.md")[0], "docs/guides/a.md:1: `Inner::gone` is no public item");
        assert_eq!(complaints("docs/guides/a.md").len(), 4);
    }

    #[test]
    fn a_path_in_code_marks_consists_of_names_that_exist() {
        let code = File { path: "a.rs".to_owned(), text: "impl Sender { fn send() {} } // fn gone()".to_owned() };
        let identifiers = identifiers(&code).collect();
        let page =
            File { path: "a.md".to_owned(), text: "`Sender::send()`, `gone`\n`Sender::gone`, `a::<b>`".to_owned() };
        assert_eq!(unknown(&page, &identifiers), ["a.md:2: `Sender::gone`: there is no gone"]);
    }
}
