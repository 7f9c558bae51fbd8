//! The command line of `manypath ssh`.

use clap::{Args, Parser, Subcommand};
use manypath_cli::texts::Texts;
use std::ffi::OsString;
use std::path::PathBuf;

/// Run programs and copy files on other hosts over SSH, as fast as the path.
///
/// Your own ssh logs in, with its configuration, keys, agent and known hosts; any SSH server works.
/// Only the windows differ: they follow the path and the reader, so that distance does not slow a
/// transfer down.
#[derive(Parser, Debug)]
#[command(
    name = "manypath-ssh",
    version,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = "Example:\n  manypath ssh get server.example:big.iso .\n  manypath ssh exec server.example tar c /data | tar x\n  manypath ssh serve -p 2222"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: SshCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum SshCommand {
    Exec(ExecArgs),
    Forward(ForwardArgs),
    Pipe(PipeArgs),
    /// Copy files from a server.
    ///
    /// A file gets its name when it is complete; until then it is called NAME.XXXXXXXX.part, and
    /// the same command resumes it. Modification time and permissions are preserved.
    #[command(after_help = "Example:\n  manypath ssh get server.example:big.iso .")]
    Get(CopyArgs),
    /// Copy files to a server.
    ///
    /// A file gets its name when it is complete; until then it is called NAME.XXXXXXXX.part, and
    /// the same command resumes it. Modification time and permissions are preserved.
    #[command(after_help = "Example:\n  manypath ssh put big.iso server.example:")]
    Put(CopyArgs),
    Sync(SyncArgs),
    Serve(ServeArgs),
    #[command(flatten)]
    Texts(Texts),
}

/// How to log in: the options of ssh.
#[derive(Args, Debug, Clone)]
pub(crate) struct LoginArgs {
    /// Port of the server.
    #[arg(short, value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// File with a private key; repeat for more.
    #[arg(short, value_name = "FILE")]
    pub(crate) identity: Vec<PathBuf>,
    /// User to log in as.
    #[arg(short = 'l', value_name = "USER")]
    pub(crate) login: Option<OsString>,
    /// Connect through these jump hosts.
    #[arg(short = 'J', value_name = "HOST,...")]
    pub(crate) jump: Option<OsString>,
    /// ssh_config(5) option; repeat for more.
    #[arg(short, value_name = "NAME=VALUE")]
    pub(crate) option: Vec<OsString>,
    /// ssh configuration file (default: ~/.ssh/config).
    #[arg(short = 'F', value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Use the ssh master connection on this control socket (`ssh -M -S PATH`).
    #[arg(short = 'S', value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Use IPv4 only.
    #[arg(short = '4', conflicts_with = "ipv6")]
    pub(crate) ipv4: bool,
    /// Use IPv6 only.
    #[arg(short = '6')]
    pub(crate) ipv6: bool,
    /// Print nothing but errors.
    #[arg(short)]
    pub(crate) quiet: bool,
    /// Increase the verbosity of ssh; repeat for more.
    #[arg(short, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Carry the connection over every path if the server's host has manypath.
    #[arg(long)]
    pub(crate) manypath: bool,
    /// ssh program.
    #[arg(long, value_name = "PROGRAM", default_value = "ssh")]
    pub(crate) ssh: OsString,
    /// Use fixed windows of this many KiB, for comparison.
    #[arg(long, value_name = "KIB")]
    pub(crate) static_window: Option<u32>,
}

