//! Values: the arguments of calls and the contents of chunks.

use super::cursor::Cursor;
use crate::language::ast::{Arg, Item, Value};
use crate::language::error::Stop;
use crate::language::token::Token;

/// One value; `a | b` included.
pub(super) fn value(cursor: &mut Cursor<'_>) -> Result<Value, Stop> {
    let first = cursor.nested(single)?;
    if !cursor.is_sign('|') {
        return Ok(first);
    }
    let mut parts = vec![first];
    while cursor.skip_sign('|') {
        parts.push(cursor.nested(single)?);
    }
    Ok(Value::Or(parts))
}

/// Values with commas between them, up to `close`.
pub(super) fn values(cursor: &mut Cursor<'_>, close: char) -> Result<Vec<Value>, Stop> {
    separated(cursor, close, value)
}

/// What stands in the brackets of an item or in the braces of a structure, up to `close`.
pub(super) fn args(cursor: &mut Cursor<'_>, close: char) -> Result<Vec<Arg>, Stop> {
    separated(cursor, close, arg)
}

fn separated<T>(
    cursor: &mut Cursor<'_>,
    close: char,
    one: impl Fn(&mut Cursor<'_>) -> Result<T, Stop>,
) -> Result<Vec<T>, Stop> {
    let mut list = Vec::new();
    if cursor.skip_sign(close) {
        return Ok(list);
    }
    loop {
        list.push(one(cursor)?);
        if !cursor.skip_sign(',') {
            cursor.sign(close)?;
            return Ok(list);
        }
    }
}

fn single(cursor: &mut Cursor<'_>) -> Result<Value, Stop> {
    match cursor.take()? {
        Token::Ellipsis => Ok(Value::Any),
        Token::Int(first) if cursor.skip_sign(':') => {
            Ok(Value::Pair(*first, cursor.number("the end of a block")?))
        }
        Token::Int(number) => Ok(Value::Int(*number)),
        Token::Ip(address) => Ok(Value::Ip(*address)),
        Token::Text(text) => {
            // `"abc"...`: text that was cut.
            if matches!(cursor.peek(), Some(Token::Ellipsis)) {
                cursor.next();
            }
            Ok(Value::Text(text.clone()))
        }
        Token::Sign('[') => Ok(Value::List(values(cursor, ']')?)),
        Token::Sign('{') => Ok(Value::Struct(args(cursor, '}')?)),
        Token::Word(word) => named(cursor, word),
        other => Err(cursor.unexpected("a value", other)),
    }
}

fn named(cursor: &mut Cursor<'_>, word: &str) -> Result<Value, Stop> {
    if cursor.skip_sign('(') {
        return Ok(Value::Call(word.into(), values(cursor, ')')?));
    }
    if cursor.skip_sign('[') {
        let args = args(cursor, ']')?;
        return Ok(Value::Item(Item { name: word.into(), args }));
    }
    Ok(Value::Word(word.into()))
}

/// `key=value`, `key(length)=value` or a value alone.
fn arg(cursor: &mut Cursor<'_>) -> Result<Arg, Stop> {
    let key = match (cursor.peek(), cursor.peek_at(1)) {
        (Some(Token::Word(word)), Some(Token::Sign('='))) => {
            cursor.next();
            word
        }
        (Some(Token::Word(word)), Some(Token::Sign('('))) if word.starts_with("msg_") => {
            cursor.next();
            cursor.sign('(')?;
            values(cursor, ')')?;
            word
        }
        _ => return value(cursor).map(Arg::Bare),
    };
    cursor.sign('=')?;
    Ok(Arg::Named(key.clone(), value(cursor)?))
}
