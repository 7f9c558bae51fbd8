//! The program's memory, as far as a call names it.
//!
//! It is written through `/proc/TID/mem`, opened before the kernel is asked whether the call still waits
//! (seccomp_unotify(2)): the number of a thread that has died may be given to a process of somebody else, while an
//! opened file means the same memory for ever. What is only read is copied first, and dropped if the call does not wait
//! any more; where the kernel does not permit that, the file is read. The file does not heed that a mapping is read-only, as the kernel's own calls
//! do: a program that asks for an address to be written into its constants gets it there.
//!
//! An access can take as long as the program likes: a page may come from a file system that the program serves
//! itself (FUSE), or from itself (userfaultfd(2)). A launcher that serves several users must not wait for one
//! of them, so for a foreign user's call all that it names is copied before the call is looked at, and what
//! is to be written is written with its answer, both elsewhere ([`crate::accesses`]).

use crate::seccomp::Listener;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Bytes that are copied for one call at most. Calls that name more find the rest unreadable, and take less than was
/// offered.
const MAX_COPIED: usize = 512 << 10;

/// A call whose memory is meant.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) listener: Arc<Listener>,
    /// The notification's identity.
    pub(crate) id: u64,
    pub(crate) thread: libc::pid_t,
    /// Whose program it is, if it is not the launcher's own user.
    pub(crate) user: Option<u32>,
}

/// Bytes by address and length.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    ranges: BTreeMap<(u64, usize), Vec<u8>>,
    size: usize,
}

/// Addresses, and what is to be written there.
pub(crate) type Writes = Vec<(u64, Vec<u8>)>;

/// What a call names.
#[derive(Debug, Default)]
pub(crate) enum Memory {
    /// Nothing.
    #[default]
    Absent,
    /// Read and written at once.
    Direct(Source, RefCell<Option<File>>),
    /// Read at once, and noted.
    Copying(File, RefCell<Copies>),
    /// What was noted; what is to be written is collected.
    Copied(Source, Copies, RefCell<Writes>),
}

impl Source {
    /// Its memory: certainly that of the thread that waits.
    ///
    /// # Errors
    /// `ESRCH` when nobody waits any more, `EACCES` when the program is out of reach.
    pub(crate) fn open(&self) -> io::Result<File> {
        let path = format!("/proc/{}/mem", self.thread);
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let waits = self.listener.is_waiting(self.id);
        waits.then_some(file).ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))
    }

    /// Fills `buffer` from its memory without opening that. What was read counts only if the call waits afterwards.
    fn copy(&self, address: u64, buffer: &mut [u8]) -> bool {
        let length = buffer.len();
        let here = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: length };
        let there = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: length };
        // SAFETY: the kernel writes at most `length` bytes into `buffer`.
        let read = unsafe {
            libc::process_vm_readv(self.thread, &raw const here, 1, &raw const there, 1, 0)
        };
        usize::try_from(read) == Ok(length) && self.listener.is_waiting(self.id)
    }
}

impl Memory {
    pub(crate) const fn direct(source: Source) -> Self {
        Self::Direct(source, RefCell::new(None))
    }

    pub(crate) fn copying(file: File) -> Self {
        Self::Copying(file, RefCell::default())
    }

    pub(crate) fn copied(source: Source, copies: Copies) -> Self {
        Self::Copied(source, copies, RefCell::default())
    }

    /// What was noted.
    pub(crate) fn into_copies(self) -> Copies {
        match self {
            Self::Copying(_, copies) => copies.into_inner(),
            Self::Copied(_, copies, _) => copies,
            Self::Absent | Self::Direct(..) => Copies::default(),
        }
    }

    /// Fills `buffer` from `address` on.
    ///
    /// # Errors
    /// `EFAULT` when not all of it can be read; `ESRCH` when nobody waits any more.
    pub(crate) fn read(&self, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        match self {
            Self::Absent => Err(fault()),
            Self::Direct(source, file) => {
                if file.borrow().is_none() && source.copy(address, buffer) {
                    return Ok(());
                }
                with(source, file, |file| file.read_exact_at(buffer, address).map_err(|_| fault()))
            }
            Self::Copying(file, copies) => {
                file.read_exact_at(buffer, address).map_err(|_| fault())?;
                copies.borrow_mut().add(address, buffer)
            }
            Self::Copied(_, copies, _) => {
                let known = copies.ranges.get(&(address, buffer.len())).ok_or_else(fault)?;
                buffer.copy_from_slice(known);
                Ok(())
            }
        }
    }

