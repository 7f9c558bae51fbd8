//! What is in a folder and the folders below it, there and here.

use super::place::{join, safe_name};
use super::remote::{Remote, Tag, failed};
use crate::failure::Failure;
use manypath_ssh::sftp::{Attributes, Reply, Request};
use std::collections::VecDeque;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Folders that are read at the same time.
const AT_ONCE: usize = 64;

/// A file or folder below another one.
#[derive(Debug)]
pub(crate) struct Found<T> {
    /// Its path from there, with slashes.
    pub(crate) path: Vec<u8>,
    pub(crate) attributes: T,
}

/// What a listing has come to: folders before what is in them.
#[derive(Debug)]
pub(crate) struct Listing<T> {
    pub(crate) folders: Vec<Vec<u8>>,
    pub(crate) files: Vec<Found<T>>,
    /// Links and devices, which are not copied.
    pub(crate) others: Vec<Vec<u8>>,
}

impl<T> Listing<T> {
    fn new() -> Self {
        Self { folders: Vec::new(), files: Vec::new(), others: Vec::new() }
    }

    /// Tells what is left out.
    pub(crate) fn tell_others(&self) {
        for path in &self.others {
            eprintln!("manypath: {}: no regular file, left out", String::from_utf8_lossy(path));
        }
    }
}

/// Lists a folder of the server.
pub(crate) fn there(remote: &mut Remote, root: &[u8]) -> Result<Listing<Attributes>, Failure> {
    let (listing, handles) = (Listing::new(), Vec::new());
    let waiting = VecDeque::from([Vec::new()]);
    let mut lister =
        Lister { remote, root, listing, folders: Vec::new(), handles, waiting, asked: 0 };
    while lister.asked > 0 || !lister.waiting.is_empty() {
        lister.step()?;
    }
    Ok(lister.listing)
}

struct Lister<'a> {
    remote: &'a mut Remote,
    root: &'a [u8],
    listing: Listing<Attributes>,
    /// Paths and handles of folders that were begun.
    folders: Vec<Vec<u8>>,
    handles: Vec<Vec<u8>>,
    waiting: VecDeque<Vec<u8>>,
    /// Folders that are not read to their ends.
    asked: usize,
}

impl Lister<'_> {
    fn step(&mut self) -> Result<(), Failure> {
        while self.asked < AT_ONCE
            && let Some(folder) = self.waiting.pop_front()
        {
            let path = self.full(&folder);
            let tag = Tag::OpenFolder(self.folders.len());
            self.remote.ask(0, &Request::OpenDirectory { path: &path }, tag);
            self.folders.push(folder);
            self.handles.push(Vec::new());
            self.asked += 1;
        }
        self.remote.turn()?;
        while let Some(answer) = self.remote.next() {
            if let Tag::OpenFolder(number) = answer.tag {
                self.handle_open(number, answer.reply)?;
            } else if let Tag::ReadFolder(number) = answer.tag {
                self.handle_read(number, answer.reply)?;
            }
        }
        Ok(())
    }

    fn full(&self, folder: &[u8]) -> Vec<u8> {
        match (self.root, folder) {
            (b"", b"") => b".".to_vec(),
            (root, b"") => root.to_vec(),
            (root, folder) => join(root, folder),
        }
    }

    fn handle_open(&mut self, number: usize, reply: Reply) -> Result<(), Failure> {
        let Reply::Handle(handle) = reply else {
            return Err(failed(&self.full(&self.folders[number]), &reply));
        };
        self.handles[number] = handle;
        self.read(number);
        Ok(())
    }

    fn read(&mut self, number: usize) {
        let handle = &self.handles[number];
        self.remote.ask(0, &Request::ReadDirectory { handle }, Tag::ReadFolder(number));
    }

    fn handle_read(&mut self, number: usize, reply: Reply) -> Result<(), Failure> {
        if reply.status().is_some_and(|status| status.is_end()) {
            self.asked -= 1;
            let handle = &self.handles[number];
            self.remote.ask(0, &Request::Close { handle }, Tag::Ignored);
            return Ok(());
        }
        let Reply::Names(names) = reply else {
            return Err(failed(&self.full(&self.folders[number]), &reply));
        };
        for one in names {
            let path = match self.folders[number].as_slice() {
                b"" => one.name.clone(),
                folder => join(folder, &one.name),
            };
            if safe_name(&one.name).is_none() {
                continue;
            }
            self.add(path, one.attributes);
        }
        self.read(number);
        Ok(())
    }

    fn add(&mut self, path: Vec<u8>, attributes: Attributes) {
        if attributes.is_directory() {
            self.listing.folders.push(path.clone());
            self.waiting.push_back(path);
        } else if attributes.is_regular() {
            self.listing.files.push(Found { path, attributes });
        } else {
            self.listing.others.push(path);
        }
    }
}

/// Lists a folder of this host.
pub(crate) fn here(root: &Path) -> Result<Listing<Metadata>, Failure> {
    let mut listing = Listing::new();
    let mut waiting = VecDeque::from([Vec::new()]);
    while let Some(folder) = waiting.pop_front() {
        let path = root.join(std::ffi::OsStr::from_bytes(&folder));
        let error = |e| Failure::new(format!("{}: {e}", path.display()));
        for entry in std::fs::read_dir(&path).map_err(error)? {
            let entry = entry.map_err(error)?;
            let attributes = entry.metadata().map_err(error)?;
            let name = entry.file_name();
            let path = match folder.as_slice() {
                b"" => name.as_bytes().to_vec(),
                folder => join(folder, name.as_bytes()),
            };
            if attributes.is_dir() {
                listing.folders.push(path.clone());
                waiting.push_back(path);
            } else if attributes.is_file() {
                listing.files.push(Found { path, attributes });
            } else {
                listing.others.push(path);
            }
        }
    }
    Ok(listing)
}
