//! Two hosts joined by emulated paths, for real programs.
//!
//! ```text
//!  host left (namespaces)          this process             host right (namespaces)
//!  programs ─ pathA 10.77.1.1 ═ TUN ═ thread: Link ⇄ Link ═ TUN ═ pathA 10.77.1.2 ─ programs
//!           ─ pathB 10.77.2.1 ═ TUN ═ thread: Link ⇄ Link ═ TUN ═ pathB 10.77.2.2 ─
//! ```
//!
//! The links are those of [`manypath_sim`]: what the simulator shows is what programs meet here.
//! The hosts are network namespaces that have no other network and no name in the file system; a
//! small anchor process per host keeps them and ends everything when the lab's process is gone.
//! It works as root and, without any privilege, in user namespaces.
//!
//! ```no_run
//! use manypath_lab::{Change, Host, Lab, LabSpec};
//! let lab = Lab::start(LabSpec::new(vec!["20mbit,10ms,100".parse()?, "10mbit,40ms,100".parse()?]))?;
//! let mut server = lab.command(Host::Right, "python3").args(["-m", "http.server", "80"]).spawn()?;
//! lab.path("A")?.set(&[Change::Down])?;
//! lab.command(Host::Left, "curl").arg("http://10.77.2.2/").status()?;
//! # server.kill()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod cli;
mod control;
mod emulator;
mod error;
mod holder;
mod host;
mod kernel;
mod lab;
mod messages;
mod spec;
mod status;
mod sys;
mod units;
mod wires;

pub use error::LabError;
pub use host::{Host, Isolation, MTU};
pub use kernel::force_buffers;
pub use lab::{Lab, PathHandle};
pub use manypath_sim::LinkConfig;
pub use spec::{Change, LabSpec, PathSpec};
pub use status::{
    Addresses, CaptureSummary, DirectionStatus, PathSamples, PathStatus, Samples, Status,
};
pub use wires::Wires;

/// Name of a lab when none is given.
pub const DEFAULT_NAME: &str = "default";

/// Gives the calling thread real-time priority, as the paths' threads have it, and no timer slack:
/// for a process on a host whose timing is to be measured while the machine does other work. Says
/// whether the system permits it (root, or `RLIMIT_RTPRIO`).
pub fn be_punctual() -> bool {
    sys::wait::be_punctual()
}
