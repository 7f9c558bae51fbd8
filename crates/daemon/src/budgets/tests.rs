use super::*;
use manypath_rules::paths::PathsDocument;

const GB: u64 = 1_000_000_000;

const fn day(month: u8, day: u8) -> Date {
    Date { year: 2026, month, day }
}

fn carried(bytes: u64) -> BTreeMap<String, u64> {
    BTreeMap::from([("lte0".to_owned(), bytes)])
}

/// Budgets by these lines, which count from a kernel's count of 7 GB on.
fn begun(lines: &str) -> Budgets {
    let mut budgets = Budgets::default();
    let entries = PathsDocument::parse(lines).entries().unwrap();
    budgets.adopt(day(11, 27), &entries, &carried(7 * GB));
    budgets
}

fn used(budgets: &Budgets) -> u64 {
    budgets.status()[0].used_bytes
}

#[test]
fn a_budget_is_warned_of_used_up_and_there_again() {
    let mut budgets = begun("dev lte0 budget 10GB/month\n");
    let changes = |budgets: &mut Budgets, date, bytes| {
        let changed = budgets.take(date, &carried(bytes));
        (!changed.is_empty(), budgets.used_up("lte0").is_some())
    };
    assert_eq!(changes(&mut budgets, day(11, 27), 14 * GB), (false, false));
    assert_eq!(changes(&mut budgets, day(11, 28), 15 * GB), (true, false), "80 %");
    assert_eq!(changes(&mut budgets, day(11, 29), 16 * GB), (false, false));
    assert_eq!(changes(&mut budgets, day(11, 30), 17 * GB), (true, true));
    assert_eq!(changes(&mut budgets, day(11, 30), 19 * GB), (false, true));
    assert_eq!(used(&budgets), 12 * GB);
    assert_eq!(changes(&mut budgets, day(12, 1), 20 * GB), (true, false));
    assert_eq!(used(&budgets), 0);
}

#[test]
fn an_interface_that_comes_again_and_another_boot_count_from_nothing() {
    let mut budgets = begun("dev lte0 budget 10GB/month\n");
    budgets.take(day(11, 27), &carried(8 * GB));
    budgets.take(day(11, 27), &BTreeMap::new());
    budgets.take(day(11, 27), &carried(GB / 2));
    assert_eq!(used(&budgets), GB + GB / 2);
}

#[test]
fn other_lines_leave_what_was_counted() {
    let mut budgets = begun("dev lte0 budget 10GB/month\n");
    budgets.take(day(11, 27), &carried(9 * GB));
    let entries = |text| PathsDocument::parse(text).entries().unwrap();
    budgets.adopt(day(11, 27), &entries("dev lte0 budget 1GB/month hard\n"), &carried(9 * GB));
    budgets.take(day(11, 27), &carried(9 * GB));
    assert!(budgets.used_up("lte0").is_some_and(|budget| budget.hard));
    assert_eq!(used(&budgets), 2 * GB);
    budgets.adopt(day(11, 27), &[], &carried(9 * GB));
    assert!(budgets.status().is_empty());
    let lines = entries("dev lte0 budget 5GB/month\n");
    budgets.adopt(day(11, 27), &lines, &carried(10 * GB));
    budgets.take(day(11, 27), &carried(10 * GB));
    assert_eq!(used(&budgets), 3 * GB, "what was counted before counts again");
}

#[test]
fn sums_outlast_the_stack_and_none_goes_back() {
    let folder = std::env::temp_dir().join(format!("manypath-budgets-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let place = folder.join("budgets");
    let file = UsageFile::named(place.clone());
    let mut first = begun("dev lte0 budget 10GB/month\n");
    first.file = Some(file.clone());
    first.take(day(11, 27), &carried(8 * GB));
    let early: Vec<_> = first.interfaces.values().map(|one| one.usage.clone()).collect();
    first.take(day(11, 27), &carried(9 * GB));
    assert!(first.keep() && !first.interfaces["lte0"].is_unwritten());
    drop(first);
    // Another stack that has looked before writes later.
    file.put(&early).unwrap();
    let text = std::fs::read_to_string(&place).unwrap();
    std::fs::write(
        &place,
        text + "nonsense
",
    )
    .unwrap();
    let mut second = Budgets::load(Some(file));
    let entries = PathsDocument::parse("dev lte0 budget 10GB/month\n").entries().unwrap();
    second.adopt(day(11, 28), &entries, &carried(12 * GB));
    second.take(day(11, 28), &carried(12 * GB));
    assert_eq!(used(&second), 5 * GB, "what was carried while no stack ran counts");
    std::fs::remove_dir_all(folder).unwrap();
}
