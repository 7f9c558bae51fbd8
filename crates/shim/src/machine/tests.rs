//! What follows from what was found, in every combination.

use super::steps::{RECORD, Step};
use super::{Found, Obstacle, Plan, System, Tried, version};
use crate::seccomp::Servers;

const PRESENT: (u32, u32) = (6, 18);

/// Everything works but these.
fn found(changed: &[(Step, Tried)]) -> Found {
    let mut found = Found([Tried::Works; Step::ALL.len()]);
    for (step, tried) in changed {
        found.0[*step as usize] = *tried;
    }
    found
}

fn system(kernel: (u32, u32)) -> System {
    System { proc: true, kernel: Some(kernel), yama: Some(1), may_trace: false }
}

fn plan(changed: &[(Step, Tried)]) -> Plan {
    Plan::choose(true, &found(changed), &system(PRESENT))
}

/// The obstacle, which must be there.
fn obstacle(found: &Found, system: &System) -> Obstacle {
    match Plan::choose(true, found, system) {
        Plan::Outside(obstacle) => obstacle,
        Plan::HandOver(_, obstacle) => obstacle,
        other @ (Plan::Translate(_) | Plan::Nested) => panic!("{other:?}"),
    }
}

/// All answers, with the most telling of the error numbers.
fn all_found() -> impl Iterator<Item = Found> {
    let answers = [
        Tried::Unknown,
        Tried::Works,
        Tried::Fatal,
        Tried::Refused(libc::EBUSY),
        Tried::Refused(libc::EINVAL),
    ];
    let count = answers.len().pow(Step::ALL.len() as u32);
    (0..count).map(move |mut number| {
        Found([(); Step::ALL.len()].map(|()| {
            let answer = answers[number % answers.len()];
            number /= answers.len();
            answer
        }))
    })
}

#[test]
fn nothing_is_translated_that_cannot_be_answered() {
    let needed = [Step::Trap, Step::Continue, Step::Open, Step::GetFd, Step::Copy, Step::Memory];
    let for_descriptors = [Step::Open, Step::GetFd];
    let fails = |found: &Found, step| {
        matches!(found.of(step), Tried::Refused(_) | Tried::Fatal | Tried::Unanswered)
    };
    let system = system(PRESENT);
    let mut seen = 0;
    for found in all_found() {
        let busy = found.of(Step::Trap) == Tried::Refused(libc::EBUSY);
        match Plan::choose(true, &found, &system) {
            Plan::Nested => assert!(busy && found.of(Step::Outer) == Tried::Works, "{found:?}"),
            Plan::Outside(_) => assert!(needed.iter().any(|it| fails(&found, *it)), "{found:?}"),
            Plan::HandOver(..) => {
                assert!(for_descriptors.iter().any(|it| fails(&found, *it)), "{found:?}");
                let others = [Step::Trap, Step::Continue, Step::Memory];
                assert!(!others.iter().any(|it| fails(&found, *it)), "{found:?}");
            }
            Plan::Translate(servers) => {
                assert!(!needed.iter().any(|it| fails(&found, *it)), "{found:?}");
                let expected = match (fails(&found, Step::AddFd), fails(&found, Step::AddFdSend)) {
                    (true, _) => Servers::Never,
                    (false, true) => Servers::TwoSteps,
                    (false, false) => Servers::OneStep,
                };
                assert_eq!(servers, expected, "{found:?}");
            }
        }
        assert_eq!(
            Plan::choose(false, &found, &system),
            Plan::Outside(Obstacle::Architecture),
            "{found:?}"
        );
        seen += 1;
    }
    assert_eq!(seen, 5_usize.pow(9));
}

#[test]
fn kernels_are_told_by_what_they_refuse() {
    use Step::{AddFd, AddFdSend, Continue, GetFd, Open, Trap};
    let [einval, enosys] = [libc::EINVAL, libc::ENOSYS].map(Tried::Refused);
    let old = |kernel| Obstacle::OldKernel { needed: (5, 6), kernel };
    // 4.19: no listeners; 5.2: no descriptors of processes; 5.4: no answers that go on.
    for (kernel, step, tried) in [
        ((4, 19), Trap, einval),
        ((5, 2), Open, enosys),
        ((5, 4), Continue, einval),
        ((5, 5), GetFd, enosys),
    ] {
        assert_eq!(obstacle(&found(&[(step, tried)]), &system(kernel)), old(kernel));
    }
    let old = [(AddFd, einval), (AddFdSend, einval)];
    assert_eq!(plan(&old), Plan::Translate(Servers::Never));
    assert_eq!(plan(&old[1..]), Plan::Translate(Servers::TwoSteps));
    assert_eq!(plan(&[]), Plan::Translate(Servers::OneStep));
    assert_eq!(obstacle(&found(&[(Trap, einval)]), &system(PRESENT)), Obstacle::WithoutSeccomp);
}

