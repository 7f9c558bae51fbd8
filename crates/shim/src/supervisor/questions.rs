//! Options whose true answer only the stack knows: the call waits until it has told of the way ([`Told`]).

use super::Supervisor;
use super::names::give;
use crate::seccomp::Answer;
use crate::socket;
use crate::table::Phase;
use crate::trap::Trap;
use libc::tcp_info;
use manypath_control::{Request, Way};
use manypath_gate::Told;
use std::mem::offset_of;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long the stack may think about it; then the kernel answers. A busy stack is slow to answer,
/// and a program that asks does not expect to wait.
const PATIENCE: Duration = Duration::from_millis(100);
/// The size of `struct tcp_info` in linux/tcp.h as far as it is understood; C libraries may know less of it, and
/// kernels to come more.
const INFO_SIZE: usize = 280;
/// Where `tcpi_rcv_wnd` is, which not every C library has.
const RECEIVE_WINDOW: usize = offset_of!(tcp_info, tcpi_snd_wnd) + 4;

/// What the program wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    ReceiveBuffer,
    Info,
    Segment,
}

/// A connection, as the stack knows it that is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// The program has connected.
    Opened(u64),
    /// The program has accepted it: its two ends, of which the door has the first.
    Led(SocketAddr, SocketAddr),
}

/// A call that waits for the stack, or for the door.
#[derive(Debug)]
pub(super) struct Question {
    trap: Trap,
    whose: Whose,
    asked: Asked,
    socket: OwnedFd,
    until: Instant,
}

impl Supervisor {
    pub(super) fn ask(&mut self, trap: &Trap, asked: Asked) -> Option<Answer> {
        let Some((whose, socket)) = self.whose(trap) else { return Some(Answer::Continue) };
        // What the program has chosen itself is true as it is.
        if asked == Asked::ReceiveBuffer && socket::has_own_receive_buffer(socket.as_fd()) {
            return Some(Answer::Continue);
        }
        match whose {
            Whose::Opened(id) => self.stack.send(Request::Way { id }, None),
            Whose::Led(from, to) => self.accepts.ask_door(Request::WayFrom { from, to }),
        }
        let until = Instant::now() + PATIENCE;
        self.questions.push(Question { trap: trap.clone(), whose, asked, socket, until });
        None
    }

    /// Whose way the call asks for, if a stack knows it.
    fn whose(&self, trap: &Trap) -> Option<(Whose, OwnedFd)> {
        let (cookie, socket) = self.asked_socket(trap)?;
        let whose = match self.table.of_socket(cookie) {
            Some(known) => {
                matches!(known.phase, Phase::Active).then_some(Whose::Opened(known.id))?
            }
            None => self.accepts.ends_of(cookie).map(|(from, to)| Whose::Led(from, to))?,
        };
        Some((whose, socket))
    }

    pub(crate) fn on_way(&mut self, whose: Whose, way: Option<Way>) {
        let (now, later) =
            std::mem::take(&mut self.questions).into_iter().partition(|one| one.whose == whose);
        self.questions = later;
        for question in now {
            let answer = way.map_or(Answer::Continue, |way| self.answer_question(&question, &way));
            self.answer(&question.trap, answer);
        }
    }

    fn answer_question(&self, question: &Question, way: &Way) -> Answer {
        let Question { trap, asked, socket, .. } = question;
        // What the thread's number means is certain only while its call waits.
        if !self.listener.is_waiting(trap.id) {
            return Answer::Continue;
        }
        let room = match trap.memory.read_int(trap.args[4]) {
            Ok(room) if room >= 0 => room,
            Ok(_) | Err(_) => return Answer::Continue,
        };
        let way = Told::from(way);
        let told = match asked {
            Asked::ReceiveBuffer => socket::receive_buffer(socket.as_fd())
                .map(|own| own.max(way.window.cast_signed()).to_ne_bytes().to_vec()),
            Asked::Segment => Ok(way.mss.to_ne_bytes().to_vec()),
            Asked::Info => socket::info::<INFO_SIZE>(socket.as_fd()).map(|mut info| {
                correct(&mut info, &way);
                info
            }),
        };
        let Ok(told) = told else { return Answer::Continue };
        let length = room.min(told.len() as i32);
        give(trap, trap.args[3], trap.args[4], &told, length)
    }

