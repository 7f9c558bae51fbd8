//! Whether what the stack sent is what the script expects.

use super::build::{either, optional};
use super::layout::{self, Class, Layout, Piece, Width};
use super::numbers::Numbers;
use super::reader::{Fields, Tlvs};
use super::values;
use crate::language::Why;
use crate::language::ast::{Item, Value};
use std::collections::BTreeSet;
use std::fmt::Debug;

/// Compares one chunk, parameter or cause, without padding.
pub(crate) fn check(item: &Item, class: Class, bytes: &[u8], numbers: &Numbers) -> Result<(), Why> {
    let layout = layout::layout(item, class)?;
    let (found_code, found_flags) = header(class, bytes);
    if let Some(code) = layout::code(item, layout)? {
        same(layout.name, "type", code, found_code)?;
    }
    if class == Class::Chunk
        && let Some(flags) = layout::flags(item, layout)?
    {
        same(layout.name, "flags", flags, found_flags)?;
    }
    if let Some(length) = layout::length(item)? {
        same(layout.name, "length", usize::from(length), bytes.len())?;
    }
    let body = Body { item, layout, numbers };
    let mut fields = Fields(&bytes[4..]);
    let mut counts = Vec::new();
    for piece in layout.pieces {
        body.piece(piece, &mut fields, &mut counts)?;
    }
    if fields.0.is_empty() {
        Ok(())
    } else {
        Err(Why::mismatch(format!("{}: {} bytes too many", layout.name, fields.0.len())))
    }
}

/// Type and flags of what `bytes` holds.
fn header(class: Class, bytes: &[u8]) -> (u16, u8) {
    match class {
        Class::Chunk => (u16::from(bytes[0]), bytes[1]),
        Class::Parameter | Class::Cause => (u16::from_be_bytes([bytes[0], bytes[1]]), 0),
    }
}

fn same<T: PartialEq + Debug>(name: &str, field: &str, expected: T, found: T) -> Result<(), Why> {
    if expected == found {
        return Ok(());
    }
    Err(Why::mismatch(format!("{name}: {field} is {found:?} and not {expected:?}")))
}

#[derive(Clone, Copy)]
struct Body<'a> {
    item: &'a Item,
    layout: &'a Layout,
    numbers: &'a Numbers,
}

