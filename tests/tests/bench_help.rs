//! Every script in `bench/` says what it measures and how it is called, at once: without a build, root or a lab.

use std::path::Path;
use std::process::Command;

#[test]
fn every_bench_script_has_help_without_a_build() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("workspace").join("bench");
    let mut scripts = 0;
    for entry in std::fs::read_dir(folder).expect("bench").flatten() {
        let (name, path) = (entry.file_name().display().to_string(), entry.path());
        if name.contains('.') {
            continue;
        }
        // A script that builds fails by this.
        let mut command = Command::new(path);
        let output = command.arg("--help").env("CARGO", "false").output().expect("a script");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && output.stderr.is_empty(), "{name}: {output:?}");
        let shows_use = text.contains(&format!("bench/{name}")) || text.contains("usage: ");
        assert!(shows_use && text.contains("--"), "{name}: {text}");
        assert!(!text.contains("set -e") && !text.contains("#!/"), "{name}: {text}");
        scripts += 1;
    }
    assert!(scripts >= 10, "{scripts} scripts");
}
