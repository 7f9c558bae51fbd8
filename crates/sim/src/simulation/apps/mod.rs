//! The applications of the sender. Each reacts to three things: there is room in the send buffer, a
//! time has come, a message was delivered. They work at a [`Desk`], in the simulator or live.

mod applications;
mod channel;
mod file;
mod on_off;
mod request_response;
mod saturated;

pub use applications::Applications;

use crate::scenario::{AppKind, AppSpec};
use manypath_engine::Instant;

/// Which way a message goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// From sender to receiver.
    Forth,
    /// From receiver to sender.
    Back,
}

/// What applications work with.
pub trait Desk {
    /// The time.
    fn now(&self) -> Instant;
    /// Sends a message that exists since `generated`; false if there is no room for it.
    fn send(&mut self, way: Way, stream: u16, len: usize, generated: Instant) -> bool;
    /// Bytes that a stream holds in the sender's send buffer, and that buffer's size.
    fn queued(&self, stream: u16) -> (usize, usize);
    /// Bytes that the sender's send buffer takes now.
    fn send_space(&self) -> usize;
}

/// What an application does. The default reactions are none.
trait Application: std::fmt::Debug {
    /// There may be room in the send buffer.
    fn on_space(&mut self, desk: &mut dyn Desk);
    /// A message of one of its streams was delivered.
    fn on_delivered(&mut self, _desk: &mut dyn Desk, _way: Way, _stream: u16) {}
    /// The time that `next_timer` gave has come.
    fn on_timer(&mut self, _desk: &mut dyn Desk) {}
    /// When `on_timer` is to be called.
    fn next_timer(&self) -> Option<Instant> {
        None
    }
    /// Bytes after whose delivery it has nothing more to do.
    fn total(&self) -> Option<u64> {
        None
    }
}

/// The application that `spec` describes, beginning at `now`; none if it does not work at a desk.
fn start(spec: &AppSpec, now: Instant) -> Option<Box<dyn Application>> {
    Some(match spec.kind {
        AppKind::Saturated { queue_info } => Box::new(saturated::Saturated::new(spec, queue_info)),
        AppKind::Channel { window, socket_buffer } => {
            Box::new(channel::Channel::new(spec, window, socket_buffer))
        }
        AppKind::File { bytes } => Box::new(file::File::new(spec, bytes)),
        AppKind::RequestResponse { response, think } => {
            Box::new(request_response::RequestResponse::new(spec, response, think))
        }
        AppKind::OnOff { rate_bps, on, off } => {
            Box::new(on_off::OnOff::new(spec, rate_bps, (on, off), now))
        }
        AppKind::Connection { .. } => return None,
    })
}
