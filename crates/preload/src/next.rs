//! The functions of the C library behind ours.

/// The function of this name that comes after ours, looked for once; none if there is none.
///
/// # Safety
/// The function has this type.
macro_rules! next {
    ($name:ident, $type:ty) => {{
        use std::sync::atomic::{AtomicPtr, Ordering};
        static FOUND: AtomicPtr<libc::c_void> = AtomicPtr::new(std::ptr::null_mut());
        let mut found = FOUND.load(Ordering::Relaxed);
        if found.is_null() {
            let name = concat!(stringify!($name), "\0");
            found = libc::dlsym(libc::RTLD_NEXT, name.as_ptr().cast());
            FOUND.store(found, Ordering::Relaxed);
        }
        // A null pointer is no function: none.
        std::mem::transmute::<*mut libc::c_void, Option<$type>>(found)
    }};
}
pub(crate) use next;

/// Calls it; without one the call fails with ENOSYS.
///
/// # Safety
/// As [`next!`], and the arguments are such as it takes.
macro_rules! call_next {
    ($name:ident, fn($($type:ty),*) -> $result:ty, ($($arg:expr),*)) => {
        match $crate::next::next!($name, unsafe extern "C" fn($($type),*) -> $result) {
            Some(real) => real($($arg),*),
            None => $crate::next::missing(),
        }
    };
}
pub(crate) use call_next;

/// The C library has no such function.
pub(crate) fn missing<T: From<i8>>() -> T {
    // SAFETY: the C library has an errno for every thread.
    unsafe { *libc::__errno_location() = libc::ENOSYS };
    T::from(-1)
}
