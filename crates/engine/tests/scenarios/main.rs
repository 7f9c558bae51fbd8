//! Scenarios between two endpoints, told as ladders.

mod cookie;
mod craft;
mod pair;
mod restart;
mod setup;
mod strangers;
mod teardown;
