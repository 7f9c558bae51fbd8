//! `manypath ssh get`: files from a server.

use super::args::CopyArgs;
use super::connections::{Volume, volume};
use super::place::{Place, base_name, part_name, safe_name};
use super::progress::{Copied, Progress};
use super::remote::{Handles, MOST_OPEN, Remote, Tag, failed, reason};
use super::sync;
use super::verify::verify;
use crate::failure::Failure;
use manypath_ssh::sftp::{Answer, Attributes, Download, OpenFlags, Reply, Request};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{File, FileTimes, Permissions};
use std::io::ErrorKind;
use std::mem::take;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// A file with more bytes left is read over all sessions.
const LARGE: u64 = 4 << 20;
/// Bytes under way that are worth another session.
const PER_SESSION: u64 = 4 << 20;
/// Sessions that are begun at once where there is much to do: later, they would cost round trips.
const FIRST_SESSIONS: u64 = 4;
/// Bytes that may wait in memory for others in front of them, because sessions are not equally fast: these, or as many as may be
/// under way four times, for what a connection holds up that exchanges keys.
const HELD: u64 = 64 << 20;
const HELD_FOR_EXCHANGE: u64 = 4;
/// The longest read.
const LONGEST_READ: u32 = 128 << 10;
/// A file that is not the one it was when the transfer began is not taken for whole.
const CHANGED: &str = "it has changed while it was read";

/// A file to fetch.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) path: Vec<u8>,
    pub(crate) attributes: Attributes,
    pub(crate) target: PathBuf,
}

/// Copies files from a server.
pub(crate) fn get(args: &CopyArgs) -> Result<u8, Failure> {
    let (target, sources) = args.paths.split_last().ok_or_else(|| Failure::usage("no paths"))?;
    let places = sources.iter().map(|source| Place::expect(source));
    let places = places.collect::<Result<Vec<_>, _>>()?;
    let Some(host) = places.first().map(|place| place.host.clone()) else {
        return Err(Failure::usage("give the files to copy and, last, the destination"));
    };
    if places.iter().any(|place| place.host != host) {
        return Err(Failure::usage("all files must be on the same host"));
    }
    let target = Path::new(target);
    if places.len() > 1 && !target.is_dir() {
        return Err(Failure::new(format!("{} is not a directory", target.display())));
    }
    let mut remote = Remote::open(&args.login, &host, args.connections)?;
    let mut all = Vec::new();
    for place in &places {
        all.extend(wanted(&mut remote, place, target, args.recursive)?);
    }
    let progress = Progress::new(args.login.quiet, args.verify);
    let mut progress = fetch(&mut remote, all, progress)?;
    if args.verify {
        verify(&mut remote, &mut progress)?;
    }
    progress.end(args.json)?;
    Ok(u8::from(progress.failed() > 0))
}

fn wanted(
    remote: &mut Remote,
    place: &Place,
    target: &Path,
    recursive: bool,
) -> Result<Vec<Wanted>, Failure> {
    let path = if place.path.is_empty() { b"." } else { place.path.as_slice() };
    let reply = remote.question(&Request::Stat { path })?;
    let Reply::Attributes(attributes) = reply else { return Err(failed(path, &reply)) };
    let is_folder = attributes.is_directory();
    if !(attributes.is_regular() || is_folder && recursive) {
        let failure = Failure::new(format!("{} is not a regular file", path.escape_ascii()));
        return Err(if is_folder {
            failure.hint("use -r, or sync, to copy directories")
        } else {
            failure
        });
    }
    let target = if target.is_dir() {
        let name = safe_name(base_name(path));
        target.join(name.ok_or_else(|| Failure::usage("the source must have a name"))?)
    } else {
        target.to_owned()
    };
    if is_folder {
        return Ok(sync::wanted(remote, path, &target, false)?.0);
    }
    Ok(vec![Wanted { path: path.to_vec(), attributes, target }])
}

/// Fetches the files; those that fail are told and counted.
pub(crate) fn fetch(
    remote: &mut Remote,
    wanted: Vec<Wanted>,
    progress: Progress,
) -> Result<Progress, Failure> {
    let total = wanted.iter().filter_map(|one| one.attributes.size).sum();
    progress.begin(total);
    let mut getter = Getter {
        remote,
        waiting: wanted.into(),
        waiting_bytes: total,
        files: Vec::new(),
        open: VecDeque::new(),
        held: 0,
        sample: None,
        progress,
    };
    while getter.has_work() {
        getter.step()?;
    }
    Ok(getter.progress)
}

