//! From text to tokens. Comments and what `#ifdef` leaves out are gone after this step.

use super::error::{Stop, Why};
use super::token::Token;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

/// The tokens of `text` with their lines. Words in `defines` are replaced.
pub(crate) fn tokens(
    text: &str,
    defines: &BTreeMap<String, String>,
) -> Result<Vec<(usize, Token)>, Stop> {
    let mut lexer = Lexer { rest: text, line: 1, condition: None, defines, tokens: Vec::new() };
    while !lexer.rest.is_empty() {
        lexer.step()?;
    }
    match lexer.condition {
        Some(line) => Err(Why::syntax("#ifdef without #endif").at(line)),
        None => Ok(lexer.tokens),
    }
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    /// The line of the #ifdef that is open.
    condition: Option<usize>,
    defines: &'a BTreeMap<String, String>,
    tokens: Vec<(usize, Token)>,
}

impl<'a> Lexer<'a> {
    fn step(&mut self) -> Result<(), Stop> {
        let rest = self.rest;
        if rest.starts_with(char::is_whitespace) {
            self.take(rest.len() - rest.trim_start().len());
        } else if rest.starts_with("//") {
            self.take(rest.find('\n').unwrap_or(rest.len()));
        } else if rest.starts_with("/*") {
            self.enclosed("/*", "*/")?;
        } else if let Some(after) = rest.strip_prefix("#ifdef") {
            self.open_condition(after)?;
        } else if rest.starts_with("#endif") {
            if self.condition.take().is_none() {
                return Err(Why::syntax("#endif without #ifdef").at(self.line));
            }
            self.take("#endif".len());
        } else {
            let line = self.line;
            let token = self.token()?;
            self.tokens.push((line, token));
        }
        Ok(())
    }

    /// Skips everything up to the #endif if the name is not defined.
    fn open_condition(&mut self, after: &'a str) -> Result<(), Stop> {
        let line = self.line;
        if self.condition.is_some() {
            return Err(Why::syntax("#ifdef inside #ifdef").at(line));
        }
        let name = word(after.trim_start());
        if name.is_empty() {
            return Err(Why::syntax("#ifdef without a name").at(line));
        }
        self.condition = Some(line);
        self.take(self.rest.len() - after.trim_start().len() + name.len());
        if !self.defines.contains_key(name) {
            let end = self.rest.find("#endif");
            let end = end.ok_or_else(|| Why::syntax("#ifdef without #endif").at(line))?;
            self.take(end);
        }
        Ok(())
    }

    fn token(&mut self) -> Result<Token, Stop> {
        let rest = self.rest;
        if rest.starts_with("...") {
            self.take(3);
            return Ok(Token::Ellipsis);
        }
        if rest.starts_with("%{") {
            return self.enclosed("%{", "}%").map(|_| Token::Code);
        }
        if rest.starts_with('"') {
            return self.quoted('"').map(Token::Text);
        }
        if rest.starts_with('`') {
            return self.quoted('`').map(Token::Command);
        }
        if let Some(name) = rest.strip_prefix("--").map(word).filter(|name| !name.is_empty()) {
            self.take(2 + name.len());
            return Ok(Token::Option(name.into()));
        }
        if let Some(address) = self.address() {
            return Ok(Token::Ip(address));
        }
        if let Some(number) = self.number()? {
            return Ok(number);
        }
        let name = word(rest);
        if !name.is_empty() {
            self.take(name.len());
            return Ok(self.defined(name));
        }
        let sign = rest.chars().next().unwrap_or('\0');
        self.take(sign.len_utf8());
        Ok(Token::Sign(sign))
    }

