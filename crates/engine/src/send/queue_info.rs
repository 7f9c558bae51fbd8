//! Sender queue information (draft-dreibholz-tsvwg-sctpsocket-sqinfo).

use super::Sender;
use super::stream::OutboundStream;
use crate::path::{Path, Paths};
use crate::status::{SenderQueueInfo, StreamQueueInfo};
use manypath_wire::StreamId;

impl Sender {
    /// What is held, per stream.
    pub(crate) fn queue_info(&self, paths: &Paths) -> SenderQueueInfo {
        let usable = self.choice.usable(paths);
        let info = |(id, stream): (StreamId, &OutboundStream)| {
            let path = self.queue.home(id, usable);
            StreamQueueInfo {
                stream: id,
                unsent: stream.unsent(),
                in_flight: stream.unacked(),
                path,
                path_rate: path.and_then(|path| paths.get(path)).and_then(Path::window_rate),
            }
        };
        SenderQueueInfo {
            limit: self.buffer.limit(),
            queued: self.buffer.used(),
            streams: self.queue.streams().map(info).collect(),
        }
    }
}