struct Getter<'a> {
    remote: &'a mut Remote,
    waiting: VecDeque<Wanted>,
    waiting_bytes: u64,
    files: Vec<Fetched>,
    /// Files that are not finished, in the order in which they are read.
    open: VecDeque<usize>,
    /// Bytes that wait for others in front of them.
    held: usize,
    sample: Option<Sample>,
    progress: Progress,
}

/// A file that new connections must see as the first one does.
struct Sample {
    number: usize,
    path: Vec<u8>,
    /// The first one has told its volume, if it can.
    told: bool,
    volume: Option<Volume>,
}

struct Fetched {
    wanted: Wanted,
    part: PathBuf,
    local: Option<File>,
    download: Download,
    handles: Handles,
    /// Requests without an answer.
    asked: usize,
    is_large: bool,
    /// Attributes at the end were asked for, after all that has been asked for.
    checked: bool,
    failure: Option<String>,
}

impl Getter<'_> {
    fn has_work(&self) -> bool {
        !self.waiting.is_empty() || !self.open.is_empty()
    }

    fn step(&mut self) -> Result<(), Failure> {
        self.begin_files()?;
        self.compare();
        self.read();
        self.remote.turn()?;
        while let Some(answer) = self.remote.next() {
            self.handle(answer)?;
        }
        self.end_files();
        let name = self.open.front().map(|number| &self.files[*number].wanted.target);
        let name = name.and_then(|path| path.file_name()).unwrap_or_default().display().to_string();
        self.progress.show(&name);
        Ok(())
    }

    /// Opens files as long as those that are open do not suffice.
    fn begin_files(&mut self) -> Result<(), Failure> {
        let open = self.open.iter().map(|number| self.files[*number].left());
        let left = open.sum::<u64>() + self.waiting_bytes;
        self.remote.connect_more(left, u64::MAX)?;
        let sessions = self.remote.pool.target().min(left).div_ceil(PER_SESSION);
        let worth = (left / LARGE).max(self.waiting.len() as u64 / 16).min(FIRST_SESSIONS);
        let sessions = sessions.max(worth).min(8) as usize;
        self.remote.grow_to(sessions)?;
        while self.open.len() < MOST_OPEN && !self.is_busy() {
            let Some(wanted) = self.waiting.pop_front() else { break };
            self.waiting_bytes -= wanted.attributes.size.unwrap_or(0);
            self.begin(wanted)?;
        }
        Ok(())
    }

    /// New connections must see a file, and the volume that it is in, as the first one does.
    fn compare(&mut self) {
        if let Some(Sample { number, path, told: true, .. }) = &self.sample {
            while let Some(session) = self.remote.stranger() {
                self.remote.ask(session, &Request::Stat { path }, Tag::Same(*number));
                self.remote.ask(session, &Request::FreeSpace { path }, Tag::Volume);
            }
        } else if let (None, Some(&number), true) =
            (&self.sample, self.open.front(), self.remote.has_stranger())
        {
            let path = self.files[number].wanted.path.clone();
            self.remote.ask(0, &Request::FreeSpace { path: &path }, Tag::Witness(0));
            self.sample = Some(Sample { number, path, told: false, volume: None });
        }
    }

    fn handle_volume(&mut self, session: usize, reply: &Reply) {
        let known = self.sample.as_ref().and_then(|sample| sample.volume);
        self.remote.judge(session, known.is_some() && volume(reply) == known);
    }

    /// Whether files that are open have enough bytes that are not asked for.
    fn is_busy(&self) -> bool {
        let unasked: u64 = self.open.iter().map(|number| self.files[*number].unasked()).sum();
        unasked > self.remote.pool.target()
    }

    fn begin(&mut self, wanted: Wanted) -> Result<(), Failure> {
        let number = self.files.len();
        let file = match Fetched::begin(wanted) {
            Ok(file) => file,
            Err((wanted, error)) => {
                self.progress.fail_file(&wanted.target.display().to_string(), &error.to_string());
                return is_fatal(&error).map_or(Ok(()), Err);
            }
        };
        self.progress.resume(file.download.taken());
        self.files.push(file);
        self.open.push_back(number);
        self.open_remote(number);
        Ok(())
    }

    /// Opens the file at the server: a large one in every session.
    fn open_remote(&mut self, number: usize) {
        let file = &mut self.files[number];
        let chosen = self.remote.sessions_for(&file.handles, file.is_large);
        for session in chosen {
            file.asked += 1;
            // Until the answer comes the session counts as one that has the file.
            file.handles.push((session, Vec::new()));
            let attributes = Attributes::default();
            let request =
                Request::Open { path: &file.wanted.path, flags: OpenFlags::READ, attributes };
            self.remote.ask(session, &request, Tag::Open(number));
        }
    }

    /// Asks for parts as long as more bytes may be under way.
    fn read(&mut self) {
        for position in 0..self.open.len() {
            let number = self.open[position];
            if self.files[number].is_large && self.files[number].unasked() > LARGE {
                self.open_remote(number);
            }
            while self.has_room() && self.read_part(number) {}
            if !self.has_room() {
                break;
            }
        }
    }

    fn has_room(&self) -> bool {
        let held = self.remote.pool.target().saturating_mul(HELD_FOR_EXCHANGE).max(HELD);
        self.remote.pool.has_room() && (self.held as u64) < held
    }

    /// Asks for the next part of a file. False if there is none, or no session has the file yet.
    fn read_part(&mut self, number: usize) -> bool {
        let now = self.remote.now();
        let file = &mut self.files[number];
        let ready = file.handles.iter().filter(|(_, handle)| !handle.is_empty());
        let best = ready.min_by_key(|(session, _)| self.remote.load(*session));
        let pool = &mut self.remote.pool;
        let Some((session, handle)) = best.filter(|_| file.failure.is_none()) else { return false };
        let longest = pool.session(*session).read_length().min(LONGEST_READ);
        let Some((offset, length)) = file.download.next(longest) else { return false };
        file.asked += 1;
        let request = Request::Read { handle, offset, length };
        let tag = Tag::Read(number, offset, length);
        pool.ask(now, *session, &request, u64::from(length), tag);
        true
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "other tags belong to other commands")]
    fn handle(&mut self, answer: Answer<Tag>) -> Result<(), Failure> {
        match answer.tag {
            Tag::Open(number) => self.handle_open(number, answer.session, answer.reply),
            Tag::Read(number, offset, length) => {
                self.handle_read(number, offset, length, answer.reply)?;
            }
            Tag::Check(number) => self.handle_check(number, &answer.reply),
            Tag::Same(number) => {
                let same = is_version(&answer.reply, self.files[number].wanted.attributes);
                if same != Some(true) {
                    self.remote.judge(answer.session, false);
                }
            }
            Tag::Witness(_) => {
                if let Some(sample) = &mut self.sample {
                    (sample.told, sample.volume) = (true, volume(&answer.reply));
                }
            }
            Tag::Volume => self.handle_volume(answer.session, &answer.reply),
            _ => {}
        }
        Ok(())
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
            (other, _) => file.fail(&reason(&other)),
        }
    }

    fn handle_read(
        &mut self,
        number: usize,
        offset: u64,
        length: u32,
        reply: Reply,
    ) -> Result<(), Failure> {
        let file = &mut self.files[number];
        file.asked -= 1;
        let held = file.download.held();
        let short = file.download.unasked();
        let status = reply.status().filter(|status| !status.is_end()).map(ToString::to_string);
        let fits =
            reply.into_data().is_some_and(|data| file.download.on_data(offset, length, data));
        if !fits {
            file.fail(status.as_deref().unwrap_or(CHANGED));
        }
        // The rest of a short answer is asked for after the check.
        file.checked &= file.download.unasked() == short;
        let written = file.write(&self.progress);
        self.held = self.held + file.download.held() - held;
        if let Err(error) = written {
            file.fail(&error.to_string());
            if let Some(failure) = is_fatal(&error) {
                return Err(failure);
            }
        }
        Ok(())
    }

    fn handle_check(&mut self, number: usize, reply: &Reply) {
        let file = &mut self.files[number];
        file.asked -= 1;
        match is_version(reply, file.wanted.attributes) {
            Some(true) => {}
            Some(false) => file.fail(CHANGED),
            None => file.fail(&reason(reply)),
        }
    }

    /// Asks for the attributes of files that are read, and ends those that are checked.
    fn end_files(&mut self) {
        let mut position = 0;
        while position < self.open.len() {
            let number = self.open[position];
            if self.files[number].is_asked_for() {
                self.check(number);
            }
            if self.files[number].is_over() {
                self.open.remove(position);
                self.end(number);
            } else {
                position += 1;
            }
        }
    }

    /// Asks whether the file is still the one that was to be read. A session answers in order, so that can follow its
    /// last read at once.
    fn check(&mut self, number: usize) {
        let file = &mut self.files[number];
        file.checked = true;
        if file.failure.is_none() {
            file.asked += file.handles.len();
            for (session, handle) in &file.handles {
                self.remote.ask(*session, &Request::FileStat { handle }, Tag::Check(number));
            }
        }
    }

    fn end(&mut self, number: usize) {
        let file = &mut self.files[number];
        self.held -= file.download.held();
        for (session, handle) in file.handles.drain(..).filter(|(_, handle)| !handle.is_empty()) {
            self.remote.ask(session, &Request::Close { handle: &handle }, Tag::Ignored);
        }
        let result = match file.failure.take() {
            None => file.finish(),
            Some(reason) => Err(std::io::Error::other(reason)),
        };
        file.local = None;
        file.part = PathBuf::new();
        let (here, there) = (take(&mut file.wanted.target), take(&mut file.wanted.path));
        match result {
            Ok(()) => self.progress.finish_file(Copied { here, there }),
            Err(error) => {
                self.progress.fail_file(&String::from_utf8_lossy(&there), &error.to_string());
            }
        }
    }
}

