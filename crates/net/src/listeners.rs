//! Sockets at which several loops of one process accept connections.

use socket2::Socket;
use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A socket for each address at which connections are accepted.
#[derive(Debug, Default)]
pub(crate) struct Listeners(Mutex<BTreeMap<SocketAddr, Socket>>);

impl Listeners {
    /// The socket at which all loops accept connections to `addr`, which the first of them opens: whoever is free accepts.
    pub(crate) fn get(
        &self,
        addr: SocketAddr,
        open: impl FnOnce(SocketAddr) -> io::Result<Socket>,
    ) -> io::Result<Socket> {
        let mut all = self.all();
        if let Some(listener) = all.get(&addr) {
            return listener.try_clone();
        }
        let listener = open(addr)?;
        all.insert(addr, listener.try_clone()?);
        Ok(listener)
    }

    /// A loop could not listen: those that have not begun to listen at `addr` open it anew.
    pub(crate) fn forget(&self, addr: SocketAddr) {
        self.all().remove(&addr);
    }

    /// No loop accepts connections any more: the port is free for another process at once.
    pub(crate) fn stop(&self) {
        for listener in std::mem::take(&mut *self.all()).into_values() {
            // It cannot fail but for a socket that does not listen any more.
            let _ = listener.shutdown(Shutdown::Both);
        }
    }

    /// A loop that has panicked has left nothing half done under the lock.
    fn all(&self) -> MutexGuard<'_, BTreeMap<SocketAddr, Socket>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
