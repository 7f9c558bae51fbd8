//! Arguments of `manypath demo`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Transfer a file with stock scp and curl over plain TCP, kernel MPTCP and manypath, and with a
/// path cut.
///
/// Writes `report.html` and `.pcapng` captures to the output directory.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath demo\n  manypath demo --json > demo.json\n  manypath demo --bytes 5000000 --only curl"
)]
pub(crate) struct DemoArgs {
    /// Print one JSON object instead of progress and table.
    #[arg(long)]
    pub(crate) json: bool,
    /// Size of the file, in bytes.
    #[arg(long, default_value_t = 25_000_000)]
    pub(crate) bytes: u64,
    /// Run only these programs.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) only: Vec<Program>,
    /// Run only these transports.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) transport: Vec<TransportChoice>,
    /// Output directory for report and captures.
    #[arg(long, default_value = "target/demo", value_name = "DIR")]
    pub(crate) output: PathBuf,
    /// Emulate the paths on loopback, which needs neither root nor user namespaces.
    #[arg(long)]
    pub(crate) loopback: bool,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Program {
    Curl,
    Scp,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TransportChoice {
    Tcp,
    Mptcp,
    MptcpCut,
    Manypath,
    ManypathCut,
}
