//! `manypath cache`: what is known about peers, shown and forgotten.

use super::rules::print_json;
use crate::failure::Failure;
use clap::{Args, Subcommand};
use manypath_control::{ControlClient, Role, runtime};
use manypath_daemon::{PeerCache, PeerRecord};
use manypath_rules::KeptFileError;
use serde::Serialize;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// How long a stack may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// Show or clear the cache of peers and services.
///
/// A service known to be reached over SCTP is tried by SCTP; one known to have no manypath is plain
/// TCP at once. Entries expire (settings positive_cache_s and negative_cache_s). Kept in
/// $MANYPATH_PEERS or ~/.cache/manypath/peers; root's in /var/cache/manypath-root/peers.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath cache\n  manypath cache flush 192.0.2.7\n  manypath cache flush 192.0.2.7:22"
)]
pub(crate) struct CacheArgs {
    /// Print one JSON object.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    action: Option<CacheAction>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum CacheAction {
    /// Show the cache (the default).
    #[command(after_help = "Example:\n  manypath cache list --json")]
    List,
    /// Clear the entry of a peer or service, or all entries.
    #[command(after_help = "Example:\n  manypath cache flush\n  manypath cache flush 192.0.2.7:22")]
    Flush {
        /// ADDRESS or ADDRESS:PORT (default: all).
        peer: Option<String>,
    },
}

#[derive(Serialize)]
struct ListJson {
    peers: Vec<PeerJson>,
}

#[derive(Serialize)]
struct PeerJson {
    #[serde(flatten)]
    record: PeerRecord,
    remaining_s: u64,
}

#[derive(Serialize)]
struct FlushJson {
    forgotten: usize,
}

/// Shows or forgets.
pub(crate) fn cache(args: &CacheArgs) -> Result<u8, Failure> {
    match &args.action {
        None | Some(CacheAction::List) => list(args.json),
        Some(CacheAction::Flush { peer }) => {
            let (addr, port) = peer.as_deref().map_or(Ok((None, None)), parse)?;
            flush(addr, port, args.json)
        }
    }
}

fn list(json: bool) -> Result<u8, Failure> {
    let namespace = runtime::network_namespace().unwrap_or_default();
    let mut records = PeerCache::usual().read().map_err(failure)?;
    records.retain(|record| record.namespace == namespace);
    records.sort_by_key(|record| (record.addr, record.port));
    if json {
        let peer = |record: PeerRecord| {
            let remaining_s = record.remaining().as_secs();
            PeerJson { record, remaining_s }
        };
        return print_json(&ListJson { peers: records.into_iter().map(peer).collect() });
    }
    if records.is_empty() {
        println!("the cache of peers is empty");
    }
    for record in &records {
        let peer = record.port.map_or_else(
            || record.addr.to_string(),
            |port| SocketAddr::new(record.addr, port).to_string(),
        );
        let way = record.reason.map_or_else(
            || "carried over SCTP".to_owned(),
            |reason| format!("plain TCP: {reason}"),
        );
        println!("{peer}  {way}, expires in {} s", record.remaining().as_secs());
    }
    Ok(0)
}

/// Running stacks first: they would write down again what they know. Those that keep it elsewhere, as the
/// service does, forget it there.
fn flush(addr: Option<IpAddr>, port: Option<u16>, json: bool) -> Result<u8, Failure> {
    let cache = PeerCache::usual();
    let is_meant = |record: &&PeerRecord| record.is_of(addr, port);
    // A stack with the same file may be faster.
    let forgotten = cache.read().map_err(failure)?.iter().filter(is_meant).count();
    for stack in runtime::stacks() {
        let asked = ControlClient::connect(&stack.path, Role::Cli, ANSWER_LIMIT)
            .and_then(|client| client.forget_peers(addr, port));
        if let Err(error) = asked {
            eprintln!("manypath: stack {}: {error}", stack.name());
        }
    }
    cache.forget(addr, port).map_err(failure)?;
    if json {
        return print_json(&FlushJson { forgotten });
    }
    println!("{forgotten} entries forgotten");
    Ok(0)
}

fn parse(text: &str) -> Result<(Option<IpAddr>, Option<u16>), Failure> {
    if let Ok(addr) = text.parse::<IpAddr>() {
        return Ok((Some(addr), None));
    }
    let service: SocketAddr = text.parse().map_err(|_| {
        Failure::usage(format!("\"{text}\" is not a peer: write a numeric ADDRESS or ADDRESS:PORT"))
    })?;
    Ok((Some(service.ip()), Some(service.port())))
}

fn failure(error: KeptFileError) -> Failure {
    Failure::new(format!("{}: {}", error.path.display(), error.error))
}
