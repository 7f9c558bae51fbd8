//! Congestion controls.

use manypath_engine::{
    AckView, CongestionController, CongestionEvent, CongestionView, CongestionWindow, Duration,
    Instant, PathSums,
};
use manypath_wasm::{Kind, Module};

const WINDOW: CongestionWindow =
    CongestionWindow { cwnd: 15_000, ssthresh: u32::MAX as usize, pacing_rate: None };
const ACKED: AckView = AckView {
    bytes: 2904,
    rtt: Some(Duration::from_millis(21)),
    newest: Some(40),
    sent: 50,
    advanced: true,
    window_used: true,
    recovering: false,
};

fn view() -> CongestionView {
    CongestionView {
        now: Instant::ZERO + Duration::from_millis(5),
        window: WINDOW,
        initial_window: 4404,
        chunk_limit: 1452,
        in_flight: 3000,
        srtt: Some(Duration::from_millis(20)),
        min_rtt: Some(Duration::from_millis(19)),
        all: PathSums {
            cwnd: 30_000,
            ssthresh: 31_000,
            rate: 1_500_000,
            max_rate_per_rtt: 75_000_000,
        },
    }
}

/// A module whose functions do nothing but what `text` says.
fn parse(text: &str) -> Result<Module, String> {
    let function = |name: &str| {
        let is_there = text.contains(&format!("\"{name}\""));
        if is_there { String::new() } else { format!("(func (export \"{name}\"))") }
    };
    let rest = ["on_ack", "on_loss", "on_timeout"].map(function).concat();
    let view =
        "(memory (export \"memory\") 1) (func (export \"view\") (result i32) i32.const 1024)";
    let text = format!("(module {view} {text} {rest})");
    let module = Module::parse(Kind::CongestionControl, "test.wasm", text.as_bytes());
    module.map_err(|error| error.to_string())
}

fn control(text: &str) -> (Module, Box<dyn CongestionController>) {
    let module = parse(text).unwrap();
    let control = module.congestion_controllers().begin().unwrap();
    (module, control)
}

#[test]
fn a_control_sees_what_the_view_says() {
    let path: [u64; 9] =
        [15_000, u32::MAX.into(), 0, 5_000_000, 4404, 1452, 3000, 20_000_000, 19_000_000];
    let acked: [u64; 7] = [2904, 21_000_000, 40, 50, 1, 1, 0];
    let all: [u64; 4] = [30_000, 31_000, 1_500_000, 75_000_000];
    let fields = path.into_iter().chain(acked).chain(all);
    for (at, value) in (1024..).step_by(8).zip(fields) {
        let (module, mut it) = control(&format!(
            "(func (export \"on_ack\") (i64.store (i32.const 1024)
               (i64.extend_i32_u (i64.eq (i64.load (i32.const {at})) (i64.const {value})))))"
        ));
        let chosen = it.on_event(CongestionEvent::Acked(ACKED), &view());
        assert_eq!(chosen, Some(CongestionWindow { cwnd: 1, ..WINDOW }), "byte {at}");
        assert_eq!((module.usage().calls, module.failure()), (1, None));
    }
}

#[test]
fn each_event_has_its_function_and_a_mark_is_a_loss_where_it_has_none() {
    let store = |name: &str, params: &str, value: &str| {
        format!("(func (export \"{name}\") {params} (i64.store (i32.const 1040) {value}))")
    };
    let own = [
        store("on_loss", "", "(i64.const 1)"),
        store("on_timeout", "", "(i64.const 2)"),
        store("on_idle", "(param i32)", "(i64.extend_i32_u (local.get 0))"),
    ];
    let (_module, mut it) = control(&own.concat());
    let mut rate = |event| it.on_event(event, &view()).and_then(|window| window.pacing_rate);
    let events = [
        CongestionEvent::Acked(ACKED),
        CongestionEvent::Lost,
        CongestionEvent::Marked,
        CongestionEvent::TimedOut,
        CongestionEvent::Idle(7),
    ];
    assert_eq!(events.map(&mut rate), [None, Some(1), Some(1), Some(2), Some(7)]);
    let (_module, mut it) = control(&store("on_mark", "", "(i64.const 9)"));
    let mut rate = |event| it.on_event(event, &view()).and_then(|window| window.pacing_rate);
    assert_eq!(rate(CongestionEvent::Marked), Some(9));
    assert_eq!(rate(CongestionEvent::Idle(7)), None, "it need not know");
}

#[test]
fn a_control_that_fails_says_why_and_who_goes_on() {
    for body in ["(loop br 0)", "unreachable", "(drop (i64.load (i32.const 65536)))"] {
        let (module, mut it) = control(&format!("(func (export \"on_loss\") {body})"));
        assert!(it.on_event(CongestionEvent::TimedOut, &view()).is_some());
        assert_eq!(it.on_event(CongestionEvent::Lost, &view()), None, "{body}");
        let failure = module.failure().unwrap_or_default();
        assert!(failure.starts_with("congestion control test-"), "{failure}");
        assert!(failure.ends_with("5ms; its path has gone on with engine.congestion"), "{failure}");
    }
}

#[test]
fn what_is_no_control_is_refused_with_the_reason() {
    let scheduler = "(module (memory (export \"memory\") 1)
                       (func (export \"view\") (result i32) i32.const 0)
                       (func (export \"allows\") (param i32 i32) (result i32) i32.const 1))";
    let refused = |text: &str| {
        let module = Module::parse(Kind::CongestionControl, "a.wasm", text.as_bytes());
        module.err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(refused(scheduler), "congestion control a.wasm: it exports no function on_ack()");
    let wrong = parse("(func (export \"on_loss\") (param i32))").err().unwrap_or_default();
    assert!(wrong.ends_with("its function on_loss is not on_loss()"), "{wrong}");
    let far = scheduler.replace("i32.const 0", "i32.const 65400");
    assert!(refused(&far).contains("address of 160 bytes"), "{}", refused(&far));
}
