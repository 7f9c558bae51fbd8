//! Connects over an encrypted association whose peer may have lost its keys, as by a restart.
//!
//! Only the silence of the peer proves that, and takes a while; anybody may have sent what says so. Nobody waits for the
//! proof: who has no answer yet asks again over another association beside the first one, which goes on. A peer that
//! shows its key there is who it was, restarted or not. If nobody does, and the peer has answered over the first one
//! meanwhile, that is used again.

use super::aside::attempts_on;
use super::open::open_flow;
use super::{Attempts, ByRelay, Sctp, Tcp};
use crate::base::{Base, FlowUse, presence, protection};
use crate::ids::AttemptId;
use manypath_engine::AssociationId;
use manypath_flow::FlowId;

impl Attempts {
    /// Lets the connects that wait for an answer over the association begin another one, if it is in doubt. Each moves
    /// once: whoever raises doubts about all associations must not keep it from falling back.
    pub(crate) fn move_on(&mut self, base: &mut Base, doubted: AssociationId) {
        if protection::is_in_doubt(base, doubted) {
            for id in attempts_on(base, doubted) {
                self.move_from(base, id, doubted);
            }
        }
    }

    /// Hosts have said that nobody listens: their peers are in doubt, and connects wait no longer for them.
    pub(crate) fn notice_closed_ports(&mut self, base: &mut Base) {
        for id in presence::take_closed(base) {
            if let Some(received) = presence::doubt(base, id) {
                self.move_on(base, id);
                self.hurry_on(base, id, received);
            }
        }
    }

    fn move_from(&mut self, base: &mut Base, id: AttemptId, doubted: AssociationId) {
        let Some(attempt) = self.all.get(&id) else { return };
        let Sctp::Opening { flow: asked, .. } = attempt.sctp else { return };
        if attempt.moved {
            return;
        }
        let (open, options, by) = (attempt.open, attempt.options, attempt.by_relay.as_ref());
        let Ok((association, flow)) = self.carrier_for(base, &open, &options, by) else { return };
        if association == doubted {
            return base.reset_flow(association, flow);
        }
        base.reset_flow(doubted, asked);
        base.core.count("opens_moved");
        self.all.get_mut(&id).into_iter().for_each(|attempt| attempt.moved = true);
        self.ask_over(base, id, association, flow);
    }

    /// The association of a connect has failed. Whether the one that was in doubt when it began takes it.
    pub(super) fn go_back(
        &mut self,
        base: &mut Base,
        id: AttemptId,
        failed: AssociationId,
    ) -> bool {
        let doubted = base.get(&failed).and_then(|one| one.beside);
        let usable =
            |id: &AssociationId| base.is_established(*id) && !protection::is_in_doubt(base, *id);
        let Some((doubted, attempt)) = doubted.filter(usable).zip(self.all.get(&id)) else {
            return false;
        };
        let by = attempt.by_relay.as_ref();
        let Ok(flow) = open_flow(base, doubted, &attempt.open, by) else { return false };
        self.ask_over(base, id, doubted, flow);
        true
    }

    /// The flow is being opened.
    pub(super) fn ask_over(
        &mut self,
        base: &mut Base,
        id: AttemptId,
        association: AssociationId,
        flow: FlowId,
    ) {
        let received = base.core.packets_received(association);
        let Some(attempt) = self.all.get_mut(&id) else { return };
        attempt.sctp = Sctp::Opening { association, flow, received };
        let tcp_runs = !matches!(attempt.tcp, Tcp::NotStarted);
        let by = attempt.by_relay.as_mut().map(ByRelay::ask_anew);
        let alone =
            attempt.open.blocking || attempt.options.is_sctp_only() || tcp_runs || by.is_some();
        base.treat(association, flow, &attempt.options);
        base.set_flow_use(association, flow, FlowUse::Attempt(id));
        self.start_clocks(base, id, association, alone);
    }
}
