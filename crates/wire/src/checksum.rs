//! CRC32c (RFC 9260 section 6.8 and appendix A).

/// CRC32c of the concatenation of `parts`.
pub fn crc32c(parts: &[&[u8]]) -> u32 {
    parts.iter().fold(0, |crc, part| crc32c::crc32c_append(crc, part))
}
