//! The structure of the core in figures: who shares private state, and who moves the congestion window.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use syn::visit::{self, Visit};

use crate::measure::measure;
use crate::tree::File;

/// The protocol core.
const CORE: &str = "crates/sctp/src/";

/// Where the trait lies whose methods move the window.
const CONGESTION: &str = "crates/sctp/src/congestion";

/// The sender's rooms.
const SENDER: &str = "crates/sctp/src/send";

/// The types that have functions in several files.
const OWNERS: [&str; 4] = ["Association", "Flight", "Repair", "Sender"];

/// The methods of a controller that change it and not the window.
const LEAVE_THE_WINDOW: [&str; 2] = ["give_back_memory", "on_sent"];

/// What is counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Structure {
    /// The types whose functions lie in several files.
    pub owners: BTreeMap<&'static str, Owner>,
    /// Functions that move the congestion window, with their files.
    pub window_movers: BTreeSet<String>,
    /// Lines of code of the sender's files.
    pub code_lines: BTreeMap<String, usize>,
}

/// A type, and who shares its private fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// Its functions by file.
    pub functions: BTreeMap<String, usize>,
    /// How many fields it has.
    pub fields: usize,
}

impl Structure {
    /// Counts in the files of a repository. Tests do not count.
    ///
    /// # Errors
    /// If a source file of the core is not Rust.
    pub fn of(files: &[File]) -> Result<Self, syn::Error> {
        let mut structure = Self::default();
        let core: Vec<&File> = files.iter().filter(|file| is_core(&file.path)).collect();
        let mut moves = BTreeSet::new();
        for file in core.iter().filter(|file| file.path.starts_with(CONGESTION)) {
            moves.extend(movers_of_trait(&syn::parse_file(&file.text)?));
        }
        for file in core {
            if !file.path.starts_with(CONGESTION) {
                let mut calls = Calls { moves: &moves, function: String::new(), found: BTreeSet::new() };
                calls.visit_file(&syn::parse_file(&file.text)?);
                structure.window_movers.extend(calls.found.iter().map(|name| format!("{} {name}", file.path)));
            }
            structure.add_room(file)?;
        }
        Ok(structure)
    }

    fn add_room(&mut self, file: &File) -> Result<(), syn::Error> {
        let measures = measure(&file.text)?;
        if file.path.starts_with(SENDER) {
            self.code_lines.insert(file.path.clone(), measures.code_lines);
        }
        for name in OWNERS {
            let prefix = format!("{name}::");
            let functions = measures.functions.keys().filter(|function| function.starts_with(&prefix)).count();
            let owner = self.owners.entry(name).or_default();
            owner.fields += measures.structs.get(name).copied().unwrap_or_default();
            if functions > 0 {
                owner.functions.insert(file.path.clone(), functions);
            }
        }
        Ok(())
    }
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, owner) in self.owners.iter().filter(|(_, owner)| !owner.functions.is_empty()) {
            let (files, functions) = (owner.functions.len(), owner.functions.values().sum::<usize>());
            writeln!(f, "impl {name}: {files} files, {functions} functions, which share {} fields", owner.fields)?;
        }
        writeln!(f, "functions that move the congestion window: {}", self.window_movers.len())?;
        for name in &self.window_movers {
            writeln!(f, "  {name}")?;
        }
        let lines: usize = self.code_lines.values().sum();
        writeln!(f, "files of the sender: {}, with {lines} lines of code", self.code_lines.len())?;
        for (path, lines) in &self.code_lines {
            writeln!(f, "  {lines:>4} {path}")?;
        }
        Ok(())
    }
}

fn is_core(path: &str) -> bool {
    path.starts_with(CORE) && path.ends_with(".rs") && !path.contains("/tests/") && !path.ends_with("/tests.rs")
}

