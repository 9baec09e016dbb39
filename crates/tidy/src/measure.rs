//! Sizes of Rust source: lines of code of a file, lines of its functions, fields of its structs.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, LineColumn, Span, TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// What was measured in one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measures {
    /// Lines that hold code. Blank lines and lines that hold only a comment do not count.
    pub code_lines: usize,
    /// Lines from `fn` to the closing brace, by the path of the function in the file, such as `Sender::send`.
    pub functions: BTreeMap<String, usize>,
    /// Number of fields by the path of the struct in the file.
    pub structs: BTreeMap<String, usize>,
    /// Where the bodies of functions begin, but for those that may run while the program is compiled.
    pub bodies: Vec<Body>,
}

/// The body of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// The line of its opening brace, from 1.
    pub line: usize,
    /// The characters in front of that in its line.
    pub column: usize,
    /// The path of the function in the file.
    pub name: String,
    /// Whether it may change the value that it belongs to: its receiver is `&mut self`.
    pub changes: bool,
}

/// Measures the text of a Rust file.
///
/// # Errors
/// If the text is not Rust.
pub fn measure(text: &str) -> Result<Measures, syn::Error> {
    let tokens: TokenStream = text.parse()?;
    let syntax = syn::parse_file(text)?;
    let mut walk = Walk::default();
    walk.visit_file(&syntax);
    Ok(Measures { code_lines: code_lines(text, tokens), ..walk.measures })
}

/// Counts the lines on which a token lies that is not a comment. Doc comments are tokens too.
fn code_lines(text: &str, tokens: TokenStream) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let mut covered = BTreeSet::new();
    mark(&lines, tokens, &mut covered);
    covered.len()
}

fn mark(lines: &[&str], tokens: TokenStream, covered: &mut BTreeSet<usize>) {
    for token in tokens {
        if is_comment(lines, token.span().start()) {
            continue;
        }
        match token {
            TokenTree::Group(group) => {
                if group.delimiter() != Delimiter::None {
                    mark_span(group.span_open(), covered);
                    mark_span(group.span_close(), covered);
                }
                mark(lines, group.stream(), covered);
            }
            other => mark_span(other.span(), covered),
        }
    }
}

fn mark_span(span: Span, covered: &mut BTreeSet<usize>) {
    covered.extend(span.start().line..=span.end().line);
}

fn is_comment(lines: &[&str], start: LineColumn) -> bool {
    let Some(line) = start.line.checked_sub(1).and_then(|index| lines.get(index)) else { return false };
    let mut rest = line.chars().skip(start.column);
    rest.next() == Some('/') && matches!(rest.next(), Some('/' | '*'))
}

/// Whether a receiver is `&mut self`.
pub(crate) fn is_mutable_reference(receiver: &syn::Receiver) -> bool {
    matches!(receiver.kind, syn::ReceiverKind::Reference(_, _, Some(_)))
}

#[derive(Default)]
struct Walk {
    path: Vec<String>,
    measures: Measures,
}

impl Walk {
    fn inside(&mut self, name: String, body: impl FnOnce(&mut Self)) {
        self.path.push(name);
        body(self);
        self.path.pop();
    }

    fn name(&self, last: &syn::Ident) -> String {
        self.path.iter().cloned().chain([last.to_string()]).collect::<Vec<_>>().join("::")
    }

    /// Two functions can have the same path, as in two implementations of one trait: the longer one counts.
    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let first = signature.fn_token.span.start().line;
        let last = block.brace_token.span.close().end().line;
        if signature.constness.is_none() {
            let LineColumn { line, column } = block.brace_token.span.open().start();
            let changes = signature.receiver().is_some_and(is_mutable_reference);
            self.measures.bodies.push(Body { line, column, name: self.name(&signature.ident), changes });
        }
        let lines = self.measures.functions.entry(self.name(&signature.ident)).or_default();
        *lines = (*lines).max(last + 1 - first);
    }
}

impl<'ast> Visit<'ast> for Walk {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.inside(item.ident.to_string(), |walk| visit::visit_item_mod(walk, item));
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let name = match &*item.self_ty {
            syn::Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
            _ => None,
        };
        self.inside(name.unwrap_or_else(|| "impl".to_owned()), |walk| visit::visit_item_impl(walk, item));
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.inside(item.ident.to_string(), |walk| visit::visit_item_trait(walk, item));
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block);
        self.inside(item.sig.ident.to_string(), |walk| visit::visit_item_fn(walk, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block);
        self.inside(item.sig.ident.to_string(), |walk| visit::visit_impl_item_fn(walk, item));
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
        }
        self.inside(item.sig.ident.to_string(), |walk| visit::visit_trait_item_fn(walk, item));
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        let fields = self.measures.structs.entry(self.name(&item.ident)).or_default();
        *fields = (*fields).max(item.fields.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> usize {
        measure(text).expect("the example is Rust").code_lines
    }

    #[test]
    fn blank_lines_and_comments_are_no_code() {
        assert_eq!(lines("//! Map.\n\n/// Doc.\n// Why.\n/* a\nb */\nstruct A;\n"), 1);
        assert_eq!(lines("struct A; // Code all the same.\n"), 1);
    }

    #[test]
    fn attributes_and_every_line_of_a_string_are_code() {
        assert_eq!(lines("#[doc = \"a\"]\nconst A: &str = \"\n\n// in the string\n\";\n"), 5);
    }

    #[test]
    fn lines_inside_macros_count() {
        assert_eq!(lines("fn f() {\n    vec![\n        1,\n\n        // no\n        2,\n    ];\n}\n"), 6);
    }

    #[test]
    fn functions_are_measured_from_fn_to_the_closing_brace_under_their_path() {
        let text = "mod m {\n    impl<T> A<T> {\n        /// Doc.\n        #[inline]\n        pub fn f(\n            self,\n        ) {\n            // Why.\n        }\n    }\n}\n";
        assert_eq!(measure(text).expect("Rust").functions, BTreeMap::from([("m::A::f".to_owned(), 5)]));
    }

    #[test]
    fn default_methods_and_inner_functions_are_measured() {
        let text = "trait T {\n    fn a();\n    fn b() {\n        fn c() {}\n    }\n}\n";
        let expected = BTreeMap::from([("T::b".to_owned(), 3), ("T::b::c".to_owned(), 1)]);
        assert_eq!(measure(text).expect("Rust").functions, expected);
    }

    #[test]
    fn fields_of_structs_are_counted() {
        let text = "struct A { a: u8, b: u8 }\nstruct B(u8);\nstruct C;\n";
        let expected = BTreeMap::from([("A".to_owned(), 2), ("B".to_owned(), 1), ("C".to_owned(), 0)]);
        assert_eq!(measure(text).expect("Rust").structs, expected);
    }
}
