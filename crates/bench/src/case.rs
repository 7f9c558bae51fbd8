//! What is measured: transports, workloads, and with which parameters.

use crate::job::{Carrier, Task};
use serde::Serialize;
use std::time::Duration;

/// What carries the bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// The kernel's TCP, with a pinned congestion control.
    Tcp,
    /// The kernel's multipath TCP, likewise.
    Mptcp,
    /// The product: a TCP program under `manypath run`, to a service behind `manypath serve`.
    Manypath,
    /// An association alone: the engine over UDP sockets, without shim, stack and flows.
    Association,
    /// The same, encrypted as the product is, and timed from the client's connect on.
    Encrypted,
    /// UDP with segmentation offload: the bound of everything over UDP.
    Udp,
    /// iperf3 over TCP: somebody else's measure of the same path.
    Iperf3,
}

impl Transport {
    /// All, in the order of tables.
    pub const ALL: [Self; 7] = [
        Self::Tcp,
        Self::Mptcp,
        Self::Manypath,
        Self::Association,
        Self::Encrypted,
        Self::Udp,
        Self::Iperf3,
    ];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Mptcp => "mptcp",
            Self::Manypath => "manypath",
            Self::Association => "association",
            Self::Encrypted => "encrypted",
            Self::Udp => "udp",
            Self::Iperf3 => "iperf3",
        }
    }

    /// What its programs use.
    pub(crate) const fn carrier(self) -> Carrier {
        match self {
            Self::Tcp | Self::Manypath | Self::Iperf3 => Carrier::Tcp,
            Self::Mptcp => Carrier::Mptcp,
            Self::Association => Carrier::Association,
            Self::Encrypted => Carrier::EncryptedAssociation,
            Self::Udp => Carrier::Datagrams,
        }
    }

    /// Whether the workload can be had with it; if not, why.
    pub(crate) fn can(self, workload: Workload) -> Result<(), &'static str> {
        let one_way = matches!(
            workload,
            Workload::Throughput { flows: 1, direction: Direction::Up | Direction::Down }
        );
        match (self, workload) {
            (Self::Tcp | Self::Mptcp | Self::Manypath, _) => Ok(()),
            (Self::Association | Self::Encrypted | Self::Iperf3, Workload::Throughput { .. }) => {
                Ok(())
            }
            (Self::Udp, _) if one_way => Ok(()),
            (Self::Udp, Workload::Throughput { .. }) => Err("udp measures one flow one way"),
            (Self::Association | Self::Encrypted | Self::Udp | Self::Iperf3, _) => {
                Err("only throughput is measured")
            }
        }
    }
}

/// Which way bytes go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From client to server.
    Up,
    /// From server to client.
    Down,
    /// Both at once.
    Both,
}

/// What is done with connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workload {
    /// As many bytes as possible.
    Throughput {
        /// Connections at a time.
        flows: u32,
        /// Which way.
        direction: Direction,
    },
    /// Questions and answers over one connection; beside another one that sends what it can, or not.
    Latency {
        /// Whether there is another one.
        loaded: bool,
    },
    /// Connections one after the other, so many at a time.
    Connects {
        /// At a time.
        flows: u32,
    },
}

impl Workload {
    /// As in the results.
    pub fn name(self) -> String {
        match self {
            Self::Throughput { flows, direction } => {
                let name = match direction {
                    Direction::Up => "throughput",
                    Direction::Down => "reverse",
                    Direction::Both => "bidir",
                };
                if flows == 1 { name.to_owned() } else { format!("{name}-{flows}") }
            }
            Self::Latency { loaded: false } => "latency".to_owned(),
            Self::Latency { loaded: true } => "latency-loaded".to_owned(),
            Self::Connects { .. } => "connects".to_owned(),
        }
    }

    /// What the client does with its main connections.
    pub(crate) fn client_task(self) -> Task {
        match self {
            Self::Throughput { direction: Direction::Up, .. } | Self::Latency { loaded: true } => {
                Task::Send
            }
            Self::Throughput { direction: Direction::Down, .. } => Task::Receive,
            Self::Throughput { direction: Direction::Both, .. } => Task::Both,
            Self::Latency { loaded: false } => Task::Ask,
            Self::Connects { .. } => Task::Connect,
        }
    }

    pub(crate) fn flows(self) -> u32 {
        match self {
            Self::Throughput { flows, .. } | Self::Connects { flows } => flows,
            Self::Latency { .. } => 1,
        }
    }
}

/// With which parameters.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Length of what is measured of a run.
    pub time: Duration,
    /// What goes before, unmeasured; `None`: as long as the path needs.
    pub omit: Option<Duration>,
    /// Bytes after which a run ends, instead of a time.
    pub bytes: Option<u64>,
    /// Bytes of each write or message; `None`: 128 KiB, for associations 16 KiB.
    pub length: Option<u32>,
    /// Rounds: runs of each case and transport.
    pub runs: u32,
    /// First of the ports: control, data, more data, manypath's UDP.
    pub port: u16,
    /// Congestion control of TCP and MPTCP.
    pub congestion: String,
    /// Period of the interval reports.
    pub interval: Duration,
}

/// Bytes of a question, and of its answer.
const QUESTION: u32 = 64;

impl Settings {
    /// Port of the programs' service.
    pub(crate) fn data_port(&self) -> u16 {
        self.port.saturating_add(1)
    }

    /// Port of the service that answers beside.
    pub(crate) fn answer_port(&self) -> u16 {
        self.port.saturating_add(2)
    }

    /// UDP port of the server's manypath.
    pub(crate) fn manypath_port(&self) -> u16 {
        self.port.saturating_add(3)
    }

    pub(crate) fn length(&self, task: Task, transport: Transport) -> u32 {
        match (task, transport) {
            (Task::Ask | Task::Answer, _) => QUESTION,
            (_, Transport::Association | Transport::Encrypted) => self.length.unwrap_or(16 << 10),
            (_, _) => self.length.unwrap_or(128 << 10),
        }
    }
}
