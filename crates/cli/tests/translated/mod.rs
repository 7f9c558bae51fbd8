//! Servers that do not have the addresses by which they are known: behind 1:1 NATs, as machines of clouds are, and
//! behind routers that forward ports.

mod forwarded;
mod home;
mod middle;
mod services;
mod uplinks;
