//! By which rule a window has its size, and when it is renewed.

/// What one window is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowConfig {
    /// How the size comes about.
    pub policy: Policy,
    /// When consumed bytes are granted again.
    pub refresh: Refresh,
    /// The size at the beginning, and the one below which [`Policy::Follow`] and [`Policy::Path`] go only if memory is
    /// short.
    pub first: u64,
    /// The size below which it never goes, and with which it begins if there is no memory for `first`.
    pub least: u64,
    /// The size that the peer can bear. For any OpenSSH: less than 16 MiB, beyond which its sender copies its
    /// whole queue for every packet.
    pub cap: u64,
    /// The size at rest as a multiple of what is delivered in a round trip, in percent.
    pub gain: u32,
}

impl Default for WindowConfig {
    /// The rule of this crate: 256 KiB at the beginning, 64 KiB if memory is short, no cap.
    fn default() -> Self {
        Self {
            policy: Policy::Follow,
            refresh: Refresh::Fine,
            first: 256 << 10,
            least: 64 << 10,
            cap: u64::MAX,
            gain: 200,
        }
    }
}

impl WindowConfig {
    /// A window that always has `size` bytes, as far as there is memory.
    pub fn fixed(size: u64, refresh: Refresh) -> Self {
        let policy = Policy::Static;
        Self { policy, refresh, first: size, least: size, cap: size, ..Self::default() }
    }
}

/// How the size of a window comes about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// It follows what the reader takes per round trip: see the crate.
    Follow,
    /// It is what the path carries in a round trip, times the gain, after a slow start: for peers that
    /// bear no more. See the crate.
    Path,
    /// It stays what it is: 2 MiB in most implementations of SSH.
    Static,
    /// It is the receive buffer of the transport's socket, and never shrinks: the rule of HPN-SSH, which
    /// asks `getsockopt(SO_RCVBUF)` whenever it sends a grant. Tell
    /// [`Window::set_transport_window`](crate::Window::set_transport_window).
    SocketBuffer,
}

/// When consumed bytes are granted again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refresh {
    /// At an eighth of the window, or 256 KiB if that is less.
    Fine,
    /// When less than half of the window is left, as in russh: on average between a half and the
    /// whole of it is usable.
    Half,
    /// At this many bytes or half of the window, whichever comes first: OpenSSH has 96 KiB (three packets).
    Bytes(u64),
}

impl Refresh {
    /// Bytes that a grant must be worth, with a window of `size` bytes. Never 0 nor more than the size
    /// of a window that has any.
    pub fn step(self, size: u64) -> u64 {
        let step = match self {
            Self::Fine => (size / 8).min(256 << 10),
            Self::Half => size / 2 + 1,
            Self::Bytes(bytes) => bytes.min(size / 2 + 1),
        };
        step.max(1).min(size.max(1))
    }
}
