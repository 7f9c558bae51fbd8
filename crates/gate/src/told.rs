//! What a program is told of its connection's way to the destination, as the kernel would count it.
//!
//! A program that sizes its own windows by its socket's (`SO_RCVBUF`), or goes by the kernel's numbers (`TCP_INFO`,
//! `TCP_MAXSEG`), would hear of the loopback connection to the stack: no delay, and little room.

use manypath_control::Way;

/// Numbers of `struct tcp_info` (`linux/tcp.h`) as far as the way decides them: windows in flight in packets, as
/// there, all others in bytes and microseconds. Counts of bytes stay the kernel's: they are the program's own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Told {
    /// `SO_RCVBUF`, unless the kernel's is larger or the program has chosen its own; `tcpi_rcv_space`,
    /// `tcpi_rcv_ssthresh`, `tcpi_rcv_wnd`. Fits the kernel's `int`.
    pub window: u32,
    /// `TCP_MAXSEG`; `tcpi_snd_mss`, `tcpi_rcv_mss`, `tcpi_advmss`.
    pub mss: u32,
    /// `tcpi_pmtu`.
    pub mtu: u32,
    /// `tcpi_rto`.
    pub rto: u32,
    /// `tcpi_unacked`.
    pub unacked: u32,
    /// `tcpi_rtt`, `tcpi_rcv_rtt`.
    pub rtt: u32,
    /// `tcpi_rttvar`.
    pub rtt_variation: u32,
    /// `tcpi_min_rtt`.
    pub least_rtt: u32,
    /// `tcpi_snd_cwnd`: one at least.
    pub cwnd: u32,
    /// `tcpi_snd_ssthresh`.
    pub ssthresh: u32,
    /// `tcpi_snd_wnd`.
    pub peer_window: u32,
}

impl From<&Way> for Told {
    fn from(way: &Way) -> Self {
        let bytes = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        let packets = |of: u64| bytes(of / u64::from(way.mss.max(1)));
        Self {
            window: bytes(way.window_bytes).min(i32::MAX.cast_unsigned()),
            mss: way.mss,
            mtu: way.mtu,
            rto: way.rto_us,
            unacked: packets(way.in_flight_bytes),
            rtt: way.rtt_us,
            rtt_variation: way.rtt_variation_us,
            least_rtt: way.least_rtt_us,
            cwnd: packets(way.cwnd_bytes).max(1),
            ssthresh: packets(way.ssthresh_bytes),
            peer_window: bytes(way.peer_window_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_counted_in_packets_and_nothing_overflows() {
        let way = Way { mss: 1000, cwnd_bytes: 50_500, window_bytes: u64::MAX, ..Way::default() };
        let told = Told::from(&way);
        assert_eq!((told.cwnd, told.window), (50, 0x7fff_ffff));
        let unknown = Told::from(&Way { ssthresh_bytes: u64::MAX, ..Way::default() });
        assert_eq!((unknown.cwnd, unknown.ssthresh), (1, u32::MAX));
    }
}
