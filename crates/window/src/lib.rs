//! Windows of applications that follow the path and the reader.
//!
//! A protocol that carries several streams of bytes over one transport gives each of them a window:
//! SSH its channels, manypath its flows. Rapier and Stevens showed what a window that does not fit
//! costs: however fast the path, no more than one window is carried per round trip. This crate is the receiving
//! side of such a window, which alone decides its size. It knows no protocol, no clock and no socket:
//! it is told what came, what was consumed and how long round trips take, and says what to grant.
//!
//! ```
//! use core::time::Duration;
//! use manypath_window::{Budget, Window, WindowConfig};
//!
//! let memory = Budget::new(64 << 20); // shared by all windows of the process
//! let mut window = Window::open(WindowConfig::default(), &memory).expect("memory is free");
//! assert_eq!(window.granted(), 256 << 10); // announce this when the channel is opened
//!
//! // 80 ms after something was sent that the peer answers at once, its answer was here.
//! let now = Duration::from_millis(80);
//! window.on_round_trip(now, Duration::from_millis(80));
//! // Data came; later the reader took it. Memory is needed between the two.
//! assert!(window.on_received(100_000));
//! window.on_consumed(now, 100_000);
//! // Both the size and what was consumed lead to a grant: the SSH message WINDOW_ADJUST, say.
//! assert!(window.is_grant_due());
//! assert_eq!(window.take_grant(), 100_000 + window.size() - (256 << 10));
//! ```
//!
//! # How it is driven
//!
//! | when | call |
//! |---|---|
//! | a channel begins | [`Window::open`]; announce [`Window::granted`] |
//! | data came | [`Window::on_received`]; false: the peer sent more than it may, end the channel |
//! | the reader *took* bytes (a `write` to its pipe or socket returned) | [`Window::on_consumed`] |
//! | after that, or any time | if [`Window::is_grant_due`], send [`Window::take_grant`] more bytes of credit |
//! | a round trip between the two applications was measured | [`Window::on_round_trip`] |
//! | the transport's own receive window is known or has changed | [`Window::set_transport_window`] |
//! | the peer gave credit back (if the protocol can) | [`Window::on_returned`] |
//! | the peer's end of file | [`Window::on_end`] |
//! | the channel is gone | drop the window: its memory is free again |
//!
//! Time is any clock that never goes back, as the [`Duration`](core::time::Duration) since any
//! origin; all calls on one window use the same. Same calls, same grants: nothing else goes in.
//!
//! **Round trips** are those of the application: from the moment at which this side sends
//! something that the peer's *application* answers (over SSH `keepalive@openssh.com`, which any server
//! answers; in the flow protocol PROBE) until its answer arrives behind the data sent before it. So
//! the queues of the transport count, as they must: a grant goes the same way. One sample per round
//! trip while data comes is enough. The shortest of them paces the rule, the longest decides how much is under way; both
//! age ([`RoundTrip`]).
//! Without any sample a window grows to twice its first size and no further: give the
//! transport's round trip then.
//!
//! # The rule ([`Policy::Follow`])
//!
//! ```text
//! size = clamp(max(2 x delivered per shortest round trip x longest / shortest, first),
//!              <= transport's window, <= peer's cap, <= share of the memory budget)
//! ```
//!
//! The *longest* round trip is that of the samples or, if it is longer, of the slowest path that the transport may use
//! ([`Window::set_slowest_path`]). Data that takes several paths is read in order, so all of it waits for what takes the slowest
//! one: the rate of all paths times that time is under way. When a packet is lost there, as much comes until the loss is known, and
//! again until it is made good; so with several paths the window is twice as large, 4 times the delivered. A window by the shortest round trip alone would close while the
//! fast paths are open, and would look sufficient once the slow path is not used any more.
//!
//! *Delivered* is what the reader **took**, not what came. While the window is the limit, all of it is
//! delivered in one round trip, and it doubles: slow start. When the path is the limit, it comes to
//! rest at twice the path's bandwidth-delay product, counted by the longest round trip. While the rate still rises, 4 times the delivered
//! are allowed, so that the window is ahead of the transport's own slow start and never behind; but never
//! more than double within a round trip.
//!
//! A reader that takes less gets less: the window falls by a quarter per round trip down to the rule's
//! value. Credit cannot be called back, it is only not renewed: what has been granted stays, and
//! what is consumed is not granted again until the outstanding credit has come down to the size. A reader that has
//! stopped consumes nothing, so its window does not change at all and it holds no more than
//! [`Window::held`].
//!
//! # A smaller one ([`Policy::Path`])
//!
//! ```text
//! size = first + gain x rate x round trip     the highest rate of the last 10 round trips
//!        size + consumed                      while the rate rises (slow start)
//! ```
//!
//! With a gain of 1.25, for peers that must not be given much more than the path carries: what an OpenSSH sender has been granted and cannot
//! send it queues in a buffer that it copies, the larger the slower. Also for the bytes of requests under way (SFTP): *granted*
//! is then what may be asked for, *received* is asked for, *consumed* is answered.
//!
//! # Memory
//!
//! Every window of a [`Budget`] has its promise booked there: the larger of its size and
//! [`Window::held`]. **The sum never exceeds the budget**, so the memory that peers can fill does not
//! either. See [`Budget`] for how it is shared.
//!
//! # When a grant is due
//!
//! [`Refresh::Fine`]: at an eighth of the window, at 256 KiB at most. So nearly all of the window is usable; a
//! refresh at half of it, as is common, leaves between a half and the whole. A sender without credit whose
//! data is all consumed always gets a grant.
//!
//! # Other rules
//!
//! [`Policy::Static`] (what most implementations have) and [`Policy::SocketBuffer`] (that of HPN-SSH)
//! are here to be compared with, over the same path and with the same calls.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod budget;
mod pace;
mod path;
mod policy;
mod round_trip;
mod window;

pub use budget::Budget;
pub use policy::{Policy, Refresh, WindowConfig};
pub use round_trip::RoundTrip;
pub use window::{Adjustment, Window};
