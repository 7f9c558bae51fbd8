//! The host's stack: associations to peers, flows to and from local sockets.
