//! The two formats: a text of lines, and TOML with such texts in it.

use super::{Layer, Part, invalid};
use crate::kept_file::KeptFileError;
use std::path::Path;
use toml_edit::{Array, Document, DocumentMut, Item, Table, TableLike, Value};

const KEYS: &str = "settings, rules, paths, services";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// One part, as its lines.
    Plain,
    /// `config.toml`.
    Config,
}

/// Lines with their numbers.
type Lines = Vec<(usize, String)>;

impl Format {
    pub(super) fn layer(self, part: Part, path: &Path, text: &str) -> Result<Layer, KeptFileError> {
        match self {
            Self::Plain => Ok(plain(path, text)),
            Self::Config => config(part, path, text)
                .map_err(|(line, why)| invalid(path, format!("line {line}: {why}"))),
        }
    }

    /// The text of a file with other lines of this part. Services stay.
    pub(super) fn write(
        self,
        part: Part,
        path: &Path,
        text: &str,
        lines: &[String],
    ) -> Result<String, KeptFileError> {
        if self == Self::Plain {
            return Ok(lines.iter().map(|line| format!("{line}\n")).collect());
        }
        let mut document: DocumentMut = text.parse().map_err(|error| {
            let (line, why) = place(text, &error);
            invalid(path, format!("line {line}: {why}"))
        })?;
        match part {
            Part::Settings => put_settings(&mut document, lines),
            Part::Rules | Part::Paths => put_text(&mut document, part.key(), lines),
        }
        Ok(document.to_string())
    }
}

pub(super) fn plain(path: &Path, text: &str) -> Layer {
    let lines = (1..).zip(text.lines().map(str::to_owned)).collect();
    Layer { path: path.to_owned(), lines, services: 0, wrong: Vec::new() }
}

/// The lines of a part in a `config.toml`. The whole file is looked at: a wrong key anywhere is an error.
fn config(part: Part, path: &Path, text: &str) -> Result<Layer, (usize, String)> {
    let (text, mut wrong_settings) = without_broken_settings(text)?;
    let line_of = |at| line_of(&text, at);
    let document = Document::parse(text.as_str()).map_err(|error| place(&text, &error))?;
    let mut layer =
        Layer { path: path.to_owned(), lines: Vec::new(), services: 0, wrong: Vec::new() };
    for (key, item) in document.as_table().iter() {
        let line = line_of(document.as_table().key(key).and_then(toml_edit::Key::span));
        let wrong = |why: &str| (line, format!("{key}: {why}"));
        let lines = match key {
            "settings" => {
                let table = item.as_table_like();
                if table.is_none() {
                    wrong_settings.push(wrong("write [settings], then NAME = VALUE"));
                }
                table.map_or_else(Lines::new, |it| settings(it, &line_of, &mut wrong_settings))
            }
            "rules" | "paths" => {
                let text = item
                    .as_str()
                    .ok_or_else(|| wrong("write ''', then one entry a line, then '''"))?;
                // A newline that follows the opening quotes is not part of the text.
                let raw = item.span().and_then(|at| document.raw().get(at)).unwrap_or_default();
                let first =
                    line + usize::from(raw.starts_with("'''\n") || raw.starts_with("\"\"\"\n"));
                (first..).zip(text.lines().map(str::to_owned)).collect()
            }
            "services" => {
                let list = item
                    .as_array()
                    .ok_or_else(|| wrong("write [22, \"192.0.2.1:443\", \"53/udp\"]"))?;
                services(list, &line_of)?
            }
            _ => return Err((line, format!("unknown key \"{key}\": {KEYS}"))),
        };
        match key {
            "services" if part == Part::Rules => layer.services = lines.len(),
            _ if key == part.key() => {}
            _ => continue,
        }
        // Rules come before services, wherever they stand.
        let at = if key == "services" { layer.lines.len() } else { 0 };
        layer.lines.splice(at..at, lines);
    }
    if part == Part::Settings {
        wrong_settings.sort();
        layer.wrong = wrong_settings;
    }
    Ok(layer)
}

fn line_of(text: &str, at: Option<std::ops::Range<usize>>) -> usize {
    1 + text.bytes().take(at.map_or(0, |at| at.start)).filter(|byte| *byte == b'\n').count()
}

/// Where something is no TOML, and why.
fn place(text: &str, error: &toml_edit::TomlError) -> (usize, String) {
    (line_of(text, error.span()), error.message().trim().replace('\n', ", "))
}

/// Leaves out the lines of `[settings]` that are no TOML, so that all others can be read.
fn without_broken_settings(text: &str) -> Result<(String, Lines), (usize, String)> {
    let (mut text, mut wrong) = (text.to_owned(), Lines::new());
    while let Err(error) = Document::parse(text.as_str()) {
        let (line, why) = place(&text, &error);
        if !is_setting(&text, line) {
            return Err((line, why));
        }
        let said = text.lines().nth(line - 1).unwrap_or_default().trim();
        wrong.push((line, format!("write NAME = NUMBER or NAME = \"TEXT\", not {said}")));
        let others = (1..).zip(text.lines()).map(|(n, other)| if n == line { "" } else { other });
        text = others.flat_map(|other| [other, "\n"]).collect();
    }
    Ok((text, wrong))
}