/// Run a command on another host.
///
/// Standard input, output and error and the exit status are those of the command; 255 is a failure
/// of the connection. There is no terminal: use ssh for interactive programs. Without a command,
/// the user's shell reads standard input.
///
/// Can replace ssh in other programs: rsync, git, tar.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath ssh exec server.example tar c /data | tar x\n  rsync -e 'manypath ssh exec' -a server.example:data/ data/\n  GIT_SSH_COMMAND='manypath ssh exec' git clone server.example:repo.git"
)]
pub(crate) struct ExecArgs {
    #[command(flatten)]
    pub(crate) login: LoginArgs,
    /// Do not read standard input.
    #[arg(short = 'n')]
    pub(crate) no_input: bool,
    /// Server, as [user@]host or ssh://[user@]host[:port].
    pub(crate) host: OsString,
    /// Command and its arguments, joined by spaces for the user's shell on the server, as in ssh.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// Forward local ports through another host, until interrupted.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath ssh forward -L 8080:intranet.example:80 server.example"
)]
pub(crate) struct ForwardArgs {
    #[command(flatten)]
    pub(crate) login: LoginArgs,
    /// Local port (and address, if not loopback), and the destination as seen from the server;
    /// repeat for more.
    #[arg(short = 'L', required = true, value_name = "[ADDRESS:]PORT:HOST:PORT")]
    pub(crate) forwards: Vec<String>,
    /// Server, as [user@]host or ssh://[user@]host[:port].
    pub(crate) host: OsString,
}

/// Connect standard input and output to an address through another host.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  ssh -o ProxyCommand='manypath ssh pipe gateway.example %h:%p' server.example"
)]
pub(crate) struct PipeArgs {
    #[command(flatten)]
    pub(crate) login: LoginArgs,
    /// Server, as [user@]host or ssh://[user@]host[:port].
    pub(crate) host: OsString,
    /// Destination as seen from the server.
    #[arg(value_name = "HOST:PORT")]
    pub(crate) address: String,
}

/// What to copy.
#[derive(Args, Debug)]
pub(crate) struct CopyArgs {
    #[command(flatten)]
    pub(crate) login: LoginArgs,
    /// Copy directories recursively.
    #[arg(short)]
    pub(crate) recursive: bool,
    /// Compare SHA-256 sums of copies and originals afterwards; the server must allow commands.
    #[arg(long)]
    pub(crate) verify: bool,
    /// Number of connections to spread the files over; each logs in without prompting (default: as
    /// many as needed).
    #[arg(long, value_name = "N", conflicts_with = "socket", value_parser = clap::value_parser!(u8).range(1..=8))]
    pub(crate) connections: Option<u8>,
    /// Print the result as one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Files and, last, the destination: [user@]host:path or a local path.
    #[arg(required = true, num_args = 2.., value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,
}

/// Copy new and changed files to another directory.
///
/// Files of the same size and modification time are skipped; nothing is removed. Unfinished files
/// of an earlier call are resumed. Links and devices are skipped.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath ssh sync photos server.example:photos\n  manypath ssh sync server.example:photos photos"
)]
pub(crate) struct SyncArgs {
    #[command(flatten)]
    pub(crate) login: LoginArgs,
    /// Compare SHA-256 sums of copies and originals afterwards; the server must allow commands.
    #[arg(long)]
    pub(crate) verify: bool,
    /// Number of connections to spread the files over; each logs in without prompting (default: as
    /// many as needed).
    #[arg(long, value_name = "N", conflicts_with = "socket", value_parser = clap::value_parser!(u8).range(1..=8))]
    pub(crate) connections: Option<u8>,
    /// Print the result as one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Source directory: [user@]host:path or a local path.
    pub(crate) from: OsString,
    /// Destination directory, on the other side.
    pub(crate) to: OsString,
}

/// Let others run commands and copy files as this user, without root, until interrupted.
///
/// Anybody with a private key whose public key is in the keys file may log in: no passwords, no
/// terminals, no port forwarding. Runs the installed sshd with a configuration of its own; the
/// system's sshd need not run.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath ssh serve -p 2222\n  manypath ssh get -p 2222 server.example:big.iso ."
)]
pub(crate) struct ServeArgs {
    /// Port to listen on.
    #[arg(short, value_name = "PORT", default_value_t = 2222)]
    pub(crate) port: u16,
    /// Address to listen on (default: all); repeat for more.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Vec<String>,
    /// Public keys that may log in, in the format of authorized_keys [default:
    /// ~/.ssh/authorized_keys].
    #[arg(long, value_name = "FILE")]
    pub(crate) keys: Option<PathBuf>,
    /// Host key; created if missing [default: ~/.config/manypath/ssh_host_ed25519_key].
    #[arg(long, value_name = "FILE")]
    pub(crate) host_key: Option<PathBuf>,
    /// sshd program.
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) sshd: Option<PathBuf>,
}
