use super::socket_path;
use crate::error::LabError;
use crate::holder::Holder;
use crate::host::{Host, Leftover, Namespaces};
use crate::messages::{Hello, Response, VERSION};
use crate::sys::{fd_passing, wait};
use std::ffi::CString;
use std::fs::{DirBuilder, Permissions};
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// The control socket, bound but not yet served. It goes when this is dropped.
pub(crate) struct Socket {
    listener: UnixListener,
    path: PathBuf,
}

impl Socket {
    /// Takes the name.
    pub(crate) fn bind(name: &str) -> Result<Self, LabError> {
        let path = socket_path(name)?;
        let what = || format!("cannot make the control socket {}", path.display());
        make_directory(path.parent().unwrap_or(&path))?;
        if UnixStream::connect(&path).is_ok() {
            return Err(LabError::NameInUse(name.to_owned()));
        }
        // Whoever made it is gone.
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).map_err(LabError::io(what()))?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o600))
            .and_then(|()| listener.set_nonblocking(true))
            .map_err(LabError::io(what()))?;
        Ok(Self { listener, path })
    }

    /// The socket as the anchors must know it.
    pub(crate) fn leftover(&self) -> Option<Leftover> {
        let meta = std::fs::symlink_metadata(&self.path).ok()?;
        let path = CString::new(self.path.as_os_str().as_bytes()).ok()?;
        Some(Leftover { path, device: meta.dev(), inode: meta.ino() })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Makes the directory of the sockets, or checks that it is ours alone.
fn make_directory(directory: &Path) -> Result<(), LabError> {
    let what = || format!("cannot use the directory {}", directory.display());
    match DirBuilder::new().mode(0o700).create(directory) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(LabError::io(what())(error)),
    }
    let meta = std::fs::symlink_metadata(directory).map_err(LabError::io(what()))?;
    // SAFETY: geteuid() only returns a number.
    let uid = unsafe { libc::geteuid() };
    if !meta.is_dir() || meta.uid() != uid || meta.mode() & 0o022 != 0 {
        return Err(LabError::Refused(format!(
            "{} must be a directory that belongs to user {uid} and that nobody else can write",
            directory.display()
        )));
    }
    Ok(())
}

/// Connections of clients that outlive the server. A client that has asked for the end knows that it
/// has come when its connection ends, so these are to be dropped last.
pub(crate) type Clients = Arc<Mutex<Vec<UnixStream>>>;

/// Answers other processes until it is dropped.
pub(crate) struct Server {
    wake: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(
        socket: Socket,
        holder: Arc<Holder>,
        clients: Clients,
    ) -> Result<Self, LabError> {
        let (wake, woken) = UnixStream::pair().map_err(LabError::io("socketpair"))?;
        let thread = std::thread::Builder::new()
            .name("lab-control".into())
            .spawn(move || serve(&socket, &woken, &holder, &clients))
            .map_err(LabError::io("starting a thread"))?;
        Ok(Self { wake: Some(wake), thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A client's thread, and its stream so that the thread can be ended.
type Session = (JoinHandle<()>, UnixStream);

fn serve(socket: &Socket, woken: &UnixStream, holder: &Arc<Holder>, clients: &Clients) {
    let mut sessions: Vec<Session> = Vec::new();
    loop {
        let fds = [socket.listener.as_fd(), woken.as_fd()];
        let Ok([_, ended]) = wait::readable(fds, None) else { break };
        if ended {
            break;
        }
        sessions.retain(|(thread, _)| !thread.is_finished());
        if let Ok((stream, _)) = socket.listener.accept()
            && let Ok(session) = start_session(stream, holder)
        {
            sessions.push(session);
        }
    }
    for (thread, stream) in sessions {
        let _ = stream.shutdown(std::net::Shutdown::Read);
        let _ = thread.join();
        clients.lock().unwrap_or_else(PoisonError::into_inner).push(stream);
    }
}

fn start_session(stream: UnixStream, holder: &Arc<Holder>) -> io::Result<Session> {
    let (ours, holder) = (stream.try_clone()?, Arc::clone(holder));
    let thread = std::thread::Builder::new()
        .name("lab-session".into())
        .spawn(move || drop(session(stream, &holder)))?;
    Ok((thread, ours))
}

fn session(stream: UnixStream, holder: &Holder) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    greet(&stream, holder)?;
    let mut writer = stream.try_clone()?;
    for line in BufReader::new(stream).lines() {
        let answer = match serde_json::from_str(&line?) {
            Ok(request) => {
                holder.handle(request).unwrap_or_else(|e| Response::Refused(e.to_string()))
            }
            Err(error) => Response::Refused(format!("not a request: {error}")),
        };
        let mut text = serde_json::to_string(&answer)?;
        text.push('\n');
        writer.write_all(text.as_bytes())?;
    }
    Ok(())
}

fn greet(stream: &UnixStream, holder: &Holder) -> io::Result<()> {
    let user_namespace = holder.namespaces(Host::Left).with_user();
    let hello = Hello { version: VERSION, paths: holder.path_count(), user_namespace };
    let hello = serde_json::to_vec(&hello)?;
    let fds: Vec<_> = Host::ALL.iter().flat_map(|host| holder.namespaces(*host).fds()).collect();
    debug_assert_eq!(fds.len(), 2 * Namespaces::fd_count(user_namespace));
    fd_passing::send(stream.as_fd(), &hello, &fds).map(drop)
}
