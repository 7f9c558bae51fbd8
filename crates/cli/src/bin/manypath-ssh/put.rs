//! `manypath ssh put`: files to a server.

use super::args::CopyArgs;
use super::place::{Place, base_name, join, part_name};
use super::progress::{Copied, Progress};
use super::remote::{Handles, MOST_OPEN, Remote, Tag, reason};
use super::sync;
use super::verify::verify;
use crate::failure::Failure;
use manypath_ssh::sftp::{Answer, Attributes, OpenFlags, Reply, Request, Upload};
use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, Metadata};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::mem::take;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A file with more bytes is written over all sessions, and may have been begun before.
const LARGE: u64 = 4 << 20;
/// Bytes under way that are worth another session: a stock server takes 2 MiB per session and round trip.
const PER_SESSION: u64 = 3 << 19;
/// What a stock server takes per session and round trip.
const TAKES: u64 = 2 << 20;
/// Sessions that are begun at once where there is much to do: later, they would cost round trips.
const FIRST_SESSIONS: u64 = 8;
/// The longest write.
const LONGEST_WRITE: u32 = 128 << 10;

/// A file to send.
#[derive(Debug)]
pub(crate) struct Offered {
    pub(crate) source: PathBuf,
    pub(crate) metadata: Metadata,
    pub(crate) path: Vec<u8>,
}

/// Copies files to a server.
pub(crate) fn put(args: &CopyArgs) -> Result<u8, Failure> {
    let (target, sources) = args.paths.split_last().ok_or_else(|| Failure::usage("no paths"))?;
    let place = Place::expect(target)?;
    let found = sources.iter().map(|source| metadata(Path::new(source), args.recursive));
    let found = found.collect::<Result<Vec<_>, _>>()?;
    let mut remote = Remote::open(&args.login, &place.host, args.connections)?;
    let is_folder = place.path.is_empty()
        || remote.look(&place.path)?.is_some_and(|there| there.is_directory());
    if sources.len() > 1 && !is_folder {
        return Err(Failure::new(format!("{} is not a directory", target.display())));
    }
    let mut all = Vec::new();
    for (source, metadata) in sources.iter().zip(found) {
        let name = base_name(source.as_bytes());
        let path = if is_folder { join(&place.path, name) } else { place.path.clone() };
        let source = PathBuf::from(source);
        if metadata.is_dir() {
            all.extend(sync::offered(&mut remote, &source, &path, false)?.0);
        } else {
            all.push(Offered { source, metadata, path });
        }
    }
    let progress = Progress::new(args.login.quiet, args.verify);
    let mut progress = send(&mut remote, all, progress)?;
    if args.verify {
        verify(&mut remote, &mut progress)?;
    }
    progress.end(args.json)?;
    Ok(u8::from(progress.failed() > 0))
}

fn metadata(source: &Path, recursive: bool) -> Result<Metadata, Failure> {
    let error = |reason: String| Failure::new(format!("{}: {reason}", source.display()));
    let metadata = std::fs::metadata(source).map_err(|e| error(e.to_string()))?;
    match metadata.is_file() || metadata.is_dir() && recursive {
        true => Ok(metadata),
        false if metadata.is_dir() => {
            let failure = error("no regular file".to_owned());
            Err(failure.hint("use -r, or sync, to copy directories"))
        }
        false => Err(error("no regular file".to_owned())),
    }
}

/// Sends the files; those that fail are told and counted.
pub(crate) fn send(
    remote: &mut Remote,
    offered: Vec<Offered>,
    progress: Progress,
) -> Result<Progress, Failure> {
    let total = offered.iter().map(|one| one.metadata.len()).sum();
    progress.begin(total);
    let mut putter = Putter {
        remote,
        waiting: offered.into(),
        waiting_bytes: total,
        files: Vec::new(),
        open: VecDeque::new(),
        buffer: Vec::new(),
        witnesses: BTreeMap::new(),
        progress,
    };
    while putter.has_work() {
        putter.step()?;
    }
    Ok(putter.progress)
}

