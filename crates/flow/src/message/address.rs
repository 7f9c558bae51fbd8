//! Transport addresses inside messages.
//!
//! ```text
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! | Family (4, 6) |   Reserved    |             Port              |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                IPv4 (4) or IPv6 (16 bytes) address            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! The scope of an IPv6 address is not carried: it means nothing on another host.

use super::reader::Reader;
use crate::error::FlowError;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub(super) fn parse(reader: &mut Reader<'_>) -> Result<SocketAddr, FlowError> {
    let family = reader.u8()?;
    let _reserved = reader.u8()?;
    let port = reader.u16()?;
    let ip = match family {
        4 => IpAddr::V4(Ipv4Addr::from(reader.array::<4>()?)),
        6 => IpAddr::V6(Ipv6Addr::from(reader.array::<16>()?)),
        _ => return Err(FlowError::BadAddressFamily(family)),
    };
    Ok(SocketAddr::new(ip, port))
}

pub(super) fn encode(address: SocketAddr, out: &mut Vec<u8>) {
    let family = if address.is_ipv4() { 4 } else { 6 };
    out.extend_from_slice(&[family, 0]);
    out.extend_from_slice(&address.port().to_be_bytes());
    match address.ip() {
        IpAddr::V4(ip) => out.extend_from_slice(&ip.octets()),
        IpAddr::V6(ip) => out.extend_from_slice(&ip.octets()),
    }
}