impl Body<'_> {
    fn piece(
        &self,
        piece: &Piece,
        fields: &mut Fields<'_>,
        counts: &mut Vec<(&'static str, u32)>,
    ) -> Result<(), Why> {
        let short = |text: String| Why::mismatch(format!("{}: {text}", self.layout.name));
        match *piece {
            Piece::Number(key, _) if optional(self.layout, key) && self.item.get(key).is_none() => {
            }
            Piece::Number(key, width) => {
                let found = fields.number(width.0).map_err(short)?;
                let value = self.item.get(key).unwrap_or(&Value::Any);
                self.number(key, value, width, found)?;
            }
            Piece::Either(one, other) => {
                let found = fields.number(4).map_err(short)?;
                let (key, value) = either(self.item, one, other).unwrap_or((one, &Value::Any));
                self.number(key, value, layout::plain(4), found)?;
            }
            Piece::Reserved(width) => {
                same(self.layout.name, "reserved", 0, fields.number(width).map_err(short)?)?;
            }
            Piece::Count(key, width) => counts.push((key, fields.number(width).map_err(short)?)),
            Piece::List(key, element) => {
                let count = counts.iter().find(|(counted, _)| *counted == key);
                let found = self.elements(element, count.map(|(_, count)| *count), fields)?;
                if let Some(expected) = values::list(self.item, key, element)? {
                    same(self.layout.name, key, expected, found)?;
                }
            }
            Piece::Set(key, element) => {
                let found = BTreeSet::from_iter(self.elements(element, None, fields)?);
                if let Some(expected) = values::list(self.item, key, element)? {
                    same(self.layout.name, key, BTreeSet::from_iter(expected), found)?;
                }
            }
            Piece::Types(key, width) => self.types(key, width, fields.rest())?,
            Piece::Address(key) => {
                self.bytes(key, values::address(self.item, key)?, fields.rest())?;
            }
            Piece::Bytes(key) => self.bytes(key, values::bytes(self.item, key)?, fields.rest())?,
            Piece::Payload => _ = fields.rest(),
            Piece::Items(class) => {
                let expected: Vec<_> = self.item.items().collect();
                let expected = (!self.item.is_open()).then_some(expected);
                self.in_order(expected, class, fields.rest())?;
            }
            Piece::Unordered => self.in_any_order(fields.rest())?,
            // What is reported was the peer's: its numbers are the other way round.
            Piece::Under(key, class) => {
                let body = Body { numbers: &self.numbers.turned(), ..*self };
                body.in_order(values::under(self.item, key)?, class, fields.rest())?;
            }
        }
        Ok(())
    }

    fn number(&self, key: &str, value: &Value, width: Width, found: u32) -> Result<(), Why> {
        match values::number(key, value, width.0)? {
            Some(expected) => {
                same(self.layout.name, key, expected, self.numbers.to_script(found, width.1))
            }
            None => Ok(()),
        }
    }

    /// The elements of a list: so many, or all to the end.
    fn elements(
        &self,
        element: &[Width],
        count: Option<u32>,
        fields: &mut Fields<'_>,
    ) -> Result<Vec<Vec<u32>>, Why> {
        let size: usize = element.iter().map(|width| width.0).sum();
        let count = count.map_or(fields.0.len() / size, |count| count as usize);
        let short = |text: String| Why::mismatch(format!("{}: {text}", self.layout.name));
        let mut found = Vec::new();
        for _ in 0..count {
            let mut parts = Vec::new();
            for width in element {
                let number = fields.number(width.0).map_err(short)?;
                parts.push(self.numbers.to_script(number, width.1));
            }
            found.push(parts);
        }
        Ok(found)
    }

    /// The order of types has no meaning.
    fn types(&self, key: &str, width: usize, bytes: &[u8]) -> Result<(), Why> {
        let Some(mut expected) = values::types(self.item, key, width)? else { return Ok(()) };
        let number = |bytes: &[u8]| bytes.iter().fold(0, |all, byte| all << 8 | u32::from(*byte));
        let mut found: Vec<_> = bytes.chunks(width).map(number).collect();
        expected.sort_unstable();
        found.sort_unstable();
        same(self.layout.name, key, expected, found)
    }

    fn bytes(&self, key: &str, expected: Option<Vec<u8>>, found: &[u8]) -> Result<(), Why> {
        match expected {
            Some(expected) => same(self.layout.name, key, expected.as_slice(), found),
            None => Ok(()),
        }
    }

    fn in_order(
        &self,
        expected: Option<Vec<&Item>>,
        class: Class,
        bytes: &[u8],
    ) -> Result<(), Why> {
        let Some(expected) = expected else { return Ok(()) };
        let found = Tlvs(bytes).collect::<Result<Vec<_>, _>>().map_err(Why::mismatch)?;
        for (item, bytes) in expected.iter().zip(&found) {
            check(item, class, bytes, self.numbers)?;
        }
        same(self.layout.name, "number of items", expected.len(), found.len())
    }

    /// RFC 9260 gives the parameters of INIT and INIT ACK no order.
    fn in_any_order(&self, bytes: &[u8]) -> Result<(), Why> {
        if self.item.is_open() {
            return Ok(());
        }
        let name = self.layout.name;
        let mut expected: Vec<_> = self.item.items().collect();
        for found in Tlvs(bytes) {
            let found = found.map_err(Why::mismatch)?;
            let (code, _) = header(Class::Parameter, found);
            let fits = |item: &&Item| check(item, Class::Parameter, found, self.numbers).is_ok();
            let Some(at) = expected.iter().position(fits) else {
                let text =
                    format!("{name}: parameter 0x{code:04x} {:02x?} is not expected", &found[4..]);
                return Err(Why::mismatch(text));
            };
            expected.remove(at);
        }
        match expected.first() {
            Some(missing) => {
                Err(Why::mismatch(format!("{name}: parameter {} is missing", missing.name)))
            }
            None => Ok(()),
        }
    }
}