impl Fetched {
    /// Opens the local part; what an interrupted transfer has left is kept.
    fn begin(wanted: Wanted) -> Result<Self, (Wanted, std::io::Error)> {
        let size = wanted.attributes.size.unwrap_or(0);
        let changed = u64::from(wanted.attributes.changed().unwrap_or(0));
        let name = wanted.target.file_name().unwrap_or_default();
        let part = part_name(name.as_bytes(), &wanted.path, size, changed);
        let part = wanted.target.with_file_name(OsStr::from_bytes(&part));
        let opened =
            File::options().write(true).create(true).truncate(false).mode(0o600).open(&part);
        let opened = opened.and_then(|file| Ok((file.metadata()?.len(), file)));
        let (have, local) = match opened {
            Ok(opened) => opened,
            Err(error) => return Err((wanted, error)),
        };
        let have = if have > size { 0 } else { have };
        let download = Download::new(size, have);
        Ok(Self {
            is_large: size - have > LARGE,
            wanted,
            part,
            local: Some(local),
            download,
            handles: Vec::new(),
            asked: 0,
            checked: false,
            failure: None,
        })
    }

    fn fail(&mut self, reason: &str) {
        self.failure.get_or_insert_with(|| reason.to_owned());
    }

    /// Bytes that have not come.
    fn left(&self) -> u64 {
        let done = self.failure.is_some() || self.local.is_none();
        let size = self.wanted.attributes.size.unwrap_or(0);
        if done { 0 } else { size - self.download.taken() }
    }

