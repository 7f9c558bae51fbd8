//! The process's side of a lab: the hosts' anchors, the paths, and the answers to requests.

use crate::emulator::{Capture, Clock, EmulatedPath, Recorder, Series};
use crate::error::LabError;
use crate::host::{
    Anchor, Host, HostUp, Isolation, Leftover, Namespaces, Plan, hosts_text, path_name,
};
use crate::messages::{Request, Response};
use crate::spec::{Change, LabSpec};
use crate::status::{
    Addresses, CaptureSummary, DirectionStatus, PathSamples, PathStatus, Samples, Status,
};
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Everything that a lab in this process owns. Dropping it takes the lab down.
pub(crate) struct Holder {
    name: Option<String>,
    isolation: Isolation,
    clock: Clock,
    paths: Vec<EmulatedPath>,
    namespaces: [Namespaces; 2],
    capture: Mutex<Option<(PathBuf, Capture)>>,
    end: End,
    /// Dropped last: that ends the programs on the hosts and waits until they are gone.
    anchors: [Anchor; 2],
}

/// How `lab down` reaches those who wait for it.
#[derive(Default)]
struct End {
    state: Mutex<EndState>,
    changed: Condvar,
}

#[derive(Default)]
struct EndState {
    /// Somebody waits: `down` can be granted.
    awaited: bool,
    wanted: bool,
}

impl Holder {
    /// Brings the hosts and paths of `spec` up. `leftover` is a file to remove at the end.
    pub(crate) fn start(spec: &LabSpec, leftover: Option<&Leftover>) -> Result<Self, LabError> {
        spec.check()?;
        let clock = Clock::start();
        let count = spec.paths.len();
        let (isolation, [left, right]) = start_hosts(spec.isolation, count, count, leftover)?;
        let seed = clock.wall_nanos(clock.now());
        let mut paths = Vec::new();
        let devices = left.devices.into_iter().zip(right.devices);
        for (index, (path, (left, right))) in spec.paths.iter().zip(devices).enumerate() {
            let (name, seed) = (path_name(index), seed ^ index as u64);
            paths.push(EmulatedPath::start(&name, path.clone(), [left, right], clock, seed)?);
        }
        Ok(Self {
            name: spec.name.clone(),
            isolation,
            clock,
            paths,
            namespaces: [left.namespaces, right.namespaces],
            capture: Mutex::default(),
            end: End::default(),
            anchors: [left.anchor, right.anchor],
        })
    }

    pub(crate) fn namespaces(&self, host: Host) -> &Namespaces {
        &self.namespaces[host.index()]
    }

    pub(crate) fn path_count(&self) -> usize {
        self.paths.len()
    }

    /// Answers a request, from this process or from another.
    pub(crate) fn handle(&self, request: Request) -> Result<Response, LabError> {
        match request {
            Request::Status => Ok(Response::Status(self.status())),
            Request::Samples { first } => Ok(Response::Samples(self.samples(first))),
            Request::Elapsed => {
                Ok(Response::Elapsed(self.clock.now().since(manypath_sim::Instant::ZERO)))
            }
            Request::Change { path, towards, changes } => self.change(&path, towards, &changes),
            Request::Capture { file } => self.start_capture(&file),
            Request::StopCapture => self.stop_capture().map(Response::Captured),
            Request::Down => self.request_down(),
        }
    }

