//! One congestion control: an instance of a module for one path.

use crate::Ledger;
use crate::instance::Instance;
use crate::layout::{self, CONTROL_VIEW_LEN};
use manypath_engine::{
    CongestionController, CongestionEvent, CongestionView, CongestionWindow, Instant,
};
use std::sync::Arc;
use wasmi::{Module, TypedFunc};

/// A congestion control that a module has made.
#[derive(Debug)]
pub(crate) struct Control {
    instance: Instance,
    ack: TypedFunc<(), ()>,
    loss: TypedFunc<(), ()>,
    mark: Option<TypedFunc<(), ()>>,
    timeout: TypedFunc<(), ()>,
    idle: Option<TypedFunc<i32, ()>>,
    ledger: Arc<Ledger>,
}

impl Control {
    pub(crate) fn new(module: &Module, ledger: Arc<Ledger>) -> Result<Self, String> {
        let instance = Instance::new(module, CONTROL_VIEW_LEN)?;
        let required = |name: &str| {
            let missing = || format!("it exports no function {name}()");
            instance.function(name, "()")?.ok_or_else(missing)
        };
        let [ack, loss, timeout] = ["on_ack", "on_loss", "on_timeout"].map(required);
        let mark = instance.function("on_mark", "()")?;
        let idle = instance.function("on_idle", "(timeouts: i32)")?;
        Ok(Self { ack: ack?, loss: loss?, mark, timeout: timeout?, idle, instance, ledger })
    }

    fn call(&mut self, event: CongestionEvent, view: &[u8]) -> Result<(), wasmi::Error> {
        let instance = &mut self.instance;
        let function = match event {
            CongestionEvent::Acked(_) => &self.ack,
            CongestionEvent::Lost => &self.loss,
            CongestionEvent::Marked => self.mark.as_ref().unwrap_or(&self.loss),
            CongestionEvent::TimedOut => &self.timeout,
            CongestionEvent::Idle(timeouts) => {
                let Some(idle) = &self.idle else { return instance.show(view) };
                return instance.call(idle, view, i32::try_from(timeouts).unwrap_or(i32::MAX));
            }
        };
        instance.call(function, view, ())
    }

    fn answer(
        &mut self,
        event: CongestionEvent,
        view: &CongestionView,
    ) -> Result<CongestionWindow, wasmi::Error> {
        let mut bytes = layout::control_view(event, view);
        let called = self.call(event, &bytes);
        self.ledger.count(self.instance.instructions());
        called?;
        self.instance.read(&mut bytes)?;
        Ok(layout::window(&bytes))
    }
}

impl CongestionController for Control {
    fn on_event(
        &mut self,
        event: CongestionEvent,
        view: &CongestionView,
    ) -> Option<CongestionWindow> {
        let answer = self.answer(event, view);
        if let Err(error) = &answer {
            let then = "its path has gone on with engine.congestion";
            let at = view.now.since(Instant::ZERO);
            self.ledger.fail(format!("{error}, at {at:?}; {then}"));
        }
        answer.ok()
    }
}
