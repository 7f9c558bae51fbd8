//! Replies of SFTP: section 7 of the draft.

use super::attributes::Attributes;
use crate::codec::{Malformed, Reader};
use std::fmt;

/// What has become of a request that has no other answer, or failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Status {
    code: u32,
    text: String,
}

impl Status {
    /// Whether it was done.
    pub fn is_ok(&self) -> bool {
        self.code == 0
    }

    /// Whether there is nothing more to read.
    pub fn is_end(&self) -> bool {
        self.code == 1
    }

    /// Whether there is no such file.
    pub fn is_missing(&self) -> bool {
        self.code == 2
    }

    /// Whether the server says no more than that it failed: a full disk, for instance.
    pub fn is_unspecified(&self) -> bool {
        self.code == 4
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.code {
            1 => "end of file",
            2 => "no such file or directory",
            3 => "permission denied",
            8 => "the server cannot do that",
            _ if self.text.is_empty() => "failure",
            _ => return f.write_str(&self.text.to_lowercase()),
        };
        f.write_str(text)
    }
}

/// An entry of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Name {
    /// Its name.
    pub name: Vec<u8>,
    /// What is known of it.
    pub attributes: Attributes,
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// Done or failed.
    Status(Status),
    /// Stands for an open file in later requests.
    Handle(Vec<u8>),
    /// What was read.
    Data(Vec<u8>),
    /// Entries of a directory.
    Names(Vec<Name>),
    /// Of a file.
    Attributes(Attributes),
    /// As the extension has it.
    Extended(Vec<u8>),
}

impl Reply {
    /// The attributes, if it has any.
    pub fn attributes(&self) -> Option<Attributes> {
        if let Self::Attributes(attributes) = self { Some(*attributes) } else { None }
    }

    /// The data, if it is that.
    pub fn into_data(self) -> Option<Vec<u8>> {
        if let Self::Data(data) = self { Some(data) } else { None }
    }

    /// The status, if it is one.
    pub fn status(&self) -> Option<&Status> {
        if let Self::Status(status) = self { Some(status) } else { None }
    }

    /// Reads what follows number and identifier; `None` if the number is none of a reply.
    pub(crate) fn parse(number: u8, mut r: Reader<'_>) -> Result<Option<Self>, Malformed> {
        Ok(Some(match number {
            101 => {
                let code = r.u32()?;
                // Servers of version 1 and 2 have no text.
                let text = r.string().map(String::from_utf8_lossy).unwrap_or_default();
                Self::Status(Status { code, text: text.into_owned() })
            }
            102 => Self::Handle(r.string()?.to_vec()),
            103 => Self::Data(r.string()?.to_vec()),
            104 => Self::Names(names(&mut r)?),
            105 => Self::Attributes(Attributes::read(&mut r)?),
            201 => Self::Extended(r.rest().to_vec()),
            _ => return Ok(None),
        }))
    }
}

fn names(r: &mut Reader<'_>) -> Result<Vec<Name>, Malformed> {
    let count = r.u32()?;
    let mut names = Vec::new();
    for _ in 0..count {
        let name = r.string()?.to_vec();
        let _listing = r.string()?;
        names.push(Name { name, attributes: Attributes::read(r)? });
    }
    Ok(names)
}
