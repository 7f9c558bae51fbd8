//! The keeper's side.

use super::{Answer, Kept, Request, SOCKET_MODE};
use crate::files::Writer;
use crate::files::contacts::{self, Contact};
use crate::files::peer_cache::{self, Job, PeerCache};
use crate::files::tickets;
use crate::files::usages::{self, Usage, UsageFile};
use crate::log;
use manypath_control::{ControlListener, ControlSocket, Incoming};
use manypath_net::Signals;
use manypath_sandbox::{CapabilitySet, Limits, confine};
use manypath_trust::{KnownPeersFile, TicketsFile};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// How often, and after which time, the names of the stack's sockets are looked at again at the end.
const CLEARINGS: usize = 10;
const CLEARING: Duration = Duration::from_millis(10);

/// Serves the stack behind `socket` until it ends.
///
/// # Errors
/// `socket` is none.
pub fn keep(socket: OwnedFd, kept: Kept) -> io::Result<()> {
    let socket = ControlSocket::adopt(socket)?;
    // It ends with its stack, which may still have something to save when both are told to end.
    let _signals = Signals::watch()?;
    // Its files may belong to other users than root.
    let of_files = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
    let capabilities = of_files | CapabilitySet::NET_ADMIN;
    let families = &[libc::AF_UNIX];
    let _ = confine(&Limits { user: None, capabilities, families, readable: None });
    let mut server = Server { kept, ..Server::default() };
    while let Ok(Incoming::Message(request, fd)) = socket.receive() {
        let (answer, given) = server.serve(request, fd);
        if socket.send(&answer, given.as_ref().map(AsFd::as_fd)).is_err() {
            break;
        }
    }
    server.clear_names();
    Ok(())
}

#[derive(Default)]
struct Server {
    kept: Kept,
    peers: Option<peer_cache::Writer>,
    keys: Option<Writer<Contact>>,
    tickets: Option<Writer<Vec<String>>>,
    budgets: Option<Writer<Vec<Usage>>>,
    quotas: Option<Writer<Vec<Usage>>>,
}

impl Server {
    fn serve(&mut self, request: Request, fd: Option<OwnedFd>) -> (Answer, Option<OwnedFd>) {
        let given = match request {
            Request::Greet => Ok(None),
            Request::Save(job) => return (answer(self.try_to_save(job)), None),
            Request::Remember(contact) => return (answer(self.try_to_remember(contact)), None),
            Request::KeepUsages(usages) => return (answer(self.try_to_keep(usages)), None),
            Request::KeepQuotas(usages) => return (answer(self.try_to_keep_quotas(usages)), None),
            Request::KeepTickets(lines) => return (answer(self.try_to_keep_tickets(lines)), None),
            Request::EnlargeBuffers => fd
                .ok_or_else(refused)
                .and_then(|socket| manypath_net::force_buffers(&socket))
                .map(|()| None),
            Request::Open(path) => self.open(&path).map(Some),
            Request::OpenLog => self.open_log().map(Some),
            Request::Bind(path) => self.bind(&path).map(Some),
        };
        match given {
            Ok(fd) => (Answer::Done, fd),
            Err(error) if error.kind() == io::ErrorKind::NotFound => (Answer::Missing, None),
            Err(error) => (Answer::Failed(error.to_string()), None),
        }
    }

    fn open(&self, path: &Path) -> io::Result<OwnedFd> {
        check(self.kept.files.iter().any(|file| file == path))?;
        manypath_rules::open_kept_file(path).map(Into::into)
    }

    fn open_log(&self) -> io::Result<OwnedFd> {
        let path = self.kept.log.as_deref().ok_or_else(refused)?;
        log::append_to(path).map(Into::into)
    }

    /// The stack alone listens: when it closes its socket, the name is free for another.
    fn bind(&self, path: &Path) -> io::Result<OwnedFd> {
        check(self.kept.sockets.iter().any(|socket| socket == path))?;
        ControlListener::bind(path, SOCKET_MODE)?.give_away()
    }

    /// Removes the names at which nobody listens any more: a successor of the stack may have one of them, and the kernel
    /// may still be closing the sockets of a stack that was killed.
    fn clear_names(&self) {
        for _ in 0..CLEARINGS {
            let names = self.kept.sockets.iter();
            if names.filter(|name| ControlListener::clear(name).is_err()).count() == 0 {
                return;
            }
            thread::sleep(CLEARING);
        }
    }

    fn try_to_remember(&mut self, contact: Contact) -> io::Result<bool> {
        let file = KnownPeersFile::named(kept(self.kept.known_peers.as_ref())?);
        Writer::take_by(&mut self.keys, || contacts::writer(file), contact)
    }

    fn try_to_keep_tickets(&mut self, lines: Vec<String>) -> io::Result<bool> {
        let file = KnownPeersFile::named(kept(self.kept.known_peers.as_ref())?);
        Writer::take_by(&mut self.tickets, || tickets::writer(TicketsFile::beside(&file)), lines)
    }

    fn try_to_keep(&mut self, usages: Vec<Usage>) -> io::Result<bool> {
        let file = UsageFile::named(kept(self.kept.budgets.as_ref())?);
        Writer::take_by(&mut self.budgets, || file.writer(), usages)
    }

    fn try_to_keep_quotas(&mut self, usages: Vec<Usage>) -> io::Result<bool> {
        let beside = kept(self.kept.budgets.as_ref())?;
        let file = UsageFile::named(beside.with_file_name(usages::QUOTAS));
        Writer::take_by(&mut self.quotas, || file.writer(), usages)
    }

    fn try_to_save(&mut self, job: Job) -> Result<bool, String> {
        let Some(path) = &self.kept.peers else { return Err(refused().to_string()) };
        if self.peers.is_none() {
            let cache = PeerCache::named(path.clone());
            self.peers = Some(peer_cache::Writer::start(cache).map_err(|error| error.to_string())?);
        }
        self.peers.as_ref().map_or(Ok(true), |writer| writer.take(job))
    }
}

fn answer(taken: Result<bool, impl ToString>) -> Answer {
    match taken {
        Ok(true) => Answer::Done,
        Ok(false) => Answer::Busy,
        Err(why) => Answer::Failed(why.to_string()),
    }
}

fn check(is_kept: bool) -> io::Result<()> {
    if is_kept { Ok(()) } else { Err(refused()) }
}

fn kept(path: Option<&PathBuf>) -> io::Result<PathBuf> {
    path.cloned().ok_or_else(refused)
}

fn refused() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "not among the files of this keeper")
}
