//! Modules at the root of a crate do not import each other in a circle: none could be read, or moved, without the
//! others.

use crate::engine_modules::edges;
use std::collections::{BTreeMap, BTreeSet};

/// What the root of a crate names for its modules (`pub use module::{Name, ..}`), with the module that it comes from.
fn names_at_the_root(root: &str) -> BTreeMap<&str, &str> {
    let uses = root.split("\n").filter_map(|line| line.split_once("use ")?.1.split_once("::"));
    let ends = |c: char| !c.is_alphanumeric() && c != '_';
    uses.flat_map(|(module, names)| {
        names.split(ends).filter(|name| !name.is_empty()).map(move |name| (name, module))
    })
    .collect()
}

/// [`edges`], where what was imported through the root counts as its module.
fn edges_through_the_root(krate: &str) -> BTreeMap<String, BTreeSet<String>> {
    let source = manypath_tests::root().join("crates").join(krate).join("src");
    let root = ["lib.rs", "main.rs"]
        .iter()
        .find_map(|name| std::fs::read_to_string(source.join(name)).ok());
    // A list of names may have several lines.
    let root = root.unwrap_or_default().replace("{\n", "{").replace(",\n", ",");
    let names = names_at_the_root(&root);
    let mut edges = edges(krate);
    let modules: BTreeSet<String> = edges.keys().cloned().collect();
    for (module, imported) in &mut edges {
        let through = |name: &str| names.get(name).filter(|_| !modules.contains(name)).copied();
        *imported = imported.iter().map(|name| through(name).unwrap_or(name).to_owned()).collect();
        imported.remove(module);
    }
    edges
}

/// The modules that can be reached from themselves.
fn in_circles(edges: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<&str> {
    let leads_back = |module: &&String| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![*module]);
        while let Some(at) = next.pop() {
            next.extend(edges.get(at).into_iter().flatten().filter(|to| seen.insert(*to)));
        }
        seen.contains(module)
    };
    edges.keys().filter(leads_back).map(String::as_str).collect()
}

#[test]
fn modules_do_not_import_each_other_in_circles() {
    let crates = std::fs::read_dir(manypath_tests::root().join("crates")).expect("readable");
    for krate in crates.map(|entry| entry.expect("readable").file_name()) {
        let krate = krate.to_str().expect("UTF-8");
        let edges = edges_through_the_root(krate);
        let found = in_circles(&edges);
        assert!(found.is_empty(), "{krate}: modules in circles: {found:?}");
    }
}

#[test]
fn circles_are_found_by_what_leads_back() {
    let edges = [("a", vec!["b"]), ("b", vec!["c", "d"]), ("c", vec!["a"]), ("d", vec![])];
    let text = |to: Vec<&str>| to.into_iter().map(str::to_owned).collect();
    let edges = edges.map(|(from, to)| (from.to_owned(), text(to))).into();
    assert_eq!(in_circles(&edges), ["a", "b", "c"].into());
}
