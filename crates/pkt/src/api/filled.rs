//! What a call gives back through its arguments, and whether it is what the script expects.

use super::arguments::int;
use super::constants::constant;
use crate::language::Why;
use crate::language::ast::{Arg, Value};
use std::net::SocketAddr;

/// Something that a call gives back.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Filled {
    /// A number.
    Int(i64),
    /// A structure.
    Struct(Vec<(&'static str, Self)>),
    /// An array.
    List(Vec<Self>),
    /// An address.
    Address(SocketAddr),
    /// Nothing was given back.
    Nothing,
    /// What the caller has put there.
    Asked,
}

impl Filled {
    /// A structure of numbers.
    pub(crate) fn numbers<const N: usize>(fields: [(&'static str, i64); N]) -> Self {
        Self::Struct(fields.into_iter().map(|(key, value)| (key, Self::Int(value))).collect())
    }
}

impl std::fmt::Display for Filled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Int(number) => write!(f, "{number}"),
            Self::Address(address) => write!(f, "{address}"),
            Self::Nothing => f.write_str("nothing"),
            Self::Asked => f.write_str("what was asked with"),
            Self::Struct(fields) => {
                f.write_str("{")?;
                for (key, value) in fields {
                    write!(f, " {key}={value}")?;
                }
                f.write_str(" }")
            }
            Self::List(list) => {
                f.write_str("[")?;
                list.iter().try_for_each(|value| write!(f, " {value}"))?;
                f.write_str(" ]")
            }
        }
    }
}

/// Compares what the script expects of `what` with what was given back.
pub(crate) fn fits(what: &str, expected: &Value, found: &Filled) -> Result<(), Why> {
    let other = || Why::mismatch(format!("{what} is {found} and not {expected}"));
    match (expected, found) {
        (Value::Any, _) | (_, Filled::Asked) => Ok(()),
        (Value::Word(null), Filled::Nothing) if null == "NULL" => Ok(()),
        (Value::List(list), Filled::Nothing) if list.is_empty() => Ok(()),
        (Value::Struct(fields), Filled::Struct(found)) => structure(fields, found),
        (Value::Struct(fields), Filled::Address(address)) => socket_address(fields, *address),
        (Value::List(list), Filled::List(found)) if list.len() == found.len() => {
            list.iter().zip(found).try_for_each(|(expected, found)| fits(what, expected, found))
        }
        (Value::List(list), Filled::Int(_)) if list.len() == 1 => fits(what, &list[0], found),
        (
            Value::Int(_) | Value::Word(_) | Value::Or(_) | Value::Call(..),
            Filled::Int(found_number),
        ) => {
            if int(expected)? == *found_number {
                Ok(())
            } else {
                Err(other())
            }
        }
        _ => Err(other()),
    }
}

fn structure(expected: &[Arg], found: &[(&'static str, Filled)]) -> Result<(), Why> {
    for arg in expected {
        let Arg::Named(key, value) = arg else {
            return Err(Why::syntax("fields of a structure have names"));
        };
        match found.iter().find(|(known, _)| known == key) {
            Some((_, found)) => fits(key, value, found)?,
            None if *value == Value::Any => {}
            None => return Err(Why::gap(format!("'{key}' is not known here"))),
        }
    }
    Ok(())
}

fn socket_address(expected: &[Arg], address: SocketAddr) -> Result<(), Why> {
    let expected = address_of(expected, address.port())?;
    if expected.is_none_or(|expected| expected == address) {
        Ok(())
    } else {
        Err(Why::mismatch(format!("the address is {address} and not {expected:?}")))
    }
}

/// The address in `{sa_family=AF_INET, sin_port=htons(8080), sin_addr=inet_addr("192.0.2.1")}`; none
/// if it is left open. `port` stands for a port that is.
pub(crate) fn address_of(fields: &[Arg], port: u16) -> Result<Option<SocketAddr>, Why> {
    let value =
        |keys: [&str; 2]| keys.iter().find_map(|key| crate::language::ast::get(fields, key));
    let port = match value(["sin_port", "sin6_port"]) {
        None | Some(Value::Any) => port,
        Some(value) => {
            u16::try_from(int(value)?).map_err(|_| Why::syntax("bad port"))?.swap_bytes()
        }
    };
    let text = match value(["sin_addr", "sin6_addr"]) {
        None | Some(Value::Any) => return Ok(None),
        Some(Value::Call(name, args)) => match (name.as_str(), args.as_slice()) {
            ("inet_addr", [Value::Text(text)]) => text,
            ("inet_pton", [.., Value::Text(text)]) => text,
            ("htonl", [Value::Word(any)]) if any == "INADDR_ANY" => return Ok(None),
            _ => return Err(Why::syntax("bad address")),
        },
        Some(Value::Text(text)) => text,
        Some(Value::Word(name)) if constant(name).is_some() => return Ok(None),
        Some(_) => return Err(Why::syntax("bad address")),
    };
    let ip = text.parse().map_err(|_| Why::syntax(format!("bad address '{text}'")))?;
    Ok(Some(SocketAddr::new(ip, port)))
}
