//! The words of the command line.

use manypath_engine::PathMtu;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Receive,
    Send,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transport {
    Association,
    Udp,
    Tcp,
}

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) role: Role,
    pub(crate) transport: Transport,
    /// Of the receiver.
    pub(crate) address: SocketAddr,
    /// Of the sender.
    pub(crate) own: Option<IpAddr>,
    pub(crate) time: Duration,
    /// What ends the transfer before its time.
    pub(crate) bytes: u64,
    pub(crate) message: usize,
    pub(crate) mtu: u16,
    pub(crate) path_mtu: PathMtu,
    pub(crate) flows: usize,
    /// Whether the association is encrypted.
    pub(crate) encrypt: bool,
    /// How many associations are begun and ended in place of a transfer.
    pub(crate) handshakes: usize,
}

impl Options {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut next = |name: &str| words.next().ok_or(format!("{name} is missing"));
        let role = match next("the role")?.as_str() {
            "receive" => Role::Receive,
            "send" => Role::Send,
            other => return Err(format!("no role: {other}")),
        };
        let transport = match next("the transport")?.as_str() {
            "association" => Transport::Association,
            "udp" => Transport::Udp,
            "tcp" => Transport::Tcp,
            other => return Err(format!("no transport: {other}")),
        };
        let mut options = Self {
            role,
            transport,
            address: number("ADDRESS", &next("the address")?)?,
            own: None,
            time: Duration::from_secs(2),
            bytes: u64::MAX,
            message: 16 << 10,
            mtu: 1500,
            path_mtu: PathMtu::Search,
            flows: 1,
            encrypt: false,
            handshakes: 0,
        };
        for word in words {
            let (name, value) = word.split_once('=').ok_or(format!("no option: {word}"))?;
            options.set(name, value)?;
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "own" => self.own = Some(number(name, value)?),
            "seconds" => self.time = Duration::from_secs_f64(number(name, value)?),
            "bytes" => self.bytes = number(name, value)?,
            "message" => self.message = number::<usize>(name, value)?.max(1),
            "mtu" => self.mtu = number(name, value)?,
            "path-mtu" => self.path_mtu = number(name, value)?,
            "encrypt" => self.encrypt = value == "on",
            "handshakes" => self.handshakes = number(name, value)?,
            "flows" => self.flows = number::<usize>(name, value)?.max(1),
            _ => return Err(format!("no option: {name}")),
        }
        Ok(())
    }
}

fn number<T: FromStr>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{name}: not understood: {value}"))
}
