//! What an attacker's process does: it runs in a network namespace, attacks, prints one line of JSON, and keeps
//! what it has until its input ends.

mod cheat;
mod craft;
mod exchange;
mod flood;
mod hoard;
mod keys;
mod open;
mod peer;
mod third;

use serde_json::Value;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};

/// Words of the command line after the attack's name.
pub(crate) struct Words(std::vec::IntoIter<String>);

impl Words {
    fn next<T: std::str::FromStr>(&mut self) -> io::Result<T> {
        let word = self.0.next().ok_or_else(|| io::Error::other("a word is missing"))?;
        word.parse().map_err(|_| io::Error::other(format!("'{word}' has no meaning here")))
    }

    fn rest(self) -> impl Iterator<Item = String> {
        self.0
    }
}

/// Addresses whose packets come to the attacker: 198.51.100.0/24.
pub(crate) fn other(host: u8) -> IpAddr {
    IpAddr::from([198, 51, 100, host])
}

/// Runs the attack that the words name.
pub(crate) fn run(words: Vec<String>) -> io::Result<()> {
    let mut words = Words(words.into_iter());
    let attack: String = words.next()?;
    let server: SocketAddr = words.next()?;
    let (report, _kept): (Value, Vec<peer::Peer>) = match attack.as_str() {
        "reflect" => (third::reflect(server, &mut words)?, Vec::new()),
        "listed" => (third::listed(server, &mut words)?, Vec::new()),
        "asconf" => (third::asconf(server, &mut words)?, Vec::new()),
        "flood" => (flood::flood(server, &mut words)?, Vec::new()),
        "sink" => (flood::sink(server)?, Vec::new()),
        "associations" => hoard::associations(server, &mut words)?,
        "hoard" => hoard::hoard(server, &mut words)?,
        "never-ack" => hoard::never_ack(server, &mut words)?,
        "exchanges" => exchange::exchanges(server, &mut words)?,
        "camp" => hoard::camp(server, &mut words)?,
        "optimistic" => (cheat::optimistic(server, &mut words)?, Vec::new()),
        "paced" => (cheat::paced(server, &mut words)?, Vec::new()),
        "storm" => (cheat::storm(server, &mut words)?, Vec::new()),
        "malformed" => (open::malformed(server, &mut words)?, Vec::new()),
        "open" => (open::open(server, words)?, Vec::new()),
        _ => return Err(io::Error::other(format!("there is no attack '{attack}'"))),
    };
    writeln!(io::stdout(), "{report}")?;
    io::stdout().flush()?;
    io::stdin().read_to_end(&mut Vec::new()).map(drop)
}
