//! The words of a line.

use super::{Budget, Hours, PathSelector, PathWord, Role};
use crate::error::RuleError;
use std::net::IpAddr;
use std::slice::Iter;

const WISHES: &str = "normal, backup, disable, enable, cost N, metered RATE, metered off, primary, \
                      primary off, budget SIZE/PERIOD [hard], budget off, \
                      hours FROM-UNTIL, hours off";
/// The units of tc, in bits per second.
const UNITS: [(&str, u64); 4] =
    [("gbit", 1_000_000_000), ("mbit", 1_000_000), ("kbit", 1_000), ("bit", 1)];

/// Which paths, and what is wanted of them.
pub(super) fn words(words: &[&str]) -> Result<(PathSelector, Vec<PathWord>), RuleError> {
    let (mut selector, mut wishes) = (PathSelector::default(), Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "dev" => {
                once(&mut selector.device, argument(&mut words, "dev", "an interface")?.into())?
            }
            "peer" => {
                once(&mut selector.peer, address(argument(&mut words, "peer", "an address")?)?)?
            }
            "normal" | "enable" => wishes.push(PathWord::Role(Role::Normal)),
            "backup" => wishes.push(PathWord::Role(Role::Backup)),
            "disable" | "disabled" => wishes.push(PathWord::Role(Role::Disabled)),
            "cost" => wishes.push(PathWord::Cost(cost(argument(&mut words, "cost", "a number")?)?)),
            "metered" => wishes.push(PathWord::Metered(metered(&mut words)?)),
            "primary" => wishes.push(PathWord::Primary(!take(&mut words, "off"))),
            "hours" => wishes.push(PathWord::Hours(hours(&mut words)?)),
            "budget" => wishes.push(PathWord::Budget(budget(&mut words)?)),
            other => match other.parse() {
                Ok(local) => once(&mut selector.local, local)?,
                Err(_) => return Err(RuleError::unknown("word", other, &allowed())),
            },
        }
    }
    Ok((selector, wishes))
}

fn allowed() -> String {
    format!("paths: ADDRESS, dev INTERFACE, peer ADDRESS; policies: {WISHES}")
}

fn once<T>(place: &mut Option<T>, value: T) -> Result<(), RuleError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(RuleError::new("an address, interface or peer is named twice")),
    }
}

fn argument<'w>(
    words: &mut Iter<'_, &'w str>,
    name: &str,
    what: &str,
) -> Result<&'w str, RuleError> {
    words.next().copied().ok_or_else(|| RuleError::new(format!("{name} is followed by {what}")))
}

fn take(words: &mut Iter<'_, &str>, wanted: &str) -> bool {
    let found = words.as_slice().first() == Some(&wanted);
    if found {
        words.next();
    }
    found
}

fn address(text: &str) -> Result<IpAddr, RuleError> {
    text.parse().map_err(|_| RuleError::new(format!("\"{text}\" is no IP address")))
}

fn cost(text: &str) -> Result<u16, RuleError> {
    text.parse().map_err(|_| RuleError::new(format!("cost {text}: a number from 0 to 65535")))
}

/// `off`, or a size and a period, perhaps with `hard`.
fn budget(words: &mut Iter<'_, &str>) -> Result<Option<Budget>, RuleError> {
    if take(words, "off") {
        return Ok(None);
    }
    let text = argument(words, "budget", "a size and a period")?;
    let budget = Budget::parse(text).ok_or_else(|| {
        RuleError::new(format!(
            "budget {text}: a size and a period such as 500MB/day or 10GB/month, or off"
        ))
    })?;
    Ok(Some(Budget { hard: take(words, "hard"), ..budget }))
}

/// `off`, or two times of the day.
fn hours(words: &mut Iter<'_, &str>) -> Result<Option<Hours>, RuleError> {
    if take(words, "off") {
        return Ok(None);
    }
    let text = argument(words, "hours", "two times of the day")?;
    Hours::parse(text).map(Some).ok_or_else(|| {
        RuleError::new(format!("hours {text}: two times of the day such as 22:00-06:30, or off"))
    })
}

/// `off`, a rate, or nothing of either: no allowance at all.
fn metered(words: &mut Iter<'_, &str>) -> Result<Option<u64>, RuleError> {
    if take(words, "off") {
        return Ok(None);
    }
    match words.as_slice().first() {
        Some(word) if word.starts_with(|c: char| c.is_ascii_digit()) && !is_address(word) => {
            words.next();
            rate(word).map(Some)
        }
        Some(_) | None => Ok(Some(0)),
    }
}

