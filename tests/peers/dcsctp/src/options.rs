//! The command line: see `../../sockets/peer.c`.

use crate::fail;
use dcsctp::api::Options as Configuration;
use std::collections::HashMap;
use std::time::Duration;

/// A UDP packet of 1472 bytes, which fits Ethernet.
const MTU: usize = 1472;

pub(crate) struct Options {
    pub(crate) own: String,
    /// Whom it connects to; nobody if it listens.
    pub(crate) far: Option<String>,
    /// Whether messages are given up.
    pub(crate) gives_up: bool,
    numbers: HashMap<String, u64>,
}

impl Options {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Self {
        let role = words.next().unwrap_or_default();
        let mut address = || words.next().unwrap_or_else(|| fail("listen OWN | connect OWN PEER"));
        let own = address();
        let far = (role == "connect").then(address);
        let mut options = Self { own, far, gives_up: false, numbers: HashMap::new() };
        for word in words {
            match word.split_once('=') {
                Some(("pr", how)) => options.gives_up = how != "none",
                Some((name, value)) => {
                    let value = value.parse().unwrap_or_else(|_| fail(&word));
                    options.numbers.insert(name.to_owned(), value);
                }
                None => fail(&word),
            }
        }
        options
    }

    pub(crate) fn number(&self, name: &str) -> u64 {
        let default = match name {
            "streams" => 1,
            "message" => 16384,
            "seconds" => 60,
            "buffer" => 4 << 20,
            "seed" => 99,
            "port" => 5001,
            "own-port" => 5002,
            _ => 0,
        };
        self.numbers.get(name).copied().unwrap_or(default)
    }

    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.number(name) != 0
    }

    pub(crate) fn seconds(&self) -> Duration {
        Duration::from_secs(self.number("seconds"))
    }

    fn configuration(&self, local_port: u16, remote_port: u16) -> Configuration {
        let buffer = self.number("buffer") as usize;
        Configuration {
            local_port,
            remote_port,
            mtu: MTU,
            max_receiver_window_buffer_size: buffer,
            max_send_buffer_size: buffer,
            per_stream_send_queue_limit: buffer,
            enable_message_interleaving: self.is_set("idata"),
            ..Configuration::default()
        }
    }

    pub(crate) fn of_client(&self) -> Configuration {
        self.configuration(self.number("own-port") as u16, self.number("port") as u16)
    }

    /// For whoever has sent the packet, which begins with the ports.
    pub(crate) fn of_server(&self, packet: &[u8]) -> Configuration {
        let source = packet.first_chunk().map_or(0, |port| u16::from_be_bytes(*port));
        self.configuration(self.number("port") as u16, source)
    }
}
