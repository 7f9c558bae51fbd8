//! Part of each day.

use std::fmt;

/// From one minute of the day to before another one, which may be of the next day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hours {
    from: u16,
    until: u16,
}

impl Hours {
    /// Reads `22:00-06:00`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (from, until) = text.split_once('-')?;
        let (from, until) = (minute(from)?, minute(until)?);
        (from != until).then_some(Self { from, until })
    }

    /// Whether a minute, counted from midnight, is one of them.
    #[must_use]
    pub const fn contain(self, minute: u16) -> bool {
        match self.from < self.until {
            true => self.from <= minute && minute < self.until,
            false => self.from <= minute || minute < self.until,
        }
    }
}

fn minute(text: &str) -> Option<u16> {
    let (hour, minute) = text.split_once(':')?;
    let (hour, minute): (u16, u16) = (hour.parse().ok()?, minute.parse().ok()?);
    (hour < 24 && minute < 60).then_some(hour * 60 + minute)
}

impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, until } = self;
        write!(f, "{:02}:{:02}-{:02}:{:02}", from / 60, from % 60, until / 60, until % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_may_reach_into_the_next_day() {
        let contain = |hours: &str, minute| Hours::parse(hours).unwrap().contain(minute);
        for (hours, inside, outside) in [
            ("08:00-18:30", [480, 1109], [479, 1110]),
            ("22:00-06:00", [1320, 359], [1319, 360]),
            ("00:00-00:01", [0, 0], [1, 1439]),
        ] {
            assert!(inside.iter().all(|minute| contain(hours, *minute)), "{hours}");
            assert!(!outside.iter().any(|minute| contain(hours, *minute)), "{hours}");
        }
    }
}
