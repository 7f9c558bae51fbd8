//! One file per command.

pub(crate) mod attach;
pub(crate) mod bench;
pub(crate) mod completion;
pub(crate) mod doctor;
pub(crate) mod enable;
pub(crate) mod gateway;
pub(crate) mod lab;
pub(crate) mod man;
pub(crate) mod metrics;
mod outcome;
pub(crate) mod path;
pub(crate) mod peers;
pub(crate) mod preload;
pub(crate) mod reload;
pub(crate) mod rules;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod sim;
pub(crate) mod ssh;
pub(crate) mod stack;
mod stacks;
pub(crate) mod status;
pub(crate) mod sysctl;
pub(crate) mod top;

use crate::failure::Failure;
use std::io::{ErrorKind, Write};

/// Writes to standard output. A reader that has gone, as `head` has, is no failure.
fn print(text: &[u8]) -> Result<u8, Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(0),
    }
}
