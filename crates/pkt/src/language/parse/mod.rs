//! Recursive descent from tokens to a script: one file per part of the grammar.

mod call;
mod cursor;
mod event;
mod packet;
mod value;

use super::ast::Script;
use super::error::Stop;
use super::lexer;
use super::token::Token;
use cursor::Cursor;
use std::collections::BTreeMap;

/// The script in `text`. `defines` are the names that `#ifdef` finds and words that stand for others.
pub(crate) fn parse(text: &str, defines: &BTreeMap<String, String>) -> Result<Script, Stop> {
    let tokens = lexer::tokens(text, defines)?;
    let mut script = Script::default();
    let mut cursor = Cursor::new(&tokens);
    while let Some(Token::Option(name)) = cursor.peek() {
        cursor.next();
        let value = if cursor.skip_sign('=') { Some(option_value(&mut cursor)?) } else { None };
        script.options.push((name.clone(), value));
    }
    if matches!(cursor.peek(), Some(Token::Command(_))) {
        script.events.push(event::initial_command(&mut cursor)?);
    }
    while cursor.peek().is_some() {
        // A command at the end cleans up.
        if matches!(cursor.peek(), Some(Token::Command(_))) {
            cursor.next();
            continue;
        }
        script.events.push(event::event(&mut cursor)?);
    }
    Ok(script)
}

/// The value of an option, as text. `--define=NAME=VALUE` has two parts.
fn option_value(cursor: &mut Cursor<'_>) -> Result<String, Stop> {
    let mut value = option_part(cursor)?;
    if cursor.skip_sign('=') {
        value = format!("{value}={}", option_part(cursor)?);
    }
    Ok(value)
}

fn option_part(cursor: &mut Cursor<'_>) -> Result<String, Stop> {
    match cursor.take()? {
        Token::Word(text) | Token::Text(text) | Token::Command(text) => Ok(text.clone()),
        Token::Int(number) => Ok(number.to_string()),
        Token::Float(number) => Ok(number.to_string()),
        Token::Ip(address) => Ok(address.to_string()),
        other @ (Token::Option(_) | Token::Code | Token::Ellipsis | Token::Sign(_)) => {
            Err(cursor.unexpected("the value of an option", other))
        }
    }
}

#[cfg(test)]
mod tests;
