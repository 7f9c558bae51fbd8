//! The outbound streams that were ever used, by number. Each message asks for its stream several times, so it is found
//! in one step however many there are; a map has to compare its way down to one of a thousand.

use super::stream::OutboundStream;
use alloc::boxed::Box;
use alloc::vec::Vec;
use manypath_wire::StreamId;

/// Outbound streams. Those that were not used below the highest one take the size of a pointer each; numbers are below
/// that of the streams which the peer has.
#[derive(Debug, Default)]
pub(crate) struct OutboundStreams(Vec<Option<Box<OutboundStream>>>);

impl OutboundStreams {
    pub(super) fn get(&self, id: StreamId) -> Option<&OutboundStream> {
        self.0.get(usize::from(id.0))?.as_deref()
    }

    pub(super) fn get_mut(&mut self, id: StreamId) -> Option<&mut OutboundStream> {
        self.0.get_mut(usize::from(id.0))?.as_deref_mut()
    }

    /// The stream, made by `new` if it was not used before.
    pub(super) fn get_or_insert_with(
        &mut self,
        id: StreamId,
        new: impl FnOnce() -> OutboundStream,
    ) -> &mut OutboundStream {
        let at = usize::from(id.0);
        if self.0.len() <= at {
            self.0.resize_with(at + 1, || None);
        }
        self.0[at].get_or_insert_with(|| Box::new(new()))
    }

    /// In the order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (StreamId, &OutboundStream)> {
        let streams = self.0.iter().zip((0..).map(StreamId));
        streams.filter_map(|(stream, id)| Some((id, stream.as_deref()?)))
    }

    /// In the order of their numbers.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (StreamId, &mut OutboundStream)> {
        let streams = self.0.iter_mut().zip((0..).map(StreamId));
        streams.filter_map(|(stream, id)| Some((id, stream.as_deref_mut()?)))
    }

    /// Takes the streams from number `limit` on away: each and its number.
    pub(super) fn split_off(&mut self, limit: u16) -> Vec<(StreamId, Box<OutboundStream>)> {
        let at = usize::from(limit).min(self.0.len());
        let gone = self.0.split_off(at).into_iter().zip((limit..).map(StreamId));
        gone.filter_map(|(stream, id)| Some((id, stream?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{OutboundStream, OutboundStreams};
    use manypath_wire::StreamId;

    fn numbers(streams: &OutboundStreams) -> alloc::vec::Vec<u16> {
        streams.iter().map(|(id, _)| id.0).collect()
    }

    #[test]
    fn the_highest_number_has_a_place_and_streams_keep_their_order() {
        let mut streams = OutboundStreams::default();
        for number in [u16::MAX - 1, 3, 700, 3] {
            let stream = streams.get_or_insert_with(StreamId(number), OutboundStream::default);
            stream.departing += 1;
        }
        assert_eq!(numbers(&streams), [3, 700, u16::MAX - 1]);
        assert_eq!(streams.iter_mut().count(), 3);
        assert_eq!(streams.get(StreamId(3)).map(|stream| stream.departing), Some(2));
        assert!(
            streams.get(StreamId(4)).is_none() && streams.get_mut(StreamId(u16::MAX)).is_none()
        );
    }

    #[test]
    fn streams_from_a_number_on_are_taken_away_with_their_numbers() {
        let mut streams = OutboundStreams::default();
        for number in [1, 5, 9] {
            streams.get_or_insert_with(StreamId(number), OutboundStream::default);
        }
        assert!(streams.split_off(10).is_empty());
        let gone: alloc::vec::Vec<_> = streams.split_off(5).iter().map(|(id, _)| id.0).collect();
        assert_eq!((gone.as_slice(), numbers(&streams).as_slice()), (&[5, 9][..], &[1][..]));
    }
}