struct Putter<'a> {
    remote: &'a mut Remote,
    waiting: VecDeque<Offered>,
    waiting_bytes: u64,
    files: Vec<Sent>,
    /// Files that are not finished, in the order in which they are sent.
    open: VecDeque<usize>,
    buffer: Vec<u8>,
    /// Files that new connections must see, by session, until they are removed.
    witnesses: BTreeMap<usize, Vec<u8>>,
    progress: Progress,
}

/// What comes next for a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// It is asked what is there of it, or that is cut off.
    Looking,
    Writing,
    /// Everything is written; attributes are set and checked, and the file is closed.
    Checking,
    Renaming,
    Over,
}

struct Sent {
    offered: Offered,
    part: Vec<u8>,
    local: Option<File>,
    upload: Upload,
    handles: Handles,
    /// Requests without an answer.
    asked: usize,
    is_large: bool,
    phase: Phase,
    failure: Option<String>,
}

impl Putter<'_> {
    fn has_work(&self) -> bool {
        !self.waiting.is_empty() || !self.open.is_empty() || !self.witnesses.is_empty()
    }

    fn step(&mut self) -> Result<(), Failure> {
        self.begin_files()?;
        self.call_witnesses();
        self.write();
        self.remote.turn()?;
        while let Some(answer) = self.remote.next() {
            self.handle(answer);
        }
        self.advance_files();
        let name = self.open.front().map(|number| &self.files[*number].offered.source);
        let name = name.and_then(|path| path.file_name()).unwrap_or_default().display().to_string();
        self.progress.show(&name);
        Ok(())
    }

    /// Opens files as long as those that are open do not suffice.
    fn begin_files(&mut self) -> Result<(), Failure> {
        let open = self.open.iter().map(|number| self.files[*number].left());
        let left = open.sum::<u64>() + self.waiting_bytes;
        self.remote.connect_more(left, TAKES)?;
        let sessions = self.remote.pool.target().min(left).div_ceil(PER_SESSION);
        let worth = (left / LARGE).max(self.waiting.len() as u64 / 16).min(FIRST_SESSIONS);
        let sessions = sessions.max(worth) as usize;
        self.remote.grow_to(sessions)?;
        while self.open.len() < MOST_OPEN && !self.is_busy() {
            let Some(offered) = self.waiting.pop_front() else { break };
            self.waiting_bytes -= offered.metadata.len();
            self.begin(offered);
        }
        Ok(())
    }

    /// New connections must see what the first one makes: otherwise a file would be written at two servers, half at each.
    fn call_witnesses(&mut self) {
        let Some(number) = self.open.front() else { return };
        while let Some(session) = self.remote.stranger() {
            let path = witness_name(&self.files[*number].part);
            let attributes = Attributes { mode: Some(0o600), ..Attributes::default() };
            let request = Request::Open { path: &path, flags: OpenFlags::REPLACE, attributes };
            self.remote.ask(0, &request, Tag::Witness(session));
            self.witnesses.insert(session, path);
        }
    }

    fn handle_witness(&mut self, session: usize, reply: Reply) {
        match (reply, self.witnesses.get(&session)) {
            (Reply::Handle(handle), Some(path)) => {
                self.remote.ask(0, &Request::Close { handle: &handle }, Tag::Ignored);
                self.remote.ask(session, &Request::Stat { path }, Tag::Same(session));
            }
            _ => {
                self.witnesses.remove(&session);
                self.remote.judge(session, false);
            }
        }
    }

    fn handle_same(&mut self, session: usize, reply: &Reply) {
        self.remote.judge(session, reply.attributes().is_some());
        if let Some(path) = self.witnesses.remove(&session) {
            self.remote.ask(0, &Request::Remove { path: &path }, Tag::Ignored);
        }
    }

    /// Whether files that are open have enough bytes that are not sent.
    fn is_busy(&self) -> bool {
        let unsent: u64 = self.open.iter().map(|number| self.files[*number].unsent()).sum();
        unsent > self.remote.pool.target()
    }

    fn begin(&mut self, offered: Offered) {
        let local = match File::open(&offered.source) {
            Ok(local) => local,
            Err(error) => {
                let name = offered.source.display().to_string();
                return self.progress.fail_file(&name, &error.to_string());
            }
        };
        let file = Sent::begin(offered, local);
        let number = self.files.len();
        self.files.push(file);
        self.open.push_back(number);
        let file = &mut self.files[number];
        if file.is_large {
            file.asked += 1;
            self.remote.ask(0, &Request::Stat { path: &file.part }, Tag::Left(number));
        } else {
            file.phase = Phase::Writing;
        }
        self.open_remote(number);
    }

    /// Opens the file at the server: a large one in every session.
    fn open_remote(&mut self, number: usize) {
        let file = &mut self.files[number];
        let chosen = self.remote.sessions_for(&file.handles, file.is_large);
        // Of several sessions none may take away what another one has written.
        let flags = if file.is_large { OpenFlags::WRITE } else { OpenFlags::REPLACE };
        // Until it is complete it is for nobody else.
        let attributes = Attributes { mode: Some(0o600), ..Attributes::default() };
        for session in chosen {
            file.asked += 1;
            // Until the answer comes the session counts as one that has the file.
            file.handles.push((session, Vec::new()));
            let request = Request::Open { path: &file.part, flags, attributes };
            self.remote.ask(session, &request, Tag::Open(number));
        }
    }

    /// Sends parts as long as more bytes may be under way.
    fn write(&mut self) {
        for position in 0..self.open.len() {
            let number = self.open[position];
            let file = &self.files[number];
            if file.is_large && file.phase == Phase::Writing && file.unsent() > LARGE {
                self.open_remote(number);
            }
            while self.remote.pool.has_room() && self.write_part(number) {}
            if !self.remote.pool.has_room() {
                break;
            }
        }
    }

    /// Sends the next part of a file. False if there is none, or no session takes it now.
    fn write_part(&mut self, number: usize) -> bool {
        let now = self.remote.now();
        let file = &mut self.files[number];
        if file.failure.is_some() || file.phase != Phase::Writing {
            return false;
        }
        let remote = &mut *self.remote;
        let longest = LONGEST_WRITE.min(remote.pool.session(0).write_length());
        let ready = file.handles.iter().filter(|(session, handle)| {
            !handle.is_empty() && remote.takes(*session, u64::from(longest) + 256)
        });
        let best = ready.min_by_key(|(session, _)| remote.load(*session));
        let Some((session, handle)) = best else { return false };
        let Some((offset, length)) = file.upload.next(longest) else { return false };
        self.buffer.resize(length as usize, 0);
        let read = file.local.as_ref().map(|local| local.read_exact_at(&mut self.buffer, offset));
        if let Some(Err(_)) = read {
            file.failure = Some("the file changed while it was being sent".to_owned());
            return false;
        }
        file.asked += 1;
        let request = Request::Write { handle, offset, data: &self.buffer };
        let tag = Tag::Write(number, offset, length);
        remote.pool.ask(now, *session, &request, u64::from(length), tag);
        remote.flush();
        true
    }

    fn handle(&mut self, answer: Answer<Tag>) {
        let Answer { session, tag, reply } = answer;
        match tag {
            Tag::Left(number) => self.handle_left(number, &reply),
            Tag::Removed(number) => {
                let file = &mut self.files[number];
                file.asked -= 1;
                file.phase = Phase::Writing;
            }
            Tag::Open(number) => self.handle_open(number, session, reply),
            Tag::Write(number, offset, length) => {
                let file = &mut self.files[number];
                file.answered(&reply);
                if file.failure.is_none() {
                    file.upload.on_written(offset, length);
                    self.progress.add(u64::from(length));
                }
            }
            Tag::Check(number) => self.handle_check(number, &reply),
            // Not every server can set all attributes.
            Tag::SetAttributes(number) => self.files[number].asked -= 1,
            Tag::Close(number) | Tag::Rename(number) => self.files[number].answered(&reply),
            Tag::Witness(session) => self.handle_witness(session, reply),
            Tag::Same(session) => self.handle_same(session, &reply),
            Tag::Question
            | Tag::Ignored
            | Tag::Read(..)
            | Tag::Volume
            | Tag::OpenFolder(_)
            | Tag::ReadFolder(_) => {}
        }
    }

    /// What an interrupted upload has left is continued, unless it is too long.
    fn handle_left(&mut self, number: usize, reply: &Reply) {
        let file = &mut self.files[number];
        file.asked -= 1;
        let there = reply.attributes().and_then(|there| there.size).unwrap_or(0);
        if there > file.offered.metadata.len() {
            file.asked += 1;
            let attributes = Attributes { size: Some(0), ..Attributes::default() };
            let request = Request::SetStat { path: &file.part, attributes };
            return self.remote.ask(0, &request, Tag::Removed(number));
        }
        file.upload = Upload::new(file.offered.metadata.len(), there);
        self.progress.resume(file.upload.done());
        file.phase = Phase::Writing;
    }

    fn handle_open(&mut self, number: usize, session: usize, reply: Reply) {
        let file = &mut self.files[number];
        file.asked -= 1;
        let place = file.handles.iter().position(|(one, _)| *one == session);
        match (reply, place) {
            (Reply::Handle(handle), Some(place)) => file.handles[place].1 = handle,
            // Other sessions have it: the server may allow no more open files.
            (_, Some(place)) if file.handles.iter().any(|(_, handle)| !handle.is_empty()) => {
                drop(file.handles.remove(place));
                file.is_large = false;
            }
            (other, _) => file.fail(reason(&other)),
        }
    }

    fn handle_check(&mut self, number: usize, reply: &Reply) {
        let file = &mut self.files[number];
        file.asked -= 1;
        match reply.attributes().map(|now| now.size) {
            Some(size) if size == Some(file.offered.metadata.len()) => {}
            Some(_) => file.fail("the server has not as many bytes as were sent".to_owned()),
            None => file.fail(reason(reply)),
        }
    }

    /// Takes each file to its next phase, if it is ready for that.
    fn advance_files(&mut self) {
        let mut position = 0;
        while position < self.open.len() {
            let number = self.open[position];
            self.advance(number);
            if self.files[number].phase == Phase::Over {
                self.open.remove(position);
            } else {
                position += 1;
            }
        }
    }

    fn advance(&mut self, number: usize) {
        let file = &self.files[number];
        match file.phase {
            Phase::Writing if file.is_sent() => self.check(number),
            Phase::Checking if file.asked == 0 && file.failure.is_none() => self.rename(number),
            Phase::Looking | Phase::Checking | Phase::Renaming if file.asked == 0 => {
                self.end(number)
            }
            Phase::Looking | Phase::Writing | Phase::Checking | Phase::Renaming | Phase::Over => {}
        }
    }

    /// Sets the attributes, asks for the size and closes the file. A session answers in
    /// order, so with one that can follow the last write at once.
    fn check(&mut self, number: usize) {
        let file = &mut self.files[number];
        file.phase = Phase::Checking;
        let attributes = file.attributes();
        for (index, (session, handle)) in file.handles.drain(..).enumerate() {
            if handle.is_empty() {
                continue;
            }
            let handle = &handle;
            if index == 0 && file.failure.is_none() {
                file.asked += 2;
                let set = Request::FileSetStat { handle, attributes };
                self.remote.ask(session, &set, Tag::SetAttributes(number));
                self.remote.ask(session, &Request::FileStat { handle }, Tag::Check(number));
            }
            file.asked += 1;
            self.remote.ask(session, &Request::Close { handle }, Tag::Close(number));
        }
    }

    /// Gives the complete file its name.
    fn rename(&mut self, number: usize) {
        let file = &mut self.files[number];
        file.phase = Phase::Renaming;
        if let Err(text) = file.unchanged() {
            return file.fail(text);
        }
        let (from, to) = (file.part.as_slice(), file.offered.path.as_slice());
        if self.remote.pool.session(0).has("posix-rename@openssh.com") {
            self.remote.ask(0, &Request::Replace { from, to }, Tag::Rename(number));
        } else {
            self.remote.ask(0, &Request::Remove { path: to }, Tag::Ignored);
            self.remote.ask(0, &Request::Rename { from, to }, Tag::Rename(number));
        }
        file.asked += 1;
    }

    fn end(&mut self, number: usize) {
        let file = &mut self.files[number];
        file.phase = Phase::Over;
        file.local = None;
        file.part = Vec::new();
        let (here, there) = (take(&mut file.offered.source), take(&mut file.offered.path));
        match file.failure.take() {
            None => self.progress.finish_file(Copied { here, there }),
            Some(reason) => self.progress.fail_file(&here.display().to_string(), &reason),
        }
    }
}