    /// Bytes that have not been asked for.
    fn unasked(&self) -> u64 {
        if self.failure.is_some() { 0 } else { self.download.unasked() }
    }

    /// Whether all is asked for (or given up), so that the check can follow.
    fn is_asked_for(&self) -> bool {
        let opened = self.handles.iter().all(|(_, handle)| !handle.is_empty());
        let complete = self.failure.is_some() || self.download.is_asked();
        !self.checked && complete && (opened || self.asked == 0)
    }

    fn is_over(&self) -> bool {
        self.checked && self.asked == 0
    }

    /// Writes what is next in order.
    fn write(&mut self, progress: &Progress) -> std::io::Result<()> {
        let Some(local) = self.local.as_ref().filter(|_| self.failure.is_none()) else {
            return Ok(());
        };
        while let Some((offset, data)) = self.download.take() {
            local.write_all_at(&data, offset)?;
            progress.add(data.len() as u64);
        }
        Ok(())
    }

    /// Gives the complete file its name.
    fn finish(&self) -> std::io::Result<()> {
        if !self.download.is_done() {
            return Err(std::io::Error::other(CHANGED));
        }
        let Some(local) = &self.local else { return Ok(()) };
        local.set_len(self.wanted.attributes.size.unwrap_or(0))?;
        if let Some(mode) = self.wanted.attributes.mode {
            local.set_permissions(Permissions::from_mode(mode & 0o777))?;
        }
        if let Some((accessed, changed)) = self.wanted.attributes.times {
            let time = |seconds| UNIX_EPOCH + Duration::from_secs(u64::from(seconds));
            local.set_times(
                FileTimes::new().set_accessed(time(accessed)).set_modified(time(changed)),
            )?;
        }
        std::fs::rename(&self.part, &self.wanted.target)
    }
}

/// Whether a file has the size and time of change that are expected; `None` if nothing is known of it.
fn is_version(reply: &Reply, expected: Attributes) -> Option<bool> {
    let version = |of: Attributes| (of.size, of.changed());
    reply.attributes().map(|now| version(now) == version(expected))
}

/// A failure that all other files would share.
fn is_fatal(error: &std::io::Error) -> Option<Failure> {
    let fatal = [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::ReadOnlyFilesystem];
    fatal.contains(&error.kind()).then(|| {
        Failure::new(format!("cannot write: {error}"))
            .hint("the part received is kept; run the same command again to resume")
    })
}
