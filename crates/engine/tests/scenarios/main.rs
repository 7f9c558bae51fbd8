//! Scenarios between two endpoints, told as ladders.

mod cookie;
mod pair;
mod restart;
mod setup;