/// A name beside a part that nothing else has.
fn witness_name(part: &[u8]) -> Vec<u8> {
    let number = RandomState::new().build_hasher().finish();
    [part, format!(".{number:016x}").as_bytes()].concat()
}

impl Sent {
    fn begin(offered: Offered, local: File) -> Self {
        let size = offered.metadata.len();
        let changed = offered.metadata.mtime().cast_unsigned();
        let source = std::path::absolute(&offered.source).unwrap_or_default();
        let name = base_name(&offered.path);
        let folder = &offered.path[..offered.path.len() - name.len()];
        let part =
            [folder, &part_name(name, source.as_os_str().as_bytes(), size, changed)].concat();
        Self {
            part,
            local: Some(local),
            upload: Upload::new(size, 0),
            handles: Vec::new(),
            asked: 0,
            is_large: size > LARGE,
            phase: Phase::Looking,
            failure: None,
            offered,
        }
    }

    fn fail(&mut self, reason: String) {
        self.failure.get_or_insert(reason);
    }

    /// A request was answered by a status that should be success.
    fn answered(&mut self, reply: &Reply) {
        self.asked -= 1;
        match reply.status() {
            Some(status) if status.is_ok() => {}
            Some(status) if status.is_unspecified() => {
                self.fail("the server cannot write it: is its disk full?".to_owned());
            }
            _ => self.fail(reason(reply)),
        }
    }

