//! What applications say about their streams.

use super::error::ScenarioError;
use super::network::{PathSpec, read_path_name};
use super::section::Section;
use super::setting::{Rate, Setting, one_of};
use manypath_engine::{Duration, PathId, StreamClass, StreamOptions};

const CLASSES: [(&str, StreamClass); 3] = [
    ("bulk", StreamClass::Bulk),
    ("interactive", StreamClass::Interactive),
    ("realtime", StreamClass::Realtime),
];

/// Reads `stream_options`: one table for all `streams` of an application, or an array with one for
/// each of them.
pub(super) fn read(
    section: &mut Section<'_>,
    streams: u16,
    paths: &[PathSpec],
) -> Result<Vec<StreamOptions>, ScenarioError> {
    let tables = section.tables("stream_options")?;
    let options: Vec<_> =
        tables.into_iter().map(|table| one(table, paths)).collect::<Result<_, _>>()?;
    match options.as_slice() {
        [] => Ok(vec![StreamOptions::default(); streams.into()]),
        [all] => Ok(vec![*all; streams.into()]),
        each if each.len() == usize::from(streams) => Ok(options),
        each => {
            let message = format!(
                "there are {} tables for {streams} streams; allowed are one for all or one for each",
                each.len()
            );
            Err(section.error("stream_options", message))
        }
    }
}

fn one(mut section: Section<'_>, paths: &[PathSpec]) -> Result<StreamOptions, ScenarioError> {
    let base = StreamOptions::default();
    let class = section.read("class", base.class, |node| one_of(node, &CLASSES))?;
    let max_delay = section.optional::<Duration>("max_delay")?;
    if max_delay.is_some_and(|delay| delay.is_zero()) {
        return Err(section.error("max_delay", "nothing arrives in no time"));
    }
    let options = StreamOptions {
        priority: section.value("priority", base.priority)?,
        weight: section.value("weight", base.weight)?,
        class,
        max_delay,
        min_rate: section.optional::<Rate>("min_rate")?.and_then(|rate| rate.0).map(|bps| bps / 8),
        splittable: section.value("splittable", base.splittable)?,
        pinned: read_path_name(&mut section, "path", paths)?
            .and_then(|number| u8::try_from(number).ok().map(PathId)),
        redundant: section.value("redundant", base.redundant)?,
    };
    if options.weight == 0 {
        return Err(section.error("weight", "a weight is at least 1"));
    }
    section.finish().map(|()| options)
}

/// The options of an application's streams as columns of a result: one value if all have the same,
/// otherwise one for each stream.
pub(super) fn parameters(all: &[StreamOptions], paths: &[PathSpec]) -> Vec<(&'static str, String)> {
    let column = |show: &dyn Fn(&StreamOptions) -> String| {
        let values: Vec<String> = all.iter().map(show).collect();
        match values.first() {
            Some(first) if values.iter().all(|value| value == first) => first.clone(),
            _ => values.join("/"),
        }
    };
    let class = |options: &StreamOptions| {
        let known = CLASSES.iter().find(|(_, class)| *class == options.class);
        known.map_or_else(String::new, |(name, _)| (*name).to_owned())
    };
    let rate = |o: &StreamOptions| o.min_rate.map_or_else(String::new, |r| (r * 8).show());
    let path = |options: &StreamOptions| {
        let spec = options.pinned.and_then(|PathId(number)| paths.get(usize::from(number)));
        spec.map_or_else(String::new, |spec| spec.name.clone())
    };
    vec![
        ("class", column(&class)),
        ("priority", column(&|options| options.priority.show())),
        ("weight", column(&|options| options.weight.show())),
        ("max_delay", column(&|o| o.max_delay.map_or_else(String::new, |delay| delay.show()))),
        ("min_rate", column(&rate)),
        ("splittable", column(&|options| options.splittable.show())),
        ("path", column(&path)),
        ("redundant", column(&|options| options.redundant.show())),
    ]
}
