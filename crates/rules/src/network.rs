//! The addresses that a rule speaks of: one host, or a network.

use crate::error::RuleError;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// One address or all addresses of a network. Bits behind the prefix are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// Every IPv4 address.
    pub const ALL_V4: Self = Self { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), prefix: 0 };
    /// Every IPv6 address.
    pub const ALL_V6: Self = Self { address: IpAddr::V6(Ipv6Addr::UNSPECIFIED), prefix: 0 };

    /// A single address; an IPv4-mapped one is taken as IPv4.
    #[must_use]
    pub fn host(address: IpAddr) -> Self {
        let address = address.to_canonical();
        Self { address, prefix: width(address) }
    }

    /// The network of `address` with `prefix` bits.
    ///
    /// # Errors
    /// When the prefix is too long, or the address has bits behind it: most likely a slip.
    pub fn new(address: IpAddr, prefix: u8) -> Result<Self, RuleError> {
        if prefix > width(address) {
            let most = width(address);
            return Err(RuleError::new(format!("prefix /{prefix} of {address}: at most /{most}")));
        }
        let network = Self::around(address, prefix);
        if network.address != address {
            let host = if prefix == 0 { String::new() } else { format!(", or host {address}") };
            return Err(RuleError::new(format!(
                "{address}/{prefix} has bits behind its prefix: write {network}{host}"
            )));
        }
        Ok(network)
    }

    /// The network of `prefix` bits around an address, whatever bits that has behind its prefix.
    #[must_use]
    pub fn around(address: IpAddr, prefix: u8) -> Self {
        let prefix = prefix.min(width(address));
        Self { address: masked(address, prefix), prefix }
    }

    /// Whether the address belongs to it. IPv4-mapped addresses count as IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        width(address) == width(self.address) && masked(address, self.prefix) == self.address
    }

    /// Whether every address of `other` belongs to it.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.prefix <= other.prefix && self.contains(other.address)
    }

    /// Its first address.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// How many bits of the address count.
    #[must_use]
    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    /// Whether it is a single address.
    #[must_use]
    pub fn is_host(&self) -> bool {
        self.prefix == width(self.address)
    }

    /// Its two halves; none of a single address.
    pub(crate) fn halves(&self) -> Option<[Self; 2]> {
        if self.is_host() {
            return None;
        }
        let prefix = self.prefix + 1;
        let bit = 1_u128 << (width(self.address) - prefix);
        let upper = from_bits(bits(self.address) | bit, self.address);
        Some([Self { prefix, ..*self }, Self { address: upper, prefix }])
    }
}

impl FromStr for Network {
    type Err = RuleError;

    /// `ADDRESS`, `ADDRESS/PREFIX`, or `ADDRESS/NETMASK` as the thesis writes it.
    fn from_str(text: &str) -> Result<Self, RuleError> {
        let Some((address, prefix)) = text.split_once('/') else {
            return Ok(Self::host(parse_address(text)?));
        };
        let address = parse_address(address)?;
        let prefix = match prefix.parse::<u8>() {
            Ok(prefix) => prefix,
            Err(_) => prefix_of_mask(parse_mask(prefix)?, address)?,
        };
        Self::new(address, prefix)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_host() {
            true => write!(f, "{}", self.address),
            false => write!(f, "{}/{}", self.address, self.prefix),
        }
    }
}

fn parse_address(text: &str) -> Result<IpAddr, RuleError> {
    text.parse().map_err(|_| {
        RuleError::new(format!("\"{text}\" is no IP address: rules take numbers, not names"))
    })
}

fn parse_mask(text: &str) -> Result<IpAddr, RuleError> {
    text.parse().map_err(|_| {
        RuleError::new(format!("\"{text}\" is no netmask: write /24 or /255.255.255.0"))
    })
}

fn prefix_of_mask(mask: IpAddr, address: IpAddr) -> Result<u8, RuleError> {
    let ones = bits(mask).count_ones() as u8;
    if width(mask) != width(address) || masked(all_ones(mask), ones) != mask {
        return Err(RuleError::new(format!(
            "{mask} is no netmask for {address}: ones, then zeros"
        )));
    }
    Ok(ones)
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn from_bits(bits: u128, like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::from_bits(bits as u32).into(),
        IpAddr::V6(_) => Ipv6Addr::from_bits(bits).into(),
    }
}

fn all_ones(like: IpAddr) -> IpAddr {
    from_bits(u128::MAX, like)
}

fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    let behind = u32::from(width(address) - prefix);
    let mask = u128::MAX.checked_shl(behind).unwrap_or(0);
    from_bits(bits(address) & mask, address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        text.parse().unwrap()
    }

    #[test]
    fn prefixes_and_netmasks_name_the_same_network() {
        assert_eq!(network("10.1.2.0/24"), network("10.1.2.0/255.255.255.0"));
        assert_eq!(network("fd00::/8"), network("fd00::/ff00::"));
        assert_eq!(network("0.0.0.0/0"), Network::ALL_V4);
        assert_eq!(network("10.1.2.3").to_string(), "10.1.2.3");
    }

    #[test]
    fn a_slip_in_a_network_is_told_with_its_cure() {
        let error = "10.1.2.3/24".parse::<Network>().unwrap_err().to_string();
        assert!(error.contains("write 10.1.2.0/24, or host 10.1.2.3"), "{error}");
        for wrong in ["10.0.0.0/33", "10.0.0.0/255.0.255.0", "10.0.0.0/ff00::", "example.org"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn mapped_addresses_belong_to_ipv4_networks() {
        assert!(network("10.0.0.0/8").contains("::ffff:10.9.9.9".parse().unwrap()));
        assert!(!network("::/0").contains("10.9.9.9".parse().unwrap()));
        assert_eq!(network("::ffff:10.0.0.1"), network("10.0.0.1"));
    }

    #[test]
    fn halves_join_to_the_whole() {
        let [lower, upper] = network("10.0.0.0/8").halves().unwrap();
        assert_eq!((lower, upper), (network("10.0.0.0/9"), network("10.128.0.0/9")));
        assert_eq!(network("::1").halves(), None);
        let [_, upper] = Network::ALL_V6.halves().unwrap();
        assert_eq!(upper, network("8000::/1"));
    }
}
