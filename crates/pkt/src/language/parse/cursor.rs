//! A position in the tokens.

use crate::language::error::{Stop, Why};
use crate::language::token::Token;

/// Deepest nesting of brackets and braces: a script must not exhaust the stack.
const MAX_DEPTH: usize = 64;

/// A position in the tokens.
pub(super) struct Cursor<'a> {
    tokens: &'a [(usize, Token)],
    at: usize,
    depth: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(tokens: &'a [(usize, Token)]) -> Self {
        Self { tokens, at: 0, depth: 0 }
    }

    /// The next token, not yet taken.
    pub(super) fn peek(&self) -> Option<&'a Token> {
        self.peek_at(0)
    }

    /// The token after `distance` others.
    pub(super) fn peek_at(&self, distance: usize) -> Option<&'a Token> {
        self.tokens.get(self.at + distance).map(|(_, token)| token)
    }

    /// The line of the next token, or of the last one of all.
    pub(super) fn line(&self) -> usize {
        let token = self.tokens.get(self.at).or(self.tokens.last());
        token.map_or(1, |(line, _)| *line)
    }

    /// Goes on by one token.
    pub(super) fn next(&mut self) {
        self.at += 1;
    }

    /// The next token, taken. The end of the script is an error.
    pub(super) fn take(&mut self) -> Result<&'a Token, Stop> {
        let token = self.peek().ok_or_else(|| self.error("the script ends too early"))?;
        self.next();
        Ok(token)
    }

    /// Whether the next token is `sign`.
    pub(super) fn is_sign(&self, sign: char) -> bool {
        self.peek() == Some(&Token::Sign(sign))
    }

    /// Takes `sign` if it is next.
    pub(super) fn skip_sign(&mut self, sign: char) -> bool {
        let found = self.is_sign(sign);
        self.at += usize::from(found);
        found
    }

    /// Takes `sign`, which must be next.
    pub(super) fn sign(&mut self, sign: char) -> Result<(), Stop> {
        match self.peek() {
            Some(Token::Sign(found)) if *found == sign => {
                self.next();
                Ok(())
            }
            Some(other) => Err(self.error(format!("expected '{sign}', found {other}"))),
            None => Err(self.error(format!("expected '{sign}', found the end"))),
        }
    }

    /// Takes `word` if it is next.
    pub(super) fn skip_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Word(found)) if found == word);
        self.at += usize::from(found);
        found
    }

    /// Takes a name, which must be next.
    pub(super) fn word(&mut self, what: &str) -> Result<&'a str, Stop> {
        match self.take()? {
            Token::Word(word) => Ok(word),
            other => Err(self.unexpected(what, other)),
        }
    }

    /// Takes a number that fits `T`, which must be next.
    pub(super) fn number<T: TryFrom<i64>>(&mut self, what: &str) -> Result<T, Stop> {
        match self.take()? {
            Token::Int(number) => T::try_from(*number)
                .map_err(|_| self.before(format!("{what} is out of range: {number}"))),
            other => Err(self.unexpected(what, other)),
        }
    }

    /// Runs `parse` one level deeper.
    pub(super) fn nested<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error("too many brackets inside each other"));
        }
        let result = parse(self);
        self.depth -= 1;
        result
    }

    /// A syntax error here.
    pub(super) fn error(&self, text: impl Into<String>) -> Stop {
        Why::syntax(text).at(self.line())
    }

    /// Something at this place that the runner cannot do.
    pub(super) fn gap(&self, text: impl Into<String>) -> Stop {
        Why::gap(text).at(self.line())
    }

    /// The error that `found`, the token taken last, is not `what`.
    pub(super) fn unexpected(&self, what: &str, found: &Token) -> Stop {
        self.before(format!("expected {what}, found {found}"))
    }

    fn before(&self, text: String) -> Stop {
        let (line, _) = self.tokens[self.at - 1];
        Why::syntax(text).at(line)
    }
}
