//! Requests of SFTP: section 6 of the draft, and OpenSSH's extensions.

use super::attributes::Attributes;
use crate::codec::Put;

/// How a file is opened: section 6.3.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenFlags(u32);

impl OpenFlags {
    /// To read.
    pub const READ: Self = Self(1);
    /// To write at any offset; it is made if it does not exist and keeps what it has.
    pub const WRITE: Self = Self(2 | 8);
    /// To write; it is made if it does not exist and loses what it has.
    pub const REPLACE: Self = Self(2 | 8 | 16);
}

/// What a server is asked for; names as in section 6. Paths are bytes, those that are not absolute begin at the user's home.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the fields are those of the draft, by the same names")]
pub enum Request<'a> {
    /// Answered by a handle.
    Open {
        path: &'a [u8],
        flags: OpenFlags,
        attributes: Attributes,
    },
    /// Answered by a status, as all that have no other answer.
    Close {
        handle: &'a [u8],
    },
    /// Answered by data, perhaps less, or the status of the end of the file.
    Read {
        handle: &'a [u8],
        offset: u64,
        length: u32,
    },
    Write {
        handle: &'a [u8],
        offset: u64,
        data: &'a [u8],
    },
    /// Answered by attributes; follows links.
    Stat {
        path: &'a [u8],
    },
    /// Answered by attributes; those of a link itself.
    LinkStat {
        path: &'a [u8],
    },
    /// Answered by attributes.
    FileStat {
        handle: &'a [u8],
    },
    SetStat {
        path: &'a [u8],
        attributes: Attributes,
    },
    FileSetStat {
        handle: &'a [u8],
        attributes: Attributes,
    },
    /// Answered by a handle.
    OpenDirectory {
        path: &'a [u8],
    },
    /// Answered by some names, or the status of the end.
    ReadDirectory {
        handle: &'a [u8],
    },
    Remove {
        path: &'a [u8],
    },
    MakeDirectory {
        path: &'a [u8],
        attributes: Attributes,
    },
    RemoveDirectory {
        path: &'a [u8],
    },
    /// Answered by one name: the absolute path.
    RealPath {
        path: &'a [u8],
    },
    /// Answered by one name: what the link leads to.
    ReadLink {
        path: &'a [u8],
    },
    /// OpenSSH has the two in this order, unlike the draft.
    SymbolicLink {
        target: &'a [u8],
        path: &'a [u8],
    },
    /// Fails if `to` exists.
    Rename {
        from: &'a [u8],
        to: &'a [u8],
    },
    /// Replaces what `to` was (`posix-rename@openssh.com`).
    Replace {
        from: &'a [u8],
        to: &'a [u8],
    },
    /// Answered by an extended reply: free space (`statvfs@openssh.com`).
    FreeSpace {
        path: &'a [u8],
    },
    /// Answered by an extended reply: longest requests (`limits@openssh.com`).
    Limits,
}

const EXTENDED: u8 = 200;

impl Request<'_> {
    /// Writes the request without its length.
    pub(crate) fn write(&self, out: &mut Vec<u8>, id: u32) {
        out.put_u8(self.number());
        out.put_u32(id);
        match *self {
            Self::Open { path, flags, attributes } => {
                out.put_string(path);
                out.put_u32(flags.0);
                attributes.write(out);
            }
            Self::Read { handle, offset, length } => {
                out.put_string(handle);
                out.put_u64(offset);
                out.put_u32(length);
            }
            Self::Write { handle, offset, data } => {
                out.put_string(handle);
                out.put_u64(offset);
                out.put_string(data);
            }
            Self::Close { handle: one }
            | Self::FileStat { handle: one }
            | Self::ReadDirectory { handle: one }
            | Self::Stat { path: one }
            | Self::LinkStat { path: one }
            | Self::OpenDirectory { path: one }
            | Self::Remove { path: one }
            | Self::RemoveDirectory { path: one }
            | Self::RealPath { path: one }
            | Self::ReadLink { path: one } => out.put_string(one),
            Self::SetStat { path: one, attributes }
            | Self::FileSetStat { handle: one, attributes }
            | Self::MakeDirectory { path: one, attributes } => {
                out.put_string(one);
                attributes.write(out);
            }
            Self::SymbolicLink { target: one, path: two } | Self::Rename { from: one, to: two } => {
                out.put_string(one);
                out.put_string(two);
            }
            Self::Replace { from, to } => {
                out.put_string(b"posix-rename@openssh.com");
                out.put_string(from);
                out.put_string(to);
            }
            Self::FreeSpace { path } => {
                out.put_string(b"statvfs@openssh.com");
                out.put_string(path);
            }
            Self::Limits => out.put_string(b"limits@openssh.com"),
        }
    }

    fn number(&self) -> u8 {
        match self {
            Self::Open { .. } => 3,
            Self::Close { .. } => 4,
            Self::Read { .. } => 5,
            Self::Write { .. } => 6,
            Self::LinkStat { .. } => 7,
            Self::FileStat { .. } => 8,
            Self::SetStat { .. } => 9,
            Self::FileSetStat { .. } => 10,
            Self::OpenDirectory { .. } => 11,
            Self::ReadDirectory { .. } => 12,
            Self::Remove { .. } => 13,
            Self::MakeDirectory { .. } => 14,
            Self::RemoveDirectory { .. } => 15,
            Self::RealPath { .. } => 16,
            Self::Stat { .. } => 17,
            Self::Rename { .. } => 18,
            Self::ReadLink { .. } => 19,
            Self::SymbolicLink { .. } => 20,
            Self::Replace { .. } | Self::FreeSpace { .. } | Self::Limits => EXTENDED,
        }
    }
}
