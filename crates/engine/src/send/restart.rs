//! A sender that begins anew because the peer has restarted (RFC 9260 section 5.2.4.1).

use super::Sender;
use super::nagle::Nagle;
use crate::config::Config;
use manypath_wire::Tsn;

impl Sender {
    /// A sender that has sent nothing, with the parameters of [`Self::new`]. What the user has set and
    /// what was counted remains.
    pub(crate) fn restarted(
        &self,
        config: &Config,
        initial_tsn: Tsn,
        peer_rwnd: u32,
        outbound_streams: u16,
    ) -> Self {
        let mut fresh = Self::new(config, initial_tsn, peer_rwnd, outbound_streams);
        fresh.counts = self.counts;
        fresh.nagle = Nagle::new(self.nagle.is_on());
        fresh.fragmentation.adopt_limit(&self.fragmentation);
        fresh.tail.backlog = self.tail.backlog;
        fresh.queue.adopt_options(&self.queue);
        fresh.abandonment.adopt_defaults(&self.abandonment);
        fresh.copies.adopt_redundancy(&self.copies);
        fresh
    }
}
