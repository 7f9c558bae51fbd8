//! A TOML file as a tree whose every value knows its place, so that keys can be overridden by name
//! and errors can say where they are.

use super::error::{Place, ScenarioError};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Names every element of an array.
pub(super) const EVERY: &str = "*";

/// A value and where it begins.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Node {
    pub(crate) at: Place,
    pub(crate) value: Value,
}

/// What a key can have.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    Table(Vec<(String, Node)>),
    Array(Vec<Node>),
    Text(String),
    Integer(i64),
    Float(f64),
    Bool(bool),
}

impl Node {
    /// Reads a file's text.
    pub(crate) fn parse(text: &str) -> Result<Self, ScenarioError> {
        let places = Places { text };
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(Place::NONE, |span| places.of(span.start));
            ScenarioError::new(at, "", error.message())
        })?;
        Ok(Self { at: Place { line: 1, column: 1 }, value: places.table(table.get_ref())? })
    }

    /// The value of a key of this table.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.entries().iter().find(|(name, _)| name == key).map(|(_, node)| node)
    }

    /// Keys and values of this table; none if it is not one.
    pub(crate) fn entries(&self) -> &[(String, Self)] {
        match &self.value {
            Value::Table(entries) => entries,
            _ => &[],
        }
    }

    /// The elements of this array; the value itself if it is none.
    pub(crate) fn elements(&self) -> &[Self] {
        match &self.value {
            Value::Array(elements) => elements,
            _ => std::slice::from_ref(self),
        }
    }

    /// Sets the value of a dotted key such as `path.B.delay`. Elements of an array of tables are
    /// named by their `name`, or by their number or letter; `*` names all of them.
    pub(crate) fn set(&mut self, key: &str, value: &Self) -> Result<(), ScenarioError> {
        let unknown = |part: &str| {
            ScenarioError::new(value.at, key, format!("there is no \"{part}\" to set it in"))
        };
        let (first, rest) = key.split_once('.').map_or((key, None), |(a, b)| (a, Some(b)));
        let targets = match &mut self.value {
            Value::Table(entries) => vec![entry(entries, first, value.at)],
            Value::Array(elements) if first == EVERY => elements.iter_mut().collect(),
            Value::Array(elements) => vec![named(elements, first).ok_or_else(|| unknown(first))?],
            _ => return Err(unknown(first)),
        };
        for target in targets {
            match rest {
                Some(rest) => target
                    .set(rest, value)
                    .map_err(|e| ScenarioError { key: key.to_owned(), ..e })?,
                None => *target = value.clone(),
            }
        }
        Ok(())
    }

    fn empty_table(at: Place) -> Self {
        Self { at, value: Value::Table(Vec::new()) }
    }
}

/// The value as a scenario file would have it, for messages and names.
impl std::fmt::Display for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.value {
            Value::Table(_) => f.write_str("a table"),
            Value::Array(_) => f.write_str("an array"),
            Value::Text(text) => f.write_str(text),
            Value::Integer(number) => write!(f, "{number}"),
            Value::Float(number) => write!(f, "{number}"),
            Value::Bool(flag) => write!(f, "{flag}"),
        }
    }
}

/// The value of `key`, made if it is missing.
fn entry<'a>(entries: &'a mut Vec<(String, Node)>, key: &str, made: Place) -> &'a mut Node {
    let at = entries.iter().position(|(name, _)| name == key).unwrap_or_else(|| {
        entries.push((key.to_owned(), Node::empty_table(made)));
        entries.len() - 1
    });
    &mut entries[at].1
}

fn named<'a>(elements: &'a mut [Node], name: &str) -> Option<&'a mut Node> {
    let is_it = |node: &Node| node.get("name").is_some_and(|n| n.value == Value::Text(name.into()));
    let named = elements.iter().position(is_it);
    let at = named.or_else(|| name.parse().ok()).or_else(|| place_of_letter(name))?;
    elements.get_mut(at)
}

/// Tables without a name are called A, B, C and so on.
fn place_of_letter(name: &str) -> Option<usize> {
    match name.as_bytes() {
        [letter @ b'A'..=b'Z'] => Some(usize::from(letter - b'A')),
        _ => None,
    }
}

/// Finds lines and columns in a text.
struct Places<'a> {
    text: &'a str,
}

impl Places<'_> {
    fn of(&self, offset: usize) -> Place {
        let before = self.text.get(..offset).unwrap_or_default();
        let line = 1 + before.matches('\n').count();
        Place { line, column: 1 + before.chars().rev().take_while(|c| *c != '\n').count() }
    }

    fn table(&self, table: &DeTable<'_>) -> Result<Value, ScenarioError> {
        // The parser sorts keys; a reader of results expects them as they were written.
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let entry = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
            let name: &std::borrow::Cow<'_, str> = key.get_ref();
            let mut node = self.node(value)?;
            node.at = self.of(key.span().start);
            Ok((name.to_string(), node))
        };
        entries.into_iter().map(entry).collect::<Result<_, _>>().map(Value::Table)
    }

    fn node(&self, value: &Spanned<DeValue<'_>>) -> Result<Node, ScenarioError> {
        let at = self.of(value.span().start);
        let wrong = |what: &str| ScenarioError::new(at, "", what);
        let value = match value.get_ref() {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Integer(number) => Value::Integer(
                i64::from_str_radix(number.as_str(), number.radix())
                    .map_err(|_| wrong("the number is too large"))?,
            ),
            DeValue::Float(number) => {
                Value::Float(number.as_str().parse().map_err(|_| wrong("this is no number"))?)
            }
            DeValue::Boolean(flag) => Value::Bool(*flag),
            DeValue::Datetime(_) => return Err(wrong("dates have no meaning here")),
            DeValue::Array(array) => Value::Array(
                array.iter().map(|element| self.node(element)).collect::<Result<_, _>>()?,
            ),
            DeValue::Table(table) => self.table(table)?,
        };
        Ok(Node { at, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_knows_its_place() {
        let document = Node::parse("a = 1\n[b]\nc = [\n \"x\",\n \"y\"]\n").unwrap();
        assert_eq!(document.get("a").map(|node| (node.at.line, node.at.column)), Some((1, 1)));
        let c = document.get("b").and_then(|b| b.get("c")).unwrap();
        assert_eq!(c.elements().iter().map(|node| node.at.line).collect::<Vec<_>>(), [4, 5]);
    }

    #[test]
    fn dotted_keys_reach_into_tables_and_named_elements() {
        let mut document = Node::parse("[[path]]\nname = \"A\"\n[[path]]\nname = \"B\"\n").unwrap();
        let at = Place { line: 9, column: 2 };
        let value = Node { at, value: Value::Integer(5) };
        document.set("path.B.delay", &value).unwrap();
        document.set("path.0.delay", &value).unwrap();
        document.set("engine.x", &value).unwrap();
        document.set("path.*.loss", &value).unwrap();
        let path = document.get("path").unwrap();
        assert!(path.elements().iter().all(|node| node.get("delay") == Some(&value)));
        assert!(path.elements().iter().all(|node| node.get("loss") == Some(&value)));
        assert_eq!(document.get("engine").and_then(|engine| engine.get("x")), Some(&value));
        let error = document.set("path.C.delay", &value).unwrap_err();
        assert_eq!((error.at, error.key.as_str()), (at, "path.C.delay"));
    }

    #[test]
    fn syntax_errors_have_a_place() {
        let Place { line, column } = Node::parse("a = 1\nb = = 2\n").unwrap_err().at;
        assert_eq!((line, column), (2, 5));
    }
}
