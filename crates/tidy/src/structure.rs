//! The structure of the core in figures: who moves the congestion window, parameters that are tuples, and structs that borrow.

use std::collections::BTreeSet;
use std::fmt;

use syn::visit::{self, Visit};

use crate::measure::is_mutable_reference;
use crate::ratchet::Sizes;
use crate::tree::File;

/// The protocol core.
const CORE: [&str; 3] = ["crates/sctp/src/", "crates/recovery/src/", "crates/code/src/"];

/// Where the trait lies whose methods move the window.
const CONGESTION: &str = "crates/sctp/src/congestion";

/// The methods of a controller that change it and not the window.
const LEAVE_THE_WINDOW: [&str; 3] = ["give_back_memory", "on_sent", "set_packet_bytes"];

/// What is counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Structure {
    /// Functions that move the congestion window, with their files.
    pub window_movers: BTreeSet<String>,
    /// Parameters of functions that are tuples of two or more, by file: values that belong together have a struct.
    pub tuple_parameters: Sizes,
    /// References in structs that hold two or more to values of other structs, by file and struct: the parts of an owner, taken apart.
    pub borrowed_fields: Sizes,
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
            let syntax = syn::parse_file(&file.text)?;
            if !file.path.starts_with(CONGESTION) {
                let mut calls = Calls { moves: &moves, function: String::new(), found: BTreeSet::new() };
                calls.visit_file(&syntax);
                structure.window_movers.extend(calls.found.iter().map(|name| format!("{} {name}", file.path)));
            }
            Shapes { path: &file.path, structure: &mut structure }.visit_file(&syntax);
        }
        Ok(structure)
    }
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "functions that move the congestion window: {}", self.window_movers.len())?;
        for name in &self.window_movers {
            writeln!(f, "  {name}")?;
        }
        for (what, sizes) in
            [("parameters that are tuples", &self.tuple_parameters), ("borrowed fields", &self.borrowed_fields)]
        {
            writeln!(f, "{what}: {}", sizes.values().sum::<usize>())?;
            for (name, size) in sizes {
                writeln!(f, "  {size:>2} {name}")?;
            }
        }
        Ok(())
    }
}

/// Counts parameters that are tuples, and structs that borrow.
struct Shapes<'s> {
    path: &'s str,
    structure: &'s mut Structure,
}

impl<'ast> Visit<'ast> for Shapes<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.ident != "tests" {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        let typed = signature.inputs.iter().filter_map(|input| match input {
            syn::FnArg::Typed(typed) => Some(&*typed.ty),
            syn::FnArg::Receiver(_) => None,
        });
        let tuples = typed.filter(|ty| matches!(ty, syn::Type::Tuple(tuple) if tuple.elems.len() > 1)).count();
        if tuples > 0 {
            *self.structure.tuple_parameters.entry(self.path.to_owned()).or_default() += tuples;
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        let borrowed = item.fields.iter().filter(|field| is_borrowed(&field.ty)).count();
        if borrowed > 1 {
            self.structure.borrowed_fields.insert(format!("{} {}", self.path, item.ident), borrowed);
        }
    }
}

/// Whether a field is a reference to something else than bytes, text and a trait's methods.
fn is_borrowed(ty: &syn::Type) -> bool {
    let syn::Type::Reference(reference) = ty else { return false };
    match &*reference.elem {
        syn::Type::Path(path) => !path.path.is_ident("str"),
        _ => false,
    }
}

fn is_core(path: &str) -> bool {
    CORE.iter().any(|folder| path.starts_with(folder))
        && path.ends_with(".rs")
        && !path.contains("/tests/")
        && !path.ends_with("/tests.rs")
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
    }

    #[test]
    fn tuples_and_borrowed_fields_are_counted() {
        let text =
            "fn a(b: (u8, u8), c: u8, d: (A, B)) -> (u8, u8) {} struct P<'a> { b: &'a mut A, c: &'a B, d: &'a [u8] }
            struct Q<'a> { b: &'a B, t: &'a str } mod tests { fn a(b: (u8, u8)) {} }";
        let found = structure(&[("crates/recovery/src/a.rs", text)]);
        assert_eq!(found.tuple_parameters, Sizes::from([("crates/recovery/src/a.rs".to_owned(), 2)]));
        assert_eq!(found.borrowed_fields, Sizes::from([("crates/recovery/src/a.rs P".to_owned(), 2)]));
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
