//! Which sizes of packets to try. SCTP packets are whole words, so sizes go by fours.

/// Sizes of IP packets that links have: tunnels, PPPoE, Ethernet, jumbo frames.
const USUAL: [u16; 11] = [576, 1280, 1360, 1400, 1420, 1440, 1460, 1480, 1492, 1500, 4352];
/// The largest that is tried.
pub(super) const MOST: u16 = 9000;
/// Sizes tried at a time between one that passes and one that does not.
const STEPS: u16 = 12;

/// The largest size up to `limit` of a packet with so many bytes of `headers`.
pub(super) fn fitting(limit: u16, headers: u16) -> u16 {
    limit - limit.saturating_sub(headers) % 4
}

/// What to try first on an interface.
pub(super) fn first(interface: u16, headers: u16) -> Vec<u16> {
    let most = interface.min(MOST);
    let usual = USUAL.into_iter().filter(|size| *size < most);
    let mut sizes: Vec<_> = usual.chain([most]).map(|size| fitting(size, headers)).collect();
    sizes.dedup();
    sizes
}

/// What to try next, where `passes` passes and `fails` does not; nothing if there is no size between.
pub(super) fn between(passes: u16, fails: u16) -> Vec<u16> {
    let words = fails.saturating_sub(passes) / 4;
    let step = words.div_ceil(STEPS + 1).max(1) * 4;
    (1..).map(|n| passes + n * step).take_while(|size| *size < fails).collect()
}

#[cfg(test)]
mod tests {
    use super::{between, first};

    #[test]
    fn every_size_is_found_in_a_few_rounds() {
        for truth in (600..1500).step_by(4) {
            let sizes = first(1500, 28);
            assert_eq!(sizes.last(), Some(&1500));
            let (mut passes, mut fails) = narrow(&sizes, truth, (0, u16::MAX));
            let mut rounds = 0;
            while fails != u16::MAX && fails - passes > 4 {
                (passes, fails) = narrow(&between(passes, fails), truth, (passes, fails));
                rounds += 1;
            }
            assert!(passes == truth && rounds <= 3, "{truth}: {passes} in {rounds}");
        }
    }

    fn narrow(sizes: &[u16], truth: u16, known: (u16, u16)) -> (u16, u16) {
        let passes = sizes.iter().copied().filter(|size| *size <= truth).max();
        let fails = sizes.iter().copied().filter(|size| *size > truth).min();
        (passes.unwrap_or(known.0), fails.unwrap_or(known.1))
    }

    #[test]
    fn sizes_are_whole_words_behind_the_headers() {
        let all = first(1391, 48).into_iter().chain(first(9000, 28));
        let all: Vec<_> = all.collect();
        assert!(all.contains(&1388), "{all:?}");
        assert!(all.iter().all(|size| size % 4 == 0), "{all:?}");
        assert!(between(1480, 1484).is_empty());
    }
}
