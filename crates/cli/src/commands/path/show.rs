//! `manypath path show`.

use super::super::rules::print_json;
use super::super::stacks::query;
use super::super::status::{budget, bytes};
use super::{kept, words};
use crate::failure::Failure;
use manypath_control::path::IdleReason;
use manypath_control::status::{
    AssociationStatus, BudgetStatus, PathStatus, StackStatus, Withheld,
};
use manypath_daemon::{LocalScope, LocalScopes, Locals};
use manypath_rules::paths::{PathEntry, PathsFile};
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

#[derive(Serialize)]
struct ShowJson {
    files: Vec<PathBuf>,
    policies: Vec<String>,
    /// As each running stack counts them.
    budgets: Vec<BudgetStatus>,
    addresses: Vec<Address>,
    paths: Vec<Row>,
}

/// An address of this host, and for which peers it is there.
#[derive(Serialize)]
struct Address {
    addr: IpAddr,
    interface: String,
    scope: &'static str,
    reason: String,
    /// The command that makes an isolated address an uplink as others.
    cure: Option<String>,
}

/// One path.
#[derive(Serialize)]
struct Row {
    pid: u32,
    association: u64,
    interface: String,
    local: SocketAddr,
    remote: SocketAddr,
    state: String,
    primary: bool,
    policy: String,
    peer_policy: String,
    bytes_sent: u64,
    bytes_received: u64,
    idle: Option<String>,
    idle_reason: Option<IdleReason>,
    /// Why the association has no paths from other addresses of this host, if they are not announced.
    withheld_addresses: Option<Withheld>,
}

/// Prints what is kept and what there is.
pub(super) fn show(json: bool) -> Result<u8, Failure> {
    let file = PathsFile::usual();
    let entries = kept(&file)?;
    let policies: Vec<_> = entries.iter().map(ToString::to_string).collect();
    let addresses = addresses(&entries)?;
    let stacks = query(false)?;
    let paths = stacks.iter().flat_map(rows).collect();
    let files = file.sources().existing();
    let mut budgets: Vec<_> = stacks.iter().flat_map(|stack| stack.budgets.clone()).collect();
    budgets.dedup();
    if json {
        return print_json(&ShowJson { files, policies, budgets, addresses, paths });
    }
    println!("{}", if policies.is_empty() { "no path policies set" } else { "path policies:" });
    policies.iter().for_each(|line| println!("  {line}"));
    budgets.iter().for_each(|one| println!("{}", budget(one)));
    addresses.iter().for_each(print_address);
    print_table(&paths);
    Ok(0)
}

/// By the rules of a stack without `--local`.
fn addresses(entries: &[PathEntry]) -> Result<Vec<Address>, Failure> {
    let mut scopes = LocalScopes::default();
    let interfaces = manypath_net::interfaces()?;
    if let Err(error) = scopes.look(&interfaces, &Locals::Auto, entries) {
        eprintln!("manypath: cannot tell tunnels from uplinks: netlink: {error}");
    }
    let address = |it: &LocalScope| Address {
        addr: it.addr,
        interface: it.interface.clone(),
        scope: it.name(),
        reason: it.reason.clone(),
        cure: it.cure(),
    };
    Ok(scopes.all().iter().map(address).collect())
}

fn print_address(address: &Address) {
    let Address { addr, interface, scope, reason, cure } = address;
    let cure = cure.as_ref().map_or_else(String::new, |it| format!(" (use it for all: `{it}`)"));
    println!("{addr} dev {interface} is {scope}: {reason}{cure}");
}

fn rows(stack: &StackStatus) -> impl Iterator<Item = Row> {
    let all = stack.associations.iter();
    all.flat_map(|one| one.paths.iter().map(|path| row(stack.pid, one, path)))
}

fn row(pid: u32, association: &AssociationStatus, path: &PathStatus) -> Row {
    Row {
        pid,
        association: association.id,
        interface: path.interface.clone(),
        local: path.local,
        remote: path.remote,
        state: path.state.clone(),
        primary: path.primary,
        policy: words(&path.policy),
        peer_policy: words(&path.peer_policy),
        bytes_sent: path.bytes_sent,
        bytes_received: path.bytes_received,
        idle: path.idle.clone(),
        idle_reason: path.idle_reason,
        withheld_addresses: association.withheld_addresses,
    }
}

const HEAD: [&str; 9] =
    ["STACK", "DEV", "LOCAL", "REMOTE", "STATE", "POLICY", "PEER'S", "SENT", "RECEIVED"];

fn print_table(rows: &[Row]) {
    if rows.is_empty() {
        return println!("no stack that runs here has a path now");
    }
    let cells = |row: &Row| {
        let primary = if row.primary { "*" } else { "" };
        let state = format!("{}{primary}", row.state);
        [
            format!("{}/{}", row.pid, row.association),
            row.interface.clone(),
            row.local.ip().to_string(),
            row.remote.to_string(),
            state,
            row.policy.clone(),
            row.peer_policy.clone(),
            bytes(row.bytes_sent),
            bytes(row.bytes_received),
        ]
    };
    let table: Vec<_> =
        std::iter::once(HEAD.map(str::to_owned)).chain(rows.iter().map(cells)).collect();
    let width = |column: usize| table.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<_> = (0..HEAD.len()).map(width).collect();
    let idle = std::iter::once("IDLE BECAUSE")
        .chain(rows.iter().map(|row| row.idle.as_deref().unwrap_or("-")));
    for (row, idle) in table.iter().zip(idle) {
        let padded = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        println!("{}  {idle}", padded.collect::<Vec<_>>().join("  "));
    }
    println!("(* primary)");
    // The peer's addresses may make several paths of the one.
    let withheld = |row: &Row| Some(((row.pid, row.association), row.withheld_addresses?));
    for ((pid, association), why) in rows.iter().filter_map(withheld).collect::<BTreeMap<_, _>>() {
        println!("{pid}/{association} has one path from here: {}", why.text());
    }
}
