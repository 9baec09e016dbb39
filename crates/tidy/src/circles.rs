//! Circles of modules: files that cannot be read one after the other, because each needs the next.
//!
//! A module depends on another if a path in it begins with `crate`, `super` or `self` and leads there. What counts is the pair of siblings at
//! which the two part. A parent and its children may name each other.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};

use crate::ratchet::Sizes;
use crate::tree::File;

/// The path of a module in its crate; empty for the crate itself.
type Module = Vec<String>;

/// The number of modules in circles, by circle: the crate and the modules in order.
///
/// # Errors
/// If a source file is not Rust.
pub fn circles(files: &[File]) -> Result<Sizes, syn::Error> {
    let mut crates: BTreeMap<&str, BTreeMap<Module, &str>> = BTreeMap::new();
    for File { path, text } in files {
        if let Some((name, module)) = path.strip_suffix(".rs").and_then(|path| path.split_once("/src/"))
            && !module.split('/').any(|part| part == "tests")
        {
            let module = if matches!(module, "lib" | "main") {
                Vec::new()
            } else {
                module.split('/').map(str::to_owned).collect()
            };
            crates.entry(name).or_default().insert(module, text);
        }
    }
    let mut found = Sizes::new();
    for (name, modules) in crates {
        let mut edges: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
        for (module, text) in &modules {
            let mut paths = Paths::default();
            paths.visit_file(&syn::parse_file(text)?);
            for path in paths.found {
                if let Some((from, to)) = parting(module, &target(module, &path, &modules)) {
                    edges.entry(from).or_default().insert(to);
                }
            }
        }
        for circle in strongly_connected(&edges) {
            let modules: Vec<String> = circle.iter().map(|module| module.join("/")).collect();
            found.insert(format!("{name} {}", modules.join(" ")), circle.len());
        }
    }
    Ok(found)
}

/// The innermost module that a path leads to.
fn target(module: &[String], path: &[String], modules: &BTreeMap<Module, &str>) -> Module {
    let mut target = if path.first().is_some_and(|first| first == "crate") { Vec::new() } else { module.to_vec() };
    for segment in path {
        match segment.as_str() {
            "crate" | "self" => {}
            "super" => drop(target.pop()),
            name => {
                target.push(name.to_owned());
                if !modules.contains_key(&target) {
                    target.pop();
                    break;
                }
            }
        }
    }
    target
}

/// The siblings at which two modules part. `None` if one contains the other.
fn parting(from: &[String], to: &[String]) -> Option<(Module, Module)> {
    let at = from.iter().zip(to).position(|(from, to)| from != to)?;
    Some((from.get(..=at)?.to_vec(), to.get(..=at)?.to_vec()))
}

/// The sets of two or more modules that reach each other.
fn strongly_connected(edges: &BTreeMap<Module, BTreeSet<Module>>) -> BTreeSet<BTreeSet<Module>> {
    let reached = |from: &Module| {
        let (mut reached, mut next) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(module) = next.pop() {
            next.extend(edges.get(&module).into_iter().flatten().filter(|to| !reached.contains(*to)).cloned());
            reached.extend(edges.get(&module).into_iter().flatten().cloned());
        }
        reached
    };
    let reach: BTreeMap<&Module, BTreeSet<Module>> = edges.keys().map(|module| (module, reached(module))).collect();
    let circle_of = |module: &Module| -> BTreeSet<Module> {
        let back = |other: &&Module| reach.get(*other).is_some_and(|reached| reached.contains(module));
        reach.get(module).into_iter().flatten().filter(back).cloned().collect()
    };
    edges.keys().map(circle_of).filter(|circle| circle.len() > 1).collect()
}

/// Paths that begin with `crate`, `super` or `self`.
#[derive(Default)]
struct Paths {
    found: BTreeSet<Vec<String>>,
}

impl Paths {
    fn add(&mut self, path: Vec<String>) {
        if path.first().is_some_and(|first| matches!(first.as_str(), "crate" | "super" | "self")) {
            self.found.insert(path);
        }
    }

    fn add_tree(&mut self, mut path: Vec<String>, tree: &syn::UseTree) {
        match tree {
            syn::UseTree::Path(of) => {
                path.push(of.ident.to_string());
                self.add_tree(path, &of.tree);
            }
            syn::UseTree::Name(of) => {
                path.push(of.ident.to_string());
                self.add(path);
            }
            syn::UseTree::Rename(of) => {
                path.push(of.ident.to_string());
                self.add(path);
            }
            syn::UseTree::Glob(_) => self.add(path),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.add_tree(path.clone(), tree)),
        }
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        // The paths of an inline module begin one level deeper; only tests have such modules with paths outwards.
        if item.ident != "tests" {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.add_tree(Vec::new(), &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.add(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let file = |&(path, text): &(&str, &str)| File { path: path.to_owned(), text: text.to_owned() };
        circles(&files.iter().map(file).collect::<Vec<_>>()).expect("Rust").into_keys().collect()
    }

    #[test]
    fn siblings_that_need_each_other_are_a_circle() {
        let [a, b, c] = [
            ("x/src/a.rs", "use super::b::{self, B};"),
            ("x/src/b.rs", "fn f() -> crate::c::C {}"),
            ("x/src/c/d.rs", "use super::super::a;"),
        ];
        assert_eq!(found(&[a, b, c, ("x/src/c.rs", "mod d;")]), ["x a b c"]);
        assert!(found(&[a, b, ("x/src/c.rs", "mod tests { use crate::a; }")]).is_empty());
    }

    #[test]
    fn parents_and_children_are_no_circle() {
        assert!(
            found(&[
                ("x/src/lib.rs", "mod a; use self::a::A;"),
                ("x/src/a.rs", "use crate::X; use self::b::B; mod b;"),
                ("x/src/a/b.rs", "use super::A;")
            ])
            .is_empty()
        );
    }

    #[test]
    fn a_module_that_leads_into_a_circle_is_not_in_it() {
        let files = [
            ("x/src/a.rs", "use crate::b;"),
            ("x/src/b.rs", "use crate::c;"),
            ("x/src/c.rs", "use crate::b;"),
            ("x/src/e.rs", ""),
        ];
        assert_eq!(found(&files), ["x b c"]);
    }
}
