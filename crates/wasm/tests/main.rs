//! The views that modules get, their limits, and the errors of modules that break the rules.
#![allow(clippy::unwrap_used, reason = "a failing helper fails the test")]

mod controls;

use manypath_engine::{Demand, Duration, Instant, PathId, PathScheduler, PathView, SchedulerView};
use manypath_wasm::{Kind, Module};

const DEMAND: Demand = Demand { left: 5000, sendable: 4000, window: 60_000 };

/// A module with `text` in it, and what else each needs.
fn parse(text: &str) -> Result<Module, String> {
    let text = format!("(module (func (export \"view\") (result i32) i32.const 1024) {text})");
    Module::parse(Kind::PathScheduler, "test.wasm", text.as_bytes())
        .map_err(|error| error.to_string())
}

/// A module with a memory and `text`, and its scheduler.
fn scheduler(text: &str) -> (Module, Box<dyn PathScheduler>) {
    let module = parse(&format!("(memory (export \"memory\") 1) {text}")).unwrap();
    let scheduler = module.schedulers().begin();
    (module, scheduler)
}

/// Two paths: 10 ms with 3,000 bytes in flight, and 40 ms.
fn look<R>(ask: impl FnOnce(&SchedulerView<'_>) -> R) -> R {
    let path = |id: u8, srtt: u64, in_flight| PathView {
        id: PathId(id),
        srtt: Some(Duration::from_millis(srtt)),
        rttvar: Duration::from_millis(2),
        min_rtt: Some(Duration::from_millis(srtt - 1)),
        cwnd: 15_000,
        in_flight,
        chunk_limit: 1452,
        has_window: true,
    };
    ask(&SchedulerView { demand: DEMAND, paths: &[path(7, 10, 3000), path(3, 40, 0)] })
}

#[test]
fn a_module_sees_what_the_view_says() {
    // Each field at its place, by the sum of its differences from what it should be.
    let fields: [(u32, u64); 15] = [
        (0, 5_000_000),
        (8, 5000),
        (16, 4000),
        (24, 60_000),
        (32, 10_000_000),
        (40, 2_000_000),
        (48, 9_000_000),
        (56, 15_000),
        (64, 3000),
        (72, 1452),
        (80, 1),
        (88, 7),
        (96, 40_000_000),
        (128, 0),
        (152, 3),
    ];
    for (at, value) in fields {
        let at = 1024 + at;
        let (module, mut it) = scheduler(&format!(
            "(func (export \"observe\") (param i32))
             (func (export \"allows\") (param i32 i32) (result i32)
               (i64.eq (i64.load (i32.const {at})) (i64.const {value})))"
        ));
        let now = Instant::ZERO + Duration::from_millis(5);
        look(|view| it.observe(now, view));
        assert!(look(|view| it.allows(view, 0)), "{at}");
        assert_eq!((module.usage().calls, module.failure()), (2, None));
    }
}

#[test]
fn ranks_and_the_index_are_the_modules() {
    let (_module, it) = scheduler(
        "(func (export \"rank\") (param i32 i32) (result i32)
           (i32.add (i32.mul (local.get 0) (i32.const 100)) (local.get 1)))",
    );
    assert_eq!(look(|view| [it.rank(view, 0), it.rank(view, 1)]), [200, 201]);
    assert!(look(|view| it.allows(view, 1)), "it does not say otherwise");
}

#[test]
fn a_module_that_fails_is_not_asked_again() {
    let endless = "(func (export \"allows\") (param i32 i32) (result i32) (loop br 0) i32.const 0)";
    let trap = "(func (export \"allows\") (param i32 i32) (result i32) unreachable)";
    let outside = "(func (export \"allows\") (param i32 i32) (result i32)
                     (i32.load (i32.const 65536)))";
    let deep = "(func $deep (export \"allows\") (param i32 i32) (result i32)
                  (call $deep (local.get 0) (local.get 1)))";
    for text in [endless, trap, outside, deep] {
        let (module, it) = scheduler(text);
        let apart = module.apart();
        assert!(look(|view| it.allows(view, 1)), "as if it were not there");
        assert!(look(|view| it.allows(view, 1)));
        assert_eq!(module.usage().calls, 1, "{text}");
        let failure = module.failure().unwrap();
        assert!(failure.starts_with("path scheduler test-"), "{failure}");
        assert_eq!((apart.failure(), apart.usage().calls), (None, 0));
    }
}

#[test]
fn memory_has_a_limit() {
    let (module, it) = scheduler(
        "(func (export \"allows\") (param i32 i32) (result i32) (memory.grow (local.get 1)))",
    );
    assert!(look(|view| it.allows(view, 1)), "1 page before");
    assert_eq!(module.failure(), None);
    let (_module, it) = scheduler(
        "(func (export \"rank\") (param i32 i32) (result i32) (memory.grow (i32.const 16)))",
    );
    assert_eq!(look(|view| it.rank(view, 0)), u32::MAX, "-1: it is not given");
}

#[test]
fn what_is_no_scheduler_is_refused_with_the_reason() {
    let memory = "(memory (export \"memory\") 1)";
    let allows = "(func (export \"allows\") (param i32 i32) (result i32) i32.const 1)";
    let refused = |text: &str| parse(text).err().unwrap_or_default();
    assert!(refused(allows).ends_with("it exports no memory named \"memory\""));
    assert!(refused(memory).contains("neither rank nor allows"));
    let other = "(func (export \"allows\") (param i32) (result i32) i32.const 1)";
    let wrong = refused(&format!("{memory} {other}"));
    assert!(wrong.contains("not allows(paths: i32, index: i32) -> i32"), "{wrong}");
    let small = refused(&format!("(memory (export \"memory\") 0) {allows}"));
    assert!(small.contains("address of 2080 bytes"), "{small}");
    let large = refused(&format!("(memory (export \"memory\") 17) {allows}"));
    assert!(large.contains("does not start"), "{large}");
    let import = "(module (import \"env\" \"time\" (func)))";
    let import =
        Module::parse(Kind::PathScheduler, "a.wasm", import.as_bytes()).unwrap_err().to_string();
    assert!(import.contains("imports env.time"), "{import}");
    let noise =
        Module::parse(Kind::PathScheduler, "a.wasm", b"\0asm nothing").unwrap_err().to_string();
    assert!(noise.starts_with("path scheduler a.wasm: not a WebAssembly module"), "{noise}");
}
