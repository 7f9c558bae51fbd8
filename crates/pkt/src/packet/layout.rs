//! How chunks, parameters and causes are described.

use super::{chunks, tlvs, values};
use crate::language::Why;
use crate::language::ast::{Item, Value};

/// What kind of thing an item is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    /// Type, flags, length.
    Chunk,
    /// Type, length.
    Parameter,
    /// Cause code, length.
    Cause,
}

/// Whose numbers a field holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Space {
    /// None: a plain number.
    Plain,
    /// An initiate tag of the sender of the packet.
    Tag,
    /// A TSN of the sender of the packet.
    Sent,
    /// A TSN of the receiver of the packet.
    Acked,
}

/// A number of some bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Width(pub usize, pub Space);

/// What follows the header of an item, piece by piece.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Piece {
    /// The number `key`.
    Number(&'static str, Width),
    /// One of two numbers of four bytes.
    Either(&'static str, &'static str),
    /// Bytes that are zero.
    Reserved(usize),
    /// How many elements the list `key` has, in so many bytes.
    Count(&'static str, usize),
    /// The list `key`, each element made of these numbers.
    List(&'static str, &'static [Width]),
    /// The list `key`, to the end, whose order and repetitions have no meaning.
    Set(&'static str, &'static [Width]),
    /// The list `key` of numbers or names of types, whose order has no meaning.
    Types(&'static str, usize),
    /// The address `key`.
    Address(&'static str),
    /// Text or bytes, to the end.
    Bytes(&'static str),
    /// User data, to the end: never looked at.
    Payload,
    /// Items without a key, to the end. Their order has a meaning.
    Items(Class),
    /// Parameters without a key, to the end, in any order.
    Unordered,
    /// The item or the list of items `key`, to the end.
    Under(&'static str, Class),
}

/// A number without a meaning beyond itself.
pub(crate) const fn plain(bytes: usize) -> Width {
    Width(bytes, Space::Plain)
}

/// How one kind of item looks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Name in scripts.
    pub name: &'static str,
    /// Type or cause code. None: the script says it.
    pub code: Option<u16>,
    /// Letters for bits of the flags.
    pub flags: &'static [(char, u8)],
    /// The rest.
    pub pieces: &'static [Piece],
}

/// The layout of the item.
pub(crate) fn layout(item: &Item, class: Class) -> Result<&'static Layout, Why> {
    let (table, what) = match class {
        Class::Chunk => (chunks::CHUNKS, "chunk"),
        Class::Parameter => (tlvs::PARAMETERS, "parameter"),
        Class::Cause => (tlvs::CAUSES, "error cause"),
    };
    let name = item.name.replace('-', "_");
    let found = table.iter().find(|layout| layout.name == name);
    found.ok_or_else(|| Why::syntax(format!("{what} '{name}' is not known")))
}

/// Type or cause code of the item; none if any will do.
pub(crate) fn code(item: &Item, layout: &Layout) -> Result<Option<u16>, Why> {
    if layout.code.is_some() {
        return Ok(layout.code);
    }
    match item.get("type").or(item.get("code")) {
        Some(Value::Int(code)) => u16::try_from(*code)
            .map(Some)
            .map_err(|_| Why::syntax(format!("type {code} is out of range"))),
        Some(Value::Any) => Ok(None),
        // A type may be written as the name of the chunk that has it.
        Some(Value::Word(name)) => values::type_by_name(name).map(|code| u16::try_from(code).ok()),
        _ => Err(Why::syntax(format!("{} needs its type", layout.name))),
    }
}

/// The flags of a chunk; none if any will do.
pub(crate) fn flags(item: &Item, layout: &Layout) -> Result<Option<u8>, Why> {
    let bad = || Why::syntax(format!("bad flags of {}", layout.name));
    match item.get("flgs") {
        None | Some(Value::Any) => Ok(None),
        Some(Value::Int(flags)) => u8::try_from(*flags).map(Some).map_err(|_| bad()),
        Some(Value::Word(letters)) => {
            let bit = |letter| layout.flags.iter().find(|(known, _)| *known == letter);
            let bits = letters.chars().map(|letter| bit(letter).map(|(_, bit)| *bit));
            let flags = bits.collect::<Option<Vec<_>>>().ok_or_else(bad)?;
            Ok(Some(flags.into_iter().fold(0, |all, bit| all | bit)))
        }
        Some(_) => Err(bad()),
    }
}

/// The Length field that the script asks for; none if it does not say.
pub(crate) fn length(item: &Item) -> Result<Option<u16>, Why> {
    match item.get("len") {
        None | Some(Value::Any) => Ok(None),
        Some(Value::Int(len)) => u16::try_from(*len)
            .map(Some)
            .map_err(|_| Why::syntax(format!("length {len} is out of range"))),
        Some(_) => Err(Why::syntax("the length must be a number")),
    }
}
