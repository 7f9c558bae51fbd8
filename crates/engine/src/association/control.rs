//! Control chunks that wait to be sent on a certain path.

use super::context::Context;
use crate::path::PathId;
use crate::transmit::REPLY_SIZE;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use manypath_wire::cause::{Cause, CauseWriter, Causes};
use manypath_wire::chunk::{AsconfAck, Chunk, Error, ReConfig, Unknown, types};
use manypath_wire::packet::PacketWriter;
use manypath_wire::parameter::Parameters;

/// Most chunks that wait: what a peer can make us queue by its own packets is bounded.
const MAX_QUEUED: usize = 64;

/// The queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct ControlQueue {
    cookie_ack: Option<PathId>,
    chunks: VecDeque<(PathId, Control)>,
}

/// One waiting chunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Control {
    /// HEARTBEAT ACK: the whole chunk.
    HeartbeatAck(Vec<u8>),
    /// ERROR with these causes.
    Error(Vec<u8>),
    /// RE-CONFIG with these responses.
    ReConfig(Vec<u8>),
    /// ASCONF-ACK with this sequence number and these responses.
    AsconfAck(u32, Vec<u8>),
}

/// The queue is full: the chunk was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Full;

impl ControlQueue {
    /// Gives memory back that is not needed now.
    pub(crate) fn release_memory(&mut self) {
        self.chunks.shrink_to_fit();
    }

    /// A COOKIE ACK goes out on `path`, unless one waits: it answers the copies that came over other paths, too,
    /// to whose addresses less may be sent.
    pub(crate) fn push_cookie_ack(&mut self, path: PathId) {
        self.cookie_ack.get_or_insert(path);
    }

    /// Queues an ERROR chunk with `cause` for the path that `via` names.
    pub(super) fn report(&mut self, cx: &mut Context<'_>, via: PathId, cause: &Cause<'_>) {
        if self.push(via, Control::Error(cause_bytes(cause))).is_err() {
            cx.counters.control_drops += 1;
        }
    }

    /// The answer to a HEARTBEAT that came over `path`.
    pub(crate) fn push_heartbeat_ack(
        &mut self,
        path: PathId,
        heartbeat: &Unknown<'_>,
    ) -> Result<(), Full> {
        let mut chunk = heartbeat.raw().to_vec();
        if let Some(head) = chunk.first_chunk_mut() {
            // Type and Chunk Flags.
            *head = [types::HEARTBEAT_ACK, 0];
        }
        self.push(path, Control::HeartbeatAck(chunk))
    }

    /// What waits for `path`, which is gone, goes over `heir`.
    pub(crate) fn redirect(&mut self, path: PathId, heir: PathId) {
        let waiting = self.chunks.iter_mut().map(|(to, _)| to).chain(&mut self.cookie_ack);
        waiting.filter(|to| **to == path).for_each(|to| *to = heir);
    }

    /// The path of the first waiting chunk.
    pub(crate) fn next_path(&self) -> Option<PathId> {
        self.cookie_ack.or_else(|| self.chunks.front().map(|(path, _)| *path))
    }

    /// Writes the COOKIE ACK if it goes out on `path`. It must be the packet's first chunk.
    pub(crate) fn write_cookie_ack(&mut self, path: PathId, packet: &mut PacketWriter<'_>) -> bool {
        let wanted = self.cookie_ack == Some(path) && packet.push(&Chunk::CookieAck).is_ok();
        if wanted {
            self.cookie_ack = None;
        }
        wanted
    }

    /// Writes what waits for `path` and fits. Returns how many chunks were given up because they
    /// do not even fit into a packet of their own.
    pub(crate) fn write(&mut self, path: PathId, packet: &mut PacketWriter<'_>) -> u64 {
        let mut given_up = 0;
        self.chunks.retain(|(to, control)| {
            if *to != path {
                return true;
            }
            let written = control.write(packet).is_ok();
            let hopeless = !written && packet.is_empty();
            given_up += u64::from(hopeless);
            !(written || hopeless)
        });
        given_up
    }

    /// `control` goes out on `path`.
    pub(crate) fn push(&mut self, path: PathId, control: Control) -> Result<(), Full> {
        if self.chunks.len() >= MAX_QUEUED {
            return Err(Full);
        }
        self.chunks.push_back((path, control));
        Ok(())
    }
}

/// One cause, as ABORT and ERROR chunks hold it. One that does not fit a reply is left out.
pub(crate) fn cause_bytes(cause: &Cause<'_>) -> Vec<u8> {
    let mut bytes = alloc::vec![0; REPLY_SIZE];
    let mut causes = CauseWriter::new(&mut bytes);
    let _no_room = causes.push(cause).is_err();
    let used = causes.finish();
    bytes.truncate(used);
    bytes
}

impl Control {
    fn write(&self, packet: &mut PacketWriter<'_>) -> Result<(), manypath_wire::error::NoRoom> {
        match self {
            Self::HeartbeatAck(chunk) => match Unknown::from_bytes(chunk) {
                Ok(chunk) => packet.push(&Chunk::Unknown(chunk)),
                Err(_) => Ok(()),
            },
            Self::Error(causes) => {
                packet.push(&Chunk::Error(Error { causes: Causes::from_bytes(causes) }))
            }
            Self::ReConfig(responses) => {
                let parameters = Parameters::from_bytes(responses);
                packet.push(&Chunk::ReConfig(ReConfig { parameters }))
            }
            Self::AsconfAck(sequence, responses) => {
                let parameters = Parameters::from_bytes(responses);
                packet.push(&Chunk::AsconfAck(AsconfAck { sequence: *sequence, parameters }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ControlQueue;
    use crate::path::PathId;

    #[test]
    fn the_first_copy_of_a_cookie_names_the_path_of_the_answer() {
        let mut queue = ControlQueue::default();
        queue.push_cookie_ack(PathId(1));
        queue.push_cookie_ack(PathId(2));
        assert_eq!(queue.next_path(), Some(PathId(1)));
    }
}
