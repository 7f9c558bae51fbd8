//! Where the services of the demo listen.

/// TCP ports of the services on the right host.
pub(crate) const HTTP_PORT: u16 = 8080;
/// The nginx that listens with MPTCP.
pub(crate) const HTTP_MPTCP_PORT: u16 = 8081;
/// The sshd that listens with TCP.
pub(crate) const SSH_PORT: u16 = 2222;
/// The sshd that listens with MPTCP.
pub(crate) const SSH_MPTCP_PORT: u16 = 2223;

/// UDP port of `manypath serve`.
pub(crate) const UDP_PORT: u16 = 9899;

/// Kind of socket that a service listens with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Listen {
    Tcp,
    Mptcp,
}
