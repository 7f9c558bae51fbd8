//! Many associations one after the other, for what their handshakes cost.

use crate::association::End;
use crate::options::Options;
use crate::{Report, Span, await_line, say};
use std::io;
use std::net::SocketAddr;
use std::time::Instant;

/// Associations that are begun at a time.
const AT_A_TIME: usize = 16;

/// The end that is asked: it has done when all have ended.
pub(crate) fn serve(options: &Options) -> io::Result<Report> {
    let mut end = End::open(options, options.address, true)?;
    say(&format!("ready {}", end.address));
    let (mut closed, mut span) = (0, Span::default());
    while closed < options.handshakes {
        let turn = end.turn()?;
        if !turn.connected.is_empty() || turn.closed > 0 {
            span.touch();
        }
        closed += turn.closed;
    }
    Ok(report(&end, closed, span.seconds()))
}

/// The end that asks, and ends each as soon as it could be used.
pub(crate) fn begin(options: &Options) -> io::Result<Report> {
    let unspecified = if options.address.is_ipv4() { [0, 0, 0, 0].into() } else { [0; 16].into() };
    let own = options.own.unwrap_or(unspecified);
    let mut end = End::open(options, SocketAddr::new(own, 0), false)?;
    say(&format!("ready {}", end.address));
    await_line();
    let (began, mut begun, mut closed) = (Instant::now(), 0, 0);
    while closed < options.handshakes {
        while begun < options.handshakes && begun - closed < AT_A_TIME {
            end.connect(options.address)?;
            begun += 1;
        }
        let turn = end.turn()?;
        for id in turn.connected {
            let now = end.clock.now();
            end.driver.endpoint_mut().shutdown(now, id);
            end.driver.flush(now);
        }
        closed += turn.closed;
    }
    Ok(report(&end, closed, began.elapsed().as_secs_f64()))
}

fn report(end: &End, handshakes: usize, seconds: f64) -> Report {
    let counters = end.driver.counters();
    let (packets, calls) = (counters.packets_sent, counters.send_calls);
    let more = format!(r#","handshakes":{handshakes}"#);
    Report { bytes: 0, seconds, packets, calls, more }
}
