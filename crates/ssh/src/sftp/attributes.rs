//! Attributes of files: section 5 of the draft.

use crate::codec::{Malformed, Put, Reader};

const SIZE: u32 = 1;
const OWNER: u32 = 2;
const PERMISSIONS: u32 = 4;
const TIMES: u32 = 8;
const EXTENDED: u32 = 0x8000_0000;

const FORMAT: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const LINK: u32 = 0o120_000;

/// What is known, or to be set, of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Attributes {
    /// Bytes.
    pub size: Option<u64>,
    /// Kind and permissions, as `st_mode`.
    pub mode: Option<u32>,
    /// Last access and last change, in seconds since 1970.
    pub times: Option<(u32, u32)>,
}

impl Attributes {
    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.is(DIRECTORY)
    }

    /// Whether it is a regular file.
    pub fn is_regular(&self) -> bool {
        self.is(REGULAR)
    }

    /// Whether it is a symbolic link.
    pub fn is_link(&self) -> bool {
        self.is(LINK)
    }

    /// When it was changed last.
    pub fn changed(&self) -> Option<u32> {
        self.times.map(|(_, changed)| changed)
    }

    fn is(&self, format: u32) -> bool {
        self.mode.is_some_and(|mode| mode & FORMAT == format)
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let flag = |there: bool, flag: u32| if there { flag } else { 0 };
        out.put_u32(
            flag(self.size.is_some(), SIZE)
                | flag(self.mode.is_some(), PERMISSIONS)
                | flag(self.times.is_some(), TIMES),
        );
        if let Some(size) = self.size {
            out.put_u64(size);
        }
        if let Some(mode) = self.mode {
            out.put_u32(mode);
        }
        if let Some((accessed, changed)) = self.times {
            out.put_u32(accessed);
            out.put_u32(changed);
        }
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let flags = r.u32()?;
        let mut attributes = Self::default();
        if flags & SIZE != 0 {
            attributes.size = Some(r.u64()?);
        }
        if flags & OWNER != 0 {
            let _user_and_group = (r.u32()?, r.u32()?);
        }
        if flags & PERMISSIONS != 0 {
            attributes.mode = Some(r.u32()?);
        }
        if flags & TIMES != 0 {
            attributes.times = Some((r.u32()?, r.u32()?));
        }
        if flags & EXTENDED != 0 {
            for _ in 0..r.u32()? {
                let _name_and_value = (r.string()?, r.string()?);
            }
        }
        Ok(attributes)
    }
}
