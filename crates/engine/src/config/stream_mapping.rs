//! The stream-to-path mappings by name.

use crate::names::UnknownName;
use crate::path_id::PathId;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// Which path the messages of a stream take.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum StreamMapping {
    /// Any path that has room. Named `any`.
    #[default]
    Any,
    /// The usable path with the number `stream modulo usable paths`. Named `modulo`.
    Modulo,
    /// The path that suits the stream best, from what paths carry and streams need. Named `dynamic`.
    /// It also decides what of the buffers a path may use and which path goes first: `buffer_split` and
    /// `path_scheduling` have no effect on new data. With NR-SACK in case 3 it gets most out of small
    /// buffers.
    Dynamic,
    /// Per stream, in the order of their numbers, the number of its path; `None`, and streams
    /// beyond the list: any path. Written as a list such as `0,1,1,-`. Streams of a path that has
    /// failed are spread over the others as by `modulo`, until it is back.
    Manual(Vec<Option<PathId>>),
}

impl StreamMapping {
    /// What can be written, for messages to users.
    pub const NAMES: &'static [&'static str] =
        &["any", "modulo", "dynamic", "a list of path numbers such as 0,1,1,-"];
}

impl fmt::Display for StreamMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Modulo => f.write_str("modulo"),
            Self::Dynamic => f.write_str("dynamic"),
            Self::Manual(list) => {
                for (index, entry) in list.iter().enumerate() {
                    f.write_str(if index == 0 { "" } else { "," })?;
                    match entry {
                        Some(PathId(path)) => write!(f, "{path}")?,
                        None => f.write_str("-")?,
                    }
                }
                Ok(())
            }
        }
    }
}

impl FromStr for StreamMapping {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let entry = |entry: &str| match entry.trim() {
            "-" => Ok(None),
            number => number.parse().map(|path| Some(PathId(path))),
        };
        match text {
            "any" => Ok(Self::Any),
            "modulo" => Ok(Self::Modulo),
            "dynamic" => Ok(Self::Dynamic),
            list => match list.split(',').map(entry).collect() {
                Ok(list) => Ok(Self::Manual(list)),
                Err(_) => Err(UnknownName {
                    choice: "stream mapping",
                    name: text.into(),
                    allowed: Self::NAMES,
                }),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::StreamMapping;
    use crate::path_id::PathId;
    use alloc::string::ToString;

    #[test]
    fn mappings_are_read_as_they_are_written() {
        for text in ["any", "modulo", "dynamic", "0", "2,0,1,-,1"] {
            assert_eq!(text.parse::<StreamMapping>().unwrap().to_string(), text);
        }
        let list = StreamMapping::Manual([Some(PathId(1)), None].into());
        assert_eq!("1, -".parse(), Ok(list));
        for text in ["", "dyn", "1,,2", "256", "-1"] {
            assert!(text.parse::<StreamMapping>().is_err(), "{text}");
        }
    }
}
