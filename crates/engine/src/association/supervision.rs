//! How the paths of one association are supervised, where that differs from the endpoint's configuration.

use super::context::Context;
use super::path_manager::PathManager;
use crate::path::{PathId, SupervisionChange};
use core::net::IpAddr;

impl PathManager<'_> {
    /// Changes how the paths to `remote`, or all, those to come too, are supervised. Whether there is a path to
    /// `remote`.
    pub(crate) fn set_supervision(
        &mut self,
        cx: &mut Context<'_>,
        remote: Option<IpAddr>,
        change: SupervisionChange,
    ) -> bool {
        let ids =
            self.paths.ids(|path| remote.is_none_or(|remote| remote == path.addr().remote.ip()));
        if remote.is_none() {
            self.paths.own_supervision.change(change, cx.config);
        }
        for &id in &ids {
            if let Some(path) = self.paths.get_mut(id) {
                path.health_mut().supervise(change, cx.config);
            }
            self.renew_probing(cx, id, change);
        }
        remote.is_none() || !ids.is_empty()
    }

    /// What was asked for about HEARTBEATs holds from the next one on, not only after a pause of the old length.
    fn renew_probing(&mut self, cx: &mut Context<'_>, id: PathId, change: SupervisionChange) {
        if change.heartbeats.is_none() && change.heartbeat_interval.is_none() {
            return;
        }
        let Some(path) = self.probed(id).filter(|path| path.health().is_confirmed()) else {
            return;
        };
        match path.health().supervision(cx.config).heartbeats {
            true if path.health().is_active() => path.rest_probing(cx.now, cx.config, cx.rng),
            true => path.heartbeat_mut().probe_now(),
            false => path.heartbeat_mut().stop(),
        }
    }
}
