//! Paths, their links and what else travels on them.

use super::document::EVERY;
use super::error::ScenarioError;
use super::files::Files;
use super::policy;
use super::section::Section;
use super::setting::{BitErrors, Rate, Setting, Share};
use crate::link::{GilbertElliott, LinkConfig, RedConfig, Trace};
use manypath_engine::{Duration, PathPolicy};

/// One path between the two hosts.
#[derive(Clone, Debug)]
pub struct PathSpec {
    /// Its name, as results show it.
    pub name: String,
    /// Largest IP packet in bytes.
    pub mtu: u16,
    /// The bottleneck from sender to receiver.
    pub forth: LinkConfig,
    /// The bottleneck from receiver to sender.
    pub back: LinkConfig,
    /// The access networks at both ends.
    pub access: Access,
    /// Changes during the run.
    pub changes: Vec<LinkChange>,
    /// Number of an earlier path whose bottleneck links this path uses instead of own ones.
    pub shares: Option<usize>,
    /// What the sender wants of it, which the receiver learns from its HEARTBEATs.
    pub policy: PathPolicy,
}

/// Access networks: fast links between the hosts and their routers.
#[derive(Clone, Debug)]
pub struct Access {
    /// Rate in bit/s.
    pub rate_bps: Option<u64>,
    /// One-way delay of the access networks of both ends together.
    pub delay: Duration,
    /// Random additional delay per packet, which keeps the order.
    pub jitter: Duration,
}

/// A change of both directions of a path at a time.
#[derive(Clone, Debug)]
pub struct LinkChange {
    /// When, from the start of the association.
    pub at: Duration,
    /// The direction to the receiver from then on.
    pub forth: LinkConfig,
    /// The direction to the sender.
    pub back: LinkConfig,
}

/// Traffic of a constant rate that no endpoint sees (CBR over UDP).
#[derive(Clone, Debug)]
pub struct Background {
    /// Number of the path.
    pub path: usize,
    /// Bit/s of IP packets.
    pub rate_bps: u64,
    /// Bytes of an IP packet.
    pub packet: usize,
    /// Whether it goes to the receiver; otherwise to the sender.
    pub forth: bool,
    /// When it begins and ends, from the start of the association.
    pub from: Duration,
    /// When it ends.
    pub until: Duration,
}

impl PathSpec {
    pub(super) fn read(
        mut section: Section<'_>,
        number: usize,
        earlier: &[Self],
        files: &mut Files,
    ) -> Result<Self, ScenarioError> {
        let name = section.value("name", letter(number))?;
        if earlier.iter().any(|path| path.name == name) {
            return Err(section.error("name", format!("there are two paths \"{name}\"")));
        }
        let mtu = section.value("mtu", 1500_u16)?;
        if mtu < 576 {
            return Err(section.error("mtu", "a path carries packets of at least 576 bytes"));
        }
        let forth = read_link(&mut section, LinkConfig::default(), files)?;
        let back = match section.table("back")? {
            None => forth.clone(),
            Some(mut back) => {
                let link = read_link(&mut back, forth.clone(), files)?;
                back.finish()?;
                link
            }
        };
        let access = Access::read(section.table("access")?)?;
        let changes = read_changes(section.tables("change")?, (&forth, &back), files)?;
        let shares = read_shares(&mut section, earlier)?;
        let policy = policy::read(&mut section)?;
        section.finish()?;
        Ok(Self { name, mtu, forth, back, access, changes, shares, policy })
    }

    /// Its parameters as columns of a result.
    pub(super) fn parameters(&self, out: &mut Vec<(String, String)>) {
        let mut add =
            |key: &str, value: String| out.push((format!("path.{}.{key}", self.name), value));
        add("mtu", self.mtu.to_string());
        for (key, value) in link_parameters(&self.forth) {
            add(key, value);
        }
        for (key, value) in link_parameters(&self.back) {
            add(&format!("back.{key}"), value);
        }
        add("access.rate", Rate(self.access.rate_bps).show());
        add("access.delay", self.access.delay.show());
        add("access.jitter", self.access.jitter.show());
        add("changes", self.changes.len().to_string());
        for (key, value) in policy::parameters(&self.policy) {
            add(key, value);
        }
    }
}

impl Access {
    fn read(section: Option<Section<'_>>) -> Result<Self, ScenarioError> {
        let none = Self { rate_bps: None, delay: Duration::ZERO, jitter: Duration::ZERO };
        let Some(mut section) = section else { return Ok(none) };
        let access = Self {
            rate_bps: section.value("rate", Rate(None))?.0,
            delay: section.value("delay", Duration::ZERO)?,
            jitter: section.value("jitter", Duration::ZERO)?,
        };
        section.finish().map(|()| access)
    }

