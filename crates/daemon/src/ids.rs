//! Names by which rooms of the stack know what other rooms have.

/// Names a program's connect. Never used again; the relay that comes of it has the same number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct AttemptId(pub(crate) u64);

/// Names a relay of this stack. Never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct RelayId(pub(crate) u64);

/// Names a connection that is being made to a local service. Never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct DialId(pub(crate) u64);

/// Names the datagrams between one local socket and one address. Never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct DatagramId(pub(crate) u64);

/// Names a listener: the control connection of its launcher, and its number there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ListenerId {
    pub(crate) control: u64,
    pub(crate) id: u64,
}

/// Where requests for connections come from, and where the answers go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Control {
    /// The launcher at this control connection.
    Line(u64),
    /// The doors of this stack.
    Doors,
    /// The relay of this stack, for flows that another one carries on.
    Onward,
}

impl From<u64> for Control {
    fn from(line: u64) -> Self {
        Self::Line(line)
    }
}

/// Who asked, and its name for the connect.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Client {
    pub(crate) control: Control,
    pub(crate) id: u64,
}
