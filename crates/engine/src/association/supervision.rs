//! How the paths of one association are supervised, where that differs from the endpoint's configuration.

use super::context::Context;
use super::tcb::Association;
use crate::config::Config;
use crate::path::{PathId, Supervision, SupervisionChange};
use alloc::vec::Vec;
use core::net::IpAddr;

impl Association {
    /// Changes how the paths to `remote`, or all, those to come too, are supervised. Whether there is a path to
    /// `remote`.
    pub(crate) fn set_supervision(
        &mut self,
        cx: &mut Context<'_>,
        remote: Option<IpAddr>,
        change: SupervisionChange,
    ) -> bool {
        let ids = self.paths_to(remote);
        if remote.is_none() {
            self.paths.supervision.change(change, cx.config);
        }
        for &id in &ids {
            if let Some(path) = self.paths.get_mut(id) {
                path.supervise(change, cx.config);
            }
            self.renew_probing(cx, id, change);
        }
        remote.is_none() || !ids.is_empty()
    }

    /// How the paths to `remote`, or those to come, are supervised.
    pub(crate) fn supervision(
        &self,
        config: &Config,
        remote: Option<IpAddr>,
    ) -> Option<Supervision> {
        if remote.is_none() {
            return Some(self.paths.supervision.get(config));
        }
        let first = self.paths_to(remote).into_iter().next()?;
        Some(self.paths.get(first)?.supervision(config))
    }

    fn paths_to(&self, remote: Option<IpAddr>) -> Vec<PathId> {
        let fits = |addr: IpAddr| remote.is_none_or(|remote| remote == addr);
        self.paths
            .iter()
            .filter(|path| fits(path.addr().remote.ip()))
            .map(|path| path.id())
            .collect()
    }

    /// What was asked for about HEARTBEATs holds from the next one on, not only after a pause of the old length.
    fn renew_probing(&mut self, cx: &mut Context<'_>, id: PathId, change: SupervisionChange) {
        if change.heartbeats.is_none() && change.heartbeat_interval.is_none() {
            return;
        }
        let sends = self.state.sends_heartbeats();
        let Some(path) = self.paths.get_mut(id).filter(|_| sends) else { return };
        if !path.is_confirmed() {
            return;
        }
        match path.supervision(cx.config).heartbeats {
            true if path.is_active() => path.rest_probing(cx.now, cx.config, cx.rng),
            true => path.probe_now(),
            false => path.stop_probing(),
        }
    }
}
