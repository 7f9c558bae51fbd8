//! `--verify`: whether copies are what their originals are, by checksums that both ends read from their disks.

use super::link::{Link, interrupted};
use super::progress::{Copied, Progress};
use super::remote::Remote;
use crate::FAILED;
use crate::failure::Failure;
use crate::shell::in_apostrophes;
use manypath_ssh::{Event, Pull, Start, Stream};
use sha2::{Digest, Sha256};
use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

/// A signal is noticed within this.
const LOOK: Duration = Duration::from_millis(200);
/// The longest command: servers and shells take more.
const LONGEST_COMMAND: usize = 32 << 10;

/// Compares all copies that are complete; those that differ are told and counted as failed. Ends the sessions of SFTP: a server
/// may allow no more than those.
pub(crate) fn verify(remote: &mut Remote, progress: &mut Progress) -> Result<(), Failure> {
    let copied = progress.take_copied();
    let link = remote.link_mut();
    link.close_channels()?;
    for batch in batches(&copied) {
        let (own, theirs) = std::thread::scope(|scope| {
            let own = scope.spawn(|| batch.iter().map(|one| sum(&one.here)).collect::<Vec<_>>());
            let theirs = sums_there(link, batch);
            (own.join().unwrap_or_default(), theirs)
        });
        for ((one, own), theirs) in batch.iter().zip(own).zip(theirs?) {
            let name = one.here.display().to_string();
            match own {
                Ok(own) if own == theirs => {}
                Ok(_) => progress.spoil_file(&name, "the copy differs from its original"),
                Err(e) => progress.spoil_file(&name, &format!("not verified: {e}")),
            }
        }
    }
    Ok(())
}

/// As many files at a time as one command can name.
fn batches(copied: &[Copied]) -> impl Iterator<Item = &[Copied]> {
    let mut length = 0;
    copied.chunk_by(move |_, next| {
        length += in_apostrophes(&next.there).len() + 1;
        let fits = length < LONGEST_COMMAND;
        length = if fits { length } else { 0 };
        fits
    })
}

fn sum(path: &Path) -> std::io::Result<String> {
    let mut file = std::fs::File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        let bytes = file.read(&mut buffer)?;
        if bytes == 0 {
            break;
        }
        hash.update(&buffer[..bytes]);
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn sums_there(link: &mut Link, batch: &[Copied]) -> Result<Vec<String>, Failure> {
    let mut command = b"sha256sum --".to_vec();
    for one in batch {
        command.push(b' ');
        command.extend(in_apostrophes(&one.there));
    }
    let (status, output) = output_of(link, &command)?;
    // A name with special characters has a backslash in front of its line.
    let text = String::from_utf8_lossy(&output).into_owned();
    let lines = text.lines().filter_map(|line| line.trim_start_matches('\\').get(..64));
    let sums: Vec<String> = lines.map(str::to_owned).collect();
    if sums.len() == batch.len() {
        return Ok(sums);
    }
    Err(unable(match status {
        Some(127) => "it has no sha256sum",
        _ => "its sha256sum fails",
    }))
}

fn unable(reason: &str) -> Failure {
    Failure::new(format!("copied, but the server cannot verify it: {reason}"))
        .hint("the server must allow commands, not only SFTP; leave out --verify to skip the check")
}

/// Status and output of a command there, for which nothing else may be going on.
fn output_of(link: &mut Link, command: &[u8]) -> Result<(Option<u32>, Vec<u8>), Failure> {
    let now = link.now();
    let own = link.connection_mut(0).open_session(now, Pull::Window);
    let own = own.ok_or_else(|| Failure::new("out of memory for another window"))?;
    let (mut status, mut output) = (None, Vec::new());
    loop {
        link.turn(Some(LOOK), &mut Vec::new())?;
        if link.is_interrupted() {
            return Err(interrupted());
        }
        let now = link.now();
        let connection = link.connection_mut(0);
        while let Some(event) = connection.poll_event() {
            match event {
                Event::Opened(channel) => connection.start(channel, Start::Exec(command)),
                Event::Started(channel) => connection.end(channel),
                Event::OpenFailed(_, reason) => return Err(unable(&reason)),
                Event::StartRefused(_) => return Err(unable("it runs no commands")),
                Event::Data(channel, stream, bytes) => {
                    match stream {
                        Stream::Output => output.extend_from_slice(&bytes),
                        Stream::Error => drop(std::io::stderr().write_all(&bytes)),
                    }
                    connection.consumed(now, channel, bytes.len());
                }
                Event::ExitStatus(_, code) => status = Some(code),
                Event::Closed(channel) if channel == own => return Ok((status, output)),
                Event::Ready
                | Event::Writable(_)
                | Event::End(_)
                | Event::ExitSignal(..)
                | Event::Closed(_) => {}
            }
        }
    }
}

impl Link {
    /// Closes all channels and waits until they are.
    fn close_channels(&mut self) -> Result<(), Failure> {
        self.close_all();
        while self.open_channels() > 0 {
            self.turn(Some(LOOK), &mut Vec::new())?;
            if self.is_interrupted() {
                return Err(interrupted().with_status(FAILED));
            }
            self.drop_events();
        }
        self.drop_events();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_what_they_are_in_a_shell() {}

    #[test]
    fn every_file_is_in_one_command_that_is_not_too_long() {
        let one = |number: usize| Copied {
            here: number.to_string().into(),
            there: format!("{number:01000}").into_bytes(),
        };
        let copied: Vec<Copied> = (0..100).map(one).collect();
        let all: Vec<&[Copied]> = batches(&copied).collect();
        assert_eq!(all.iter().map(|batch| batch.len()).sum::<usize>(), 100);
        assert!(all.iter().all(|batch| batch.len() <= LONGEST_COMMAND / 1000 + 1), "{all:?}");
    }
}
