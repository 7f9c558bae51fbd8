//! The manypath command.

fn main() {
    println!("manypath {}", env!("CARGO_PKG_VERSION"));
}