    /// Whether it makes no difference.
    pub fn is_none(&self) -> bool {
        self.rate_bps.is_none() && self.delay.is_zero() && self.jitter.is_zero()
    }
}

impl Background {
    /// The traffic that a table describes: one for each path that it names.
    pub(super) fn read(
        mut section: Section<'_>,
        paths: &[PathSpec],
    ) -> Result<Vec<Self>, ScenarioError> {
        let every = section.optional::<String>("path")?.is_some_and(|name| name == EVERY);
        let on = match every {
            true => (0..paths.len()).collect(),
            false => vec![
                read_path_name(&mut section, "path", paths)?
                    .ok_or_else(|| section.error("path", "is missing"))?,
            ],
        };
        let rate_bps = match section.required::<Rate>("rate")? {
            Rate(Some(rate)) => rate,
            Rate(None) => return Err(section.error("rate", "background traffic has a rate")),
        };
        let packet = section.value("packet", 1000)?;
        if !(64..=65_000).contains(&packet) {
            return Err(section.error("packet", "a packet has between 64 and 65000 bytes"));
        }
        let forth = section.read("towards", true, |node| {
            super::setting::one_of(node, &[("receiver", true), ("sender", false)])
        })?;
        let from = section.value("from", Duration::ZERO)?;
        let until = section.value("until", Duration::from_secs(1_000_000))?;
        section.finish()?;
        Ok(on.into_iter().map(|path| Self { path, rate_bps, packet, forth, from, until }).collect())
    }
}

/// The link keys of a section, on top of `base`.
fn read_link(
    section: &mut Section<'_>,
    base: LinkConfig,
    files: &mut Files,
) -> Result<LinkConfig, ScenarioError> {
    let queue_bytes = section.optional::<usize>("queue_bytes")?.or(base.queue_bytes);
    let mtu = section.optional::<u16>("link_mtu")?.or(base.mtu);
    let (rate_bps, trace) = read_capacity(section, (base.rate_bps, base.trace), files)?;
    let link = LinkConfig {
        rate_bps,
        trace,
        framing: section.value("framing", base.framing)?,
        delay: section.value("delay", base.delay)?,
        loss_ppm: section.value("loss", Share(base.loss_ppm))?.0,
        bursts: match section.table("bursts")? {
            Some(bursts) => Some(read_bursts(bursts)?),
            None => base.bursts,
        },
        bit_errors: section.value("bit_errors", BitErrors(base.bit_errors))?.0,
        mtu,
        mtu_reports: section.value("mtu_reports", base.mtu_reports)?,
        queue_packets: section.value("queue", base.queue_packets)?,
        queue_bytes,
        red: match section.table("red")? {
            Some(red) => Some(read_red(red)?),
            None => base.red,
        },
        up: section.value("up", base.up)?,
        duplicate_ppm: section.value("duplicate", Share(base.duplicate_ppm))?.0,
        reorder_ppm: section.value("reorder", Share(base.reorder_ppm))?.0,
        reorder_delay: section.value("reorder_delay", base.reorder_delay)?,
        corrupt_ppm: section.value("corrupt", Share(base.corrupt_ppm))?.0,
        jitter: section.value("jitter", base.jitter)?,
    };
    if link.queue_packets == 0 || link.queue_bytes.is_some_and(|bytes| bytes < 1500) {
        return Err(section.error("queue", "a queue has room for at least one packet"));
    }
    Ok(link)
}

/// A rate or a trace; either replaces what `base` has.
fn read_capacity(
    section: &mut Section<'_>,
    base: (Option<u64>, Option<Trace>),
    files: &mut Files,
) -> Result<(Option<u64>, Option<Trace>), ScenarioError> {
    let rate = section.optional::<Rate>("rate")?;
    let file = section.optional::<String>("trace")?;
    match (rate, file) {
        (None, None) => Ok(base),
        (Some(Rate(rate)), None) => Ok((rate, None)),
        (None, Some(file)) => match files.trace(&file) {
            // The one that is there begins anew: a clone of it would go on.
            Ok(trace) if base.1.is_some_and(|before| before.is_clone_of(&trace)) => {
                Ok((None, Some(trace.anew())))
            }
            Ok(trace) => Ok((None, Some(trace))),
            Err(error) => Err(section.error("trace", error.to_string())),
        },
        (Some(_), Some(_)) => {
            Err(section.error("trace", "a trace replaces the rate: remove one of the two keys"))
        }
    }
}

