//! Networks of containers: who serves them, from when a program of theirs is seen until none is left.

use super::Redirector;
use crate::networks::{Containers, Inside, Network, Place, Survey, Watch, network_of};
use crate::report::Report;
use crate::rival::Rival;
use libc::pollfd;
use manypath_gate::poll::{interest, poll};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::process::{Child, ChildStdout};
use std::time::{Duration, Instant};

/// How often networks are looked for that nobody has told of.
const SCAN: Duration = Duration::from_secs(2);
/// The first pause after a cgroup was made, until its programs are in the network that they are going to have; each
/// further one is twice as long.
const FIRST_LOOK: Duration = Duration::from_millis(10);
/// When one that could not be served is tried again.
const AGAIN: Duration = Duration::from_secs(60);
/// The same of one that was at work: its stack has died.
const SOON: Duration = Duration::from_secs(1);
/// How long a successor may take to serve the networks that are served here.
const HANDOVER: Duration = Duration::from_secs(60);
/// How long the end waits for reports.
const END_LIMIT: Duration = Duration::from_secs(4);
/// Each network has processes of its own.
const MAX_NETWORKS: usize = 256;
/// Programs of one cgroup may make networks as they like.
const MAX_IN_FOLDER: usize = 4;

/// Whoever serves one network.
#[derive(Debug)]
struct Server {
    place: Place,
    cookie: u64,
    child: Child,
    output: ChildStdout,
    /// What it has said since it was ready.
    said: Vec<u8>,
    ready: bool,
}

/// All networks except its own.
#[derive(Debug)]
pub(super) struct Networks {
    containers: Option<Containers>,
    servers: Vec<Server>,
    watch: Option<Watch>,
    scan_at: Instant,
    pause: Duration,
    failed: BTreeMap<Network, Instant>,
    /// Since a successor looks for networks: when those that it does not serve are left to plain TCP.
    handed_over: Option<Instant>,
    /// What was reported of networks that are served no longer.
    ended: Report,
    told: BTreeSet<String>,
    notices: Vec<String>,
}

impl Networks {
    pub(super) fn new(containers: Option<Containers>) -> io::Result<Self> {
        let watch = containers.is_some().then(Watch::new).transpose()?;
        let (scan_at, pause) = (Instant::now(), SCAN);
        let (servers, failed, handed_over) = Default::default();
        let (ended, told, notices) = Default::default();
        Ok(Self {
            containers,
            servers,
            watch,
            scan_at,
            pause,
            failed,
            handed_over,
            ended,
            told,
            notices,
        })
    }

    pub(super) fn interests(&self) -> impl Iterator<Item = pollfd> {
        let servers = self.servers.iter().map(|server| interest(server.output.as_raw_fd()));
        servers.chain(self.watch.iter().map(Watch::interest))
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.containers.is_some().then_some(self.scan_at)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// Adds what became of connections there.
    pub(super) fn add_to(&self, report: &mut Report) {
        report.containers = self.ended.containers;
        report.add(self.ended.clone());
    }

    fn tell(&mut self, text: String) {
        if self.told.insert(text.clone()) {
            self.notices.push(text);
        }
    }

    /// Whether another network may be served for a place; says why not.
    fn has_room(&mut self, place: &Place) -> bool {
        let same = |server: &&Server| server.place.folder == place.folder;
        let here = self.servers.iter().filter(same).count();
        let room = self.servers.len() < MAX_NETWORKS && here < MAX_IN_FOLDER;
        if !room {
            let folder = place.folder.display();
            self.tell(format!("containers: too many networks; one of {folder} stays plain TCP"));
        }
        room
    }

    fn start(&mut self, place: Place) -> io::Result<()> {
        let Some(containers) = &self.containers else { return Ok(()) };
        let Some(inside) = Inside::of(&place)? else { return Ok(()) };
        let mut child = inside.start(containers, &place)?;
        let Some(output) = child.stdout.take() else { return Ok(()) };
        let fd = output.as_raw_fd();
        // SAFETY: plain numbers.
        unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) };
        let (said, ready) = (Vec::new(), false);
        self.servers.push(Server { place, cookie: inside.cookie, child, output, said, ready });
        Ok(())
    }

    /// `late`: what the successor has not taken over by now it does not serve. Nobody has died there: the server is not
    /// to serve again, which it has to know before it hands over.
    fn leave_to_successor(&self, late: bool) {
        let signals = [libc::SIGUSR2, libc::SIGUSR1];
        for server in self.servers.iter().filter(|_| late) {
            signals.into_iter().for_each(|signal| server.signal(signal));
        }
    }

    /// Ends those whose programs have gone.
    fn end_idle(&self, survey: &Survey) {
        for server in self.servers.iter().filter(|one| !survey.contains(one.place.network)) {
            server.terminate();
        }
    }
}

impl Server {
    fn terminate(&self) {
        self.signal(libc::SIGTERM);
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: plain numbers; the child has not been waited for.
        unsafe { libc::kill(self.child.id().cast_signed(), signal) };
    }

    /// Takes what it says; true when it has ended.
    fn read(&mut self) -> bool {
        let mut room = [0; 4096];
        loop {
            match self.output.read(&mut room) {
                Ok(0) => return true,
                Ok(length) => self.said.extend(room.get(..length).unwrap_or_default()),
                Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
            }
        }
    }

    /// Whether it has become ready just now.
    fn has_become_ready(&mut self) -> bool {
        let ready = self.said.starts_with(b"READY\n");
        ready && !std::mem::replace(&mut self.ready, true)
    }

