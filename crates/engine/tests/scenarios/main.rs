//! Scenarios between two endpoints, told as ladders.

mod cookie;
mod craft;
mod data;
mod pair;
mod paths;
mod restart;
mod setup;
mod strangers;
mod teardown;
