//! The anchor: one small process per host that keeps the host's namespaces and cleans up.
//!
//! It is a fork that never execs. It makes the namespaces and the devices, passes their descriptors
//! to the holder and then waits for the end of the socket to the holder. However the holder ends,
//! by return, by Ctrl-C or by SIGKILL, the socket ends with it. Then the anchor ends every process
//! that still runs on the host, and itself; with the last process the namespaces are gone.
//!
//! The holder may have threads. Therefore nothing here that runs in the anchor allocates.

use super::Namespaces;
use super::plan::{Device, Leftover, Plan, SYSCTLS, UNPRIVILEGED_PORTS};
use crate::error::LabError;
use crate::sys::interface::{self, Configurator};
use crate::sys::process::{self, Fork};
use crate::sys::{fd_passing, namespace, open, write_file};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// The holder's end of an anchor. Dropping it ends the host and all that runs there.
#[derive(Debug)]
pub(crate) struct Anchor {
    pid: libc::pid_t,
    socket: Option<UnixStream>,
}

/// A host that is up: its anchor, the way into it, and its TUN devices in the order of the paths.
pub(crate) struct HostUp {
    pub anchor: Anchor,
    pub namespaces: Namespaces,
    pub devices: Vec<OwnedFd>,
}

impl Anchor {
    /// Makes the host that `plan` describes.
    pub(crate) fn start(plan: &Plan) -> Result<HostUp, LabError> {
        let (ours, theirs) = UnixStream::pair().map_err(LabError::io("socketpair"))?;
        // SAFETY: `run` only makes system calls.
        match unsafe { process::fork() }.map_err(LabError::io("fork"))? {
            Fork::Child => run(plan, theirs.as_fd()),
            Fork::Parent(pid) => {
                drop(theirs);
                let anchor = Self { pid, socket: Some(ours) };
                anchor.into_host(plan)
            }
        }
    }

    /// Its process id, through which /proc shows the host's devices.
    pub(crate) fn pid(&self) -> libc::pid_t {
        self.pid
    }

    fn into_host(self, plan: &Plan) -> Result<HostUp, LabError> {
        let mut report = [0; Report::LEN];
        let socket = self.socket.as_ref().map(AsFd::as_fd);
        let (len, mut fds) = match socket {
            Some(socket) => fd_passing::receive(socket, &mut report),
            None => Ok((0, Vec::new())),
        }
        .map_err(LabError::io("waiting for a host to come up"))?;
        let report = Report::from_bytes(report, len);
        if let Some(error) = report.error() {
            return Err(error);
        }
        let devices = fds.split_off(fds.len().saturating_sub(plan.devices.len()));
        let namespaces = Namespaces::from_fds(fds, plan.user_namespace)?;
        Ok(HostUp { anchor: self, namespaces, devices })
    }
}

impl Drop for Anchor {
    fn drop(&mut self) {
        self.socket = None;
        process::wait_for(self.pid);
    }
}

/// What the anchor is doing, so that a failure can name it.
#[derive(Clone, Copy)]
enum Step {
    Done,
    Detach,
    Namespaces,
    UserMap,
    OpenTun,
    CreateTun,
    Configure,
    Addresses,
    OpenNamespaces,
    Died,
}

impl Step {
    const ALL: [(Self, &'static str); 10] = [
        (Self::Done, "done"),
        (Self::Detach, "detaching from the terminal"),
        (Self::Namespaces, "making namespaces"),
        (Self::UserMap, "mapping the user id into the user namespace"),
        (Self::OpenTun, "opening /dev/net/tun"),
        (Self::CreateTun, "making a device with /dev/net/tun"),
        (Self::Configure, "configuring a device"),
        (Self::Addresses, "giving a device its addresses"),
        (Self::OpenNamespaces, "opening the new namespaces"),
        (Self::Died, "the host's process ended"),
    ];
}

/// The anchor's one message: the step that failed, or done, and the error number.
struct Report {
    step: Step,
    errno: i32,
}

impl Report {
    const LEN: usize = 5;

    fn to_bytes(&self) -> [u8; Self::LEN] {
        let [a, b, c, d] = self.errno.to_ne_bytes();
        [self.step as u8, a, b, c, d]
    }

    fn from_bytes([step, a, b, c, d]: [u8; Self::LEN], len: usize) -> Self {
        let known = Step::ALL.get(usize::from(step)).filter(|_| len == Self::LEN);
        let step = known.map_or(Step::Died, |(step, _)| *step);
        Self { step, errno: i32::from_ne_bytes([a, b, c, d]) }
    }

