//! Medians.

/// The middle value; the mean of the two in the middle where there are two. `None` of nothing.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        length if length % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn a_median_does_not_care_for_outliers() {
        assert_eq!(median([3.0, 1.0, 1000.0]), Some(3.0));
        assert_eq!(median([4.0, 1.0, 2.0, 90.0]), Some(3.0));
        assert_eq!(median([f64::NAN, 5.0]), Some(5.0));
        assert_eq!(median([]), None);
    }
}