fn is_address(word: &str) -> bool {
    word.parse::<IpAddr>().is_ok()
}

/// Bytes per second.
fn rate(text: &str) -> Result<u64, RuleError> {
    let wrong = || {
        RuleError::new(format!("metered {text}: a rate such as 500kbit, 5mbit or 1gbit, or off"))
    };
    read_rate(text).ok_or_else(wrong)
}

/// Bytes per second, of at least one.
pub(crate) fn read_rate(text: &str) -> Option<u64> {
    let unit = |(name, unit): &(&str, u64)| Some((text.strip_suffix(name)?.parse().ok()?, *unit));
    let (number, unit): (u64, u64) = UNITS.iter().find_map(unit)?;
    number.checked_mul(unit).filter(|bits| *bits >= 8).map(|bits| bits / 8)
}

/// As [`read_rate`] reads it.
pub(crate) fn rate_text(bytes: u64) -> String {
    let bits = bytes.saturating_mul(8);
    let fits = |unit: &u64| bits.is_multiple_of(*unit);
    let found = UNITS.iter().find(|(_, unit)| fits(unit));
    found.map_or_else(|| format!("{bits}bit"), |(name, unit)| format!("{}{name}", bits / unit))
}

#[cfg(test)]
mod tests {
    use super::super::{PathEntry, PathWish};
    use super::*;

    fn read(text: &str) -> Result<String, String> {
        let words: Vec<_> = text.split_whitespace().collect();
        let (selector, words) = words_of(&words)?;
        let mut wish = PathWish::default();
        wish.apply(&words);
        Ok(PathEntry { selector, wish }.to_string())
    }

    fn words_of(words: &[&str]) -> Result<(PathSelector, Vec<PathWord>), String> {
        super::words(words).map_err(|e| e.to_string())
    }

    #[test]
    fn lines_read_as_they_are_written() {
        for line in [
            "10.0.0.2 dev wwan0 peer 192.0.2.1 backup cost 10 metered 5mbit primary",
            "dev wwan0 metered",
            "2001:db8::1 disabled",
            "peer 192.0.2.1 metered 1500kbit",
            "dev eth0 normal",
            "dev lte metered 8bit",
            "dev lte backup budget 10GB/month",
            "dev lte budget 1500MB/day hard",
            "dev lte disabled hours 08:00-18:30",
            "dev lte normal hours 22:00-06:00",
        ] {
            assert_eq!(read(line).as_deref(), Ok(line));
        }
        assert_eq!(read("metered 10.0.0.2 dev a").as_deref(), Ok("10.0.0.2 dev a metered"));
        assert_eq!(
            read("dev a primary primary off metered metered off").as_deref(),
            Ok("dev a normal")
        );
        assert_eq!(read("dev a disable enable").as_deref(), Ok("dev a normal"));
        assert_eq!(read("dev a budget 1GB/day budget off").as_deref(), Ok("dev a normal"));
        assert_eq!(read("dev a budget 5gb/day").as_deref(), Ok("dev a budget 5GB/day"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (line, wrong) in [
            ("wwan0 backup", "unknown word \"wwan0\""),
            ("dev", "dev is followed by an interface"),
            ("dev a dev b backup", "named twice"),
            ("peer host backup", "\"host\" is no IP address"),
            ("dev a cost 70000", "a number from 0 to 65535"),
            ("dev a metered 5", "a rate such as"),
            ("dev a metered 5mb", "a rate such as"),
            ("dev a metered 0mbit", "a rate such as"),
            ("dev a hours", "hours is followed by two times of the day"),
            ("dev a hours 08:00", "two times of the day such as"),
            ("dev a hours 08:00-24:00", "two times of the day such as"),
            ("dev a hours 08:60-09:00", "two times of the day such as"),
            ("dev a hours 08:00-08:00", "two times of the day such as"),
            ("dev a budget", "budget is followed by a size and a period"),
            ("dev a budget 5GB", "a size and a period such as"),
            ("dev a budget 0GB/day", "a size and a period such as"),
            ("dev a budget 5GB/week", "a size and a period such as"),
            ("dev a budget 99999999999999TB/day", "a size and a period such as"),
        ] {
            let said = read(line).unwrap_err();
            assert!(said.contains(wrong), "{line}: {said}");
        }
    }
}
