//! Which module of the engine may import which. Cargo holds the edges between crates; inside one nothing
//! else does.

use crate::size::{files_of, sources};
use std::collections::{BTreeMap, BTreeSet};

/// The modules at the root of the engine, from the ground up: each may import those before it.
const ORDER: &[&str] = &[
    "names",
    "time",
    "tsn",
    "rng",
    "choices",
    "ecn",
    "delivery",
    "ranges",
    "path_id",
    "config",
    "authentication",
    "protection",
    "path",
    "status",
    "schedule",
    "send",
    "event",
    "recv",
    "profile",
    "allowance",
    "reply_limit",
    "transmit",
    "association",
    "endpoint",
    "fuzzing",
];

fn is_for_tests(file: &str) -> bool {
    file.contains("tests") || file.ends_with("testing.rs")
}

/// The code of a file without its unit tests and comments.
fn code(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    let lines = text[..end].lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// What `code` names right after `crate::`, in braces or not.
fn imports(code: &str) -> impl Iterator<Item = &str> {
    code.split("crate::").skip(1).flat_map(|rest| {
        let of_group = rest.strip_prefix('{').map(|group| group.split('}').next().unwrap_or(""));
        let names = of_group.map_or_else(|| vec![rest], |group| group.split(", ").collect());
        names.into_iter().map(|name| {
            let end = name.find(|c: char| !c.is_alphanumeric() && c != '_');
            &name[..end.unwrap_or(name.len())]
        })
    })
}

/// The modules at the root of a crate, and what each of them imports.
pub(crate) fn edges(krate: &str) -> BTreeMap<String, BTreeSet<String>> {
    let root = manypath_tests::root().join("crates").join(krate).join("src");
    let mut files = Vec::new();
    files_of(&root, &mut files);
    let mut edges = BTreeMap::<String, BTreeSet<String>>::new();
    for file in files {
        let name = file.strip_prefix(&root).expect("below the root").to_str().expect("UTF-8");
        let module = name.split('/').next().expect("a name").trim_end_matches(".rs");
        if ["lib", "main", "bin"].contains(&module) || is_for_tests(name) {
            continue;
        }
        let text = code(&std::fs::read_to_string(&file).expect("readable"));
        let of_module = edges.entry(module.to_owned()).or_default();
        of_module.extend(imports(&text).filter(|name| *name != module).map(str::to_owned));
    }
    edges
}

fn place(module: &str) -> Option<usize> {
    ORDER.iter().position(|name| *name == module)
}

#[test]
fn modules_of_the_engine_import_only_what_is_below_them() {
    let edges = edges("engine");
    let all: BTreeSet<&str> = edges.keys().map(String::as_str).collect();
    assert_eq!(all, ORDER.iter().copied().collect(), "a module is missing in the order");
    for (module, imported) in &edges {
        for name in imported {
            assert!(
                place(name).is_some(),
                "{module} imports {name} by another way than its module"
            );
            assert!(place(name) < place(module), "{module} imports {name}, which is above it");
        }
    }
}

#[test]
fn the_simulator_alone_sets_parameters_of_papers() {
    for (file, text) in sources() {
        let crates = file.strip_prefix(manypath_tests::root().join("crates")).expect("a crate");
        let may = ["engine", "sim"].iter().any(|name| crates.starts_with(name));
        let names = ["Experiment", ".experiment", "experiment:"].iter().any(|it| text.contains(it));
        assert!(may || !names, "{} sets parameters of papers", file.display());
    }
}
