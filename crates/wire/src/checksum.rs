//! CRC32c (RFC 9260 section 6.8 and appendix A).
//!
//! The work is done by the crate `crc32c`, which finds the processor's instructions at run time and
//! falls back to tables. It is the only dependency that links `std`; this crate and those above it
//! are `no_std` all the same, so that their own code cannot reach a clock or a socket.

/// CRC32c of the concatenation of `parts`. In the common header it stands with its lowest byte
/// first, unlike all other numbers.
pub fn crc32c(parts: &[&[u8]]) -> u32 {
    parts.iter().fold(0, |crc, part| crc32c::crc32c_append(crc, part))
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
