//! Prints the grid of `papers/manypath-dynamic/scenario.toml`, which ends with it.

fn main() {
    print!("{}", manypath_sim::figure::design());
}
