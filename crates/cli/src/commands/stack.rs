//! The embedded stack of `manypath run`, a process of its own.

use super::stack_options::StackOptions;
use crate::failure::Failure;
use crate::say::say;
use clap::Args;
use manypath_daemon::{
    Keeper, Kept, KeyFiles, Knob, Level, Locals, LogTo, PeerCache, ProxyAt, SettingsFile,
};
use manypath_daemon::{Server, StackConfig, WaitingLog};
use manypath_rules::paths::PathsFile;
use manypath_rules::{KeptFile, RulesFile};
use manypath_trust::IdentitySource;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// The embedded stack of `manypath run`.
#[derive(Args, Debug)]
pub(crate) struct StackArgs {
    /// Descriptor of the launcher's control connection.
    #[arg(long)]
    pub(crate) control_fd: i32,
    /// Serve the listening sockets of programs at this UDP port.
    #[arg(long, value_name = "PORT")]
    pub(crate) door: Option<u16>,
    /// Serve other launchers, too, which find the stack here, and outlive them all for a while.
    #[arg(long, value_name = "SOCKET")]
    pub(crate) shared: Option<PathBuf>,
    /// Do not use the cache of peers.
    #[arg(long)]
    pub(crate) no_memory: bool,
    #[command(flatten)]
    pub(crate) stack: StackOptions,
}

/// Open files for a stack without rights, which is at standard input. Started by that stack.
#[derive(Args, Clone, Debug)]
pub(crate) struct KeeperArgs {
    /// A file that the stack may read.
    #[arg(long = "file", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// A control socket that the stack may bind.
    #[arg(long = "socket", value_name = "SOCKET")]
    pub(crate) sockets: Vec<PathBuf>,
    /// The peers cache.
    #[arg(long, value_name = "FILE")]
    pub(crate) peers: Option<PathBuf>,
    /// What interfaces with a budget have carried.
    #[arg(long, value_name = "FILE")]
    pub(crate) budgets: Option<PathBuf>,
    /// The keys of peers.
    #[arg(long, value_name = "FILE")]
    pub(crate) known_peers: Option<PathBuf>,
    /// The log.
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
}

/// Names a file with the user and the password that the HTTP proxy is shown.
pub(super) const PROXY_USER: &str = "MANYPATH_PROXY_USER";

/// Runs the stack until its launcher is gone and its flows are delivered.
pub(crate) fn stack(args: &StackArgs) -> Result<u8, Failure> {
    let control = manypath_control::inherited(args.control_fd)
        .map_err(|e| Failure::new(format!("descriptor {}: {e}", args.control_fd)))?;
    let mut config = match args.door {
        Some(port) => StackConfig::for_listeners(control, port),
        None => StackConfig::embedded(control),
    };
    config.process.shared = args.shared.clone();
    configure(&mut config, &args.stack, Level::Warn)?;
    if args.no_memory {
        config.peer_memory = None;
    }
    // Without a runtime directory `manypath status` cannot ask this stack; it works all the same.
    config.process.runtime_dir = manypath_control::runtime::directory().ok();
    run(vec![config], log_to(args.stack.log.as_deref()), "--port")
}

/// Where the options say that lines go. Standard error is the journal under systemd.
pub(crate) fn log_to(place: Option<&Path>) -> LogTo {
    match place.map(Path::to_str) {
        Some(Some("journal")) => LogTo::Journal,
        Some(Some("stderr")) => LogTo::Stderr,
        None if manypath_daemon::stderr_is_the_journal() => LogTo::Journal,
        None => LogTo::Stderr,
        Some(_) => LogTo::File(place.map(Path::to_owned).unwrap_or_default()),
    }
}

/// The table of rules that the options name, or the usual one.
pub(crate) fn rules(options: &StackOptions) -> Result<RulesFile, Failure> {
    match &options.rules {
        None => Ok(RulesFile::usual()),
        Some(path) if path.exists() => Ok(RulesFile::named(path.clone())),
        Some(path) => Err(no_rules(path)),
    }
}