#[test]
fn filters_of_containers_and_services_are_told_from_old_kernels() {
    let forbidden = |errno| Obstacle::Forbidden { call: "pidfd_getfd", errno };
    for errno in [libc::EPERM, libc::ENOSYS] {
        let found = found(&[(Step::GetFd, Tried::Refused(errno))]);
        assert_eq!(obstacle(&found, &system(PRESENT)), forbidden(errno));
    }
    let found = found(&[(Step::GetFd, Tried::Fatal), (Step::Copy, Tried::Unknown)]);
    let fatal = obstacle(&found, &system(PRESENT));
    assert_eq!(fatal, Obstacle::Fatal { call: "pidfd_getfd" });
    let text = fatal.to_string();
    assert!(
        text.contains("SystemCallFilter=pidfd_getfd") && text.contains("--cap-add SYS_PTRACE"),
        "{text}"
    );
}

#[test]
fn yama_is_named_where_it_is_the_cause() {
    let refused = found(&[(Step::Copy, Tried::Refused(libc::EPERM))]);
    let with = |yama, may_trace| {
        obstacle(&refused, &System { yama: Some(yama), may_trace, ..system(PRESENT) })
    };
    let otherwise = Obstacle::OutOfReach { errno: libc::EPERM };
    assert_eq!([with(0, false), with(1, false)], [otherwise.clone(), otherwise.clone()]);
    assert_eq!([with(2, false), with(2, true)], [Obstacle::Yama { scope: 2 }, otherwise]);
    assert_eq!([with(3, false), with(3, true)], [(); 2].map(|()| Obstacle::Yama { scope: 3 }));
    assert_eq!(with(2, false).command(), Some("sysctl -w kernel.yama.ptrace_scope=1"));
    assert!(with(3, false).to_string().contains("reboot"));
    let without = found(&[(Step::Memory, Tried::Refused(libc::ENOENT))]);
    assert_eq!(obstacle(&without, &System::default()), Obstacle::WithoutProc);
}

#[test]
fn a_question_that_has_begun_and_not_ended_is_what_the_end_says() {
    let record = |step: Step, value: i32| {
        let mut bytes = [0; RECORD];
        bytes[0] = step as u8;
        bytes[4..].copy_from_slice(&value.to_ne_bytes());
        bytes
    };
    let said = [
        record(Step::Trap, -1),
        record(Step::Trap, 0),
        record(Step::Continue, -1),
        record(Step::Continue, libc::EINVAL),
        record(Step::Open, -1),
    ];
    let read = Found::read(&said.concat(), Tried::Unanswered);
    assert_eq!(read.of(Step::Open), Tried::Unanswered);
    let read = Found::read(&said.concat(), Tried::Fatal);
    assert_eq!(read.of(Step::Trap), Tried::Works);
    assert_eq!(read.of(Step::Continue), Tried::Refused(libc::EINVAL));
    assert_eq!(read.of(Step::Open), Tried::Fatal);
    assert_eq!(read.of(Step::Memory), Tried::Unknown);
    // A record that was cut, and one of a step that there is not.
    assert_eq!(Found::read(&[200, 0, 0, 0, 0, 0, 0, 0, 1, 2], Tried::Fatal), Found::default());
}

/// A child of the test program that ends as it is told.
fn child(ends: fn() -> libc::c_int) -> libc::pid_t {
    // SAFETY: the child makes system calls only.
    match unsafe { libc::fork() } {
        // SAFETY: takes a number.
        0 => unsafe { libc::_exit(ends()) },
        child => child,
    }
}

#[test]
fn a_child_that_is_too_slow_is_not_called_killed() {
    // SAFETY: plain numbers.
    let killed = child(|| unsafe { libc::raise(libc::SIGKILL) });
    assert_eq!(super::end(killed, true), Tried::Fatal);
    // SAFETY: takes nothing.
    let slow = child(|| unsafe { libc::pause() });
    assert_eq!(super::end(slow, false), Tried::Unanswered);
    let unanswered = found(&[(Step::Trap, Tried::Unanswered)]);
    let obstacle = obstacle(&unanswered, &system(PRESENT));
    assert_eq!(obstacle, Obstacle::Unanswered { call: "seccomp" });
    assert!(!obstacle.to_string().contains("kill"), "{obstacle}");
}

#[test]
fn versions_of_distributions_are_read() {
    assert_eq!(version("5.10.0-33-amd64"), Some((5, 10)));
    assert_eq!(version("4.18.0-553.el8_10.x86_64\0\0"), Some((4, 18)));
    assert_eq!(version("unknown"), None);
}

/// Here the tests of this project run: everything is there.
#[test]
fn this_machine_lets_everything_be_translated() {
    // SAFETY: the child only asks, and ends without a destructor; the other threads of the test program hold
    // no lock that it takes.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let whole = super::look() == Plan::Translate(Servers::OneStep);
        // SAFETY: takes a number.
        unsafe { libc::_exit(i32::from(!whole)) };
    }
    let mut status = 0;
    // SAFETY: the kernel writes one int.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0);
}
