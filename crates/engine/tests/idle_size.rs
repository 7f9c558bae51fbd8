//! An idle association stays small.

#[path = "../examples/cost/heap.rs"]
mod heap;
#[path = "../examples/cost/idle.rs"]
mod idle;
#[path = "../examples/cost/pair.rs"]
#[allow(dead_code, reason = "the bench uses more of it")]
mod pair;

const LIMIT: usize = 7 * 1024;

#[test]
fn an_idle_association_occupies_at_most_7_kib() {
    for exchanged in [0, 16 << 10] {
        let bytes = idle::bytes(1, exchanged);
        println!("after {exchanged} bytes each way: {bytes:?}");
        assert!(bytes.iter().all(|bytes| *bytes <= LIMIT), "{exchanged}: {bytes:?}");
    }
}
