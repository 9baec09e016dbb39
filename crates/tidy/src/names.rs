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
    fn a_path_in_code_marks_consists_of_names_that_exist() {
        let code = File { path: "a.rs".to_owned(), text: "impl Sender { fn send() {} } // fn gone()".to_owned() };
        let identifiers = identifiers(&code).collect();
        let page =
            File { path: "a.md".to_owned(), text: "`Sender::send()`, `gone`\n`Sender::gone`, `a::<b>`".to_owned() };
        assert_eq!(unknown(&page, &identifiers), ["a.md:2: `Sender::gone`: there is no gone"]);
    }
}
