//! What `manypath run` does where the doctor stands: it asks what the launcher asks.

use super::super::findings::Launcher;
use manypath_shim::{Plan, Servers};

/// Asks. There must be no other thread.
pub(super) fn look() -> Launcher {
    match manypath_shim::look() {
        Plan::Translate(Servers::OneStep | Servers::TwoSteps) => Launcher::Everything,
        Plan::Translate(Servers::Never) => Launcher::Clients,
        Plan::HandOver(servers, obstacle) if crate::commands::preload::handover().is_some() => {
            Launcher::Linked { servers: servers != Servers::Never, text: obstacle.to_string() }
        }
        Plan::Nested => Launcher::Nested,
        Plan::HandOver(_, obstacle) | Plan::Outside(obstacle) => Launcher::Nothing {
            obstacle: obstacle.name(),
            text: obstacle.to_string(),
            command: obstacle.command(),
        },
    }
}
