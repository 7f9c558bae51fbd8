//! `docs/cmt-tests.md` names only tests that exist.

use std::path::Path;

const PAGE: &str = include_str!("../../../docs/cmt-tests.md");

#[test]
fn every_test_that_is_named_exists_and_every_item_has_some() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut items = 0;
    for row in PAGE.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| |")) {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [number, _what, tests] = cells[..] else { panic!("{row}") };
        items += 1;
        assert_eq!(number, items.to_string(), "{row}");
        let mut source = None;
        // Every second piece is in quotes.
        for name in tests.split('`').skip(1).step_by(2) {
            if name.ends_with(".rs") {
                let text = std::fs::read_to_string(root.join(name));
                source = Some(text.unwrap_or_else(|e| panic!("{name}: {e}")));
            } else {
                let source = source.as_ref().unwrap_or_else(|| panic!("{name}: in which file?"));
                let test = format!("fn {name}(");
                assert!(source.contains(&test), "item {number}: there is no test {name}");
            }
        }
        assert!(tests.matches('`').count() >= 4, "item {number} has no test");
    }
    assert_eq!(items, 16);
}
