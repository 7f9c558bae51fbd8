//! Options whose true answer only the stack knows.
//!
//! A program that sizes its own windows by its socket's (`SO_RCVBUF`), or goes by the kernel's
//! numbers (`TCP_INFO`, `TCP_MAXSEG`), would hear of the loopback connection to the stack: no delay, and little
//! room. It is told of the way to the destination instead.

use super::Supervisor;
use super::names::give;
use crate::program;
use crate::seccomp::{Answer, Trap};
use crate::socket;
use crate::table::Phase;
use libc::tcp_info;
use manypath_control::{Request, Way};
use std::mem::offset_of;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long the stack may think about it; then the kernel answers. A busy stack is slow to answer,
/// and a program that asks does not expect to wait.
const PATIENCE: Duration = Duration::from_millis(100);
/// The largest `tcp_info` that is understood; the kernel's may be longer in times to come.
const INFO_SIZE: usize = size_of::<tcp_info>();

/// What the program wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    ReceiveBuffer,
    Info,
    Segment,
}

/// A call that waits for the stack.
#[derive(Debug)]
pub(super) struct Question {
    trap: Trap,
    /// The connection that it is about.
    id: u64,
    asked: Asked,
    socket: OwnedFd,
    until: Instant,
}

impl Supervisor {
    pub(super) fn ask(&mut self, trap: &Trap, asked: Asked) -> Option<Answer> {
        let Some((connection, socket)) = self.asked(trap) else { return Some(Answer::Continue) };
        let id = connection.id;
        let active = matches!(connection.phase, Phase::Active);
        // What the program has chosen itself is true as it is.
        let chosen =
            asked == Asked::ReceiveBuffer && socket::has_own_receive_buffer(socket.as_fd());
        if !active || chosen {
            return Some(Answer::Continue);
        }
        self.stack.send(Request::Way { id }, None);
        let until = Instant::now() + PATIENCE;
        self.questions.push(Question { trap: *trap, id, asked, socket, until });
        None
    }

    pub(super) fn on_way(&mut self, id: u64, way: Option<Way>) {
        let (now, later) =
            std::mem::take(&mut self.questions).into_iter().partition(|one| one.id == id);
        self.questions = later;
        for question in now {
            let answer = way.map_or(Answer::Continue, |way| self.answer_question(&question, &way));
            self.listener.answer(question.trap.id, answer);
        }
    }

    fn answer_question(&self, question: &Question, way: &Way) -> Answer {
        let Question { trap, asked, socket, .. } = question;
        // What the thread's number means is certain only while its call waits.
        if !self.listener.is_waiting(trap.id) {
            return Answer::Continue;
        }
        let room = match program::read_int(trap.thread, trap.args[4]) {
            Ok(room) if room >= 0 => room,
            Ok(_) | Err(_) => return Answer::Continue,
        };
        let told = match asked {
            Asked::ReceiveBuffer => socket::receive_buffer(socket.as_fd()).map(|own| {
                let window = i32::try_from(way.window_bytes).unwrap_or(i32::MAX);
                own.max(window).to_ne_bytes().to_vec()
            }),
            Asked::Segment => Ok(way.mss.to_ne_bytes().to_vec()),
            Asked::Info => socket::info::<INFO_SIZE>(socket.as_fd()).map(|mut info| {
                correct(&mut info, way);
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
        let value = match program::read_int(trap.thread, trap.args[3]) {
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

/// Puts what is known about the way in the place of what the kernel knows about loopback. Counts of
/// bytes stay: they are the program's own.
fn correct(info: &mut [u8], way: &Way) {
    let mss = way.mss.max(1);
    let packets = |bytes: u64| u32::try_from(bytes / u64::from(mss)).unwrap_or(u32::MAX);
    let bytes = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
    let numbers = [
        (offset_of!(tcp_info, tcpi_rto), way.rto_us),
        (offset_of!(tcp_info, tcpi_snd_mss), way.mss),
        (offset_of!(tcp_info, tcpi_rcv_mss), way.mss),
        (offset_of!(tcp_info, tcpi_advmss), way.mss),
        (offset_of!(tcp_info, tcpi_pmtu), way.mtu),
        (offset_of!(tcp_info, tcpi_unacked), packets(way.in_flight_bytes)),
        (offset_of!(tcp_info, tcpi_rtt), way.rtt_us),
        (offset_of!(tcp_info, tcpi_rttvar), way.rtt_variation_us),
        (offset_of!(tcp_info, tcpi_rcv_rtt), way.rtt_us),
        (offset_of!(tcp_info, tcpi_min_rtt), way.least_rtt_us),
        (offset_of!(tcp_info, tcpi_snd_cwnd), packets(way.cwnd_bytes).max(1)),
        (offset_of!(tcp_info, tcpi_snd_ssthresh), packets(way.ssthresh_bytes)),
        (offset_of!(tcp_info, tcpi_rcv_space), bytes(way.window_bytes)),
        (offset_of!(tcp_info, tcpi_rcv_ssthresh), bytes(way.window_bytes)),
        (offset_of!(tcp_info, tcpi_snd_wnd), bytes(way.peer_window_bytes)),
        (offset_of!(tcp_info, tcpi_rcv_wnd), bytes(way.window_bytes)),
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
        let way = Way { rtt_us: 80_000, mss: 1000, cwnd_bytes: 50_500, ..Way::default() };
        let mut info = vec![7; offset_of!(tcp_info, tcpi_min_rtt)];
        correct(&mut info, &way);
        assert_eq!(number(&info, offset_of!(tcp_info, tcpi_rtt)), 80_000);
        assert_eq!(number(&info, offset_of!(tcp_info, tcpi_snd_cwnd)), 50);
        assert_eq!(number(&info, offset_of!(tcp_info, tcpi_total_retrans)), 0x0707_0707);
    }
}
