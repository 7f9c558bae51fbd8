//! `manypath serve`: a stack that accepts associations.

use super::stack;
use crate::args::ServeArgs;
use crate::failure::Failure;
use manypath_daemon::{Allow, Level, StackConfig};

/// Serves until it is told to end.
pub(crate) fn serve(args: &ServeArgs) -> Result<u8, Failure> {
    let allow: Result<Vec<Allow>, _> = args.allow.iter().map(|text| text.parse()).collect();
    let allow = allow.map_err(|e| Failure::usage(format!("--allow: {e}")))?;
    let mut config = StackConfig::server(allow);
    stack::configure(&mut config, &args.stack, Level::Info);
    config.udp_port = args.port;
    match manypath_control::runtime::directory() {
        Ok(dir) => config.runtime_dir = Some(dir),
        Err(error) => eprintln!("manypath: `manypath status` will not find this server: {error}"),
    }
    stack::run(config)
}
