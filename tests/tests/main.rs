//! The checks of the workspace as a whole, in one binary.

mod architecture;
mod bench_grid;
mod bench_help;
mod circles;
mod engine_modules;
mod requirements;
mod size;
mod status_page;
mod types;
