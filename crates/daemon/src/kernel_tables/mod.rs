//! What the kernel tells of the sockets of this network namespace, in /proc/net.

pub(crate) mod tcp;
pub(crate) mod udp;
