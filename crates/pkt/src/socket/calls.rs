//! Which function a call goes to.

use super::{lifecycle, options, receive, send};
use crate::api::arguments::Arguments;
use crate::api::errno::{Called, Outcome};
use crate::language::Why;
use crate::world::World;

/// Carries out a call.
pub(crate) fn dispatch(world: &mut World, args: &Arguments<'_>) -> Called {
    match args.0.name.as_str() {
        "socket" => lifecycle::socket(world, args),
        "bind" | "sctp_bindx" => lifecycle::bind(world, args),
        "listen" => lifecycle::listen(world, args),
        "sctp_peeloff" => lifecycle::peel_off(world, args),
        "accept" => lifecycle::accept(world, args),
        "connect" => lifecycle::connect(world, args),
        "sctp_connectx" => lifecycle::sctp_connectx(world, args),
        "sctp_getpaddrs" => lifecycle::addresses(world, args, true),
        "sctp_getladdrs" => lifecycle::addresses(world, args, false),
        "sctp_freepaddrs" | "sctp_freeladdrs" => Ok(Outcome::OK),
        "shutdown" => lifecycle::shutdown(world, args),
        "close" => lifecycle::close(world, args),
        "fcntl" => lifecycle::fcntl(world, args),
        "getsockopt" => options::get(world, args),
        "setsockopt" => options::set(world, args),
        "write" => send::write(world, args),
        "writev" => send::writev(world, args),
        "send" | "sendto" => send::write(world, args),
        "sendmsg" => send::sendmsg(world, args),
        "sctp_sendmsg" => send::sctp_sendmsg(world, args),
        "sctp_send" => send::sctp_send(world, args),
        "sctp_sendx" => send::sctp_sendx(world, args),
        "sctp_sendv" => send::sctp_sendv(world, args),
        "read" | "recv" => receive::read(world, args),
        "recvmsg" => receive::recvmsg(world, args),
        "sctp_recvmsg" => receive::sctp_recvmsg(world, args),
        "sctp_recvv" => receive::sctp_recvv(world, args),
        other => Err(Why::gap(format!("the call {other} is not known"))),
    }
}
