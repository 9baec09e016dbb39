//! Circles of modules: files that cannot be read one after the other, because each needs the next.
//!
//! A module depends on another if a path in it begins with `crate`, `super` or `self` and leads there. What counts is the pair of siblings at
//! which the two part. A parent and its children may name each other. A name that the module there imports or exports again leads on to the module
//! that has it: a circle through the names of a common parent is one, too.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};

use crate::tree::File;

/// Imports that lead on to each other, at most.
const IMPORTS_MAX: usize = 8;

/// The path of a module in its crate; empty for the crate itself.
type Module = Vec<String>;

/// A circle of modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circle {
    /// The crate and the modules in order.
    pub name: String,
    /// Number of the modules.
    pub modules: usize,
    /// Which module names which other one, and by which paths in which of its files.
    pub reasons: Vec<String>,
}

/// For each module those that it names, with the files and paths that name them.
type Edges = BTreeMap<Module, BTreeMap<Module, BTreeSet<String>>>;

/// The circles of all crates.
///
/// # Errors
/// If a source file is not Rust.
pub fn circles(files: &[File]) -> Result<Vec<Circle>, syn::Error> {
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
    let mut found = Vec::new();
    for (name, modules) in crates {
        let edges = edges(&modules)?;
        found.extend(strongly_connected(&edges).iter().map(|circle| Circle::new(name, circle, &edges)));
    }
    Ok(found)
}

impl Circle {
    fn new(name: &str, circle: &BTreeSet<Module>, edges: &Edges) -> Self {
        let modules: Vec<String> = circle.iter().map(|module| module.join("/")).collect();
        let pairs = circle.iter().flat_map(|from| edges.get(from).into_iter().flatten().map(move |to| (from, to)));
        let reasons = pairs.filter(|(_, (to, _))| circle.contains(*to)).map(|(from, (to, paths))| {
            let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
            format!("{} -> {}: {}", from.join("/"), to.join("/"), paths.join(", "))
        });
        Self { name: format!("{name} {}", modules.join(" ")), modules: circle.len(), reasons: reasons.collect() }
    }
}

fn edges(modules: &BTreeMap<Module, &str>) -> Result<Edges, syn::Error> {
    let mut names = BTreeMap::new();
    for (module, text) in modules {
        let mut paths = Paths::default();
        paths.visit_file(&syn::parse_file(text)?);
        names.insert(module.clone(), paths);
    }
    let mut edges = Edges::new();
    for (module, Paths { found, .. }) in &names {
        for path in found {
            if let Some((from, to)) = parting(module, &target(module, path, &names)) {
                let reason = format!("{} names {}", module.join("/"), path.join("::"));
                edges.entry(from).or_default().entry(to).or_default().insert(reason);
            }
        }
    }
    Ok(edges)
}

/// The module of the item that a path leads to, through names that modules on the way have imported.
fn target(module: &[String], path: &[String], names: &BTreeMap<Module, Paths>) -> Module {
    let (mut at, mut path) = (module.to_vec(), path.to_vec());
    for _ in 0..IMPORTS_MAX {
        let rest = descend(&mut at, &path, names);
        let Some(imported) = rest.first().and_then(|name| names.get(&at)?.imports.get(name)) else { break };
        path = [imported.as_slice(), rest.get(1..).unwrap_or_default()].concat();
    }
    at
}

/// Follows a path to the innermost module on it. Returns the rest of the path.
fn descend<'p>(at: &mut Module, path: &'p [String], names: &BTreeMap<Module, Paths>) -> &'p [String] {
    for (index, segment) in path.iter().enumerate() {
        match segment.as_str() {
            "crate" => at.clear(),
            "self" => {}
            "super" => drop(at.pop()),
            name => {
                at.push(name.to_owned());
                if !names.contains_key(at) {
                    at.pop();
                    return path.get(index..).unwrap_or_default();
                }
            }
        }
    }
    &[]
}

/// The siblings at which two modules part. `None` if one contains the other.
fn parting(from: &[String], to: &[String]) -> Option<(Module, Module)> {
    let at = from.iter().zip(to).position(|(from, to)| from != to)?;
    Some((from.get(..=at)?.to_vec(), to.get(..=at)?.to_vec()))
}

/// The sets of two or more modules that reach each other.
fn strongly_connected(edges: &Edges) -> BTreeSet<BTreeSet<Module>> {
    let reached = |from: &Module| {
        let (mut reached, mut next) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(module) = next.pop() {
            let to = edges.get(&module).into_iter().flat_map(BTreeMap::keys);
            next.extend(to.clone().filter(|to| !reached.contains(*to)).cloned());
            reached.extend(to.cloned());
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
    /// Those of imports, by the name that they give to the module. Also imports that begin with the name of a child.
    imports: BTreeMap<String, Vec<String>>,
}

impl Paths {
    fn add(&mut self, path: Vec<String>) {
        if path.first().is_some_and(|first| matches!(first.as_str(), "crate" | "super" | "self")) {
            self.found.insert(path);
        }
    }

    fn add_import(&mut self, name: Option<String>, mut path: Vec<String>) {
        // `a::{self}` imports `a`.
        path.truncate(path.len() - usize::from(path.last().is_some_and(|last| last == "self")));
        if let Some(name) = name.or_else(|| path.last().cloned()) {
            self.imports.insert(name, path.clone());
        }
        self.add(path);
    }

    fn add_tree(&mut self, mut path: Vec<String>, tree: &syn::UseTree) {
        match tree {
            syn::UseTree::Path(of) => {
                path.push(of.ident.to_string());
                self.add_tree(path, &of.tree);
            }
            syn::UseTree::Name(of) => {
                path.push(of.ident.to_string());
                self.add_import(None, path);
            }
            syn::UseTree::Rename(of) => {
                path.push(of.ident.to_string());
                self.add_import(Some(of.rename.to_string()), path);
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
        circles_of(files).into_iter().map(|circle| circle.name).collect()
    }

    fn circles_of(files: &[(&str, &str)]) -> Vec<Circle> {
        let file = |&(path, text): &(&str, &str)| File { path: path.to_owned(), text: text.to_owned() };
        circles(&files.iter().map(file).collect::<Vec<_>>()).expect("Rust")
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
    fn a_circle_through_names_of_the_parent_is_found() {
        let files = [
            ("x/src/lib.rs", "pub use b::B as C; mod a; mod b;"),
            ("x/src/a.rs", "use super::C;"),
            ("x/src/b.rs", "use super::a;"),
        ];
        assert_eq!(found(&files), ["x a b"]);
        let no_circle = [
            ("x/src/lib.rs", "use a::B; use b::A; mod a; mod b;"),
            ("x/src/a.rs", "use super::A;"),
            ("x/src/b.rs", ""),
        ];
        assert!(found(&no_circle).is_empty());
    }

    #[test]
    fn a_circle_names_the_paths_that_close_it() {
        let files = [("x/src/a.rs", "use super::b::B;"), ("x/src/b.rs", ""), ("x/src/b/c.rs", "use crate::a::A;")];
        let circle = circles_of(&files).pop().expect("a circle");
        assert_eq!((circle.name.as_str(), circle.modules), ("x a b", 2));
        assert_eq!(circle.reasons, ["a -> b: a names super::b::B", "b -> a: b/c names crate::a::A"]);
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
