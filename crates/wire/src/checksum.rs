//! CRC32c (RFC 9260 section 6.8 and appendix A).
//!
//! The work is done by the crate `crc-fast`, which finds the processor's instructions at run time and
//! falls back to tables: with AVX-512 1472 bytes take 52 ns, with the crate `crc32c` 104. It is the only dependency that links `std`; this crate and those above it
//! are `no_std` all the same, so that their own code cannot reach a clock or a socket.

use crc_fast::{CrcAlgorithm, Digest, crc32_iscsi};

/// CRC32c of the concatenation of `parts`. In the common header it stands with its lowest byte
/// first, unlike all other numbers.
pub fn crc32c(parts: &[&[u8]]) -> u32 {
    if let [whole] = parts {
        return crc32_iscsi(whole);
    }
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    parts.iter().for_each(|part| digest.update(part));
    // It is 32 bits of the 64.
    u32::try_from(digest.finalize()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3720 appendix B.4, and the check value of the CRC catalogues.
    #[test]
    fn agrees_with_published_values() {
        assert_eq!(crc32c(&[b"123456789"]), 0xE306_9283);
        assert_eq!(crc32c(&[&[0; 32]]), 0x8A91_36AA);
        assert_eq!(crc32c(&[&[0xFF; 32]]), 0x62A8_AB43);
    }

    #[test]
    fn parts_do_not_matter() {
        assert_eq!(crc32c(&[b"1234", b"", b"56789"]), crc32c(&[b"123456789"]));
        assert_eq!(crc32c(&[]), 0);
    }
}
