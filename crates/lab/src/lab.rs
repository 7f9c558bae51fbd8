//! The door of the crate: a lab, held by this process or by another.

use crate::control::{Client, Clients, Server, Socket};
use crate::error::LabError;
use crate::holder::Holder;
use crate::host::{Host, Namespaces, path_name};
use crate::kernel::{self, Kernels};
use crate::messages::{Request, Response};
use crate::spec::{Change, LabSpec};
use crate::status::{CaptureSummary, Samples, Status};
use std::ffi::OsStr;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// Two hosts joined by emulated paths.
///
/// A lab made by [`Lab::start`] lives in this process: when it is dropped, or the process ends in
/// whatever way, every program that still runs on the hosts is ended and nothing is left. One got
/// by [`Lab::attach`] is another process's; dropping it only hangs up.
pub struct Lab {
    backend: Backend,
}

enum Backend {
    /// Dropped in this order: the server's sessions share the holder, and the clients are to know
    /// when all is over.
    Here {
        _server: Option<Server>,
        holder: Arc<Holder>,
        _clients: Clients,
    },
    Elsewhere(Client),
}

impl Lab {
    /// Brings a lab up in this process. The error says what the system does not permit.
    pub fn start(spec: LabSpec) -> Result<Self, LabError> {
        spec.check()?;
        let socket = spec.name.as_deref().map(Socket::bind).transpose()?;
        let leftover = socket.as_ref().and_then(Socket::leftover);
        let holder = Arc::new(Holder::start(&spec, leftover.as_ref())?);
        let clients = Clients::default();
        let serve = |socket| Server::start(socket, Arc::clone(&holder), Arc::clone(&clients));
        let server = socket.map(serve).transpose()?;
        Ok(Self { backend: Backend::Here { _server: server, holder, _clients: clients } })
    }

    /// Connects to the lab `name` that another process of this user holds.
    pub fn attach(name: &str) -> Result<Self, LabError> {
        Ok(Self { backend: Backend::Elsewhere(Client::connect(name)?) })
    }

    /// A command that will run `program` on `host`, as a child of this process, in its working
    /// directory, with its environment and streams.
    pub fn command(&self, host: Host, program: impl AsRef<OsStr>) -> Command {
        self.namespaces(host).command(program.as_ref())
    }

