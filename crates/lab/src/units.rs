//! Rates, delays and shares as people write them: the units of tc(8).

use crate::error::LabError;
use std::time::Duration;

/// Parts per million in one whole.
const MILLION: f64 = 1_000_000.0;

/// "20mbit", "1.5gbit", "64kbit", "9600bit", "unlimited", or bits per second without a unit.
pub(crate) fn rate(text: &str) -> Result<Option<u64>, LabError> {
    if text == "unlimited" {
        return Ok(None);
    }
    const UNITS: [(&str, f64); 5] =
        [("", 1.0), ("bit", 1.0), ("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)];
    let hint = "a rate like 20mbit, 64kbit, 1gbit or unlimited";
    let bits = scaled(text, &UNITS, hint)?;
    if bits < 1.0 {
        return Err(LabError::Invalid(format!(
            "'{text}': a rate is at least 1bit; take the path down instead"
        )));
    }
    Ok(Some(bits as u64))
}

/// "40ms", "1.5s", "200us".
pub(crate) fn delay(text: &str) -> Result<Duration, LabError> {
    const UNITS: [(&str, f64); 4] = [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    const LONGEST_S: f64 = 3600.0;
    let seconds = scaled(text, &UNITS, "a time like 40ms, 200us or 1.5s")?;
    if seconds > LONGEST_S {
        return Err(LabError::Invalid(format!("'{text}': a delay is at most one hour")));
    }
    Ok(Duration::from_nanos((seconds * 1e9).round() as u64))
}

/// "1%", "0.1%", or a share between 0 and 1 without a unit; in parts per million.
pub(crate) fn share(text: &str) -> Result<u32, LabError> {
    let share = scaled(text, &[("", 1.0), ("%", 0.01)], "a share like 1% or 0.01")?;
    if share > 1.0 {
        return Err(LabError::Invalid(format!("'{text}': a share is at most 100%")));
    }
    Ok((share * MILLION).round() as u32)
}

/// A number of packets.
pub(crate) fn packets(text: &str) -> Result<usize, LabError> {
    let invalid = || LabError::Invalid(format!("'{text}': expected a number of packets"));
    text.parse().map_err(|_| invalid())
}

fn scaled(text: &str, units: &[(&str, f64)], hint: &str) -> Result<f64, LabError> {
    let end = text.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let factor = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
    match (digits.parse::<f64>(), factor) {
        (Ok(value), Some((_, factor))) => Ok(value * factor),
        _ => Err(LabError::Invalid(format!("'{text}': expected {hint}"))),
    }
}

/// "20 Mbit/s", "1.5 Gbit/s"; two digits after the point at most.
pub(crate) fn show_rate(bps: f64) -> String {
    let (value, unit) = match bps {
        b if b >= 1e9 => (b / 1e9, "Gbit/s"),
        b if b >= 1e6 => (b / 1e6, "Mbit/s"),
        b if b >= 1e3 => (b / 1e3, "kbit/s"),
        b => (b, "bit/s"),
    };
    format!("{} {unit}", trimmed(value))
}

/// "40 ms", "1.5 s".
pub(crate) fn show_delay(delay: Duration) -> String {
    match delay.as_secs_f64() {
        s if s >= 1.0 => format!("{} s", trimmed(s)),
        s => format!("{} ms", trimmed(s * 1e3)),
    }
}

/// "0.1 %".
pub(crate) fn show_share(ppm: u32) -> String {
    let percent = format!("{:.4}", f64::from(ppm) * 100.0 / MILLION);
    format!("{} %", percent.trim_end_matches('0').trim_end_matches('.'))
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_units_of_tc() {
        assert_eq!(rate("20mbit").unwrap(), Some(20_000_000));
        assert_eq!(rate("1.5Gbit").unwrap(), Some(1_500_000_000));
        assert_eq!(rate("9600").unwrap(), Some(9600));
        assert_eq!(rate("unlimited").unwrap(), None);
        assert_eq!(delay("40ms").unwrap(), Duration::from_millis(40));
        assert_eq!(delay("1.5s").unwrap(), Duration::from_millis(1500));
        assert_eq!(delay("200us").unwrap(), Duration::from_micros(200));
        assert_eq!(share("0.1%").unwrap(), 1000);
        assert_eq!(share("1").unwrap(), 1_000_000);
    }

    #[test]
    fn refuses_what_it_does_not_understand() {
        for text in ["", "fast", "20mb", "-1mbit", "0mbit", "1..2mbit", "20 mbit"] {
            assert!(rate(text).is_err(), "{text}");
        }
        for text in ["", "40", "40m", "-1ms", "2000000s"] {
            assert!(delay(text).is_err(), "{text}");
        }
        assert!(share("101%").is_err() && share("x").is_err() && packets("-1").is_err());
    }

    #[test]
    fn shows_what_it_reads() {
        assert_eq!(show_rate(20e6), "20 Mbit/s");
        assert_eq!(show_rate(1.5e9), "1.5 Gbit/s");
        assert_eq!(show_delay(Duration::from_micros(1500)), "1.5 ms");
        assert_eq!(show_share(1000), "0.1 %");
    }
}