    /// Waits until somebody asks for the end.
    pub(crate) fn wait_for_down(&self) {
        let mut state = lock(&self.end.state);
        state.awaited = true;
        while !state.wanted {
            state = self.end.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends [`Self::wait_for_down`], also a later one.
    pub(crate) fn want_down(&self) {
        lock(&self.end.state).wanted = true;
        self.end.changed.notify_all();
    }

    fn request_down(&self) -> Result<Response, LabError> {
        if !lock(&self.end.state).awaited {
            let pid = std::process::id();
            return Err(LabError::Refused(format!(
                "this lab is part of a running program (pid {pid}): end that instead"
            )));
        }
        self.want_down();
        Ok(Response::Done)
    }

    fn change(
        &self,
        path: &str,
        towards: Option<Host>,
        changes: &[Change],
    ) -> Result<Response, LabError> {
        let index = (0..self.paths.len()).find(|i| path_name(*i).eq_ignore_ascii_case(path));
        let index = index.ok_or_else(|| LabError::NoSuchPath(path.to_owned()))?;
        for host in Host::ALL.into_iter().filter(|host| towards.is_none_or(|to| to == *host)) {
            self.paths[index]
                .change(host, |config| changes.iter().for_each(|change| change.apply(config)));
        }
        Ok(Response::Done)
    }

    fn samples(&self, first: u64) -> Samples {
        let now = Series::bucket_of(self.clock.now());
        let first = first.max(Series::oldest(now)).min(now);
        let paths = self.paths.iter().enumerate().map(|(index, path)| PathSamples {
            name: path_name(index),
            towards_right: path.delivered(Host::Right, first, now),
            towards_left: path.delivered(Host::Left, first, now),
        });
        Samples { bucket: Series::BUCKET, first, paths: paths.collect() }
    }

    fn status(&self) -> Status {
        let paths = self.paths.iter().enumerate().map(|(i, path)| self.path_status(i, path));
        Status {
            name: self.name.clone(),
            pid: std::process::id(),
            isolation: self.isolation,
            uptime_s: self.clock.now().as_nanos() as f64 / 1e9,
            realtime: self.paths.iter().all(EmulatedPath::realtime),
            capture: lock(&self.capture).as_ref().map(|(file, _)| file.clone()),
            paths: paths.collect(),
        }
    }

    fn path_status(&self, index: usize, path: &EmulatedPath) -> PathStatus {
        let device = format!("path{}", path_name(index));
        let addresses =
            |host: Host| Addresses { v4: host.address(index), v6: host.address_v6(index) };
        PathStatus {
            name: path_name(index),
            left: addresses(Host::Left),
            right: addresses(Host::Right),
            towards_right: self.direction_status(Host::Right, path, &device),
            towards_left: self.direction_status(Host::Left, path, &device),
            failure: path.failure(),
            device,
        }
    }

    fn direction_status(&self, to: Host, path: &EmulatedPath, device: &str) -> DirectionStatus {
        const SECOND: u64 = 20;
        let state = path.state(to);
        let now = Series::bucket_of(self.clock.now());
        let recent: u64 = path.delivered(to, now.saturating_sub(SECOND), now).iter().sum();
        let seconds = Series::BUCKET.as_secs_f64() * now.clamp(1, SECOND) as f64;
        let counters = state.counters;
        DirectionStatus {
            delivered_bps: recent as f64 * 8.0 / seconds,
            queued: state.queued,
            queue_peak: counters.queue_peak,
            packets_in: counters.packets_in,
            bytes_in: counters.bytes_in,
            packets_out: counters.packets_out,
            bytes_out: counters.bytes_out,
            dropped_loss: counters.dropped_loss,
            dropped_queue: counters.dropped_queue,
            dropped_early: counters.dropped_early,
            marked: counters.marked,
            dropped_down: counters.dropped_down,
            dropped_overrun: overruns(&self.anchors[to.peer().index()], device),
            undeliverable: state.undeliverable,
            ..DirectionStatus::from_config(&state.config)
        }
    }

    fn start_capture(&self, file: &Path) -> Result<Response, LabError> {
        let mut capture = lock(&self.capture);
        if let Some((file, _)) = &*capture {
            let file = file.display();
            return Err(LabError::Refused(format!("a capture to {file} is running already")));
        }
        let names: Vec<String> = (0..self.paths.len()).map(path_name).collect();
        let (started, recorders) = Capture::start(file, &names, self.clock)?;
        self.set_recorders(recorders.into_iter().map(Some));
        *capture = Some((file.to_owned(), started));
        Ok(Response::Done)
    }

    fn stop_capture(&self) -> Result<CaptureSummary, LabError> {
        let running = lock(&self.capture).take();
        let none = || LabError::Refused("no capture is running".into());
        let (_, capture) = running.ok_or_else(none)?;
        self.set_recorders(std::iter::repeat_n(None, self.paths.len()));
        let (written, missed) = capture.finish()?;
        Ok(CaptureSummary { packets: written.packets, bytes: written.bytes, missed })
    }

    fn set_recorders(&self, recorders: impl Iterator<Item = Option<Recorder>>) {
        for (path, recorder) in self.paths.iter().zip(recorders) {
            path.set_recorder(recorder);
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // An unfinished capture still gets its last packets.
        let _ = self.stop_capture();
    }
}

/// Makes both hosts. They know each other's addresses on `paths` paths, and have `devices` TUN devices.
pub(crate) fn start_hosts(
    isolation: Isolation,
    paths: usize,
    devices: usize,
    leftover: Option<&Leftover>,
) -> Result<(Isolation, [HostUp; 2]), LabError> {
    let file = HostsFile::write(paths)?;
    let start = |isolation: Isolation| {
        let user = isolation == Isolation::UserNamespace;
        let host = |host| {
            let plan = Plan::new(host, user, devices, file.path.clone(), leftover.cloned());
            Anchor::start(&plan)
        };
        Ok((isolation, [host(Host::Left)?, host(Host::Right)?]))
    };
    match isolation {
        Isolation::Root | Isolation::UserNamespace => start(isolation),
        // Without privileges the first fails at once.
        Isolation::Auto => start(Isolation::Root).or_else(|_| start(Isolation::UserNamespace)),
    }
}

/// The hosts(5) file, there until both hosts have mounted it.
struct HostsFile {
    path: CString,
}

impl HostsFile {
    fn write(paths: usize) -> Result<Self, LabError> {
        use std::os::unix::ffi::{OsStrExt, OsStringExt};
        let mut template =
            std::env::temp_dir().join("manypath-hosts-XXXXXX").into_os_string().into_vec();
        template.push(0);
        // SAFETY: the template is a writable C string.
        let fd = unsafe { libc::mkstemp(template.as_mut_ptr().cast()) };
        template.pop();
        let what = "writing the hosts file in the temporary directory";
        let fd = crate::sys::check(fd).map_err(LabError::io(what))?;
        // SAFETY: mkstemp has just made the descriptor.
        let fd: OwnedFd = unsafe { std::os::fd::FromRawFd::from_raw_fd(fd) };
        let mut file = std::fs::File::from(fd);
        std::io::Write::write_all(&mut file, hosts_text(paths).as_bytes())
            .and_then(|()| {
                file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
            })
            .map_err(LabError::io(what))?;
        let path = CString::new(std::ffi::OsStr::from_bytes(&template).as_bytes());
        path.map(|path| Self { path }).map_err(|_| LabError::Invalid("TMPDIR is no path".into()))
    }
}

impl Drop for HostsFile {
    fn drop(&mut self) {
        // SAFETY: the path is a valid C string.
        unsafe { libc::unlink(self.path.as_ptr()) };
    }
}

/// Packets that `device` on the anchor's host dropped because nobody read them in time.
fn overruns(anchor: &Anchor, device: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/net/dev", anchor.pid()));
    text.ok().and_then(|text| transmit_drops(&text, device)).unwrap_or(0)
}

/// The column of dropped packets on the transmit side of /proc/net/dev.
fn transmit_drops(text: &str, device: &str) -> Option<u64> {
    const TRANSMIT_DROPS: usize = 11;
    let is_device = |line: &&str| {
        line.trim_start().strip_prefix(device).is_some_and(|rest| rest.starts_with(':'))
    };
    let (_, numbers) = text.lines().find(is_device)?.split_once(':')?;
    numbers.split_ascii_whitespace().nth(TRANSMIT_DROPS)?.parse().ok()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
