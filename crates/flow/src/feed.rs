//! Handing messages to the association: as many as it can send soon, and no more. What waits in the flows is shared
//! fairly and can still be outrun; what waits in the association is in order.

use crate::form::Flows;
use manypath_engine::{AssociationId, Endpoint, Instant, Outgoing, SendError};

/// Most bytes that wait unsent in the association, however much its paths would take.
const UNSENT_LIMIT: usize = 128 << 10;

/// What handing over messages came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fed {
    /// The association holds all that its paths can send soon: feed it again when it has sent some.
    Enough,
    /// The flows have nothing more to say now.
    Drained,
    /// The send buffer is full; `Event::Writable` says when it is not.
    Full,
    /// The association does not take the message.
    Refused(SendError),
}

/// Hands messages of `flows` to association `id`. A message that does not fit is kept in `held` and goes first the next
/// time. Returns the outcome and how many messages were taken.
pub fn feed(
    now: Instant,
    endpoint: &mut Endpoint,
    id: AssociationId,
    flows: &mut Flows,
    held: &mut Option<Outgoing>,
) -> (Fed, usize) {
    let fragment = endpoint.fragment_size(id);
    let limit = unsent_limit(endpoint, id);
    flows.advance_time(now);
    flows.set_slowest_path(endpoint.round_trips(id).slowest.unwrap_or_default());
    let mut taken = 0;
    let outcome = loop {
        if endpoint.unsent(id) >= limit {
            break Fed::Enough;
        }
        let Some(message) = held.take().or_else(|| flows.poll_message(fragment)) else {
            break Fed::Drained;
        };
        match endpoint.send(now, id, message.clone()) {
            Ok(()) => taken += 1,
            Err(SendError::BufferFull) => {
                *held = Some(message);
                break Fed::Full;
            }
            Err(error) => {
                // Streams may be added soon.
                *held = Some(message).filter(|_| error == SendError::InvalidStream);
                break Fed::Refused(error);
            }
        }
    };
    endpoint.set_backlog(id, flows.backlog());
    (outcome, taken)
}

/// Bytes that may wait unsent in the association.
pub fn unsent_limit(endpoint: &Endpoint, id: AssociationId) -> usize {
    endpoint.wanted(id).min(UNSENT_LIMIT)
}
