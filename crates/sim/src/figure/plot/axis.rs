//! Ticks at round numbers.

/// A range of values and the ticks in it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Axis {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) ticks: Vec<f64>,
    /// Equal ratios are equally far apart.
    logarithmic: bool,
}

/// An axis of sizes is logarithmic if they differ by more than this factor.
const WIDE: f64 = 16.0;
/// Part of an axis that stays free beyond the last value, so that no marker lies on the frame.
const ROOM: f64 = 0.04;

impl Axis {
    /// From zero to a round number that is not less than `most`, with up to `count` steps.
    pub(super) fn up_to(most: f64, count: usize) -> Self {
        let most = if most > 0.0 && most.is_finite() { most } else { 1.0 };
        let step = round_step(most / count as f64, &[1.0, 2.0, 2.5, 5.0, 10.0]);
        Self::with_step(most, step)
    }

    /// For sizes in KiB: steps are powers of two, and so are the ticks if the sizes differ much.
    pub(super) fn of_kib(least: f64, most: f64) -> Self {
        let most = most.max(1.0);
        if least > 0.0 && most / least > WIDE {
            return Self::powers_of_two(least, most);
        }
        let step = [8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0]
            .into_iter()
            .find(|step| most / step <= 9.0);
        Self::with_step(most, step.unwrap_or(2048.0))
    }

    /// Room for so many groups of bars; no ticks, groups have names.
    pub(super) fn of_groups(count: usize) -> Self {
        Self { from: 0.0, to: count as f64, ticks: Vec::new(), logarithmic: false }
    }

    /// Part of the way from the beginning to the end.
    pub(super) fn place(&self, value: f64) -> f64 {
        if self.logarithmic {
            return (value / self.from).log2() / (self.to / self.from).log2();
        }
        (value - self.from) / (self.to - self.from)
    }

    fn powers_of_two(least: f64, most: f64) -> Self {
        let powers = least.log2().ceil() as i32..=most.log2().floor() as i32;
        let room = (most / least).powf(ROOM);
        let ticks = powers.map(|power| 2f64.powi(power)).collect();
        Self { from: least / room, to: most * room, ticks, logarithmic: true }
    }

    fn with_step(most: f64, step: f64) -> Self {
        let steps = (most / step - 1e-9).ceil().max(1.0) as usize;
        let ticks = (0..=steps).map(|i| i as f64 * step).collect();
        let to = (steps as f64 * step).max(most * (1.0 + ROOM));
        Self { from: 0.0, to, ticks, logarithmic: false }
    }
}

fn round_step(least: f64, mantissas: &[f64]) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let fits = mantissas.iter().map(|m| m * power).find(|step| *step >= least * (1.0 - 1e-9));
    fits.unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(Axis::up_to(19.27, 5).ticks, [0.0, 5.0, 10.0, 15.0, 20.0]);
        assert_eq!(Axis::up_to(650.0, 7).ticks.last(), Some(&700.0));
        assert_eq!(Axis::of_kib(32.0, 352.0).ticks.get(1), Some(&64.0));
        assert_eq!(Axis::up_to(0.0, 5).ticks.last(), Some(&1.0));
    }

    #[test]
    fn sizes_that_differ_much_are_on_a_logarithmic_axis() {
        let axis = Axis::of_kib(64.0, 4096.0);
        assert_eq!(axis.ticks, [64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0]);
        assert!((axis.place(512.0) - 0.5).abs() < 1e-9);
        assert_eq!(Axis::of_kib(64.0, 3072.0).ticks.last(), Some(&2048.0));
    }

    #[test]
    fn nothing_lies_on_the_frame() {
        let inside = |axis: &Axis, value: f64| (0.01..0.99).contains(&axis.place(value));
        assert!(inside(&Axis::of_kib(32.0, 256.0), 256.0) && inside(&Axis::up_to(20.0, 5), 20.0));
        let sizes = Axis::of_kib(64.0, 3072.0);
        assert!(inside(&sizes, 64.0) && inside(&sizes, 3072.0));
    }
}