/// Whether a line has something in it and stands below `[settings]`.
fn is_setting(text: &str, line: usize) -> bool {
    let lines: Vec<&str> = text.lines().take(line).map(str::trim).collect();
    let [before @ .., last] = lines.as_slice() else { return false };
    let header = before.iter().rfind(|line| line.starts_with('['));
    let is_below = header.is_some_and(|it| it.starts_with("[settings]"));
    is_below && lines.len() == line && !last.is_empty() && !last.starts_with('[')
}

fn settings(
    table: &dyn TableLike,
    line_of: &dyn Fn(Option<std::ops::Range<usize>>) -> usize,
    wrong: &mut Lines,
) -> Lines {
    let mut lines = Lines::new();
    for (name, item) in table.iter() {
        let line = line_of(item.span());
        match item.as_value() {
            Some(value) if !(value.is_array() || value.is_inline_table()) => {
                lines.push((line, format!("{name} = {}", shown(value))));
            }
            Some(_) | None => wrong.push((line, format!("{name}: a number or a string"))),
        }
    }
    lines
}

/// Services as the rules that open them.
fn services(
    list: &Array,
    line_of: &dyn Fn(Option<std::ops::Range<usize>>) -> usize,
) -> Result<Lines, (usize, String)> {
    let rule = |entry: &Value| {
        let port = entry.as_integer().map(|port| port.to_string());
        let text = port.or_else(|| entry.as_str().map(str::to_owned)).unwrap_or_default();
        let rule = service_rule(&text).ok_or_else(|| {
            let said = entry.to_string();
            format!("services: {} is not PORT, \"ADDR:PORT\" or \"PORT/udp\"", said.trim())
        });
        let line = line_of(entry.span());
        rule.map(|rule| (line, rule)).map_err(|why| (line, why))
    };
    list.iter().map(rule).collect()
}

fn service_rule(text: &str) -> Option<String> {
    let (place, protocol) = match text.strip_suffix("/udp") {
        Some(place) => (place, "udp "),
        None => (text.strip_suffix("/tcp").unwrap_or(text), ""),
    };
    let (host, port) = match place.parse::<u16>() {
        Ok(port) => (String::new(), port),
        Err(_) => {
            let address: std::net::SocketAddr = place.parse().ok()?;
            (format!("host {} ", address.ip().to_canonical()), address.port())
        }
    };
    (port != 0).then(|| format!("local enable {protocol}{host}port {port}"))
}

/// A text of several lines, which TOML calls a literal string.
fn put_text(document: &mut DocumentMut, key: &str, lines: &[String]) {
    let text = lines.join("\n");
    if text.trim().is_empty() {
        document.remove(key);
        return;
    }
    let item = match format!("'''\n{text}\n'''").parse::<Value>() {
        Ok(value) => value,
        // It has ''' in it.
        Err(_) => Value::from(format!("{text}\n")),
    };
    match document.get_mut(key).and_then(Item::as_value_mut) {
        Some(there) => {
            let decor = there.decor().clone();
            *there = item;
            *there.decor_mut() = decor;
        }
        None => {
            document.insert(key, Item::Value(item));
        }
    }
}

/// Sets what differs, so that comments of the others stay. Comments of new ones come along.
fn put_settings(document: &mut DocumentMut, lines: &[String]) {
    if lines.is_empty() && !document.contains_key("settings") {
        return;
    }
    let table = document.entry("settings").or_insert_with(|| Item::Table(Table::new()));
    let Some(table) = table.as_table_like_mut() else { return };
    let said = |line: &String| -> Option<(String, String)> {
        let (name, value) = line.split('#').next()?.split_once('=')?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    };
    let wanted: Vec<_> = lines.iter().filter_map(said).collect();
    let gone: Vec<_> = table.iter().map(|(name, _)| name.to_owned()).collect();
    gone.iter()
        .filter(|name| !wanted.iter().any(|(known, _)| known == *name))
        .for_each(|name| drop(table.remove(name)));
    let mut comment = String::new();
    for line in lines {
        let Some((name, value)) = said(line) else {
            comment += &format!("{}\n", line.trim());
            continue;
        };
        let mut new =
            value.parse::<i64>().map_or_else(|_| Value::from(value.as_str()), Value::from);
        match table.get_mut(&name).and_then(Item::as_value_mut) {
            Some(there) if shown(there) == value => {}
            Some(there) => {
                *new.decor_mut() = there.decor().clone();
                *there = new;
            }
            None => {
                if let Some((_, why)) = line.split_once('#') {
                    new.decor_mut().set_suffix(format!("  # {}", why.trim()));
                }
                table.insert(&name, Item::Value(new));
                if let Some(mut key) = table.key_mut(&name) {
                    key.leaf_decor_mut().set_prefix(std::mem::take(&mut comment));
                }
            }
        }
        comment.clear();
    }
}

fn shown(value: &Value) -> String {
    match (value.as_str(), value.as_bool()) {
        (Some(text), _) => text.to_owned(),
        (None, Some(on)) => if on { "on" } else { "off" }.to_owned(),
        (None, None) => value.to_string().trim().to_owned(),
    }
}
