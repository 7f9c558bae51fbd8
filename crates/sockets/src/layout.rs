//! Structures of C: declared once, and from that laid out in memory, read, written, and described for
//! the header.

/// A value inside a structure. Numbers are in the order of the machine.
pub trait Field: Sized {
    /// Its alignment in C.
    const ALIGNMENT: usize;
    /// Reads it from bytes of exactly its size.
    fn read(bytes: &[u8]) -> Self;
    /// Writes it to bytes of exactly its size.
    fn write(&self, bytes: &mut [u8]);
}

macro_rules! numbers {
    ($($number:ty)*) => { $(
        impl Field for $number {
            const ALIGNMENT: usize = size_of::<$number>();
            fn read(bytes: &[u8]) -> Self {
                bytes.try_into().map_or(0, Self::from_ne_bytes)
            }
            fn write(&self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_ne_bytes());
            }
        }
    )* };
}
numbers!(u8 u16 u32 i32 u64);

impl<const N: usize> Field for [u8; N] {
    const ALIGNMENT: usize = 1;
    fn read(bytes: &[u8]) -> Self {
        bytes.try_into().unwrap_or([0; N])
    }
    fn write(&self, bytes: &mut [u8]) {
        bytes.copy_from_slice(self);
    }
}

/// A `struct sockaddr_storage` that is aligned as the compiler would have it. Most structures of SCTP
/// hold it packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, align(8))]
pub struct AlignedStorage(pub [u8; 128]);

impl Field for AlignedStorage {
    const ALIGNMENT: usize = 8;
    fn read(bytes: &[u8]) -> Self {
        Self(Field::read(bytes))
    }
    fn write(&self, bytes: &mut [u8]) {
        self.0.write(bytes);
    }
}

impl Default for AlignedStorage {
    fn default() -> Self {
        Self([0; 128])
    }
}

/// A member of a structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// Its name.
    pub name: &'static str,
    /// Its type in Rust.
    pub rust_type: &'static str,
    /// Where it begins.
    pub offset: usize,
}

/// A structure as C is told of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Description {
    /// Its name.
    pub name: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// Its members.
    pub members: &'static [Member],
    /// The array of open length at its end: type and name.
    pub open_end: Option<(&'static str, &'static str)>,
    /// Its size without that array.
    pub size: usize,
}

/// A structure that can be read from and written to the memory of a C program.
pub trait Structure: Sized {
    /// How C is told of it.
    const DESCRIPTION: Description;
    /// Reads it from the beginning of `bytes`; none if they are too few.
    fn decode(bytes: &[u8]) -> Option<Self>;
    /// Writes it.
    fn encode(&self) -> Vec<u8>;
    /// Reads as much as there is; the rest is 0.
    fn decode_short(bytes: &[u8]) -> Self;
}

/// Declares structures.
macro_rules! structures {
    ($(
        $(#[doc = $about:literal])+
        struct $name:ident { $($field:ident: $type:ident),* $(,)? $([$end_type:ident] $end:ident)? }
    )*) => {
        $(
            $(#[doc = $about])+
            #[repr(C)]
            #[derive(Clone, Copy, PartialEq, Eq, Debug)]
            #[allow(non_camel_case_types, missing_docs, reason = "the names are those of RFC 6458")]
            pub struct $name { $(pub $field: $type),* }

            impl Default for $name {
                fn default() -> Self {
                    <Self as $crate::layout::Structure>::decode_short(&[])
                }
            }

            impl $crate::layout::Structure for $name {
                const DESCRIPTION: $crate::layout::Description = $crate::layout::Description {
                    name: stringify!($name),
                    about: concat!($($about),+),
                    members: &[$($crate::layout::Member {
                        name: stringify!($field),
                        rust_type: stringify!($type),
                        offset: core::mem::offset_of!($name, $field),
                    }),*],
                    open_end: $crate::layout::open_end!($([$end_type] $end)?),
                    size: size_of::<$name>(),
                };
                fn decode(bytes: &[u8]) -> Option<Self> {
                    (bytes.len() >= size_of::<Self>()).then(|| Self::decode_short(bytes))
                }
                fn encode(&self) -> Vec<u8> {
                    let mut bytes = vec![0; size_of::<Self>()];
                    $crate::layout::Field::write(self, &mut bytes);
                    bytes
                }
                fn decode_short(bytes: &[u8]) -> Self {
                    let mut all = [0; size_of::<$name>()];
                    let len = bytes.len().min(all.len());
                    all[..len].copy_from_slice(&bytes[..len]);
                    $crate::layout::Field::read(&all)
                }
            }

            impl $crate::layout::Field for $name {
                const ALIGNMENT: usize = align_of::<$name>();
                fn read(bytes: &[u8]) -> Self {
                    Self { $($field: $crate::layout::member(bytes, core::mem::offset_of!($name, $field))),* }
                }
                fn write(&self, bytes: &mut [u8]) {
                    $($crate::layout::set_member(bytes, core::mem::offset_of!($name, $field), &self.$field);)*
                }
            }
        )*

        /// Every structure, in an order in which C can be told of them.
        pub const STRUCTURES: &[$crate::layout::Description] =
            &[$(<$name as $crate::layout::Structure>::DESCRIPTION),*];
    };
}
pub(crate) use structures;

macro_rules! open_end {
    () => {
        None
    };
    ([$type:ident] $name:ident) => {
        Some((stringify!($type), stringify!($name)))
    };
}
pub(crate) use open_end;

pub(crate) fn member<T: Field>(bytes: &[u8], offset: usize) -> T {
    T::read(&bytes[offset..offset + size_of::<T>()])
}

pub(crate) fn set_member<T: Field>(bytes: &mut [u8], offset: usize, value: &T) {
    value.write(&mut bytes[offset..offset + size_of::<T>()]);
}
