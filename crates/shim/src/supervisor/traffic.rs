//! Bytes and paths, for the report.

use super::Supervisor;
use manypath_control::Traffic;

impl Supervisor {
    /// Whether a connection of the program is still being relayed.
    pub(crate) fn has_open_connections(&self) -> bool {
        self.table.has_active()
    }

    /// Asks the stacks what they have carried.
    pub(crate) fn ask_traffic(&mut self) {
        let asked = [self.stack.ask_traffic(), self.accepts.ask_traffic()];
        self.traffic_answers_due = asked.into_iter().filter(|asked| *asked).count();
    }

    /// Whether a stack has not answered yet.
    pub(crate) const fn awaits_traffic(&self) -> bool {
        self.traffic_answers_due > 0
    }

    pub(crate) fn on_traffic(&mut self, traffic: Traffic) {
        self.traffic_answers_due = self.traffic_answers_due.saturating_sub(1);
        self.report.add_traffic(traffic);
    }
}
