//! One table under work: hands out keys, and at the end complains about those nobody asked for.

use super::document::{Node, Value};
use super::error::{Place, ScenarioError, list, nearest};
use super::setting::Setting;

/// A table of the scenario.
#[derive(Debug)]
pub(crate) struct Section<'a> {
    node: &'a Node,
    /// Dotted name with the trailing dot, empty for the whole file.
    prefix: String,
    asked: Vec<&'static str>,
}

impl<'a> Section<'a> {
    /// The whole file.
    pub(crate) fn root(node: &'a Node) -> Self {
        Self { node, prefix: String::new(), asked: Vec::new() }
    }

    /// The table `node`, known as `name`.
    pub(crate) fn new(node: &'a Node, name: &str) -> Result<Self, ScenarioError> {
        match node.value {
            Value::Table(_) => Ok(Self { node, prefix: format!("{name}."), asked: Vec::new() }),
            _ => Err(ScenarioError::new(node.at, name, "expected a table")),
        }
    }

    /// The raw value of a key.
    pub(crate) fn take(&mut self, key: &'static str) -> Option<&'a Node> {
        self.asked.push(key);
        self.node.get(key)
    }

    /// The value of a key, if it is there.
    pub(crate) fn optional<T: Setting>(
        &mut self,
        key: &'static str,
    ) -> Result<Option<T>, ScenarioError> {
        let Some(node) = self.take(key) else { return Ok(None) };
        T::read(node).map(Some).map_err(|message| self.wrong(node.at, key, message))
    }

    /// The value of a key, or `default`.
    pub(crate) fn value<T: Setting>(
        &mut self,
        key: &'static str,
        default: T,
    ) -> Result<T, ScenarioError> {
        Ok(self.optional(key)?.unwrap_or(default))
    }

    /// The value of a key that must be there.
    pub(crate) fn required<T: Setting>(&mut self, key: &'static str) -> Result<T, ScenarioError> {
        self.optional(key)?.ok_or_else(|| self.wrong(self.node.at, key, "is missing"))
    }

    /// The value of a key as `read` understands it, or `default`.
    pub(crate) fn read<T>(
        &mut self,
        key: &'static str,
        default: T,
        read: impl FnOnce(&Node) -> Result<T, String>,
    ) -> Result<T, ScenarioError> {
        let Some(node) = self.take(key) else { return Ok(default) };
        read(node).map_err(|message| self.wrong(node.at, key, message))
    }

    /// A table inside this one.
    pub(crate) fn table(&mut self, key: &'static str) -> Result<Option<Self>, ScenarioError> {
        let Some(node) = self.take(key) else { return Ok(None) };
        Section::new(node, &self.dotted(key)).map(Some)
    }

    /// The tables of an array of tables.
    pub(crate) fn tables(&mut self, key: &'static str) -> Result<Vec<Self>, ScenarioError> {
        let elements = self.take(key).map_or(&[][..], Node::elements);
        let name = self.dotted(key);
        (0..)
            .zip(elements)
            .map(|(i, node): (usize, _)| {
                let own = node.get("name").map_or_else(|| i.to_string(), Node::to_string);
                Section::new(node, &format!("{name}.{own}"))
            })
            .collect()
    }

    /// An error about a key of this table.
    pub(crate) fn error(&self, key: &str, message: impl Into<String>) -> ScenarioError {
        let at = self.node.get(key).map_or(self.node.at, |node| node.at);
        self.wrong(at, key, message)
    }

    /// Every key must have been asked for.
    pub(crate) fn finish(self) -> Result<(), ScenarioError> {
        let unknown =
            self.node.entries().iter().find(|(key, _)| !self.asked.contains(&key.as_str()));
        let Some((key, node)) = unknown else { return Ok(()) };
        let meant = nearest(key, &self.asked)
            .map_or_else(String::new, |name| format!(" (did you mean \"{name}\"?)"));
        let message = format!("unknown key{meant}; allowed are {}", list(&self.asked));
        Err(self.wrong(node.at, key, message))
    }

    fn wrong(&self, at: Place, key: &str, message: impl Into<String>) -> ScenarioError {
        ScenarioError::new(at, self.dotted(key), message)
    }

    fn dotted(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }
}
