//! One file per command.

pub(crate) mod attach;
pub(crate) mod bench;
pub(crate) mod gateway;
pub(crate) mod lab;
pub(crate) mod man;
pub(crate) mod peers;
pub(crate) mod preload;
pub(crate) mod rules;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod sim;
pub(crate) mod ssh;
pub(crate) mod stack;
pub(crate) mod status;
pub(crate) mod sysctl;