/// There is no such table of rules.
pub(crate) fn no_rules(path: &Path) -> Failure {
    Failure::usage(format!("--rules {}: no such file", path.display()))
        .hint("`manypath rules --rules FILE add ...` makes one")
}

/// Whether a stack can go by the files that there are.
pub(crate) fn check_files(rules: &RulesFile) -> Result<(), Failure> {
    SettingsFile::usual().read().map_err(super::config::settings_failure)?;
    check_rules_and_paths(rules)
}

/// The same but for settings, without which a stack for programs begins.
pub(super) fn check_rules_and_paths(rules: &RulesFile) -> Result<(), Failure> {
    rules.read().map_err(super::rules::failure)?;
    PathsFile::usual().read().map_err(super::path::failure)?;
    Ok(())
}

/// Tells which settings a stack for programs does without.
pub(super) fn warn_of_wrong_settings() -> Result<(), Failure> {
    let (_, wrong) = SettingsFile::usual().read_valid().map_err(super::config::settings_failure)?;
    for wrong in wrong {
        say(format_args!("{wrong}; ignored: correct it, then run `manypath config reload`"));
    }
    Ok(())
}

/// Puts the options of the command line into the configuration.
pub(crate) fn configure(
    config: &mut StackConfig,
    options: &StackOptions,
    base: Level,
) -> Result<(), Failure> {
    config.rules = Some(rules(options)?);
    if !options.locals.is_empty() {
        config.locals = Locals::Named(options.locals.clone());
    }
    config.profile =
        options.profile.parse().map_err(|e| Failure::usage(format!("--profile: {e}")))?;
    config.peer_udp_port = options.peer_port;
    config.encapsulation = options.encapsulation.into();
    config.settings = Some(SettingsFile::usual());
    config.paths = Some(PathsFile::usual());
    if let Some(mode) = options.mode {
        config.carrying.redundancy = mode.into();
        config.fixed.push("redundancy");
    }
    if let Some(step_aside) = options.step_aside {
        config.carrying.step_aside = step_aside.into();
        config.fixed.push("step_aside");
    }
    if let Some((knob, when)) = Knob::by_name("encrypt").zip(options.encrypt.as_ref()) {
        knob.set(config, knob.parse(when).map_err(|why| Failure::usage(format!("--{why}")))?);
        config.fixed.push(knob.name);
    }
    if let Some(knob) = Knob::by_name("carriers").filter(|_| !options.carriers.is_empty()) {
        let carriers = knob.parse(&options.carriers.join(","));
        knob.set(config, carriers.map_err(|why| Failure::usage(format!("--{why}")))?);
        config.fixed.push(knob.name);
    }
    if let Some(via) = options.via()? {
        config.via = Some(via);
        config.fixed.push("via");
    }
    let identity: Result<IdentitySource, _> = options.identity.parse();
    config.keys = Some(KeyFiles::usual(
        identity.map_err(|e| Failure::usage(format!("--identity {}: {e}", options.identity)))?,
    ));
    let peers = PeerCache::usual();
    config.budgets = Some(peers.path().with_file_name("budgets"));
    config.peer_memory = Some(peers);
    for (name, setting, value) in options.settings() {
        let Some(knob) = Knob::by_name(setting) else { continue };
        knob.parse(&value.to_string()).map_err(|why| Failure::usage(format!("--{name}: {why}")))?;
        knob.set(config, value);
        config.fixed.push(knob.name);
    }
    config.carrying.proxy = proxy();
    config.carrying.tls.name.clone_from(&options.tls_name);
    config.carrying.tls.check().map_err(|why| Failure::usage(format!("--tls-name {why}")))?;
    config.loopback_paths = options.loopback_paths;
    config.log = base.into();
    if options.verbose > 0 {
        config.log.all = Level::Verbose;
        config.fixed.push("log_level");
    }
    Ok(())
}

/// What the environment says of an HTTP proxy. It may have a password.
fn proxy_named() -> Option<String> {
    ["HTTPS_PROXY", "https_proxy"].into_iter().find_map(|name| std::env::var(name).ok())
}

