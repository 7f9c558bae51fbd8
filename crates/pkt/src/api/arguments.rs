//! What a script passes to a call.

use super::constants::constant;
use crate::language::Why;
use crate::language::ast::{Arg, Call, Value, get};

/// The arguments of a call.
pub(crate) struct Arguments<'a>(pub &'a Call);

impl<'a> Arguments<'a> {
    /// The argument at `index`.
    pub(crate) fn value(&self, index: usize) -> Result<&'a Value, Why> {
        let missing = || Why::syntax(format!("{} needs more arguments", self.0.name));
        self.0.args.get(index).ok_or_else(missing)
    }

    /// The number at `index`.
    pub(crate) fn int(&self, index: usize) -> Result<i64, Why> {
        int(self.value(index)?)
    }

    /// The number at `index` as a length.
    pub(crate) fn len(&self, index: usize) -> Result<usize, Why> {
        let len = self.int(index)?;
        usize::try_from(len).map_err(|_| Why::syntax(format!("{len} is no length")))
    }

    /// The name at `index`.
    pub(crate) fn name(&self, index: usize) -> Result<&'a str, Why> {
        match self.value(index)? {
            Value::Word(name) => Ok(name),
            _ => Err(Why::syntax(format!(
                "argument {} of {} must be a name",
                index + 1,
                self.0.name
            ))),
        }
    }
}

/// A value as a number: names and their combinations, and what htonl and htons make of numbers on a
/// little-endian machine.
pub(crate) fn int(value: &Value) -> Result<i64, Why> {
    match value {
        Value::Int(number) => Ok(*number),
        Value::Word(name) => {
            constant(name).ok_or_else(|| Why::gap(format!("'{name}' is not known")))
        }
        Value::Or(parts) => parts.iter().try_fold(0, |all, part| Ok(all | int(part)?)),
        Value::Call(name, args) if name == "htonl" => {
            let number = u32::try_from(argument(name, args)?);
            let number = number.map_err(|_| Why::syntax("htonl takes 32 bits"))?;
            Ok(i64::from(number.swap_bytes()))
        }
        Value::Call(name, args) if name == "htons" => {
            let number = u16::try_from(argument(name, args)?);
            let number = number.map_err(|_| Why::syntax("htons takes 16 bits"))?;
            Ok(i64::from(number.swap_bytes()))
        }
        Value::List(list) if list.len() == 1 => int(&list[0]),
        _ => Err(Why::syntax("expected a number")),
    }
}

fn argument(name: &str, args: &[Value]) -> Result<i64, Why> {
    args.first().map_or_else(|| Err(Why::syntax(format!("{name} needs a number"))), int)
}

/// The fields of a structure.
pub(crate) fn fields(value: &Value) -> Result<&[Arg], Why> {
    match value {
        Value::Struct(fields) => Ok(fields),
        _ => Err(Why::syntax("expected a structure")),
    }
}

/// The number in the field `key`; none if it is absent or `...`.
pub(crate) fn field(fields: &[Arg], key: &str) -> Result<Option<i64>, Why> {
    match get(fields, key) {
        None | Some(Value::Any) => Ok(None),
        Some(value) => int(value).map(Some),
    }
}