    fn error(&self) -> Option<LabError> {
        let (_, step) = Step::ALL[self.step as usize];
        match self.step {
            Step::Done => None,
            Step::Died => Some(LabError::Refused(step.to_owned())),
            Step::Detach
            | Step::Namespaces
            | Step::UserMap
            | Step::OpenTun
            | Step::CreateTun
            | Step::Configure
            | Step::Addresses
            | Step::OpenNamespaces => {
                let source = io::Error::from_raw_os_error(self.errno);
                Some(LabError::Hosts { step, source })
            }
        }
    }
}

/// The anchor's life.
fn run(plan: &Plan, socket: BorrowedFd<'_>) -> ! {
    process::close_all_but(socket);
    if let Err((step, error)) = make_host(plan, socket) {
        let report = Report { step, errno: error.raw_os_error().unwrap_or(0) };
        let _ = fd_passing::send(socket, &report.to_bytes(), &[]);
        process::exit_now(1);
    }
    wait_for_end(socket);
    clean_up(plan.leftover.as_ref());
    process::exit_now(0)
}

type StepResult<T> = Result<T, (Step, io::Error)>;

/// Attributes an error to a step.
fn at(step: Step) -> impl FnOnce(io::Error) -> (Step, io::Error) {
    move |error| (step, error)
}

fn make_host(plan: &Plan, socket: BorrowedFd<'_>) -> StepResult<()> {
    process::detach().map_err(at(Step::Detach))?;
    make_namespaces(plan)?;
    // Names are a comfort: programs work without.
    let _ = namespace::set_hostname(plan.host.name().as_bytes());
    let _ = namespace::detach_mounts()
        .and_then(|()| namespace::bind_mount(&plan.hosts_file, c"/etc/hosts"));
    set_sysctls(plan.user_namespace);
    make_devices(plan, socket)
}

fn make_namespaces(plan: &Plan) -> StepResult<()> {
    let flags = libc::CLONE_NEWNET | libc::CLONE_NEWNS | libc::CLONE_NEWUTS;
    if !plan.user_namespace {
        return namespace::unshare(flags).map_err(at(Step::Namespaces));
    }
    namespace::unshare(flags | libc::CLONE_NEWUSER).map_err(at(Step::Namespaces))?;
    let files: [(&CStr, &[u8]); 3] = [
        (c"/proc/self/setgroups", b"deny"),
        (c"/proc/self/uid_map", &plan.uid_map),
        (c"/proc/self/gid_map", &plan.gid_map),
    ];
    for (path, value) in files {
        write_file(path, value).map_err(at(Step::UserMap))?;
    }
    Ok(())
}

fn set_sysctls(user_namespace: bool) {
    for (path, value) in SYSCTLS {
        let _ = write_file(path, value);
    }
    if user_namespace {
        let _ = write_file(UNPRIVILEGED_PORTS.0, UNPRIVILEGED_PORTS.1);
    }
}

/// Makes the devices and reports to the holder, with the descriptors of namespaces and devices.
fn make_devices(plan: &Plan, socket: BorrowedFd<'_>) -> StepResult<()> {
    let configurator = Configurator::new().map_err(at(Step::Configure))?;
    configurator.set_up(&interface::name_of_loopback()).map_err(at(Step::Configure))?;
    let namespaces = open_namespaces()?;
    let mut devices = [const { None }; super::MAX_PATHS];
    for (device, slot) in plan.devices.iter().zip(&mut devices) {
        *slot = Some(make_device(device, &configurator)?);
    }
    let mut fds = [socket; fd_passing::MAX_FDS];
    let mut count = 0;
    let user = namespaces.iter().skip(usize::from(!plan.user_namespace));
    for fd in user.chain(devices.iter().flatten()) {
        fds[count] = fd.as_fd();
        count += 1;
    }
    let report = Report { step: Step::Done, errno: 0 };
    fd_passing::send(socket, &report.to_bytes(), &fds[..count])
        .map(drop)
        .map_err(at(Step::OpenNamespaces))
}

/// The caller's namespaces in the order in which they must be entered, the user namespace first.
fn open_namespaces() -> StepResult<[OwnedFd; 4]> {
    let get = |path: &CStr| open(path, libc::O_RDONLY).map_err(at(Step::OpenNamespaces));
    Ok([
        get(c"/proc/self/ns/user")?,
        get(c"/proc/self/ns/mnt")?,
        get(c"/proc/self/ns/uts")?,
        get(c"/proc/self/ns/net")?,
    ])
}

fn make_device(device: &Device, configurator: &Configurator) -> StepResult<OwnedFd> {
    let tun = interface::open_tun().map_err(at(Step::OpenTun))?;
    interface::create_tun(&tun, &device.name).map_err(at(Step::CreateTun))?;
    let name = &device.name;
    configurator.set_mtu(name, Device::MTU).map_err(at(Step::Configure))?;
    configurator.set_tx_queue(name, Device::TX_QUEUE).map_err(at(Step::Configure))?;
    configurator.set_address(name, device.v4, Device::PREFIX_V4).map_err(at(Step::Addresses))?;
    configurator.set_up(name).map_err(at(Step::Configure))?;
    configurator.add_address_v6(name, device.v6, Device::PREFIX_V6).map_err(at(Step::Addresses))?;
    Ok(tun)
}

/// Returns when the holder has closed its end of the socket, in whatever way.
fn wait_for_end(socket: BorrowedFd<'_>) {
    let mut byte = [0];
    loop {
        match fd_passing::receive_byte(socket, &mut byte) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Asks every process on the host to end, then makes them.
fn clean_up(leftover: Option<&Leftover>) {
    if let Some(file) = leftover {
        process::unlink_same(&file.path, file.device, file.inode);
    }
    const PAUSE_MS: i32 = 10;
    const POLITE_ROUNDS: i32 = 30;
    const ROUNDS: i32 = 300;
    for round in 0..ROUNDS {
        // One SIGTERM each is enough; what is still there after the polite rounds gets SIGKILL.
        let signal = match round {
            0 => libc::SIGTERM,
            _ if round < POLITE_ROUNDS => 0,
            _ => libc::SIGKILL,
        };
        if process::signal_network(signal).is_ok_and(|found| found == 0) {
            return;
        }
        process::pause(PAUSE_MS);
    }
}
