//! The embedded stack of `manypath run`, a process of its own.

use crate::args::{StackArgs, StackOptions};
use crate::failure::Failure;
use manypath_daemon::{Knob, Level, Locals, PeerCache, SettingsFile, Stack, StackConfig};
use manypath_rules::RulesFile;

/// Runs the stack until its launcher is gone and its flows are delivered.
pub(crate) fn stack(args: &StackArgs) -> Result<u8, Failure> {
    let control = manypath_control::inherited(args.control_fd)
        .map_err(|e| Failure::new(format!("descriptor {}: {e}", args.control_fd)))?;
    let mut config = StackConfig::embedded(control);
    configure(&mut config, &args.stack, Level::Warn)?;
    // Without a runtime directory `manypath status` cannot ask this stack; it works all the same.
    config.runtime_dir = manypath_control::runtime::directory().ok();
    run(config)
}

/// The table of rules that the options name, or the usual one.
pub(crate) fn rules(options: &StackOptions) -> Result<RulesFile, Failure> {
    match &options.rules {
        None => Ok(RulesFile::usual()),
        Some(path) if path.exists() => Ok(RulesFile::named(path.clone())),
        Some(path) => {
            let message = format!("--rules: there is no {}", path.display());
            Err(Failure::usage(message).hint("`manypath rules --rules FILE add ...` makes one"))
        }
    }
}

/// Puts the options of the command line into the configuration.
pub(crate) fn configure(
    config: &mut StackConfig,
    options: &StackOptions,
    base: Level,
) -> Result<(), Failure> {
    config.rules = Some(rules(options)?);
    if !options.locals.is_empty() {
        config.locals = Locals::List(options.locals.clone());
    }
    config.profile =
        options.profile.parse().map_err(|e| Failure::usage(format!("--profile: {e}")))?;
    config.peer_udp_port = options.peer_port;
    config.settings = Some(SettingsFile::usual());
    config.peer_memory = Some(PeerCache::usual());
    for (name, setting, value) in options.settings() {
        let Some(knob) = Knob::by_name(setting) else { continue };
        knob.parse(&value.to_string()).map_err(|why| Failure::usage(format!("--{name}: {why}")))?;
        knob.set(config, value);
        config.fixed.push(knob.name);
    }
    config.loopback_paths = options.loopback_paths;
    config.log = base;
    if options.verbose > 0 {
        config.log = Level::Verbose;
        config.fixed.push("log_level");
    }
    Ok(())
}

/// Runs a stack to its end.
pub(crate) fn run(config: StackConfig) -> Result<u8, Failure> {
    let stack = Stack::new(config).map_err(|e| {
        let failure = Failure::new(e.to_string());
        let busy = e.kind() == std::io::ErrorKind::AddrInUse;
        if busy { failure.hint("another port: --port PORT") } else { failure }
    })?;
    stack.run().map_err(|e| Failure::new(e.to_string()))?;
    Ok(0)
}
