//! The command line of `manypath key`.

use clap::{Args, Subcommand};
use manypath_trust::IdentitySource;
use std::net::IpAddr;

/// Show and manage the keys by which peers know each other.
///
/// Each user has an Ed25519 key, made on first use. The key of a peer is remembered with its address on first contact;
/// if another key is found there later, the peer is refused until you have forgotten or trusted it. Compare fingerprints
/// over another channel: as text (that of `ssh-keygen -l`) or as words.
///
/// Stacks use these files where the setting `encrypt` is on. They are identity, known_peers, authorized_peers and secret
/// in $MANYPATH_KEYS, or ~/.config/manypath; root's in /var/lib/manypath-root.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath key\n  manypath key trust 192.0.2.7 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n  manypath key forget 192.0.2.7"
)]
pub(crate) struct KeyArgs {
    /// Print one JSON object.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) action: Option<KeyAction>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum KeyAction {
    /// Show your key (the default), or the keys of a peer.
    #[command(
        after_help = "Example:\n  manypath key show\n  sudo manypath key show --identity ssh\n  manypath key show 192.0.2.7\n  manypath key show 192.0.2.7 --compare SHA256:nRD6qo0UmYRKEZK2N5peJXzlLhLxv+L+dm6rFQZzjas"
    )]
    Show {
        /// Address of a peer.
        address: Option<IpAddr>,
        /// Your key: own (the default), ssh (this host's SSH key), secret (from the shared secret), or the absolute path
        /// of a private key of OpenSSH.
        #[arg(long, value_name = "own|ssh|secret|FILE", conflicts_with = "address")]
        identity: Option<IdentitySource>,
        /// Tell whether this is the fingerprint of a key shown: SHA256:... or its twelve words. The exit status is 1 if
        /// it is not.
        #[arg(long, value_name = "FINGERPRINT")]
        compare: Option<String>,
    },
    /// Trust a key for an address, in place of those known for it.
    ///
    /// KEY is what `manypath key show` prints at the peer, or a public key of SSH.
    #[command(
        after_help = "Example:\n  manypath key trust 192.0.2.7 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n  manypath key trust 192.0.2.7 $(ssh server.example cat /etc/ssh/ssh_host_ed25519_key.pub)"
    )]
    Trust {
        /// Address of the peer.
        address: IpAddr,
        /// Its key.
        #[arg(required = true, value_name = "KEY")]
        key: Vec<String>,
    },
    /// Forget the keys of an address, or a key for all addresses.
    ///
    /// The next contact with the address is the first one again: its key is taken as it comes. A key that is forgotten
    /// is no longer revoked either.
    #[command(
        after_help = "Example:\n  manypath key forget 192.0.2.7\n  manypath key forget 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="
    )]
    Forget {
        /// Address of a peer, or a key.
        #[arg(required = true, value_name = "ADDRESS|KEY")]
        what: Vec<String>,
    },
    /// Show the keys of all peers, those that are revoked, and those in authorized_peers.
    #[command(
        after_help = "Example:\n  manypath key list\n  manypath key list --json | jq '.peers[].address'"
    )]
    List,
    /// Never accept a key again, from any address.
    ///
    /// Addresses that had the key stay known: `manypath key trust` gives them another one.
    #[command(
        after_help = "Example:\n  manypath key revoke 192.0.2.7\n  manypath key revoke 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="
    )]
    Revoke {
        /// Address of a peer, or a key.
        #[arg(required = true, value_name = "ADDRESS|KEY")]
        what: Vec<String>,
    },
    /// Make a secret for two hosts that share it, and print it.
    ///
    /// Keep it in the file `secret` of both hosts, readable by its owner alone. Whoever has it can pose as either of
    /// them.
    #[command(
        after_help = "Example:\n  (umask 077 && manypath key secret > ~/.config/manypath/secret)\n  scp -p ~/.config/manypath/secret server.example:.config/manypath/"
    )]
    Secret,
}
