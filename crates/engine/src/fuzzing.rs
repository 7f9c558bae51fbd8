//! Properties of the engine's insides that hold for all bytes: what the fuzz targets run, and what the
//! tests below run on the corpora of those targets. With the feature `fuzzing` only.

pub use crate::association::cookie_model::check as check_cookie;
pub use crate::recv::model::{check_hostile_data, check_order, check_tracker};

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// Replays all files of a target's corpus.
    fn replay(target: &str, check: fn(&[u8])) {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
        let mut count = 0;
        for file in fs::read_dir(&corpus).unwrap() {
            check(&fs::read(file.unwrap().path()).unwrap());
            count += 1;
        }
        assert!(count >= 10, "only {count} files in {}", corpus.display());
    }

    #[test]
    fn the_tracker_agrees_with_a_set_on_the_corpus() {
        replay("tracker", super::check_tracker);
    }

    #[test]
    fn messages_arrive_whole_and_in_order_on_the_corpus() {
        replay("reassembly", super::check_order);
    }

    #[test]
    fn the_receive_buffer_is_accounted_for_on_the_corpus() {
        replay("hostile_data", super::check_hostile_data);
    }

    #[test]
    fn no_forged_cookie_is_accepted_on_the_corpus() {
        replay("cookie", super::check_cookie);
    }
}
