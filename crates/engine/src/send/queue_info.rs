//! Sender queue information (draft-dreibholz-tsvwg-sctpsocket-sqinfo).

use super::Sender;
use super::stream::OutboundStream;
use crate::path::Paths;
use crate::status::{SenderQueueInfo, StreamQueueInfo};
use manypath_wire::StreamId;

/// What `sender` holds, per stream.
pub(crate) fn queue_info(sender: &Sender, paths: &Paths) -> SenderQueueInfo {
    let usable = sender.choice.usable(paths);
    let info = |(id, stream): (StreamId, &OutboundStream)| {
        let path = sender.queue.mapping().home(id, usable);
        StreamQueueInfo {
            stream: id,
            unsent: stream.unsent(),
            in_flight: stream.unacked(),
            path,
            path_rate: path.and_then(|path| paths.get(path)?.subflow().window_rate()),
        }
    };
    SenderQueueInfo {
        limit: sender.buffer.limit(),
        queued: sender.buffer.used(),
        streams: sender.queue.streams().map(info).collect(),
    }
}
