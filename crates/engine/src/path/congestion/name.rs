use super::Algorithm;
use crate::config::CongestionControl;

use super::cubic::Cubic;
use super::lia::Lia;
use super::olia::Olia;
use super::rfc2960::Rfc2960;
use super::rfc9260::Rfc9260;
use super::rpv1::RpV1;
use super::rpv2::RpV2;
use alloc::boxed::Box;

impl CongestionControl {
    /// The algorithm for one path.
    pub(super) fn algorithm(self) -> Algorithm {
        Algorithm::Window(match self {
            Self::Rfc9260 => Box::new(Rfc9260),
            Self::Rfc2960 => Box::new(Rfc2960),
            Self::Cubic => Box::new(Cubic::default()),
            Self::RpV1 => Box::new(RpV1),
            Self::RpV2 => Box::new(RpV2),
            Self::Lia => Box::new(Lia),
            Self::Olia => Box::new(Olia),
            Self::Bbr => return Algorithm::Model(Box::default()),
        })
    }

    /// Whether the paths of an association look at each other.
    pub fn is_coupled(self) -> bool {
        match self {
            Self::Rfc9260 | Self::Rfc2960 | Self::Cubic | Self::Bbr => false,
            Self::RpV1 | Self::RpV2 | Self::Lia | Self::Olia => true,
        }
    }

    /// Whether the paths of an association share one initial window.
    pub(super) fn divides_initial_window(self) -> bool {
        match self {
            Self::RpV1 | Self::RpV2 => true,
            Self::Rfc9260 | Self::Rfc2960 | Self::Cubic | Self::Bbr | Self::Lia | Self::Olia => {
                false
            }
        }
    }
}
