//! The dynamic stream-to-path scheduler against others: on the setups of Dreibholz et al. 2010, and on
//! a grid of networks.

mod design;

pub use design::design;
