//! Scenarios between two endpoints, told as ladders.

mod pair;
mod setup;
