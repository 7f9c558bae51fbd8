//! What the sender wants of a path: keys `role`, `cost`, `metered`, `primary` of `[[path]]`.

use super::document::{Node, Value};
use super::error::ScenarioError;
use super::section::Section;
use super::setting::{Rate, Setting, one_of};
use manypath_engine::{PathPolicy, PathRole};

const ROLES: [(&str, PathRole); 3] =
    [("normal", PathRole::Normal), ("backup", PathRole::Backup), ("disabled", PathRole::Disabled)];

pub(super) fn read(section: &mut Section<'_>) -> Result<PathPolicy, ScenarioError> {
    let base = PathPolicy::default();
    Ok(PathPolicy {
        role: section.read("role", base.role, |node| one_of(node, &ROLES))?,
        cost: section.value("cost", base.cost)?,
        metered: section.read("metered", base.metered, metered)?,
        primary: section.value("primary", base.primary)?,
    })
}

/// Bytes per second; 0 stands for no allowance at all.
fn metered(node: &Node) -> Result<Option<u64>, String> {
    if node.value == Value::Integer(0) {
        return Ok(Some(0));
    }
    match Rate::read(node)? {
        Rate(Some(bits)) => Ok(Some(bits / 8)),
        Rate(None) => Err("a metered path has a rate such as \"5mbit\", or 0".to_owned()),
    }
}

/// Its parts as columns of a result.
pub(super) fn parameters(policy: &PathPolicy) -> [(&'static str, String); 4] {
    let role = ROLES.iter().find(|(_, role)| *role == policy.role);
    [
        ("role", role.map_or_else(String::new, |(name, _)| (*name).to_owned())),
        ("cost", policy.cost.show()),
        ("metered", policy.metered.map_or_else(String::new, |bytes| (bytes * 8).show())),
        ("primary", policy.primary.show()),
    ]
}