fn read_bursts(mut section: Section<'_>) -> Result<GilbertElliott, ScenarioError> {
    let bursts = GilbertElliott {
        to_bad_ppm: section.required::<Share>("to_bad")?.0,
        to_good_ppm: section.required::<Share>("to_good")?.0,
        loss_bad_ppm: section.value("loss", Share(1_000_000))?.0,
    };
    section.finish().map(|()| bursts)
}

fn read_red(mut section: Section<'_>) -> Result<RedConfig, ScenarioError> {
    let red = RedConfig {
        least: section.required("least")?,
        most: section.required("most")?,
        probability_ppm: section.value("probability", Share(100_000))?.0,
        weight_ppm: section.value("weight", Share(2000))?.0,
        marks: section.value("marks", true)?,
    };
    if red.least >= red.most {
        return Err(section.error("most", "is more than least"));
    }
    section.finish().map(|()| red)
}

fn read_changes(
    sections: Vec<Section<'_>>,
    (forth, back): (&LinkConfig, &LinkConfig),
    files: &mut Files,
) -> Result<Vec<LinkChange>, ScenarioError> {
    let (mut forth, mut back) = (forth.clone(), back.clone());
    let mut changes: Vec<LinkChange> = Vec::new();
    for mut section in sections {
        let at = section.required("at")?;
        if changes.last().is_some_and(|before| before.at > at) {
            return Err(section.error("at", "changes are listed in the order of their times"));
        }
        forth = read_link(&mut section, forth, files)?;
        back = read_link(&mut section, back, files)?;
        section.finish()?;
        changes.push(LinkChange { at, forth: forth.clone(), back: back.clone() });
    }
    Ok(changes)
}

fn read_shares(
    section: &mut Section<'_>,
    earlier: &[PathSpec],
) -> Result<Option<usize>, ScenarioError> {
    read_path_name(section, "shares", earlier)
}

pub(super) fn read_path_name(
    section: &mut Section<'_>,
    key: &'static str,
    paths: &[PathSpec],
) -> Result<Option<usize>, ScenarioError> {
    let Some(name) = section.optional::<String>(key)? else { return Ok(None) };
    path_named(&name, paths).map(Some).map_err(|message| section.error(key, message))
}

/// The number of the path with this name.
pub(super) fn path_named(name: &str, paths: &[PathSpec]) -> Result<usize, String> {
    let number = paths.iter().position(|path| path.name == name);
    let names: Vec<_> = paths.iter().map(|path| path.name.as_str()).collect();
    number.ok_or_else(|| format!("there is no path \"{name}\"; allowed are {}", names.join(", ")))
}

fn link_parameters(link: &LinkConfig) -> Vec<(&'static str, String)> {
    let bursts = link.bursts.map_or_else(String::new, |b| {
        let parts = [b.to_bad_ppm, b.to_good_ppm, b.loss_bad_ppm].map(|ppm| Share(ppm).show());
        parts.join("/")
    });
    let mut parameters = vec![
        ("rate", Rate(link.mean_rate_bps()).show()),
        ("framing", link.framing.show()),
        ("delay", link.delay.show()),
        ("loss", Share(link.loss_ppm).show()),
        ("bursts", bursts),
        ("bit_errors", BitErrors(link.bit_errors).show()),
        ("queue", link.queue_packets.show()),
        ("queue_bytes", link.queue_bytes.map_or_else(String::new, |bytes| bytes.show())),
        ("up", link.up.show()),
        ("duplicate", Share(link.duplicate_ppm).show()),
        ("reorder", Share(link.reorder_ppm).show()),
        ("reorder_delay", link.reorder_delay.show()),
        ("corrupt", Share(link.corrupt_ppm).show()),
        ("jitter", link.jitter.show()),
    ];
    if let Some(trace) = &link.trace {
        parameters.push(("trace", trace.name().to_owned()));
    }
    if let Some(red) = link.red {
        let shares = [red.probability_ppm, red.weight_ppm].map(|ppm| Share(ppm).show()).join("/");
        let marks = if red.marks { "marks" } else { "drops" };
        parameters.push(("red", format!("{}-{}/{shares}/{marks}", red.least, red.most)));
    }
    if let Some(mtu) = link.mtu {
        parameters.push(("link_mtu", mtu.show()));
        parameters.push(("mtu_reports", link.mtu_reports.show()));
    }
    parameters
}

fn letter(number: usize) -> String {
    let letter = u8::try_from(number).ok().filter(|n| *n < 26).map(|n| char::from(b'A' + n));
    letter.map_or_else(|| number.to_string(), String::from)
}
