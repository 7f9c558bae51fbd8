use super::Controller;
use super::cubic::Cubic;
use super::rfc9260::Rfc9260;
use alloc::boxed::Box;

crate::names::named! {
    /// Congestion control algorithms.
    pub enum CongestionControl as "congestion control" {
        /// RFC 9260 section 7.2 on every path by itself.
        Rfc9260 = "rfc9260",
        /// CUBIC (RFC 9438) on every path by itself.
        Cubic = "cubic",
    }
}

impl CongestionControl {
    /// The algorithm for one path.
    pub(super) fn controller(self) -> Box<dyn Controller> {
        match self {
            Self::Rfc9260 => Box::new(Rfc9260),
            Self::Cubic => Box::new(Cubic::default()),
        }
    }
}
