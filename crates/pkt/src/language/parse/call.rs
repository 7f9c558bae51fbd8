//! Calls of the socket API: `name(arguments) = result ERRNO (note)`.

use super::cursor::Cursor;
use super::event::time;
use super::value::{value, values};
use crate::language::ast::Call;
use crate::language::error::Stop;
use crate::language::token::Token;

/// One call.
pub(super) fn call(cursor: &mut Cursor<'_>) -> Result<Call, Stop> {
    let end = match cursor.peek() {
        Some(Token::Ellipsis) => {
            cursor.next();
            Some(time(cursor)?)
        }
        _ => None,
    };
    let name = cursor.word("the name of a call")?.to_string();
    cursor.sign('(')?;
    let args = values(cursor, ')')?;
    cursor.sign('=')?;
    let result = value(cursor)?;
    let errno = match cursor.peek() {
        Some(Token::Word(errno)) => {
            cursor.next();
            Some(errno.clone())
        }
        _ => None,
    };
    note(cursor)?;
    Ok(Call { name, args, result, errno, end })
}

/// Words in parentheses, for readers only.
fn note(cursor: &mut Cursor<'_>) -> Result<(), Stop> {
    if cursor.skip_sign('(') {
        while !cursor.skip_sign(')') {
            cursor.take()?;
        }
    }
    Ok(())
}