    pub(super) fn has_questions(&self) -> bool {
        !self.questions.is_empty()
    }

    /// Lets the kernel answer what the stack has not answered in time.
    pub(super) fn drop_old_questions(&mut self, now: Instant) {
        let (old, young) =
            std::mem::take(&mut self.questions).into_iter().partition(|one| one.until <= now);
        self.questions = young;
        self.leave_questions(old);
    }

    pub(super) fn drop_questions(&mut self) {
        let all = std::mem::take(&mut self.questions);
        self.leave_questions(all);
    }

    fn leave_questions(&self, questions: Vec<Question>) {
        for question in questions {
            self.listener.answer(question.trap.id, Answer::Continue);
        }
    }
}

impl Supervisor {
    /// The options of [`SocketOptions`] on a socket that is carried: set here, so that the stack can
    /// be told what the kernel has made of them.
    pub(super) fn on_setsockopt(&mut self, trap: &Trap) -> Answer {
        let Some((connection, socket)) = self.asked(trap) else { return Answer::Continue };
        let (id, v6_socket) = (connection.id, connection.v6_socket);
        // Shorter and longer values are for the kernel to judge; the options here are ints.
        let value = match trap.memory.read_int(trap.args[3]) {
            Ok(value) if trap.args[4] as u32 == 4 => value,
            Ok(_) | Err(_) => return Answer::Continue,
        };
        let (level, name) = (trap.args[1] as i32, trap.args[2] as i32);
        if let Err(error) = socket::set_int(socket.as_fd(), level, name, value) {
            return Answer::Error(error.raw_os_error().unwrap_or(libc::EINVAL));
        }
        let options = socket::stack_options(socket.as_fd(), v6_socket);
        self.update(id, |this, mut connection| {
            connection.options = options;
            if matches!(connection.phase, Phase::Active) {
                this.stack.send(Request::Options { id, options }, None);
            }
            Some(connection)
        });
        Answer::Value(0)
    }
}

/// Puts what is known about the way in the place of what the kernel knows about loopback.
fn correct(info: &mut [u8], told: &Told) {
    let numbers = [
        (offset_of!(tcp_info, tcpi_rto), told.rto),
        (offset_of!(tcp_info, tcpi_snd_mss), told.mss),
        (offset_of!(tcp_info, tcpi_rcv_mss), told.mss),
        (offset_of!(tcp_info, tcpi_advmss), told.mss),
        (offset_of!(tcp_info, tcpi_pmtu), told.mtu),
        (offset_of!(tcp_info, tcpi_unacked), told.unacked),
        (offset_of!(tcp_info, tcpi_rtt), told.rtt),
        (offset_of!(tcp_info, tcpi_rttvar), told.rtt_variation),
        (offset_of!(tcp_info, tcpi_rcv_rtt), told.rtt),
        (offset_of!(tcp_info, tcpi_min_rtt), told.least_rtt),
        (offset_of!(tcp_info, tcpi_snd_cwnd), told.cwnd),
        (offset_of!(tcp_info, tcpi_snd_ssthresh), told.ssthresh),
        (offset_of!(tcp_info, tcpi_rcv_space), told.window),
        (offset_of!(tcp_info, tcpi_rcv_ssthresh), told.window),
        (offset_of!(tcp_info, tcpi_snd_wnd), told.peer_window),
        (RECEIVE_WINDOW, told.window),
    ];
    for (at, value) in numbers {
        if let Some(place) = info.get_mut(at..at + 4) {
            place.copy_from_slice(&value.to_ne_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(info: &[u8], at: usize) -> u32 {
        u32::from_ne_bytes(info[at..at + 4].try_into().expect("four bytes"))
    }

    #[test]
    fn an_old_kernels_short_answer_is_corrected_as_far_as_it_goes() {
        let way = Told { rtt: 80_000, cwnd: 50, ..Told::default() };
        let mut info = vec![7; offset_of!(tcp_info, tcpi_min_rtt)];
        correct(&mut info, &way);
        assert_eq!(number(&info, offset_of!(tcp_info, tcpi_rtt)), 80_000);
        assert_eq!(number(&info, offset_of!(tcp_info, tcpi_snd_cwnd)), 50);
        assert_eq!(number(&info, offset_of!(tcp_info, tcpi_total_retrans)), 0x0707_0707);
    }
}