    /// Writes `bytes` at `address`, or sees to it that they are written before the call is answered.
    ///
    /// # Errors
    /// `EFAULT` when not all of it can be written; `ESRCH` when nobody waits any more.
    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Absent | Self::Copying(..) => Err(fault()),
            Self::Direct(source, file) => {
                with(source, file, |file| file.write_all_at(bytes, address).map_err(|_| fault()))
            }
            Self::Copied(_, _, writes) => {
                writes.borrow_mut().push((address, bytes.to_vec()));
                Ok(())
            }
        }
    }

    /// Reads a C int.
    ///
    /// # Errors
    /// As [`Memory::read`].
    pub(crate) fn read_int(&self, address: u64) -> io::Result<i32> {
        let mut bytes = [0; 4];
        self.read(address, &mut bytes)?;
        Ok(i32::from_ne_bytes(bytes))
    }

    /// Writes a C int.
    ///
    /// # Errors
    /// As [`Memory::write`].
    pub(crate) fn write_int(&self, address: u64, value: i32) -> io::Result<()> {
        self.write(address, &value.to_ne_bytes())
    }

    /// What is to be written before the call is answered, if anything is.
    pub(crate) fn take_writes(&self) -> Option<(Source, Writes)> {
        let Self::Copied(source, _, writes) = self else { return None };
        let writes = writes.take();
        (!writes.is_empty()).then(|| (source.clone(), writes))
    }

    /// Keeps no descriptor while the call waits.
    pub(crate) fn close(&self) {
        if let Self::Direct(_, file) = self {
            file.take();
        }
    }
}

impl Copies {
    fn add(&mut self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.size += bytes.len();
        if self.size > MAX_COPIED {
            return Err(fault());
        }
        self.ranges.insert((address, bytes.len()), bytes.to_vec());
        Ok(())
    }
}

/// Does something to the memory, which is opened if it is not.
fn with(
    source: &Source,
    place: &RefCell<Option<File>>,
    act: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    let mut place = place.borrow_mut();
    let file = match place.take() {
        Some(file) => file,
        None => source.open()?,
    };
    act(place.insert(file))
}

fn fault() -> io::Error {
    io::Error::from_raw_os_error(libc::EFAULT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seccomp::Servers;

    fn own() -> File {
        File::open("/proc/self/mem").unwrap()
    }

    fn address<T>(of: &T) -> u64 {
        std::ptr::from_ref(of) as u64
    }

    #[test]
    fn what_was_copied_is_read_as_it_was_and_what_is_written_waits() {
        let text = *b"before";
        let copying = Memory::copying(own());
        let mut read = [0; 6];
        copying.read(address(&text), &mut read).unwrap();
        assert_eq!(read, text);
        let listener =
            File::open("/dev/null").map(|file| Listener::new(file.into(), Servers::OneStep));
        let listener = listener.unwrap();
        let source = Source { listener: Arc::new(listener), id: 1, thread: 1, user: Some(1) };
        let copied = Memory::copied(source, copying.into_copies());
        read = [0; 6];
        copied.read(address(&text), &mut read).unwrap();
        assert_eq!(read, text);
        assert!(copied.read(address(&text), &mut [0; 5]).is_err(), "it was not asked for");
        copied.write_int(8, 7).unwrap();
        let (_, writes) = copied.take_writes().unwrap();
        assert_eq!(writes, [(8, 7_i32.to_ne_bytes().to_vec())]);
        assert!(copied.take_writes().is_none());
    }

    #[test]
    fn little_is_copied_however_much_is_named() {
        let many = vec![1_u8; 64 << 10];
        let copying = Memory::copying(own());
        let address = many.as_ptr() as u64;
        let mut buffer = vec![0; many.len()];
        let read = (0..64).filter(|_| copying.read(address, &mut buffer).is_ok()).count();
        assert_eq!(read, MAX_COPIED / many.len());
        assert_eq!(copying.read(1, &mut [0]).unwrap_err().raw_os_error(), Some(libc::EFAULT));
    }
}
