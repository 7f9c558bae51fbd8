//! Several connections to one server, each with a login of its own, where one is not enough.
//!
//! While keys are exchanged a connection carries no data: from its KEXINIT on a side may send none before its NEWKEYS (RFC 4253
//! section 7.1), and OpenSSH's sender waits for the NEWKEYS of the other side, too, so two round trips. Where that is frequent, others fill
//! the gap; they exchange keys after fewer bytes each, so that they do not do so at the same time. And a stock server takes no more than
//! 2 MiB per channel and 10 channels per connection: beyond that, uploads need another one.
//!
//! Nobody is asked anything for them (`BatchMode`): if they cannot log in so, the first one carries all. A name may lead to several servers, so
//! each must prove that it is at the same one before it is used.

use manypath_ssh::sftp::Reply;

/// The most connections.
pub(crate) const MOST: usize = 8;
/// So many hide each other's key exchanges: three of them have more in flight than the path carries, by the queues of the network.
const HIDING: usize = 4;
/// After so many bytes OpenSSH exchanges keys if not told otherwise, for ciphers with short blocks (chacha20-poly1305).
const USUAL_REKEY: u64 = 1 << 30;
/// What a key exchange may cost without others to hide it: a hundredth of the time.
const COST: u64 = 100;
/// So many key exchanges are worth other logins.
const EXCHANGES: u64 = 4;
/// So many round trips are.
const ROUND_TRIPS: u64 = 20;

/// When ssh exchanges keys: RekeyLimit of ssh_config(5).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Rekey {
    /// Bytes; `None` as ssh likes.
    bytes: Option<u64>,
    /// Seconds, as ssh prints them; 0 is never.
    seconds: String,
}

impl Rekey {
    /// Reads what `ssh -G` prints.
    pub(crate) fn parse(configuration: &str) -> Self {
        let line = configuration.lines().find_map(|line| line.strip_prefix("rekeylimit "));
        let (bytes, seconds) = line.and_then(|line| line.split_once(' ')).unwrap_or_default();
        let bytes = bytes.parse().ok().filter(|bytes| *bytes > 0);
        Self { bytes, seconds: seconds.to_owned() }
    }

    /// The option for connection `number` of `all`: the later, the sooner, by up to a half.
    pub(crate) fn option(&self, number: usize, all: usize) -> Option<String> {
        let bytes = self.bytes?;
        let less = bytes / 2 / all.max(1) as u64 * number as u64;
        let seconds = if self.seconds == "0" { "none" } else { &self.seconds };
        Some(format!("RekeyLimit={} {seconds}", bytes - less))
    }
}

/// How many connections are worth their logins for `left` bytes, where the path carries `product` bytes per round trip and a
/// server takes `takes` of one connection in that time.
pub(crate) fn worth(product: u64, left: u64, takes: u64, rekey: &Rekey) -> usize {
    let bytes = rekey.bytes.unwrap_or(USUAL_REKEY);
    let often = product.saturating_mul(COST) > bytes && left > bytes.saturating_mul(EXCHANGES);
    let narrow = product.saturating_add(product / 4).div_ceil(takes);
    let narrow = if left > product.saturating_mul(ROUND_TRIPS) { narrow } else { 1 };
    let narrow = usize::try_from(narrow).unwrap_or(MOST).clamp(1, MOST);
    if often { narrow.max(HIDING) } else { narrow }
}

/// Whether a connection leads to the server of the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Trust {
    Unknown,
    /// It is to prove it.
    Asked,
    Same,
    Other,
}

/// What does not change of a file system.
pub(crate) type Volume = [u64; 5];

/// The file system that a question about its free space was about.
pub(crate) fn volume(reply: &Reply) -> Option<Volume> {
    let Reply::Extended(bytes) = reply else { return None };
    let number = |at: usize| {
        let bytes = bytes.get(8 * at..8 * at + 8)?;
        Some(u64::from_be_bytes(bytes.try_into().ok()?))
    };
    // Size of blocks and fragments, blocks, identifier, longest name: of eleven numbers.
    Some([number(0)?, number(1)?, number(2)?, number(8)?, number(10)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_is_known_by_what_does_not_change_with_its_use() {
        let reply = |free: u64, id: u64| {
            let numbers = [4096, 4096, 1000, free, free, 500, free, free, id, 0, 255];
            Reply::Extended(numbers.iter().flat_map(|n: &u64| n.to_be_bytes()).collect())
        };
        assert_eq!(volume(&reply(10, 7)), volume(&reply(9, 7)));
        assert_ne!(volume(&reply(10, 7)), volume(&reply(10, 8)));
        assert_eq!(volume(&Reply::Extended(vec![0; 80])), None);
    }

    #[test]
    fn one_connection_is_enough_unless_keys_are_exchanged_often_for_the_round_trip() {
        let rekey = |bytes| Rekey { bytes, seconds: "0".to_owned() };
        let (gigabyte, download) = (1 << 30, u64::MAX);
        assert_eq!(worth(5 << 20, 100 * gigabyte, download, &rekey(None)), 1);
        assert_eq!(worth(18 << 20, 100 * gigabyte, download, &rekey(None)), HIDING);
        assert_eq!(worth(5 << 20, gigabyte, download, &rekey(Some(100 << 20))), HIDING);
        assert_eq!(worth(100 << 10, gigabyte, download, &rekey(Some(100 << 20))), 1);
        assert_eq!(worth(5 << 20, 100 << 20, download, &rekey(Some(100 << 20))), 1);
    }

    #[test]
    fn an_upload_has_as_many_connections_as_the_server_must_have_to_take_what_the_path_carries() {
        let takes = 20 << 20;
        assert_eq!(worth(5 << 20, 1 << 30, takes, &Rekey::default()), 1);
        assert_eq!(worth(18 << 20, 1 << 30, takes, &Rekey::default()), 2);
        assert_eq!(worth(18 << 20, 100 << 20, takes, &Rekey::default()), 1);
        assert_eq!(worth(1 << 30, 1 << 40, takes, &Rekey::default()), MOST);
    }

    #[test]
    fn the_users_limit_is_never_exceeded_and_no_two_connections_have_the_same() {
        let rekey = Rekey::parse("host a\nrekeylimit 1000 60\n");
        assert_eq!(rekey.option(1, 4).as_deref(), Some("RekeyLimit=875 60"));
        assert_eq!(rekey.option(3, 4).as_deref(), Some("RekeyLimit=625 60"));
        assert_eq!(Rekey::parse("rekeylimit 0 0\n").option(1, 4), None);
        assert_eq!(
            Rekey::parse("rekeylimit 1000 0").option(1, 2).as_deref(),
            Some("RekeyLimit=750 none")
        );
    }
}
