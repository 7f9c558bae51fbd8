//! A connection to the service as `manypath run` makes it: an embedded stack is asked for one.

use super::super::findings::Trial;
use crate::commands::run::{RunArgs, embedded_stack};
use clap::{Args, Command, FromArgMatches};
use manypath_control::{Reply, Request, Role};
use manypath_gate::StackChoice;
use manypath_gate::stack_link::StackLink;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

/// How long the stack may take to start, and the peer to answer.
const LIMIT: Duration = Duration::from_secs(4);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);
/// The number of the connection.
const ID: u64 = 1;

/// Connects, and lets go at once: the service sees a client that has nothing to say.
pub(super) fn try_out(service: SocketAddr, udp_port: u16) -> Trial {
    let unknown = |why: String| Trial::Unknown { why };
    let choice = match stack(udp_port, &[]) {
        Ok(choice) => choice,
        Err(why) => return unknown(why),
    };
    let mut link = match StackLink::new(&choice, Role::Launcher) {
        Ok(link) => link,
        Err(error) => return unknown(error.to_string()),
    };
    link.send(Request::Open { id: ID, destination: service, source: None, blocking: true }, None);
    let trial = wait(&mut link);
    link.send(Request::Cancel { id: ID }, None);
    link.send(Request::Stop, None);
    end(link);
    trial
}

/// A stack with these options that reads the user's files, and neither reads nor writes what other stacks remember.
pub(in crate::commands::doctor) fn stack(
    udp_port: u16,
    options: &[&str],
) -> Result<StackChoice, String> {
    let port = udp_port.to_string();
    let words = [&["run", "--peer-port", &port], options, &["--", "true"]].concat();
    let matches = RunArgs::augment_args(Command::new("run")).try_get_matches_from(words);
    let run = matches.and_then(|matches| RunArgs::from_arg_matches(&matches));
    let run = run.map_err(|error| error.to_string())?;
    let choice = embedded_stack(&run.stack).map_err(|failure| failure.to_string())?;
    Ok(match choice {
        StackChoice::Embedded { exe, mut args, tells } => {
            args.push("--no-memory".into());
            StackChoice::Embedded { exe, args, tells }
        }
        other @ (StackChoice::Shared { .. }
        | StackChoice::Server { .. }
        | StackChoice::System { .. }) => other,
    })
}

fn wait(link: &mut StackLink) -> Trial {
    let until = Instant::now() + LIMIT;
    while Instant::now() < until {
        match link.receive() {
            Some(Reply::Accepted { .. }) => return Trial::Carried,
            Some(Reply::Direct { reason, .. }) => return Trial::Plain { reason },
            Some(Reply::Failed { errno, .. }) => return Trial::Failed { errno },
            Some(_) => {}
            None if link.flush_and_is_lost() => {
                return Trial::Unknown { why: "the stack has ended".to_owned() };
            }
            None => thread::sleep(PAUSE),
        }
    }
    Trial::Unknown { why: "no answer in time".to_owned() }
}

/// Waits until the stack's process is gone.
pub(in crate::commands::doctor) fn end(mut link: StackLink) {
    let until = Instant::now() + LIMIT;
    while link.has_process() && Instant::now() < until {
        link.flush_and_is_lost();
        link.reap();
        thread::sleep(PAUSE);
    }
}
