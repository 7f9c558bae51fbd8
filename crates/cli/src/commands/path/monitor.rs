//! `manypath path monitor`: a line for each thing that happens to a path, of the user's stacks in this network
//! namespace or in all.

use super::words;
use crate::failure::Failure;
use manypath_control::path::PathEvent;
use manypath_control::runtime::StackSocket;
use manypath_control::status::StackStatus;
use manypath_control::{ControlClient, ControlError, Reply, Role, runtime};
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// How long a stack may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// How often it is looked for stacks that have come.
const SCAN_INTERVAL: Duration = Duration::from_millis(500);

/// What comes from the threads that listen to the stacks.
enum News {
    Event(PathEvent),
    /// The stack is listened to; whether it is in another network namespace.
    Begun(String, bool),
    /// The stack has ended, or does not understand.
    Ended(String, Option<String>),
}

#[derive(Serialize)]
struct Line<'a> {
    /// Milliseconds since 1970.
    time_ms: u128,
    #[serde(flatten)]
    event: &'a PathEvent,
}

/// Prints until it is interrupted, or nobody reads. Stacks of other network namespaces are left out unless
/// `all` is set.
pub(super) fn monitor(all: bool, json: bool) -> Result<u8, Failure> {
    let here = runtime::network_namespace().map_err(|e| Failure::new(e.to_string()))?;
    let (sender, receiver) = channel();
    let mut known = BTreeSet::new();
    loop {
        let running = runtime::stacks();
        // Another process may get the number of one that has ended.
        known.retain(|name| running.iter().any(|stack| stack.name() == *name));
        for stack in running {
            if known.insert(stack.name()) {
                let sender = sender.clone();
                thread::spawn(move || listen(&stack, here, all, &sender));
            }
        }
        match print(&receiver, &mut known, json) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(0),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Prints what comes until it is time to look for stacks again.
fn print(receiver: &Receiver<News>, known: &mut BTreeSet<String>, json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let until = Instant::now() + SCAN_INTERVAL;
    loop {
        match receiver.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(News::Event(event)) => print_event(&mut out, &event, json)?,
            Ok(News::Begun(..)) if json => {}
            Ok(News::Begun(name, false)) => writeln!(out, "stack {name}: watching its paths")?,
            Ok(News::Begun(name, true)) => {
                writeln!(out, "stack {name}: watching its paths, in another network namespace")?;
            }
            Ok(News::Ended(name, why)) => {
                // One that could not be asked is not asked again.
                match why {
                    Some(why) => eprintln!("manypath: stack {name}: {why}"),
                    None => drop(known.remove(&name)),
                }
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Ok(()),
        }
        out.flush()?;
    }
}

fn print_event(out: &mut impl Write, event: &PathEvent, json: bool) -> io::Result<()> {
    if json {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        serde_json::to_writer(&mut *out, &Line { time_ms: since.as_millis(), event })?;
        return writeln!(out);
    }
    let PathEvent { pid, association, interface, local, remote, state, .. } = event;
    let change = event.event.name();
    let (own, peers) = (words(&event.policy), words(&event.peer_policy));
    let of_peer =
        if event.peer_policy.is_default() { String::new() } else { format!(", peer's {peers}") };
    let local = local.ip();
    writeln!(
        out,
        "{change:9} {pid}/{association} {interface} {local} -> {remote} {state}, {own}{of_peer}"
    )
}

fn listen(stack: &StackSocket, here: u64, all: bool, news: &Sender<News>) {
    let ended = |why| News::Ended(stack.name(), why);
    let client = match begin(&stack.path, here, all) {
        // It stays as it is while it runs: nobody looks at it again.
        Ok(None) => return,
        Ok(Some((client, foreign))) => {
            // Whoever prints has gone: so has this process, soon.
            let _gone = news.send(News::Begun(stack.name(), foreign)).is_err();
            client
        }
        Err(error) => return drop(news.send(ended(Some(error.to_string())))),
    };
    while let Ok(reply) = client.receive() {
        if let Reply::Path(event) = reply
            && news.send(News::Event(event)).is_err()
        {
            return;
        }
    }
    let _gone = news.send(ended(None)).is_err();
}

/// Has a stack tell of its paths, unless it is in another network namespace than `here` and not `all` are
/// wanted; and whether it is.
fn begin(path: &Path, here: u64, all: bool) -> Result<Option<(ControlClient, bool)>, ControlError> {
    let client = ControlClient::connect(path, Role::Cli, ANSWER_LIMIT)?;
    let foreign = client.status::<StackStatus>()?.network_namespace != here;
    if foreign && !all {
        return Ok(None);
    }
    client.watch()?;
    Ok(Some((client, foreign)))
}
