//! What went out, came in and was dropped, with the reason in the counter's name.

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counts of one socket, or of all sockets of a driver.
        #[derive(Clone, PartialEq, Eq, Debug, Default)]
        pub struct Counters { $($(#[$doc])* pub $name: u64),* }

        impl Counters {
            /// Every counter with its name, for printing.
            pub fn entries(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),*]
            }

            /// Adds `other` to every counter.
            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counters! {
    /// SCTP packets given to the kernel.
    packets_sent,
    /// Bytes of these packets, without UDP and IP headers.
    bytes_sent,
    /// System calls that sent something.
    send_calls,
    /// Of these, calls that carried several packets in one datagram to be segmented (GSO).
    gso_sends,
    /// SCTP packets received.
    packets_received,
    /// Bytes of these packets, without UDP and IP headers.
    bytes_received,
    /// System calls that received something.
    receive_calls,
    /// Received buffers in which the kernel had put several packets together (GRO).
    gro_receives,
    /// Times the kernel took no more (EAGAIN): the run waited for the socket to become writable.
    send_blocked,
    /// Times segmentation offload was given up for a while, because the kernel refused a run (EIO
    /// or EINVAL) whose packets it then took one by one. Nothing is lost by that.
    gso_refused,
    /// Packets dropped because the queue of the interface was full (ENOBUFS), or too much waited
    /// for the kernel already.
    dropped_queue_full,
    /// Packets dropped because IP cannot carry them even in fragments (EMSGSIZE).
    dropped_too_big,
    /// Packets dropped because there is no route, or the interface or address is gone.
    dropped_no_route,
    /// Packets dropped by the local firewall (EPERM, EACCES).
    dropped_forbidden,
    /// Packets dropped because sending failed in any other way.
    dropped_send_error,
    /// Packets dropped because no socket has the local address of their path.
    dropped_no_socket,
    /// Packets dropped because too many wait to be carried through a relay.
    dropped_not_carried,
    /// UDP datagrams without payload, dropped.
    dropped_empty,
    /// Receive calls that failed otherwise than by an error of an earlier packet.
    receive_errors,
    /// ICMP messages that say that a destination cannot be reached, closed ports not counted.
    icmp_unreachable,
    /// ICMP messages of hosts that do not know the protocol.
    icmp_no_protocol,
    /// ICMP messages that say that nobody listens at the destination.
    icmp_port_closed,
    /// ICMP messages that say that a packet was too big for a link further on.
    icmp_too_big,
    /// ICMP messages of other kinds; nothing follows from them.
    icmp_other,
    /// Times that the kernel was left to throw away ICMP messages for a tenth of a second, because more came than real
    /// networks send.
    report_pauses,
    /// Times that the loop slept a quarter of a millisecond, because strangers flooded the sockets.
    flood_pauses,
    /// Times that the loop slept for up to 1.5 ms while bulk data came, so that the next turn handles several packets.
    moderation_pauses,
    /// Received buffers with packets of no association here, passed on to the server before this one.
    passed_on,
    /// Of these, dropped because that one did not read.
    pass_on_dropped,
    /// Packets and ICMP messages of no association here, handed to the next engine loop of this server.
    handed_on,
    /// Of these, dropped because that loop had too many to look at, or did not have the address.
    hand_on_dropped,
    /// ICMP messages that a relay has read and that concern none of its peers.
    unrelated_icmp,
    /// Times that a path has got another carrier: a UDP port beside the usual one, or TCP.
    carrier_switches,
    /// Packets dropped because too much waited for a TCP connection that carries packets.
    carrier_queue_full,
    /// Packets dropped that came over a TCP connection made here and belong to no association, or over one to a server whose
    /// successor has new associations.
    carrier_strays,
    /// TCP connections made to carry packets.
    carrier_streams_dialled,
    /// Of these, those that led to nothing: refused, closed or silent.
    carrier_streams_failed,
    /// TCP connections accepted that carry packets, or are about to.
    carrier_streams_accepted,
    /// TCP connections refused: too many of a host or in all, too many TLS handshakes in a second, or to an address that
    /// carries no paths.
    carrier_streams_refused,
    /// Times that no TCP connection could be accepted: no descriptor or no memory.
    carrier_accepts_failed,
    /// TCP connections ended because what came is not of this protocol, or only packets of no association.
    carrier_streams_foreign,
    /// TCP connections ended because no ClientHello or no packet of an association came in time, or newer ones took their
    /// place.
    carrier_streams_expired,
    /// Connections to a TLS port passed on to the server behind it.
    carrier_passes,
    /// Of these, those that the server did not take, and others for which there was no descriptor.
    carrier_passes_failed,
    /// Connections to a TLS port for the server behind it that were refused: too many of a host or in all.
    carrier_passes_refused,
    /// Connections passed on that were ended because nothing had moved for 10 minutes, or the server did not answer.
    carrier_passes_expired,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_and_names_every_counter() {
        let one = Counters { packets_sent: 2, icmp_other: 1, ..Counters::default() };
        let mut sum = one.clone();
        sum.add(&one);
        assert_eq!((sum.packets_sent, sum.icmp_other, sum.gso_sends), (4, 2, 0));
        assert!(sum.entries().contains(&("packets_sent", 4)));
    }
}
