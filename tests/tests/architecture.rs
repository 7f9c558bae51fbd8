//! Which crate may import which: the table of ARCHITECTURE.md, held against cargo's own view.

use std::collections::BTreeSet;
use std::process::Command;

/// Crate (without the `manypath-` prefix) and the crates it may import.
const ALLOWED: &[(&str, &[&str])] = &[
    ("wire", &[]),
    ("engine", &["wire"]),
    ("aead", &["engine"]),
    ("keys", &["engine", "aead"]),
    ("window", &[]),
    ("flow", &["engine", "window"]),
    ("netlink", &[]),
    ("net", &["wire", "engine", "netlink"]),
    ("wasm", &["engine"]),
    ("sim", &["engine", "flow", "wasm", "window"]),
    ("lab", &["sim", "engine", "netlink"]),
    ("rules", &[]),
    ("trust", &["keys", "rules"]),
    ("control", &[]),
    ("sandbox", &[]),
    (
        "daemon",
        &["net", "engine", "keys", "window", "flow", "rules", "control", "sandbox", "trust"],
    ),
    ("gate", &["control"]),
    ("shim", &["control", "gate", "rules"]),
    ("cgroup", &["control", "gate", "rules", "netlink"]),
    ("pkt", &["wire", "engine", "aead"]),
    ("ssh", &["window"]),
    ("sockets", &["engine"]),
    ("sctp", &["engine", "net", "sockets"]),
    ("handover", &[]),
    ("preload", &["sctp"]),
    ("bench", &["wire", "engine", "net", "keys", "lab", "sim"]),
    (
        "cli",
        &[
            "wire", "engine", "flow", "net", "sim", "lab", "rules", "control", "daemon", "gate",
            "shim", "cgroup", "window", "ssh", "bench", "sandbox", "keys", "trust",
        ],
    ),
    ("tests", &[]),
    ("interop", &["lab"]),
    ("attacks", &["wire", "lab"]),
];

/// What a crate may import beyond the table for its own tests and benches only.
const ALLOWED_FOR_TESTS: &[(&str, &[&str])] = &[
    ("engine", &["aead"]),
    ("aead", &["wire"]),
    ("keys", &["wire"]),
    ("net", &["flow", "keys", "lab"]),
    ("sim", &["wire"]),
    ("daemon", &["wire"]),
    ("cli", &["handover", "preload"]),
];

fn metadata() -> serde_json::Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .expect("cargo runs");
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

fn short(name: &serde_json::Value) -> Option<&str> {
    let name = name.as_str()?;
    // The script runner is called by its own name: `cargo run -p pkt`.
    name.strip_prefix("manypath-").or((name == "pkt").then_some(name))
}

fn allowed<'a>(table: &'a [(&str, &[&str])], name: &str) -> BTreeSet<&'a str> {
    let row = table.iter().find(|(n, _)| *n == name);
    row.map(|(_, list)| list.iter().copied().collect()).unwrap_or_default()
}

#[test]
fn crates_import_only_what_the_table_allows() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    assert!(packages.len() >= 11, "the workspace has lost crates");
    for package in packages {
        let name = short(&package["name"]).expect("prefix");
        let row = ALLOWED.iter().find(|(n, _)| *n == name);
        assert!(row.is_some(), "crate {name} is not in the table of ARCHITECTURE.md");
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let Some(import) = short(&dependency["name"]) else { continue };
            let for_tests = dependency["kind"] == "dev";
            let ok = allowed(ALLOWED, name).contains(import)
                || for_tests && allowed(ALLOWED_FOR_TESTS, name).contains(import);
            assert!(ok, "{name} must not import {import}: see ARCHITECTURE.md");
        }
    }
}

#[test]
fn protocol_crates_are_no_std_and_free_of_unsafe() {
    for name in ["wire", "engine", "aead", "window", "flow"] {
        let root = format!("{}/../crates/{name}/src/lib.rs", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&root).expect("lib.rs");
        assert!(text.contains("#![no_std]"), "{name} must stay no_std: it is how it stays sans-IO");
        assert!(text.contains("#![forbid(unsafe_code)]"), "{name} must forbid unsafe code");
    }
}

#[test]
fn only_socket_and_namespace_crates_may_use_unsafe() {
    let with_unsafe = [
        "net", "gate", "shim", "cgroup", "lab", "control", "sctp", "handover", "preload", "sandbox",
    ];
    for (name, _) in ALLOWED.iter().filter(|(n, _)| *n != "tests") {
        let of_tests = ["interop", "attacks"].contains(name);
        let above = if of_tests { "tests" } else { "crates" };
        let dir = format!("{}/../{above}/{name}/src", env!("CARGO_MANIFEST_DIR"));
        let roots = ["lib.rs", "main.rs"].map(|f| std::fs::read_to_string(format!("{dir}/{f}")));
        let text = roots.into_iter().flatten().collect::<String>();
        let forbids = text.contains("#![forbid(unsafe_code)]");
        assert!(forbids || with_unsafe.contains(name), "{name} must forbid unsafe code");
    }
}
