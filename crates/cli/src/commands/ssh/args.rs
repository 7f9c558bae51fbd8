//! The command line of `manypath ssh`.

use clap::{Args, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

/// Run programs and copy files on other hosts by SSH, as fast as the path.
///
/// Your own ssh logs in, with its configuration, keys, agent and known hosts; any SSH server will do.
/// Only the windows are different: they follow the path and the reader, so that distance does not
/// make a transfer slow.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath ssh get server.example:big.iso .\n  manypath ssh exec server.example tar c /data | tar x\n  manypath ssh serve -p 2222"
)]
pub(crate) struct SshArgs {
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
    /// A file has its name when it is complete; until then it is called NAME.XXXXXXXX.part, and the same command
    /// continues it. Time of change and permissions are those of the original.
    #[command(after_help = "Example:\n  manypath ssh get server.example:big.iso .")]
    Get(CopyArgs),
    /// Copy files to a server.
    ///
    /// A file has its name when it is complete; until then it is called NAME.XXXXXXXX.part, and the same command
    /// continues it. Time of change and permissions are those of the original.
    #[command(after_help = "Example:\n  manypath ssh put big.iso server.example:")]
    Put(CopyArgs),
    Sync(SyncArgs),
    Serve(ServeArgs),
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
    /// Name to log in with.
    #[arg(short = 'l', value_name = "USER")]
    pub(crate) login: Option<OsString>,
    /// Go by way of these hosts.
    #[arg(short = 'J', value_name = "HOST,...")]
    pub(crate) jump: Option<OsString>,
    /// Option of ssh_config(5); repeat for more.
    #[arg(short, value_name = "NAME=VALUE")]
    pub(crate) option: Vec<OsString>,
    /// Configuration file of ssh instead of ~/.ssh/config.
    #[arg(short = 'F', value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Use the login of the master that listens at this control socket (`ssh -M -S PATH`).
    #[arg(short = 'S', value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Use IPv4 only.
    #[arg(short = '4', conflicts_with = "ipv6")]
    pub(crate) ipv4: bool,
    /// Use IPv6 only.
    #[arg(short = '6')]
    pub(crate) ipv6: bool,
    /// Let ssh say nothing but errors.
    #[arg(short)]
    pub(crate) quiet: bool,
    /// Let ssh say what it does; repeat for more.
    #[arg(short, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Carry the connection over every path, where the server's host has manypath.
    #[arg(long)]
    pub(crate) manypath: bool,
    /// The ssh to log in with.
    #[arg(long, value_name = "PROGRAM", default_value = "ssh")]
    pub(crate) ssh: OsString,
    /// Windows of this many KiB instead of such that follow the path, for comparison.
    #[arg(long, value_name = "KIB")]
    pub(crate) static_window: Option<u32>,
}

/// Run a command on another host, with its standard streams.
///
/// Standard input, output and error and the exit status are the command's; 255 is a failure of the
/// connection. There is no terminal: for interactive programs use ssh. Without a command, the
/// user's shell reads standard input.
///
/// Stands in for ssh in other programs: rsync, git, tar.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath ssh exec server.example tar c /data | tar x\n  rsync -e 'manypath ssh exec' -a server.example:data/ data/\n  GIT_SSH_COMMAND='manypath ssh exec' git clone server.example:repo.git"
)]
pub(crate) struct ExecArgs {
    #[command(flatten)]
    pub(crate) login: LoginArgs,
    /// Read nothing from standard input.
    #[arg(short = 'n')]
    pub(crate) no_input: bool,
    /// Server, as [user@]host or ssh://[user@]host[:port].
    pub(crate) host: OsString,
    /// Command and its arguments, joined by spaces for the user's shell there, as ssh does.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// Let connections to ports of this host go on from another host, until interrupted.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath ssh forward -L 8080:intranet.example:80 server.example"
)]
pub(crate) struct ForwardArgs {
    #[command(flatten)]
    pub(crate) login: LoginArgs,
    /// Port here (and address, if not loopback), and where to from the server; repeat for more.
    #[arg(short = 'L', required = true, value_name = "[ADDRESS:]PORT:HOST:PORT")]
    pub(crate) forwards: Vec<String>,
    /// Server, as [user@]host or ssh://[user@]host[:port].
    pub(crate) host: OsString,
}

/// Connect standard input and output to an address, from another host.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  ssh -o ProxyCommand='manypath ssh pipe gateway.example %h:%p' server.example"
)]
pub(crate) struct PipeArgs {
    #[command(flatten)]
    pub(crate) login: LoginArgs,
    /// Server, as [user@]host or ssh://[user@]host[:port].
    pub(crate) host: OsString,
    /// Where to from the server.
    #[arg(value_name = "HOST:PORT")]
    pub(crate) address: String,
}

/// What to copy.
#[derive(Args, Debug)]
pub(crate) struct CopyArgs {
    #[command(flatten)]
    pub(crate) login: LoginArgs,
    /// Copy folders with all that is in them.
    #[arg(short)]
    pub(crate) recursive: bool,
    /// Compare SHA-256 sums of copies and originals at the end; the server must allow commands.
    #[arg(long)]
    pub(crate) verify: bool,
    /// Spread files over this many connections, each with a login of its own that asks nothing; by default over more than one
    /// where one is not enough.
    #[arg(long, value_name = "N", conflicts_with = "socket", value_parser = clap::value_parser!(u8).range(1..=8))]
    pub(crate) connections: Option<u8>,
    /// Print what was done as one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Files and, last, where to: [user@]host:path or a local path.
    #[arg(required = true, num_args = 2.., value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,
}

/// Copy what a folder has and another one has not, or in another version.
///
/// Files of the same size and time of change are left alone; nothing is removed. Files that an earlier call
/// has not finished are continued. Links and devices are left out.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath ssh sync photos server.example:photos\n  manypath ssh sync server.example:photos photos"
)]
pub(crate) struct SyncArgs {
    #[command(flatten)]
    pub(crate) login: LoginArgs,
    /// Compare SHA-256 sums of what was copied at the end; the server must allow commands.
    #[arg(long)]
    pub(crate) verify: bool,
    /// Spread files over this many connections, each with a login of its own that asks nothing; by default over more than one
    /// where one is not enough.
    #[arg(long, value_name = "N", conflicts_with = "socket", value_parser = clap::value_parser!(u8).range(1..=8))]
    pub(crate) connections: Option<u8>,
    /// Print what was done as one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Folder, as [user@]host:path or a local path.
    pub(crate) from: OsString,
    /// Folder that is to have the same, on the other side.
    pub(crate) to: OsString,
}

/// Let others run commands and copy files as this user, without root, until interrupted.
///
/// For whoever has a private key whose public one is in the file of keys: no passwords, no terminals, no forwards. It is the
/// installed sshd with a configuration of its own; the one of the system need not run.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath ssh serve -p 2222\n  manypath ssh get -p 2222 server.example:big.iso ."
)]
pub(crate) struct ServeArgs {
    /// Port to listen at.
    #[arg(short, value_name = "PORT", default_value_t = 2222)]
    pub(crate) port: u16,
    /// Address to listen at instead of all; repeat for more.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Vec<String>,
    /// File of public keys that may log in, as sshd has it [default: ~/.ssh/authorized_keys].
    #[arg(long, value_name = "FILE")]
    pub(crate) keys: Option<PathBuf>,
    /// File with the host key; made if there is none [default: ~/.config/manypath/ssh_host_ed25519_key].
    #[arg(long, value_name = "FILE")]
    pub(crate) host_key: Option<PathBuf>,
    /// The sshd to run.
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) sshd: Option<PathBuf>,
}
