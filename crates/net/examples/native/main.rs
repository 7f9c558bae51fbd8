//! A native SCTP program over UDP: one association, no protocol of ours above it. Sends and receives a
//! number of bytes, both at the same time, and says what it saw; made to be tried against other SCTP
//! implementations (`docs/interop.md`).
//!
//! ```text
//! native listen  OWN[,OWN...]      [OPTION...]
//! native connect OWN[,OWN...] PEER [OPTION...]
//!
//! udp=9899 peer-udp=9899 port=5001   ports (port: of SCTP)
//! send=0 receive=0                   bytes
//! buffer=8388608                     each way
//! message=16384 streams=1 unordered=no
//! pr=lifetime:MS|retransmissions:N   what is done for messages at most
//! nr-sack=off interleaving=no partial-reliability=no reconfiguration=no multipath=yes
//! reset=no                           reset all outgoing streams and add two at the end
//! wait=no                            leave the end to the peer
//! seconds=60                         give up after this time
//! json                               the result as JSON
//! attended                           end only when standard input does: who repeats its last chunk is answered till then
//! ```
//!
//! The checksum of one direction: SHA-256 of the bytes of each stream, the digests of all streams
//! used XORed; with `unordered=yes` SHA-256 of each message, all of them XORed.

mod digest;
mod options;
mod report;
mod transfer;

use options::Options;
use std::process::ExitCode;
use transfer::Transfer;

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!(
                "native: {error}\nusage: native listen OWN | connect OWN PEER [OPTION=VALUE...]"
            );
            return ExitCode::from(2);
        }
    };
    let json = options.json;
    let report = Transfer::start(options).and_then(Transfer::run);
    match report {
        Ok(report) => {
            println!("{}", if json { report.json() } else { report.text() });
            if report.graceful() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("native: {error}");
            ExitCode::FAILURE
        }
    }
}
