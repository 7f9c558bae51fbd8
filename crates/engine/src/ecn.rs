//! The ECN field of the IP header (RFC 3168 section 5).

/// What the two bits say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ecn {
    /// The transport does not take part, or the bits are not known.
    #[default]
    NotEct,
    /// ECN-capable transport, by the codepoint that this engine does not send.
    Ect1,
    /// ECN-capable transport: a queue may mark the packet instead of dropping it.
    Ect0,
    /// Congestion experienced: a queue has marked the packet.
    Ce,
}

impl Ecn {
    /// From the Type of Service or Traffic Class octet.
    pub const fn from_octet(octet: u8) -> Self {
        match octet & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// The two bits.
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotEct => 0,
            Self::Ect1 => 1,
            Self::Ect0 => 2,
            Self::Ce => 3,
        }
    }

    /// Whether a queue may mark the packet.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}

#[cfg(test)]
mod tests {
    use super::Ecn;

    #[test]
    fn the_other_bits_of_the_octet_do_not_count() {
        for octet in 0..=255 {
            assert_eq!(Ecn::from_octet(octet).bits(), octet & 3);
        }
        assert!(!Ecn::from_octet(0xB8).is_capable() && Ecn::from_octet(0xBA).is_capable());
    }
}
