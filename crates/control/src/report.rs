//! Long replies in parts.
//!
//! A status report is one JSON text of any length. [`parts`] cuts it so that each piece fits a
//! packet, [`Assembler`] joins the pieces.

use crate::error::ControlError;
use crate::message::StatusPart;
use serde::Serialize;

/// Bytes of report text per part. JSON text holds no raw control characters, so quoting it once
/// more at most doubles it: a part stays below [`crate::MAX_PACKET`].
const PART: usize = 28 * 1024;

/// A report that grows beyond this is not ours.
const MAX_REPORT: usize = 64 * 1024 * 1024;

/// Cuts a report into parts, to be sent in this order.
///
/// # Errors
/// [`ControlError::Malformed`] when the report cannot be written as JSON.
pub fn parts<T: Serialize>(report: &T) -> Result<Vec<StatusPart>, ControlError> {
    let text = serde_json::to_string(report).map_err(|e| ControlError::Malformed(e.to_string()))?;
    let mut pieces = Vec::new();
    let mut rest = text.as_str();
    loop {
        let (piece, tail) = rest.split_at(character_boundary(rest, PART));
        let index = pieces.len() as u32;
        pieces.push(StatusPart { index, last: tail.is_empty(), text: piece.to_owned() });
        if tail.is_empty() {
            return Ok(pieces);
        }
        rest = tail;
    }
}

/// Joins the parts of one report.
#[derive(Debug, Default)]
pub struct Assembler {
    text: String,
    next: u32,
}

impl Assembler {
    /// Adds the next part; returns the whole text after the last one.
    ///
    /// # Errors
    /// [`ControlError::Unexpected`] when a part is missing or the report has no end.
    pub fn add(&mut self, part: StatusPart) -> Result<Option<String>, ControlError> {
        if part.index != self.next {
            return Err(ControlError::Unexpected("status part out of order"));
        }
        if self.text.len() + part.text.len() > MAX_REPORT {
            return Err(ControlError::Unexpected("status report without end"));
        }
        self.next += 1;
        self.text.push_str(&part.text);
        Ok(part.last.then(|| std::mem::take(&mut self.text)))
    }
}

/// The largest character boundary in `text` that is not above `limit`.
fn character_boundary(text: &str, limit: usize) -> usize {
    let limit = limit.min(text.len());
    (0..=limit).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}
