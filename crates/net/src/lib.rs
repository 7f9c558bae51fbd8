//! Drives one endpoint over UDP sockets.
