//! Scenario files: what is simulated, with which parameters, how often.
//!
//! ```text
//! file ─▶ document (TOML tree with places) ─▶ plan: setups x cases x sweep x seeds ─▶ scenario of each run
//! ```
//!
//! Every key can be swept or set by a setup or a case, under its dotted name. Whatever is wrong is reported with
//! file, line, column, key and what is allowed; nothing is ignored.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "a key has a value of the right kind, or of any other kind, which is wrong alike"
)]

mod applications;
mod channel;
mod competitor;
mod document;
mod engine_options;
mod error;
mod figures;
mod files;
mod modules;
mod network;
mod plan;
mod policy;
mod section;
mod setting;
mod setup;
mod stream_options;
mod variants;

pub use applications::{AppKind, AppSpec};
pub use competitor::Competitor;
pub use error::ScenarioError;
pub(crate) use error::nearest;
pub use figures::{CurveSpec, FigureSpec, PublishedSpec};
pub use modules::Modules;
pub use network::{Access, Background, LinkChange, PathSpec};
pub use plan::{Plan, Run};
pub use setup::Scenario;

/// Reads a time as scenarios have it ("100ms"); the error says what is expected.
pub fn duration(text: &str) -> Result<manypath_engine::Duration, String> {
    use setting::Setting;
    let value = document::Value::Text(text.to_owned());
    manypath_engine::Duration::read(&document::Node { at: error::Place::NONE, value })
}