    /// Its report, if it has ended well.
    fn finish(mut self) -> Option<Report> {
        let ended = self.child.wait().is_ok_and(|status| status.success());
        let last = self.said.trim_ascii_end().rsplit(|byte| *byte == b'\n').next()?;
        serde_json::from_slice(last).ok().filter(|_| ended)
    }
}

impl Redirector {
    /// Says once that programs of containers were left alone, if nobody has asked for them.
    pub(super) fn name_containers(&mut self) {
        let asked = self.options.inner || self.options.containers.is_some();
        if asked || !self.networks.told.is_empty() {
            return;
        }
        if self.tables.counts().contains_key("other-network-namespace") {
            let text = "programs in network namespaces of their own use plain TCP: --containers carries them";
            self.networks.tell(text.to_owned());
            (self.options.notice)(text);
        }
    }

    /// Sees to the networks of containers.
    pub(super) fn handle_networks(&mut self, now: Instant) {
        self.hear_servers();
        if self.networks.watch.as_ref().is_some_and(Watch::drain) {
            self.networks.pause = FIRST_LOOK;
            self.networks.scan_at = now + FIRST_LOOK;
        }
        if self.networks.deadline().is_some_and(|at| now >= at) {
            self.networks.pause = (2 * self.networks.pause).min(SCAN);
            self.networks.scan_at = now + self.networks.pause;
            self.look_for_networks(now);
        }
        for text in std::mem::take(&mut self.networks.notices) {
            (self.options.notice)(&text);
        }
    }

    fn look_for_networks(&mut self, now: Instant) {
        let folders = self.group.folders();
        if let Some(watch) = &mut self.networks.watch {
            watch.set(&folders);
        }
        let survey = Survey::of(folders);
        if survey.denied {
            let text = "containers: some processes may not be looked at: CAP_SYS_PTRACE is missing";
            self.networks.tell(text.to_owned());
        }
        self.networks.end_idle(&survey);
        self.networks.failed.retain(|_, until| now < *until);
        if let Some(limit) = self.networks.handed_over {
            return self.networks.leave_to_successor(now >= limit);
        }
        let Ok(own) = network_of(std::process::id()) else { return };
        let served = &self.networks.servers;
        let served = served.iter().map(|one| (one.place.network, one.place.folder.clone()));
        for place in survey.unserved(self.group.path(), own, served.collect()) {
            self.serve_network(place, now);
        }
    }

    fn serve_network(&mut self, mut place: Place, now: Instant) {
        let network = place.network;
        if self.networks.failed.contains_key(&network) || !self.networks.has_room(&place) {
            return;
        }
        // It takes over only from one of the same folder, which may have been chosen among other ones.
        let before = self.options.replace.then(|| Rival::within(&place.folder, network)).flatten();
        if let Some(rival) = before.filter(|one| one.group.starts_with(self.group.path())) {
            place.folder = rival.group;
        }
        let Err(error) = self.networks.start(place) else { return };
        // The process has gone meanwhile.
        if matches!(error.raw_os_error(), None | Some(libc::ENOENT | libc::ESRCH)) {
            return;
        }
        self.networks.failed.insert(network, now + AGAIN);
        let denied = error.kind() == io::ErrorKind::PermissionDenied;
        let cure = if denied { ": CAP_SYS_ADMIN is missing" } else { "" };
        self.networks.tell(format!("containers stay plain TCP: {error}{cure}"));
    }

    fn hear_servers(&mut self) {
        let mut at = 0;
        while let Some(server) = self.networks.servers.get_mut(at) {
            let ended = server.read();
            if server.has_become_ready() {
                self.networks.ended.containers += 1;
                // Else it is only counted twice.
                let _ = self.tables.add_network(server.cookie);
            }
            match ended {
                true => self.on_server_ended(at),
                false => at += 1,
            }
        }
    }

    fn on_server_ended(&mut self, at: usize) {
        let server = self.networks.servers.swap_remove(at);
        self.tables.remove_network(server.cookie);
        let Place { network, folder, .. } = server.place.clone();
        let pause = if server.ready { SOON } else { AGAIN };
        let Some(report) = server.finish() else {
            self.networks.failed.insert(network, Instant::now() + pause);
            let (folder, seconds) = (folder.display(), pause.as_secs());
            let text = format!("containers: programs of {folder} use plain TCP for {seconds} s");
            return self.networks.tell(text);
        };
        self.networks.ended.add(report);
    }

    /// The successor looks for networks from now on. Those that are served here take what is new until they are taken
    /// over one by one.
    pub(super) fn hand_networks_over(&mut self, now: Instant) {
        self.networks.handed_over = Some(now + HANDOVER);
    }

    /// Looks for networks again.
    pub(super) fn resume_networks(&mut self, now: Instant) {
        (self.networks.handed_over, self.networks.scan_at) = (None, now);
    }

    /// Nobody stays in a container's network.
    pub(super) fn end_networks(&mut self) {
        self.networks.servers.iter().for_each(Server::terminate);
        let limit = Instant::now() + END_LIMIT;
        while !self.networks.servers.is_empty() && Instant::now() < limit {
            let mut entries: Vec<pollfd> = self.networks.interests().collect();
            poll(&mut entries, Some(Duration::from_millis(50)));
            self.hear_servers();
        }
        for server in &mut self.networks.servers {
            let _ = server.child.kill();
        }
    }
}