/// What the environment says of an HTTP proxy, and of who uses it: the text of a file, which is empty where there is none.
pub(super) fn proxy_and_user() -> Option<(String, String)> {
    let named = proxy_named()?;
    let file = std::env::var_os(PROXY_USER).map(|file| KeptFile::named(file.into()).read_secret());
    let user = file.and_then(Result::ok).flatten();
    Some((named, user.unwrap_or_default()))
}

/// Where the environment says that the HTTP proxy is, or why none is used.
fn proxy() -> Result<ProxyAt, String> {
    let proxy = ProxyAt::parse(&proxy_named().unwrap_or_default()).map_err(str::to_owned)?;
    match std::env::var_os(PROXY_USER) {
        Some(file) => {
            proxy.with_user_from(Path::new(&file)).map_err(|e| format!("{PROXY_USER}: {e}"))
        }
        None => Ok(proxy),
    }
}

/// Runs a stack to its end, with an engine loop for each of the configurations. `port` is the option that gives it another UDP
/// port.
pub(crate) fn run(mut loops: Vec<StackConfig>, log: LogTo, port: &str) -> Result<u8, Failure> {
    let first = loops.remove(0);
    start_keeper(&first, &log);
    let waiting = manypath_daemon::log_to(&log, first.log).map_err(|e| cannot_log(&log, &e))?;
    let ended = run_logged(first, loops, waiting, port);
    manypath_daemon::flush_log();
    Keeper::end();
    ended
}

/// A stack that root has started is root no longer when it reads packets: what needs root later is left to a
/// keeper. Without one it stays root.
fn start_keeper(config: &StackConfig, log: &LogTo) {
    if manypath_sandbox::user() != 0 {
        return;
    }
    let started = std::env::current_exe()
        .and_then(|program| Keeper::start(&program, &Kept::for_stack(config, log)));
    if let Err(error) = started {
        eprintln!(
            "manypath: the stack keeps the rights of root, because the keeper does not start: {error}"
        );
    }
}

/// Serves a stack that has started this process.
pub(crate) fn keeper(args: &KeeperArgs) -> Result<u8, Failure> {
    let socket = std::io::stdin().as_fd().try_clone_to_owned()?;
    let KeeperArgs { files, sockets, peers, budgets, known_peers, log } = args.clone();
    let kept = Kept { files, sockets, peers, budgets, known_peers, log };
    manypath_daemon::keep(socket, kept)?;
    Ok(0)
}

fn run_logged(
    first: StackConfig,
    others: Vec<StackConfig>,
    log: WaitingLog,
    port: &str,
) -> Result<u8, Failure> {
    let mut stack = Server::new(first, others);
    if let Ok(stack) = &mut stack {
        stack.confine();
    }
    // Threads have the rights that the process has when they begin.
    log.begin().map_err(|e| Failure::new(format!("cannot start logging: {e}")))?;
    let stack = stack.map_err(|e| {
        let failure = Failure::new(e.to_string());
        if e.kind() == std::io::ErrorKind::AddrInUse && e.to_string().starts_with("UDP") {
            failure.hint(format!(
                "another port: {port} PORT; to take over from `manypath serve`: serve --replace"
            ))
        } else if e.kind() == std::io::ErrorKind::PermissionDenied {
            failure.hint("as root, or in UDP: --encapsulation udp")
        } else {
            failure
        }
    })?;
    stack.run().map_err(|e| Failure::new(e.to_string()))?;
    Ok(0)
}

/// Tells that lines cannot go where the options say.
pub(crate) fn cannot_log(to: &LogTo, error: &std::io::Error) -> Failure {
    match to {
        LogTo::Journal => Failure::usage(format!("--log journal: {error}"))
            .hint("without systemd-journald: --log FILE, or --log stderr"),
        LogTo::Stderr | LogTo::File(_) => Failure::usage(format!("--log: {error}")),
    }
}