    /// The path with this name: "A", "B" ..
    pub fn path(&self, name: &str) -> Result<PathHandle<'_>, LabError> {
        let known = self.path_names().into_iter().find(|known| known.eq_ignore_ascii_case(name));
        let name = known.ok_or_else(|| LabError::NoSuchPath(name.to_owned()))?;
        Ok(PathHandle { lab: self, name })
    }

    /// Names of the paths, in order.
    pub fn path_names(&self) -> Vec<String> {
        (0..self.path_count()).map(path_name).collect()
    }

    /// IPv4 address of `host` on the path with this index (0 is A).
    pub fn address(&self, host: Host, path_index: usize) -> Ipv4Addr {
        host.address(path_index)
    }

    /// IPv6 address of `host` on the path with this index (0 is A).
    pub fn address_v6(&self, host: Host, path_index: usize) -> Ipv6Addr {
        host.address_v6(path_index)
    }

    /// Parameters and counters of everything.
    pub fn status(&self) -> Result<Status, LabError> {
        let Response::Status(status) = self.call(Request::Status)? else {
            return Err(unexpected());
        };
        Ok(status)
    }

    /// Bytes delivered per path, direction and 50 ms, from bucket number `first` until now. The
    /// last hour is kept; the answer says at which bucket it really begins.
    pub fn samples(&self, first: u64) -> Result<Samples, LabError> {
        let Response::Samples(samples) = self.call(Request::Samples { first })? else {
            return Err(unexpected());
        };
        Ok(samples)
    }

    /// Time since the lab's origin, from which the buckets of [`Lab::samples`] count.
    pub fn elapsed(&self) -> Result<Duration, LabError> {
        let Response::Elapsed(elapsed) = self.call(Request::Elapsed)? else {
            return Err(unexpected());
        };
        Ok(elapsed)
    }

    /// Starts to write every packet of every path to a new pcapng file, as it enters its path. A
    /// packet that the path drops has a comment that says why.
    pub fn capture(&self, file: &Path) -> Result<(), LabError> {
        let file = std::path::absolute(file).map_err(LabError::io("the capture's file name"))?;
        self.call(Request::Capture { file }).map(drop)
    }

    /// Ends the capture; its file is complete then.
    pub fn stop_capture(&self) -> Result<CaptureSummary, LabError> {
        let Response::Captured(summary) = self.call(Request::StopCapture)? else {
            return Err(unexpected());
        };
        Ok(summary)
    }

    /// Lets the hosts' kernels use every path for MPTCP connections that left opens to right: the
    /// kernel's own multipath TCP, for comparison. The error says what is missing for it.
    pub fn enable_mptcp(&self) -> Result<(), LabError> {
        kernel::enable_mptcp(&self.kernels())
    }

    /// Makes `name` ("cubic", "bbr" ..) the congestion control of the TCP connections that the hosts
    /// begin or accept from now on; otherwise it is the system's default, which differs between
    /// machines. The error says what is missing for it.
    pub fn set_congestion_control(&self, name: &str) -> Result<(), LabError> {
        kernel::set_congestion_control(&self.kernels(), name)
    }

    /// Waits until somebody asks for the lab's end: `manypath-lab down` from outside, which is
    /// granted only while this waits, or [`Ender::end`].
    pub(crate) fn wait_for_down(&self) {
        match &self.backend {
            Backend::Here { holder, .. } => holder.wait_for_down(),
            Backend::Elsewhere(client) => drop(client.wait_for_end()),
        }
    }

    /// A way to end [`Lab::wait_for_down`] from another thread.
    pub(crate) fn ender(&self) -> Option<Ender> {
        match &self.backend {
            Backend::Here { holder, .. } => Some(Ender(Arc::downgrade(holder))),
            Backend::Elsewhere(_) => None,
        }
    }

    /// Asks the process that holds the lab to end it, and waits for that.
    pub(crate) fn down(&self) -> Result<(), LabError> {
        self.call(Request::Down)?;
        self.wait_for_down();
        Ok(())
    }

    pub(crate) fn path_count(&self) -> usize {
        match &self.backend {
            Backend::Here { holder, .. } => holder.path_count(),
            Backend::Elsewhere(client) => client.path_count(),
        }
    }

    fn kernels(&self) -> Kernels<'_> {
        Kernels {
            namespaces: Host::ALL.map(|host| self.namespaces(host)),
            paths: self.path_count(),
        }
    }

    fn namespaces(&self, host: Host) -> &Namespaces {
        match &self.backend {
            Backend::Here { holder, .. } => holder.namespaces(host),
            Backend::Elsewhere(client) => client.namespaces(host),
        }
    }

    fn call(&self, request: Request) -> Result<Response, LabError> {
        match &self.backend {
            Backend::Here { holder, .. } => holder.handle(request),
            Backend::Elsewhere(client) => client.call(&request),
        }
    }
}

impl std::fmt::Debug for Lab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lab").field("paths", &self.path_count()).finish_non_exhaustive()
    }
}

/// Ends the waiting for a lab's end.
pub(crate) struct Ender(std::sync::Weak<Holder>);

impl Ender {
    pub(crate) fn end(&self) {
        if let Some(holder) = self.0.upgrade() {
            holder.want_down();
        }
    }
}

/// One path of a lab.
#[derive(Debug)]
pub struct PathHandle<'a> {
    lab: &'a Lab,
    name: String,
}

impl PathHandle<'_> {
    /// Changes both directions now.
    pub fn set(&self, changes: &[Change]) -> Result<(), LabError> {
        self.change(None, changes)
    }

    /// Changes the direction towards `host` now.
    pub fn set_towards(&self, host: Host, changes: &[Change]) -> Result<(), LabError> {
        self.change(Some(host), changes)
    }

    /// Cuts the path: both directions become black holes.
    pub fn down(&self) -> Result<(), LabError> {
        self.set(&[Change::Down])
    }

    /// Mends it.
    pub fn up(&self) -> Result<(), LabError> {
        self.set(&[Change::Up])
    }

    fn change(&self, towards: Option<Host>, changes: &[Change]) -> Result<(), LabError> {
        let (path, changes) = (self.name.clone(), changes.to_vec());
        self.lab.call(Request::Change { path, towards, changes }).map(drop)
    }
}

fn unexpected() -> LabError {
    LabError::Refused("the lab gave an answer that does not fit".into())
}
