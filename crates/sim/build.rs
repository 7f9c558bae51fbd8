//! Digest of the sources that decide how a run goes, so that results can say by what they were made.

use std::fs;
use std::hash::Hasher;
use std::io;
use std::path::Path;

/// What a run goes through, beside this crate.
const CRATES: [&str; 6] = ["sim", "engine", "flow", "wasm", "window", "wire"];

fn main() -> io::Result<()> {
    let mut digest = Fnv(0xCBF2_9CE4_8422_2325);
    for name in CRATES {
        // Outside of the repository the others lie elsewhere, under versions that do not change.
        let sources = Path::new("..").join(name).join("src");
        if sources.is_dir() {
            println!("cargo:rerun-if-changed={}", sources.display());
            add(&sources, &mut digest)?;
        }
    }
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-env=MANYPATH_SIM_SOURCES={:016x}", digest.finish());
    Ok(())
}

fn add(folder: &Path, digest: &mut Fnv) -> io::Result<()> {
    let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        if entry.file_type()?.is_dir() {
            add(&entry.path(), digest)?;
        } else {
            digest.write(entry.path().to_string_lossy().as_bytes());
            digest.write(&fs::read(entry.path())?);
        }
    }
    Ok(())
}

/// FNV-1a, 64 bits: the same on every machine and by every compiler.
struct Fnv(u64);

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
