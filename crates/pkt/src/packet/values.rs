//! Values of the script as numbers and bytes.

use super::layout::{Class, Width, layout};
use crate::language::Why;
use crate::language::ast::{Arg, Item, Value};
use std::net::IpAddr;

/// The number `value`, which must fit `width` bytes; none for `...`.
pub(super) fn number(key: &str, value: &Value, width: usize) -> Result<Option<u32>, Why> {
    let bad = || Why::syntax(format!("'{key}' must be a number of {width} bytes"));
    match value {
        Value::Any => Ok(None),
        Value::Word(word) if word == "SCTP_OVER_DTLS" => Ok(Some(1)),
        Value::Int(number) => {
            let number = u32::try_from(*number).map_err(|_| bad())?;
            let fits = width >= 4 || number >> (8 * width) == 0;
            if fits { Ok(Some(number)) } else { Err(bad()) }
        }
        _ => Err(bad()),
    }
}

/// The elements of the list `key`, each as the numbers that it is made of; none for `...`.
pub(super) fn list(
    item: &Item,
    key: &str,
    element: &[Width],
) -> Result<Option<Vec<Vec<u32>>>, Why> {
    let bad = || Why::syntax(format!("bad list '{key}'"));
    let elements = match item.get(key) {
        Some(Value::Any) => return Ok(None),
        None if key == "sids" => return Ok(Some(Vec::new())),
        Some(Value::List(elements)) => elements,
        _ => return Err(bad()),
    };
    if elements.as_slice() == [Value::Any] {
        return Ok(None);
    }
    let numbers = |value: &Value| {
        let parts = match value {
            Value::Pair(from, to) => vec![Value::Int(*from), Value::Int(*to)],
            Value::Struct(args) => args.iter().filter_map(bare).cloned().collect(),
            other => vec![other.clone()],
        };
        if parts.len() != element.len() {
            return Err(bad());
        }
        let pairs = parts.iter().zip(element);
        pairs.map(|(part, width)| number(key, part, width.0)?.ok_or_else(bad)).collect()
    };
    elements.iter().map(numbers).collect::<Result<_, _>>().map(Some)
}

fn bare(arg: &Arg) -> Option<&Value> {
    match arg {
        Arg::Bare(value) => Some(value),
        Arg::Named(..) => None,
    }
}

/// The types in the list `key`, which may be names; none for `...`.
pub(super) fn types(item: &Item, key: &str, width: usize) -> Result<Option<Vec<u32>>, Why> {
    let elements = match item.get(key) {
        Some(Value::Any) => return Ok(None),
        Some(Value::List(elements)) => elements,
        _ => return Err(Why::syntax(format!("bad list '{key}'"))),
    };
    let one = |value: &Value| match value {
        Value::Word(name) => type_by_name(name),
        other => number(key, other, width)?
            .ok_or_else(|| Why::syntax(format!("'...' must be alone in '{key}'"))),
    };
    elements.iter().map(one).collect::<Result<_, _>>().map(Some)
}

/// The type of a chunk or address.
pub(super) fn type_by_name(name: &str) -> Result<u32, Why> {
    match name {
        "IPv4" => return Ok(5),
        "IPv6" => return Ok(6),
        "HOSTNAME" => return Ok(11),
        _ => {}
    }
    let item = Item { name: name.into(), args: Vec::new() };
    let code = layout(&item, Class::Chunk)?.code;
    code.map(u32::from).ok_or_else(|| Why::syntax(format!("'{name}' is no type")))
}

/// The bytes `key`; none for `...`.
pub(super) fn bytes(item: &Item, key: &str) -> Result<Option<Vec<u8>>, Why> {
    match item.get(key) {
        None | Some(Value::Any) => Ok(None),
        // A host name ends with a zero (RFC 9260 section 3.3.2.1.4).
        Some(Value::Text(text)) if item.name == "HOSTNAME_ADDRESS" => {
            Ok(Some([text.as_bytes(), &[0]].concat()))
        }
        Some(Value::Text(text)) => Ok(Some(text.clone().into_bytes())),
        Some(Value::List(list)) if list.as_slice() == [Value::Any] => Ok(None),
        Some(Value::List(list)) => {
            let byte = |value: &Value| match value {
                Value::Int(byte) => u8::try_from(*byte).ok(),
                _ => None,
            };
            let bytes = list.iter().map(byte).collect::<Option<_>>();
            bytes.map(Some).ok_or_else(|| Why::syntax(format!("'{key}' must be bytes")))
        }
        Some(_) => Err(Why::syntax(format!("'{key}' must be bytes"))),
    }
}

/// The bytes of the address `key`; none for `...`.
pub(super) fn address(item: &Item, key: &str) -> Result<Option<Vec<u8>>, Why> {
    match item.get(key) {
        None | Some(Value::Any) => Ok(None),
        Some(Value::Ip(IpAddr::V4(v4))) => Ok(Some(v4.octets().to_vec())),
        Some(Value::Ip(IpAddr::V6(v6))) => Ok(Some(v6.octets().to_vec())),
        Some(_) => Err(Why::syntax(format!("'{key}' must be an address"))),
    }
}

/// The items under `key`; none for `...`.
pub(super) fn under<'a>(item: &'a Item, key: &str) -> Result<Option<Vec<&'a Item>>, Why> {
    let bad = || Why::syntax(format!("'{key}' must hold items"));
    let one = |value: &'a Value| match value {
        Value::Item(item) => Some(item),
        _ => None,
    };
    match item.get(key) {
        Some(Value::Any) => Ok(None),
        Some(Value::Item(item)) => Ok(Some(vec![item])),
        Some(Value::List(list)) => {
            list.iter().map(one).collect::<Option<_>>().map(Some).ok_or_else(bad)
        }
        _ => Err(bad()),
    }
}