/// The methods of the trait `Controller` that move the window: all that change the controller, but for a few.
fn movers_of_trait(syntax: &syn::File) -> impl Iterator<Item = String> {
    let controllers = syntax.items.iter().filter_map(|item| match item {
        syn::Item::Trait(item) if item.ident == "Controller" => Some(&item.items),
        _ => None,
    });
    let methods = controllers.flatten().filter_map(|item| match item {
        syn::TraitItem::Fn(method) => Some(&method.sig),
        _ => None,
    });
    let changing = methods.filter(|sig| sig.receiver().is_some_and(is_mutable_reference));
    let names: Vec<String> = changing.map(|sig| sig.ident.to_string()).collect();
    names.into_iter().filter(|name| !LEAVE_THE_WINDOW.contains(&name.as_str()))
}

fn is_mutable_reference(receiver: &syn::Receiver) -> bool {
    matches!(receiver.kind, syn::ReceiverKind::Reference(_, _, Some(_)))
}

/// Finds the functions that call one of these methods of something that is called `congestion`.
struct Calls<'m> {
    moves: &'m BTreeSet<String>,
    function: String,
    found: BTreeSet<String>,
}

impl Calls<'_> {
    fn inside(&mut self, name: &syn::Ident, body: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.function, name.to_string());
        body(self);
        self.function = outer;
    }
}

impl<'ast> Visit<'ast> for Calls<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.ident != "tests" {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.inside(&item.sig.ident, |calls| visit::visit_item_fn(calls, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.inside(&item.sig.ident, |calls| visit::visit_impl_item_fn(calls, item));
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if is_congestion(&call.receiver) && self.moves.contains(&call.method.to_string()) {
            self.found.insert(self.function.clone());
        }
        visit::visit_expr_method_call(self, call);
    }
}

fn is_congestion(receiver: &syn::Expr) -> bool {
    match receiver {
        syn::Expr::Field(field) => matches!(&field.member, syn::Member::Named(name) if name == "congestion"),
        syn::Expr::Path(path) => path.path.is_ident("congestion"),
        syn::Expr::Paren(inner) => is_congestion(&inner.expr),
        syn::Expr::Reference(inner) => is_congestion(&inner.expr),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRAIT: &str =
        "trait Controller { fn cwnd(&self); fn on_sent(&mut self); fn on_ack(&mut self); fn undo(&mut self) {} }";

    fn structure(files: &[(&str, &str)]) -> Structure {
        let file = |&(path, text): &(&str, &str)| File { path: path.to_owned(), text: text.to_owned() };
        Structure::of(&files.iter().map(file).collect::<Vec<_>>()).expect("Rust")
    }

    #[test]
    fn whoever_calls_a_method_that_moves_the_window_is_found() {
        let sender = "struct Sender { path: A, congestion: C }
            impl Sender { fn a(&mut self) { match x { _ => self.congestion.on_ack() } }
            fn b(&mut self) { self.path.congestion.undo(); (&mut self.congestion).undo() }
            fn c(&mut self) { self.congestion.cwnd(); self.congestion.on_sent(); self.repair.on_ack() }
            fn d(congestion: &mut C) { congestion.undo() } }";
        let found = structure(&[("crates/sctp/src/congestion.rs", TRAIT), ("crates/sctp/src/send.rs", sender)]);
        let expected = ["a", "b", "d"].map(|name| format!("crates/sctp/src/send.rs {name}"));
        assert_eq!(found.window_movers, BTreeSet::from(expected));
        let functions = BTreeMap::from([("crates/sctp/src/send.rs".to_owned(), 4)]);
        assert_eq!(found.owners["Sender"], Owner { functions, fields: 2 });
    }

    #[test]
    fn tests_and_congestion_control_itself_do_not_count() {
        let calls = "fn a() { congestion.undo() }";
        let in_tests = "mod tests { fn a() { congestion.undo() } }";
        let found = structure(&[
            ("crates/sctp/src/congestion.rs", TRAIT),
            ("crates/sctp/src/congestion/cubic.rs", calls),
            ("crates/sctp/src/send/tests.rs", calls),
            ("crates/sctp/src/send/tests/a.rs", calls),
            ("crates/sctp/src/send/a.rs", in_tests),
        ]);
        assert!(found.window_movers.is_empty(), "{found}");
    }
}
