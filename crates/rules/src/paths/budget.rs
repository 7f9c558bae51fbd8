//! What an interface may carry in a day or a month.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Decimal units, as providers of uplinks count.
const UNITS: [(&str, u64); 4] =
    [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];

/// Bytes in each period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Received and sent together, with all headers above those of the link.
    pub bytes: u64,
    /// After which they count anew.
    pub period: Period,
    /// Whether no data are carried once they are used up, not even where no other path is usable.
    pub hard: bool,
}

/// How often a budget begins anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Period {
    /// At midnight.
    Day,
    /// At midnight before the first of the month.
    Month,
}

/// A day of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Date {
    /// Such as 2026.
    pub year: i32,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
}

impl Budget {
    /// Reads `10GB/month`; the case of units does not matter.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (size, period) = text.split_once('/')?;
        let period = [Period::Day, Period::Month].into_iter().find(|one| one.name() == period)?;
        let split = size.find(|c: char| !c.is_ascii_digit())?;
        let (number, unit) = size.split_at(split);
        let (_, scale) = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
        let bytes = number.parse::<u64>().ok()?.checked_mul(*scale)?;
        (bytes > 0).then_some(Self { bytes, period, hard: false })
    }
}

impl Period {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Month => "month",
        }
    }

    /// Whether a budget that counted at `before` still counts at `now`: clocks that are set back begin no new period.
    #[must_use]
    pub fn lasts(self, before: Date, now: Date) -> bool {
        let key = |date: Date| match self {
            Self::Day => (date.year, date.month, date.day),
            Self::Month => (date.year, date.month, 0),
        };
        key(now) <= key(before)
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, scale) = UNITS
            .into_iter()
            .find(|(_, scale)| self.bytes.is_multiple_of(*scale))
            .unwrap_or(("kB", 1_000));
        let hard = if self.hard { " hard" } else { "" };
        write!(f, "{}{name}/{}{hard}", self.bytes / scale, self.period.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn date(year: i32, month: u8, day: u8) -> Date {
        Date { year, month, day }
    }

    #[test]
    fn periods_end_at_midnight_and_with_the_month() {
        let today = date(2026, 11, 30);
        assert!(Period::Day.lasts(today, today));
        assert!(!Period::Day.lasts(today, date(2026, 12, 1)));
        assert!(Period::Month.lasts(date(2026, 11, 1), today));
        assert!(!Period::Month.lasts(today, date(2026, 12, 1)));
        assert!(!Period::Month.lasts(today, date(2027, 1, 30)));
        assert!(Period::Day.lasts(today, date(2026, 11, 29)), "the clock was set back");
    }
}
