//! Bytes of the packets that a script injects.

use super::layout::{self, Class, Layout, Piece};
use super::numbers::Numbers;
use super::values;
use crate::language::Why;
use crate::language::ast::{Item, Value};

/// The bytes of a chunk, parameter or cause, without padding at its end.
pub(crate) fn build(item: &Item, class: Class, numbers: &Numbers) -> Result<Vec<u8>, Why> {
    let layout = layout::layout(item, class)?;
    let code = layout::code(item, layout)?.unwrap_or_default();
    let declared = layout::length(item)?;
    let mut body = match learnt(layout, item, numbers) {
        Some(body) => body.clone(),
        None => body(item, layout, declared, numbers)?,
    };
    let own = declared.filter(|_| learnt(layout, item, numbers).is_none());
    let length = own.map_or(body.len() + 4, usize::from);
    let length = u16::try_from(length).map_err(|_| too_large())?;
    let [high, low] = code.to_be_bytes();
    let second = if class == Class::Chunk {
        [low, layout::flags(item, layout)?.unwrap_or_default()]
    } else {
        [high, low]
    };
    let mut bytes = [second, length.to_be_bytes()].concat();
    bytes.append(&mut body);
    Ok(bytes)
}

fn too_large() -> Why {
    Why::syntax("a chunk is larger than its Length can say")
}

/// `val=...` of a COOKIE ECHO or HEARTBEAT ACK is what the stack gave to be sent back.
fn learnt<'a>(layout: &Layout, item: &Item, numbers: &'a Numbers) -> Option<&'a Vec<u8>> {
    let is_any = |item: &Item| matches!(item.get("val"), None | Some(Value::Any));
    match layout.name {
        "COOKIE_ECHO" if is_any(item) => numbers.cookie.as_ref(),
        "HEARTBEAT_ACK" if item.items().next().is_some_and(is_any) => numbers.heartbeat.as_ref(),
        _ => None,
    }
}

fn body(
    item: &Item,
    layout: &Layout,
    declared: Option<u16>,
    numbers: &Numbers,
) -> Result<Vec<u8>, Why> {
    let mut body = Vec::new();
    for piece in layout.pieces {
        let missing = |key: &str| {
            Why::syntax(format!("'{key}' of {} must be given in an inbound packet", layout.name))
        };
        let fill = usize::from(declared.unwrap_or(0)).saturating_sub(4 + body.len());
        match *piece {
            Piece::Number(key, _) if optional(layout, key) && item.get(key).is_none() => {}
            Piece::Number(key, width) => {
                let value = item.get(key).ok_or_else(|| missing(key))?;
                let number = values::number(key, value, width.0)?.ok_or_else(|| missing(key))?;
                push(&mut body, numbers.to_live(number, width.1), width.0);
            }
            Piece::Either(one, other) => {
                let (key, value) = either(item, one, other).ok_or_else(|| missing(one))?;
                let number = values::number(key, value, 4)?.ok_or_else(|| missing(key))?;
                push(&mut body, number, 4);
            }
            Piece::Reserved(width) => push(&mut body, 0, width),
            Piece::Count(key, width) => {
                let count = match item.get(key) {
                    Some(Value::List(list)) if list.as_slice() != [Value::Any] => list.len(),
                    _ => 0,
                };
                push(&mut body, u32::try_from(count).map_err(|_| too_large())?, width);
            }
            Piece::List(key, element) | Piece::Set(key, element) => {
                for parts in values::list(item, key, element)?.unwrap_or_default() {
                    for (part, width) in parts.into_iter().zip(element) {
                        push(&mut body, numbers.to_live(part, width.1), width.0);
                    }
                }
            }
            Piece::Types(key, width) => {
                for number in values::types(item, key, width)?.ok_or_else(|| missing(key))? {
                    push(&mut body, number, width);
                }
            }
            Piece::Address(key) => {
                body.extend(values::address(item, key)?.ok_or_else(|| missing(key))?);
            }
            Piece::Bytes(key) => {
                body.extend(values::bytes(item, key)?.unwrap_or_else(|| vec![0; fill]));
            }
            Piece::Payload => body.resize(body.len() + fill, 0),
            Piece::Items(class) => extend(&mut body, item.items(), class, numbers)?,
            Piece::Unordered => extend(&mut body, item.items(), Class::Parameter, numbers)?,
            Piece::Under(key, class) => {
                let items = values::under(item, key)?.ok_or_else(|| missing(key))?;
                extend(&mut body, items, class, numbers)?;
            }
        }
    }
    Ok(body)
}

/// Appends items. The padding of the last one is not part of what holds it (RFC 9260 section 3.2).
fn extend<'a>(
    body: &mut Vec<u8>,
    items: impl IntoIterator<Item = &'a Item>,
    class: Class,
    numbers: &Numbers,
) -> Result<(), Why> {
    for item in items {
        body.resize(body.len().next_multiple_of(4), 0);
        body.extend(build(item, class, numbers)?);
    }
    Ok(())
}

/// Fields that may be left out (RFC 6525 section 4.4).
pub(super) fn optional(layout: &Layout, key: &str) -> bool {
    layout.name == "RECONFIG_RESPONSE" && key.ends_with("_next_tsn")
}

/// Which of the two keys the item has.
pub(super) fn either<'a>(
    item: &'a Item,
    one: &'static str,
    other: &'static str,
) -> Option<(&'static str, &'a Value)> {
    let first = item.get(one).map(|value| (one, value));
    first.or_else(|| item.get(other).map(|value| (other, value)))
}

fn push(bytes: &mut Vec<u8>, number: u32, width: usize) {
    bytes.extend_from_slice(&number.to_be_bytes()[4 - width.min(4)..]);
}
