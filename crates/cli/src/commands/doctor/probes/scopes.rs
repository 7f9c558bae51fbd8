//! For which peers the addresses of this host are there, by the rules of the stack.

use super::super::findings::ScopeFinding;
use super::uplinks::Uplink;
use crate::failure::Failure;
use manypath_daemon::{LocalScope, LocalScopes, Locals};
use manypath_net::interfaces;
use manypath_rules::paths::PathsFile;
use std::net::IpAddr;

/// The scopes of all addresses. Of `uplinks` those stay that an association with the peer would use.
pub(in crate::commands::doctor) fn look(
    named: &[IpAddr],
    uplinks: &mut Vec<Uplink>,
) -> Result<Vec<ScopeFinding>, Failure> {
    let mut scopes = LocalScopes::default();
    // A file that cannot be read is told elsewhere; without netlink a stack knows no more.
    let entries = PathsFile::usual().read().unwrap_or_default();
    let _unknown = scopes.look(&interfaces()?, &Locals::Auto, &entries).is_err();
    let realm = named.first().and_then(|peer| scopes.realm_towards(*peer, None));
    let isolated = |addr| scopes.all().iter().any(|it| it.addr == addr && it.is_isolated());
    let used = scopes.addresses_in(realm);
    // An interface that is down has no scope, and is looked at.
    uplinks.retain(|it| {
        let addr = it.interface.addr;
        used.contains(&addr) || realm.is_none() && !isolated(addr)
    });
    let finding = |it: &LocalScope| ScopeFinding {
        addr: it.addr,
        interface: it.interface.clone(),
        scope: it.name(),
        reason: it.reason.clone(),
        used: used.contains(&it.addr),
        cure: it.cure(),
    };
    Ok(scopes.all().iter().map(finding).collect())
}
