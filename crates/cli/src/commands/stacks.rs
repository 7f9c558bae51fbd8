//! Asking the stacks of this host.

use crate::failure::Failure;
use manypath_control::status::StackStatus;
use manypath_control::{ControlClient, Role, runtime};
use std::time::Duration;

/// How long a stack may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// What every stack says that can be asked; one that cannot is named on standard error. Those of
/// other network namespaces are left out unless `all` is set.
pub(crate) fn query(all: bool) -> Result<Vec<StackStatus>, Failure> {
    let here = runtime::network_namespace().map_err(|e| Failure::new(e.to_string()))?;
    let mut found = Vec::new();
    for stack in runtime::stacks() {
        let asked = ControlClient::connect(&stack.path, Role::Cli, ANSWER_LIMIT)
            .and_then(|client| client.status::<StackStatus>());
        match asked {
            Ok(status) if all || status.network_namespace == here => found.push(status),
            Ok(_) => {}
            Err(error) => eprintln!("manypath: stack {}: {error}", stack.name()),
        }
    }
    Ok(found)
}
