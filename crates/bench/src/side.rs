//! One end of a measurement: starts programs there, asks them, and says what they have used.

use crate::job::{Answer, Job, Question};
use crate::usage::Usage;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Something that went wrong, in words for people.
pub type Outcome<T> = Result<T, String>;

/// What to start on a side.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Launch {
    /// A program with connections; through manypath, to a peer at this UDP port, if there is one.
    Worker {
        /// What it does.
        job: Job,
        /// `None`: the program by itself.
        manypath: Option<u16>,
    },
    /// `manypath serve` at this UDP port, for these services.
    Serve {
        /// TCP ports.
        allow: Vec<u16>,
        /// UDP port.
        port: u16,
    },
    /// iperf3 as a server.
    IperfServer {
        /// TCP port.
        port: u16,
    },
    /// iperf3 as a client, with these arguments.
    IperfClient(Vec<String>),
}

/// What `manypath run` has said about connections that it was to carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    /// Connections that the program opened.
    pub opened: u64,
    /// Those of them that became streams of an association.
    pub sctp: u64,
}

/// One end. Whatever it has started ends with [`Side::stop`], or when it is dropped.
pub(crate) trait Side {
    /// Starts something and waits until it is ready; returns its number.
    fn launch(&mut self, launch: &Launch) -> Outcome<usize>;
    /// Asks a worker.
    fn ask(&mut self, number: usize, question: Question) -> Outcome<Answer>;
    /// Waits for the end of something that ends by itself; what it has said.
    fn output(&mut self, number: usize) -> Outcome<String>;
    /// Looks which processes there are, for [`Side::usage`].
    fn look(&mut self) -> Outcome<()>;
    /// What they have used since they were started.
    fn usage(&mut self) -> Outcome<Usage>;
    /// Ends everything. If something was carried by manypath: how much.
    fn stop(&mut self) -> Outcome<Option<Carried>>;
    /// The address at which the other side finds this one.
    fn address(&self) -> IpAddr;
    /// Addresses that an association must be told to use; none: those of all interfaces.
    fn locals(&self) -> Vec<IpAddr>;
}
