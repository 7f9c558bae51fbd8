//! Leaves what only debuggers read out of the shared libraries, this one and that of `manypath-preload`, which are five times
//! as large with it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,--strip-debug");
    }
}
