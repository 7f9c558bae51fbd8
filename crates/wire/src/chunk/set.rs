//! Sets of chunk types.

/// A set of chunk types.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ChunkTypes([u64; 4]);

impl ChunkTypes {
    /// No type.
    pub const EMPTY: Self = Self([0; 4]);

    /// Whether `type_byte` is one of them.
    pub const fn contains(&self, type_byte: u8) -> bool {
        self.0[(type_byte >> 6) as usize] >> (type_byte & 63) & 1 == 1
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }
}

impl FromIterator<u8> for ChunkTypes {
    fn from_iter<I: IntoIterator<Item = u8>>(types: I) -> Self {
        let mut set = Self::EMPTY;
        for type_byte in types {
            if let Some(word) = set.0.get_mut(usize::from(type_byte >> 6)) {
                *word |= 1 << (type_byte & 63);
            }
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::ChunkTypes;

    #[test]
    fn a_set_holds_the_types_that_were_named() {
        let named = [0, 63, 64, 0x80, 0xC1, 255];
        let set: ChunkTypes = named.into_iter().collect();
        assert!((0..=255).all(|byte| set.contains(byte) == named.contains(&byte)));
        assert!(!set.is_empty() && ChunkTypes::EMPTY.is_empty());
    }
}
