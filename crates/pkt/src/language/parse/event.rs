//! Time stamps and what follows them.

use super::call::call;
use super::cursor::Cursor;
use super::packet::packet;
use crate::language::ast::{Action, Direction, Event, When};
use crate::language::error::Stop;
use crate::language::token::Token;
use std::time::Duration;

/// The longest time that passes: a script must come to an end.
const LONGEST: Duration = Duration::from_secs(86_400);

/// One event.
pub(super) fn event(cursor: &mut Cursor<'_>) -> Result<Event, Stop> {
    let line = cursor.line();
    let when = when(cursor)?;
    let action = action(cursor)?;
    let outbound = matches!(&action, Action::Packet(p) if p.direction == Direction::Outbound);
    match when {
        When::Any | When::Between(..) | When::AfterBetween(..) if !outbound => {
            Err(cursor.error("'*' and ranges of time are for outbound packets only"))
        }
        When::Between(from, to) | When::AfterBetween(from, to) if to < from => {
            Err(cursor.error("the range of time is backwards"))
        }
        When::At(_) | When::After(_) | When::Any | When::Between(..) | When::AfterBetween(..) => {
            Ok(Event { line, when, action })
        }
    }
}

/// A command before the first event.
pub(super) fn initial_command(cursor: &mut Cursor<'_>) -> Result<Event, Stop> {
    let line = cursor.line();
    Ok(Event { line, when: When::After(Duration::ZERO), action: action(cursor)? })
}

fn when(cursor: &mut Cursor<'_>) -> Result<When, Stop> {
    if cursor.skip_sign('*') {
        return Ok(When::Any);
    }
    let relative = cursor.skip_sign('+');
    let from = time(cursor)?;
    if !cursor.skip_sign('~') {
        return Ok(if relative { When::After(from) } else { When::At(from) });
    }
    if relative {
        cursor.sign('+')?;
        return Ok(When::AfterBetween(from, time(cursor)?));
    }
    Ok(When::Between(from, time(cursor)?))
}

/// Seconds.
pub(super) fn time(cursor: &mut Cursor<'_>) -> Result<Duration, Stop> {
    let seconds = match cursor.take()? {
        #[allow(clippy::cast_precision_loss, reason = "scripts do not last for millions of years")]
        Token::Int(seconds) => *seconds as f64,
        Token::Float(seconds) => *seconds,
        other => return Err(cursor.unexpected("a time", other)),
    };
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if time <= LONGEST => Ok(time),
        Ok(_) => Err(cursor.gap("scripts last a day at most")),
        Err(_) => Err(cursor.error(format!("{seconds} is no time"))),
    }
}

fn action(cursor: &mut Cursor<'_>) -> Result<Action, Stop> {
    match cursor.peek() {
        Some(Token::Sign('<')) => {
            cursor.next();
            packet(cursor, Direction::Inbound).map(Action::Packet)
        }
        Some(Token::Sign('>')) => {
            cursor.next();
            packet(cursor, Direction::Outbound).map(Action::Packet)
        }
        Some(Token::Command(command)) => {
            cursor.next();
            Ok(Action::Command(command.clone()))
        }
        Some(Token::Code) => {
            cursor.next();
            Ok(Action::Code)
        }
        Some(Token::Word(_) | Token::Ellipsis) => call(cursor).map(Action::Call),
        Some(other) => Err(cursor.error(format!("expected a packet or a call, found {other}"))),
        None => Err(cursor.error("the script ends after a time stamp")),
    }
}
