//! Choices that have a name: what a user writes in a configuration and reads in a result.

use alloc::string::String;
use core::fmt;

/// A name that means nothing here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownName {
    /// What was to be chosen.
    pub choice: &'static str,
    /// What was written.
    pub name: String,
    /// What may be written.
    pub allowed: &'static [&'static str],
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { choice, name, allowed } = self;
        write!(f, "unknown {choice} {name:?}, allowed are ")?;
        for (index, name) in allowed.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{name}")?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownName {}

/// Makes an enum of named choices: `Display`, `FromStr`, `ALL`, `NAMES` and `name` come with it.
macro_rules! named {
    (
        $(#[$doc:meta])*
        pub enum $choices:ident as $choice:literal {
            $($(#[$variant_doc:meta])* $variant:ident = $name:literal),* $(,)?
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $choices { $($(#[$variant_doc])* $variant),* }

        impl $choices {
            /// Every choice.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];
            /// The names in the order of [`Self::ALL`].
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// The name, as it is written in configurations.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }

        impl core::fmt::Display for $choices {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl core::str::FromStr for $choices {
            type Err = $crate::names::UnknownName;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                let found = Self::ALL.iter().find(|choice| choice.name() == name);
                found.copied().ok_or_else(|| $crate::names::UnknownName {
                    choice: $choice,
                    name: name.into(),
                    allowed: Self::NAMES,
                })
            }
        }
    };
}

pub(crate) use named;

#[cfg(test)]
#[allow(unreachable_pub, reason = "the macro makes public types")]
mod tests {
    use alloc::string::ToString;

    named! {
        /// Two things.
        pub enum Thing as "thing" {
            /// This.
            This = "this",
            /// That.
            That = "that-one",
        }
    }

    #[test]
    fn names_there_and_back() {
        for thing in Thing::ALL {
            assert_eq!(thing.to_string().parse(), Ok(*thing));
        }
        assert_eq!(Thing::NAMES, ["this", "that-one"]);
    }

    #[test]
    fn unknown_names_list_what_is_allowed() {
        let error = "That".parse::<Thing>().unwrap_err();
        assert_eq!(error.to_string(), "unknown thing \"That\", allowed are this, that-one");
    }
}
