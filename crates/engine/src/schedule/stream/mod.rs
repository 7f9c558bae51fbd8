//! Which stream's message is sent next. Without I-DATA (RFC 8260) a message that was begun locks
//! the scheduler until its last fragment has left.

mod fcfs;

pub(crate) use fcfs::Fcfs;

use manypath_wire::StreamId;

/// Chooses among streams by message.
pub(crate) trait StreamScheduler {
    /// A message was queued on `stream`.
    fn on_queued(&mut self, stream: StreamId);
    /// The stream whose first message is to be sent next.
    fn next(&self) -> Option<StreamId>;
    /// The message of the stream that `next` named has left completely.
    fn on_sent(&mut self);
    /// All messages of the streams for which `gone` holds were dropped.
    fn on_dropped(&mut self, gone: impl Fn(StreamId) -> bool);
}