    /// What a user-defined word stands for, or the word itself.
    fn defined(&self, name: &str) -> Token {
        let Some(value) = self.defines.get(name) else { return Token::Word(name.into()) };
        let inner = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote).map(String::from);
        let number = match value.strip_prefix("0x") {
            Some(hex) => i64::from_str_radix(hex, 16).ok(),
            None => value.parse().ok(),
        };
        inner('"')
            .map(Token::Text)
            .or_else(|| inner('`').map(Token::Command))
            .or(number.map(Token::Int))
            .unwrap_or_else(|| Token::Word(value.clone()))
    }

    /// IPv4 with its three points; IPv6 only with `::` or all eight groups, because `1:2` is a gap.
    fn address(&mut self) -> Option<IpAddr> {
        let is_part = |c: char| c.is_ascii_hexdigit() || c == ':' || c == '.';
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let text = self.rest[..end].trim_end_matches('.');
        let address = if text.contains("::") || text.matches(':').count() >= 7 {
            text.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
        } else {
            text.parse::<std::net::Ipv4Addr>().ok().map(IpAddr::V4)
        };
        address.inspect(|_| self.take(text.len()))
    }

    /// A number, with a minus before it if there is one.
    fn number(&mut self) -> Result<Option<Token>, Stop> {
        let (negative, digits) = match self.rest.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, self.rest),
        };
        let sign_len = usize::from(negative);
        if let Some(hex) = digits.strip_prefix("0x") {
            let len = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
            let value = i64::from_str_radix(&hex[..len], 16);
            let value = value.map_err(|_| Why::syntax("bad hexadecimal number").at(self.line))?;
            self.take(sign_len + 2 + len);
            return Ok(Some(Token::Int(if negative { -value } else { value })));
        }
        let len = number_len(digits);
        let text = &self.rest[..sign_len + len];
        if len == 0 || text.ends_with('-') {
            return Ok(None);
        }
        let bad = || Why::syntax(format!("bad number '{text}'")).at(self.line);
        let token = if text.contains('.') {
            Token::Float(text.parse().map_err(|_| bad())?)
        } else {
            Token::Int(text.parse().map_err(|_| bad())?)
        };
        // A digit may begin a word, such as a hexadecimal key.
        if word(digits).len() > len {
            return Ok(None);
        }
        self.take(sign_len + len);
        Ok(Some(token))
    }

    fn quoted(&mut self, quote: char) -> Result<String, Stop> {
        let mut escaped = false;
        for (at, c) in self.rest.char_indices().skip(1) {
            if c == quote && !escaped {
                let text = self.rest[1..at].to_string();
                self.take(at + 1);
                return Ok(text);
            }
            escaped = c == '\\' && !escaped;
        }
        Err(Why::syntax(format!("{quote} is not closed")).at(self.line))
    }

    fn enclosed(&mut self, open: &str, close: &str) -> Result<(), Stop> {
        let end = self.rest[open.len()..].find(close);
        let end = end.ok_or_else(|| Why::syntax(format!("{open} is not closed")).at(self.line))?;
        self.take(open.len() + end + close.len());
        Ok(())
    }

    fn take(&mut self, len: usize) {
        let (taken, rest) = self.rest.split_at(len);
        self.line += taken.matches('\n').count();
        self.rest = rest;
    }
}

/// The word that `text` begins with. Chunk names may be written with the hyphen of the RFCs.
fn word(text: &str) -> &str {
    for name in ["I-DATA", "I-FORWARD_TSN", "voice-admit"] {
        if text.starts_with(name) {
            return &text[..name.len()];
        }
    }
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
    &text[..end]
}

/// Length of the digits and at most one point that `text` begins with. The points of `...` are
/// not part of a number.
fn number_len(text: &str) -> usize {
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let whole = digits(text);
    let Some(fraction) = text[whole..].strip_prefix('.') else { return whole };
    match digits(fraction) {
        0 => whole,
        len => whole + 1 + len,
    }
}

#[cfg(test)]
mod tests {
    use super::tokens;
    use crate::language::token::Token;
    use std::collections::BTreeMap;

    fn lex(text: &str) -> Vec<Token> {
        let defines = BTreeMap::from([("FreeBSD".into(), "1".into()), ("TEN".into(), "10".into())]);
        tokens(text, &defines).unwrap().into_iter().map(|(_, token)| token).collect()
    }

    #[test]
    fn numbers_ranges_and_addresses_are_told_apart() {
        assert_eq!(
            lex("+0.1...2"),
            [Token::Sign('+'), Token::Float(0.1), Token::Ellipsis, Token::Int(2)]
        );
        assert_eq!(lex("2:3"), [Token::Int(2), Token::Sign(':'), Token::Int(3)]);
        assert_eq!(
            lex("fe80::1 1.2.3.4"),
            [Token::Ip("fe80::1".parse().unwrap()), Token::Ip("1.2.3.4".parse().unwrap())]
        );
        assert_eq!(
            lex("-1 0xff TEN BE"),
            [Token::Int(-1), Token::Int(255), Token::Int(10), Token::Word("BE".into())]
        );
    }

    #[test]
    fn conditions_and_comments_disappear() {
        let text = "a // b\n#ifdef FreeBSD\nc\n#endif\n#ifdef Linux\nd \"\n#endif\n/* e */ f";
        let words = ["a", "c", "f"].map(|word| Token::Word(word.into()));
        assert_eq!(lex(text), words);
    }

    #[test]
    fn errors_tell_their_line() {
        for (text, line) in [("\n\"abc", 2), ("a\n#endif", 2), ("\n\n#ifdef X\n", 3), ("`", 1)] {
            assert_eq!(tokens(text, &BTreeMap::new()).unwrap_err().line, line, "{text}");
        }
    }
}
