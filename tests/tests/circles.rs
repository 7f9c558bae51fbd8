//! Modules at the root of a crate do not import each other in a circle: none could be read, or moved, without the
//! others.

use crate::engine_modules::edges;
use std::collections::{BTreeMap, BTreeSet};

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
        let edges = edges(krate);
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