    /// Bytes that are not written.
    fn left(&self) -> u64 {
        if self.failure.is_some() { 0 } else { self.offered.metadata.len() - self.upload.done() }
    }

    /// Bytes that are not sent.
    fn unsent(&self) -> u64 {
        if self.failure.is_some() { 0 } else { self.upload.unsent() }
    }

    /// Whether all is sent (or given up), so that the check can follow. Where several sessions have the file, all
    /// must be written, too.
    fn is_sent(&self) -> bool {
        let opened = self.handles.iter().all(|(_, handle)| !handle.is_empty());
        let written = self.asked == 0 || self.handles.len() == 1;
        let complete = self.failure.is_some() || self.upload.is_sent();
        written && complete && (opened || self.asked == 0)
    }

    /// Permissions and times of the original.
    fn attributes(&self) -> Attributes {
        let metadata = &self.offered.metadata;
        let time = |seconds: i64| u32::try_from(seconds).unwrap_or(0);
        let times = (time(metadata.atime()), time(metadata.mtime()));
        Attributes { mode: Some(metadata.mode() & 0o777), times: Some(times), size: None }
    }

    /// Whether the original is still what it was at the beginning.
    fn unchanged(&self) -> Result<(), String> {
        let then = &self.offered.metadata;
        match self.local.as_ref().map(File::metadata) {
            Some(Ok(now)) if (now.len(), now.mtime()) == (then.len(), then.mtime()) => Ok(()),
            _ => Err("the file changed while it was being sent".to_owned()),
        }
    }
}
