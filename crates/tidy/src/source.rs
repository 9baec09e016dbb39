//! What a Rust file must and must not contain.

use proc_macro2::{TokenStream, TokenTree};

use crate::tree::File;

/// Macros that stand for code which is not there.
const UNFINISHED: [&str; 2] = ["todo", "unimplemented"];

/// Complains about unfinished code, ignored tests and public items without documentation (`#[doc(hidden)]`).
///
/// # Errors
/// If the text is not Rust.
pub fn unfinished(file: &File) -> Result<Vec<String>, syn::Error> {
    let tokens: TokenStream = file.text.parse()?;
    let mut complaints = Vec::new();
    scan(&file.path, tokens, &mut complaints);
    Ok(complaints)
}

fn scan(path: &str, tokens: TokenStream, complaints: &mut Vec<String>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (index, token) in tokens.iter().enumerate() {
        let line = token.span().start().line;
        match token {
            TokenTree::Ident(name)
                if UNFINISHED.iter().any(|macro_name| name == macro_name)
                    && tokens.get(index + 1).is_some_and(|next| is_punct(next, '!')) =>
            {
                complaints.push(format!("{path}:{line}: {name}!: unfinished code"));
            }
            TokenTree::Group(group) => {
                let is_attribute = index > 0 && tokens.get(index - 1).is_some_and(|hash| is_punct(hash, '#'));
                if is_attribute && starts_with(&group.stream(), "ignore") {
                    complaints.push(format!("{path}:{line}: an ignored test"));
                }
                if is_hidden(&group.stream()) {
                    complaints.push(format!("{path}:{line}: a hidden item: document it, or make it private"));
                }
                scan(path, group.stream(), complaints);
            }
            _ => {}
        }
    }
}

/// Whether these tokens begin with `doc(hidden`, as in an attribute that hides an item from the documentation.
fn is_hidden(tokens: &TokenStream) -> bool {
    let second = tokens.clone().into_iter().nth(1);
    starts_with(tokens, "doc")
        && matches!(second, Some(TokenTree::Group(list)) if starts_with(&list.stream(), "hidden"))
}

fn is_punct(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign)
}

fn starts_with(tokens: &TokenStream, name: &str) -> bool {
    matches!(tokens.clone().into_iter().next(), Some(TokenTree::Ident(ident)) if ident == name)
}

/// Complains about a `mod.rs` among the sources. Test folders may have one: there it keeps cargo from taking a shared module
/// for a test.
#[must_use]
pub fn mod_rs(file: &File) -> Option<String> {
    let in_source = file.path.contains("/src/") && file.path.ends_with("/mod.rs");
    in_source.then(|| format!("{}: name it after its folder and put it beside the folder", file.path))
}

/// Complains about a module that does not say in its first line what it is. Modules of tests need not.
#[must_use]
pub fn introduction(file: &File) -> Option<String> {
    let is_test = file.path.ends_with("/tests.rs") || file.path.contains("/tests/");
    let concerned = file.path.contains("/src/") && !is_test;
    (concerned && !file.text.starts_with("//! ")).then(|| format!("{}: the first line must say what it is", file.path))
}

/// Complains about crates that allow unsafe code without a word. A crate root forbids it; a crate that cannot do without
/// explains itself in the module concerned with `#![expect(unsafe_code, reason = "...")]`.
#[must_use]
pub fn unsafe_code(files: &[File]) -> Vec<String> {
    let roots = files.iter().filter(|file| is_crate_root(&file.path));
    roots
        .filter(|root| !root.text.contains("#![forbid(unsafe_code)]"))
        .filter(|root| {
            let folder = root.path.rsplit_once('/').map_or("", |(folder, _)| folder);
            !files.iter().any(|file| file.path.starts_with(folder) && explains_unsafe_code(&file.text))
        })
        .map(|root| format!("{}: no #![forbid(unsafe_code)] and no explained exception", root.path))
        .collect()
}

fn is_crate_root(path: &str) -> bool {
    path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs") || path.contains("/src/bin/")
}

fn explains_unsafe_code(text: &str) -> bool {
    let dense: String = text.split_whitespace().collect();
    dense.contains("[expect(unsafe_code,reason=\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    fn found(text: &str) -> Vec<String> {
        unfinished(&file("a.rs", text)).expect("the example is Rust")
    }

    #[test]
    fn unfinished_code_is_found_even_inside_other_macros() {
        assert_eq!(found("fn f() {\n    todo!();\n}\n"), ["a.rs:2: todo!: unfinished code"]);
        assert_eq!(found("fn f() { assert!(unimplemented!()) }"), ["a.rs:1: unimplemented!: unfinished code"]);
        assert!(found("// todo!\nfn f() { let todo = \"todo!()\"; }").is_empty());
    }

    #[test]
    fn ignored_tests_are_found_with_and_without_a_reason() {
        assert_eq!(found("#[test]\n#[ignore]\nfn f() {}\n"), ["a.rs:2: an ignored test"]);
        assert_eq!(found("#[ignore = \"slow\"]\nfn f() {}\n"), ["a.rs:1: an ignored test"]);
    }

    #[test]
    fn items_hidden_from_the_documentation_are_found() {
        let complaint = "a hidden item: document it, or make it private";
        assert_eq!(found("#[doc(hidden)]\npub fn f() {}\n"), [format!("a.rs:1: {complaint}")]);
        assert_eq!(found("//! A module.\n#![doc(hidden)]\n"), [format!("a.rs:2: {complaint}")]);
        assert!(found("/// `#[doc(hidden)]`\n#[doc = \"hidden\"]\npub fn f() {}\n").is_empty());
    }

    #[test]
    fn a_mod_rs_is_for_tests_only() {
        assert!(mod_rs(&file("crates/a/src/b/mod.rs", "")).is_some());
        assert!(mod_rs(&file("crates/a/tests/b/mod.rs", "")).is_none());
    }

    #[test]
    fn a_module_starts_with_what_it_is() {
        assert!(introduction(&file("crates/a/src/b.rs", "use c;\n")).is_some());
        assert!(introduction(&file("crates/a/src/b.rs", "//! What.\n")).is_none());
        assert!(introduction(&file("crates/a/src/b/tests.rs", "use c;\n")).is_none());
    }

    #[test]
    fn a_crate_root_forbids_unsafe_code_or_its_crate_explains_it() {
        let silent = file("a/src/main.rs", "");
        let reasoned = file("a/src/b.rs", "#![expect(\n    unsafe_code,\n    reason = \"why\"\n)]\n");
        let elsewhere = file("b/src/b.rs", "#![expect(unsafe_code, reason = \"why\")]\n");
        assert_eq!(unsafe_code(&[file("a/src/lib.rs", "#![forbid(unsafe_code)]\n")]).len(), 0);
        assert_eq!(unsafe_code(&[silent.clone(), elsewhere]).len(), 1);
        assert_eq!(unsafe_code(&[silent, reasoned]).len(), 0);
    }
}
