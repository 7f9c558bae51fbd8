//! Policies of paths: ours are looked up when paths come and when they change, the peer's come with its
//! HEARTBEATs.

use super::context::Context;
use super::path_manager::{Addressing, PathManager};
use crate::event::{AddressChange, Event};
use crate::path::{PathId, heartbeat};

impl Addressing<'_> {
    /// Asks the peer to send first to our address of the path that we want as the primary one, where addresses
    /// may change (RFC 5061 section 4.2.4). Others learn of it by HEARTBEAT alone.
    fn ask_for_primary(&mut self, cx: &mut Context<'_>) {
        let wanted = |path: &&crate::path::Path| {
            path.regime().own_policy().primary && path.health().is_confirmed()
        };
        let address = self.paths.iter().find(wanted).map(|path| path.addr().local.ip());
        if let Some(address) = address.filter(|_| self.addresses.is_some()) {
            let change = AddressChange::MadePrimary;
            // What cannot be asked for now is still told by HEARTBEAT.
            let _told_otherwise = self.change_address(cx, change, address).is_err();
        }
    }

    /// Before anything is sent: every path has its policy, allowances and costs are those of now.
    pub(super) fn regulate(&mut self, cx: &mut Context<'_>) {
        let changed = self.paths.look_up_policies(cx.policies);
        for id in changed.iter() {
            self.path_manager().probe(id);
            self.path_manager().on_policy_changed(cx, id);
        }
        self.paths.regulate_at(cx.now);
        if !changed.is_empty() {
            self.ask_for_primary(cx);
            self.path_manager().leave_failed_paths();
        }
    }

    /// The policies of the endpoint have changed.
    pub(crate) fn renew_policies(&mut self, cx: &mut Context<'_>) {
        self.paths.forget_policies();
        self.regulate(cx);
    }
}

impl PathManager<'_> {
    /// A HEARTBEAT with `info` came over `via`: it may tell what the peer wants of the path.
    pub(super) fn hear_policy(&mut self, cx: &mut Context<'_>, via: PathId, info: &[u8]) {
        let Some(notice) = heartbeat::notice_in(info) else { return };
        if self.paths.hear(via, notice) {
            self.on_policy_changed(cx, via);
            self.paths.regulate_at(cx.now);
            self.leave_failed_paths();
        }
    }

    /// Our HEARTBEAT with `info` was answered: the peer has read what it said. If that was overtaken by a
    /// change, another one follows.
    pub(super) fn note_policy_heard(&mut self, id: PathId, info: &[u8]) {
        let Some(path) = self.paths.get_mut(id) else { return };
        heartbeat::notice_in(info)
            .into_iter()
            .for_each(|notice| path.regime_mut().on_policy_heard(notice));
        if path.regime().has_untold_policy() {
            self.probe(id);
        }
    }

    fn on_policy_changed(&mut self, cx: &mut Context<'_>, id: PathId) {
        let Some(path) = self.paths.get(id) else { return };
        cx.emit(self.id, Event::PathPolicy { path: id, policy: path.regime().policy() });
        self.paths.apply_wished_primary();
    }
}
