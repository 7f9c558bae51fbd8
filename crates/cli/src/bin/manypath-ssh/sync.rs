//! Whole folders: `manypath ssh sync`, and `-r` of `get` and `put`.

use super::args::SyncArgs;
use super::get::{self, Wanted};
use super::listing::{self, Listing};
use super::place::{Place, join};
use super::progress::Progress;
use super::put::{self, Offered};
use super::remote::{Remote, Tag};
use super::verify::verify;
use crate::failure::Failure;
use manypath_ssh::sftp::{Attributes, Request};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Makes a folder have what another one has.
pub(crate) fn sync(args: &SyncArgs) -> Result<u8, Failure> {
    let progress = Progress::new(args.login.quiet, args.verify);
    let (mut remote, mut progress) = match (Place::parse(&args.from), Place::parse(&args.to)) {
        (Some(from), None) => {
            let mut remote = Remote::open(&args.login, &from.host, args.connections)?;
            let (wanted, same) = wanted(&mut remote, &from.path, Path::new(&args.to), true)?;
            let progress = get::fetch(&mut remote, wanted, progress)?;
            (remote, unchanged(progress, same))
        }
        (None, Some(to)) => {
            let mut remote = Remote::open(&args.login, &to.host, args.connections)?;
            let (offered, same) = offered(&mut remote, Path::new(&args.from), &to.path, true)?;
            let progress = put::send(&mut remote, offered, progress)?;
            (remote, unchanged(progress, same))
        }
        _ => return Err(Failure::usage("one of the two directories must be HOST:PATH")),
    };
    if args.verify {
        verify(&mut remote, &mut progress)?;
    }
    progress.end(args.json)?;
    Ok(u8::from(progress.failed() > 0))
}

fn unchanged(mut progress: Progress, same: u64) -> Progress {
    progress.leave(same);
    progress
}

/// What is to be fetched to have the folder `from` as `to`, and how many files are left out because `to` has them
/// with the same size and time of change, if that is `looked` at. Makes the folders.
pub(crate) fn wanted(
    remote: &mut Remote,
    from: &[u8],
    to: &Path,
    looked: bool,
) -> Result<(Vec<Wanted>, u64), Failure> {
    let listing = listing::there(remote, from)?;
    listing.tell_others();
    let make = |path: &Path| {
        let error = |e| Failure::new(format!("cannot make {}: {e}", path.display()));
        std::fs::create_dir_all(path).map_err(error)
    };
    make(to)?;
    for folder in &listing.folders {
        make(&to.join(OsStr::from_bytes(folder)))?;
    }
    let mut same = 0;
    let mut wanted = Vec::new();
    for found in listing.files {
        let target = to.join(OsStr::from_bytes(&found.path));
        let there = version(found.attributes);
        if looked && std::fs::metadata(&target).is_ok_and(|here| own_version(&here) == there) {
            same += 1;
        } else {
            let path = join(from, &found.path);
            wanted.push(Wanted { path, attributes: found.attributes, target });
        }
    }
    Ok((wanted, same))
}

/// What is to be sent to have the folder `from` as `to`; the rest as [`wanted`].
pub(crate) fn offered(
    remote: &mut Remote,
    from: &Path,
    to: &[u8],
    looked: bool,
) -> Result<(Vec<Offered>, u64), Failure> {
    let listing = listing::here(from)?;
    listing.tell_others();
    let there = if to.is_empty() || remote.look(to)?.is_some() {
        if looked { listing::there(remote, to)?.files } else { Vec::new() }
    } else {
        Vec::new()
    };
    let there: HashMap<Vec<u8>, Attributes> =
        there.into_iter().map(|found| (found.path, found.attributes)).collect();
    make_folders(remote, to, &listing)?;
    let mut same = 0;
    let mut offered = Vec::new();
    for found in listing.files {
        let known = there.get(&found.path).copied().map(version);
        if known == Some(own_version(&found.attributes)) {
            same += 1;
        } else {
            let source = from.join(OsStr::from_bytes(&found.path));
            let path = join(to, &found.path);
            offered.push(Offered { source, metadata: found.attributes, path });
        }
    }
    Ok((offered, same))
}

/// Makes the folders at the server; the answers come in order, and those that exist are told by failures.
fn make_folders(
    remote: &mut Remote,
    to: &[u8],
    listing: &Listing<Metadata>,
) -> Result<(), Failure> {
    let attributes = Attributes::default();
    let root = (!to.is_empty()).then(|| to.to_vec());
    for path in root.into_iter().chain(listing.folders.iter().map(|folder| join(to, folder))) {
        remote.ask(0, &Request::MakeDirectory { path: &path, attributes }, Tag::Ignored);
    }
    // Answered behind all of them.
    remote.question(&Request::RealPath { path: b"." }).map(drop)
}

/// Size and time of change.
fn version(attributes: Attributes) -> (u64, i64) {
    (attributes.size.unwrap_or(0), i64::from(attributes.changed().unwrap_or(0)))
}

fn own_version(metadata: &Metadata) -> (u64, i64) {
    (metadata.len(), metadata.mtime())
}
