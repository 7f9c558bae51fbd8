//! Means and their 95 % confidence intervals, as the papers give them.

/// Mean of several runs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Summary {
    /// Number of values.
    pub count: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation; zero for a single value.
    pub deviation: f64,
    /// Half the width of the 95 % confidence interval of the mean (Student's t); zero for a single
    /// value, of which nothing can be said.
    pub half_width: f64,
}

/// Summarises the values that are numbers; `None` if there are none.
pub fn summarise(values: impl IntoIterator<Item = f64>) -> Option<Summary> {
    let values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
    let count = values.len();
    if count == 0 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / count as f64;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    let deviation = if count > 1 { (squares / (count - 1) as f64).sqrt() } else { 0.0 };
    let half_width = match count {
        1 => 0.0,
        _ => student_t_975(count - 1) * deviation / (count as f64).sqrt(),
    };
    Some(Summary { count, mean, deviation, half_width })
}

/// The 97.5 % quantile of Student's t distribution: two-sided 95 %.
pub fn student_t_975(degrees: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    match degrees {
        0 => f64::INFINITY,
        1..=30 => TABLE[degrees - 1],
        _ => {
            // First two terms of the Cornish-Fisher expansion around the normal quantile.
            let (z, n) = (1.959_964_f64, degrees as f64);
            z + (z.powi(3) + z) / (4.0 * n)
                + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * n * n)
        }
    }
}

/// The median of several runs with an interval that holds whatever the distribution is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Median {
    /// The middle one, or the mean of the two in the middle.
    pub median: f64,
    /// From a run's value to another one's: the median of all possible runs lies between them with 95 % or more if
    /// there are six runs at least. Otherwise the least and the largest value, which are less sure.
    pub interval: (f64, f64),
}

/// The median of values, infinite ones among them; `None` if there are none.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<Median> {
    let mut values: Vec<f64> = values.into_iter().filter(|value| !value.is_nan()).collect();
    values.sort_by(f64::total_cmp);
    let count = values.len();
    let last = count.checked_sub(1)?;
    // The chance that fewer than `left_out + 1` of all values are on one side of the true median.
    let mut left_out = 0;
    let (mut ways, mut beyond) = (1.0, 1.0);
    let most = 0.025 * 2f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
    while left_out < last / 2 {
        ways *= (count - left_out) as f64 / (left_out + 1) as f64;
        beyond += ways;
        if beyond > most {
            break;
        }
        left_out += 1;
    }
    let middle = f64::midpoint(values[last / 2], values[count / 2]);
    Some(Median { median: middle, interval: (values[left_out], values[last - left_out]) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ranks of printed tables: the least and the largest of 6 to 8 values, the second ones of 9 to 11, the
    /// third of 12.
    #[test]
    fn the_interval_of_the_median_has_the_ranks_of_printed_tables() {
        let ranks = |count: u32| median((1..=count).rev().map(f64::from)).unwrap();
        for (count, from) in
            [(1, 1.0), (5, 1.0), (6, 1.0), (8, 1.0), (9, 2.0), (11, 2.0), (12, 3.0), (20, 6.0)]
        {
            let Median { median, interval } = ranks(count);
            assert_eq!(interval, (from, f64::from(count) + 1.0 - from), "{count}");
            assert_eq!(median, f64::from(count + 1) / 2.0);
        }
        assert_eq!(median([f64::NAN]), None);
        assert_eq!(median([f64::INFINITY, 2.0, 1.0]).map(|m| m.median), Some(2.0));
    }

    #[test]
    fn the_interval_is_that_of_the_textbook() {
        let summary = summarise([4.0, 5.0, 6.0, 7.0, f64::NAN]).unwrap();
        assert_eq!((summary.count, summary.mean), (4, 5.5));
        assert!((summary.deviation - 1.290_994).abs() < 1e-6);
        assert!((summary.half_width - 3.182 * 1.290_994 / 2.0).abs() < 1e-5);
        assert_eq!(summarise([]), None);
        assert_eq!(summarise([3.0]).map(|s| s.half_width), Some(0.0));
    }

    /// Values of printed tables; 23 degrees are those of 24 runs.
    #[test]
    fn quantiles_are_those_of_printed_tables() {
        for (degrees, t) in [(1, 12.706), (23, 2.069), (40, 2.021), (60, 2.000), (120, 1.980)] {
            assert!((student_t_975(degrees) - t).abs() < 6e-4, "{degrees}");
        }
    }
}
