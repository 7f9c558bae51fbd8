//! From a peer that has no manypath to a native service at the same address.

use super::Attempts;
use crate::base::Base;
use crate::ids::AttemptId;
use crate::parameters;
use manypath_control::status::FallbackReason;
use manypath_engine::AssociationId;
use manypath_rules::{Encrypt, Form};

impl Attempts {
    /// The peer has turned out to speak SCTP without manypath: its service is tried. False if that
    /// is not so, or not to be.
    pub(super) fn try_directly(
        &mut self,
        base: &mut Base,
        id: AttemptId,
        failed: AssociationId,
        reason: FallbackReason,
    ) -> bool {
        let Some(attempt) = self.all.get_mut(&id) else { return false };
        let (open, options) = (attempt.open, attempt.options);
        let acceptor = base.core.acceptor_for(open.destination, &options);
        let known = self.peers.is_native(base.core.now, open.destination.ip(), acceptor);
        let required = options.encrypt == Some(Encrypt::Require);
        let limited = !options.path_limits().is_none();
        if !known
            || required
            || limited
            || base.is_direct(failed)
            || options.form == Some(Form::Mux)
        {
            return false;
        }
        let manner = parameters::manner(&base.core.config, &options);
        let (to, from) = (open.destination, open.source_or_unspecified());
        let Ok((association, flow)) = base.begin_direct(to, from, manner.profile, acceptor) else {
            return false;
        };
        attempt.fallback = Some(reason);
        self.ask_over(base, id, association, flow);
        true
    }

    /// The service at the peer is not there for SCTP: that is remembered of it alone. Returns what to
    /// say of the connection: why the peer was taken for a native one, if it was.
    pub(super) fn note_direct_failure(
        &mut self,
        base: &Base,
        id: AttemptId,
        association: AssociationId,
        reason: FallbackReason,
    ) -> FallbackReason {
        let Some(attempt) = self.all.get(&id) else { return reason };
        let reason = attempt.fallback.unwrap_or(reason);
        if base.is_direct(association) {
            self.peers.remember_service(base.core.now, attempt.open.destination, reason);
        }
        reason
    }
}
