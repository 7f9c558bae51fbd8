//! Uplinks that come, go, change and fail while a program downloads: how long it gets nothing, and how
//! much it gets. `docs/uplinks.md` has the table.

mod cases;
mod course;
mod direct;
mod idle;
mod routed;
mod table;
