//! What the poll, the clock, signals and other threads tell the stack: which room hears of it.

use super::Stack;
use crate::base::protection;
use crate::core::Core;
use crate::ids::{DatagramId, DialId, RelayId};
use crate::names::Asker;
use crate::service::Service;
use crate::timers::Timer;
use crate::token::Source;
use manypath_net::Signal;
use mio::event::Event;

impl Stack {
    pub(super) fn on_event(&mut self, event: &Event) {
        let Some(source) = Source::of(event.token()) else { return };
        let base = &mut self.base;
        if !matches!(source, Source::Local(_) | Source::Carrier(_) | Source::Relay(_)) {
            base.core.driver.hurry();
        }
        match source {
            // A socket of the driver, which has had it.
            Source::Local(_) | Source::Carrier(_) => {}
            Source::Relay(id) => self.relays.on_relay_event(RelayId(id), event),
            Source::Near(id) => self.relays.on_near_event(RelayId(id), event),
            // The plain TCP connection of a relay, or of an attempt that has not decided yet.
            Source::Far(id) => {
                if !self.relays.on_far_event(RelayId(id), event) {
                    self.attempts.on_race_event(base, id, event);
                }
            }
            Source::Dial(id) => {
                self.services.on_dial_event(base, &mut self.relays, DialId(id), event)
            }
            Source::Control(id) => base.core.control.on_event(id),
            Source::ControlListener | Source::Door => base.core.accept_control(),
            Source::Clients(_) => self.clients.callers.accept_callers(base, &self.relays),
            Source::Caller(id) => self.clients.callers.on_caller_event(base, RelayId(id), event),
            Source::DoorListener(_) => self.clients.doors.accept(base, &mut self.attempts),
            Source::DoorClient(id) => {
                self.clients.doors.on_client_event(base, &mut self.attempts, id, event)
            }
            Source::Ping(id) => self.datagrams.on_packets(base, &mut self.services, id),
            Source::DoorDatagrams(id) => self.clients.doors.on_datagrams(base, id, false),
            Source::Datagrams(id) => self.datagrams.on_socket(DatagramId(id)),
            Source::Line(control) => self.datagrams.on_line(control),
            Source::Network => {
                self.uplinks.on_network_news(base, &mut self.attempts, &mut self.relays)
            }
            // Each turn looks at it.
            Source::Clock => {}
            Source::Signal => self.on_signal(),
            Source::Wake => self.on_wake(),
        }
    }

    pub(super) fn on_timer(&mut self, timer: Timer) {
        let base = &mut self.base;
        match timer {
            Timer::HeadStart(id) => self.attempts.on_head_start_timer(base, id),
            Timer::Route(id) => self.attempts.on_route_timer(base, id),
            Timer::InitCopy(id) => base.core.on_init_copy_timer(id),
            Timer::Answer(_) => self.attempts.follow_answers(base),
            Timer::Fallback(id) => self.attempts.on_fallback_timer(base, id),
            Timer::Keys(id) => protection::on_keys_timer(base, id),
            Timer::TicketKeys => {
                base.keys.on_ticket_keys_timer(base.core.now, &mut base.core.timers);
            }
            Timer::Patience(id) => {
                if let Some(ended) = self.relays.on_patience_timer(base, id) {
                    self.services.on_relay_over(base, ended);
                }
            }
            Timer::Idle(id) => base.on_idle_timer(id),
            Timer::DatagramFallback(id) => {
                self.datagrams.on_fallback_timer(base, &mut self.attempts.peers, id)
            }
            Timer::Datagrams => self.datagrams.on_timer(base),
            Timer::Rescan => {
                self.uplinks.on_rescan_timer(base, &mut self.attempts, &mut self.relays)
            }
            Timer::Network => {
                self.uplinks.on_network_timer(base, &mut self.attempts, &mut self.relays)
            }
            Timer::Presence(id) => base.on_presence_timer(id),
            Timer::Quiet(id) => base.on_quiet_timer(id),
            Timer::Listeners => {
                self.services.on_listeners_timer(base, self.succession.has_begun());
            }
            Timer::Look => self.services.answer_looked(base, &mut self.relays),
            Timer::Rates => self.relays.on_rates_timer(&mut base.core),
            Timer::Waiting => self.services.on_waiting_timer(base, &mut self.relays),
            Timer::Delayed => self.services.give_up_delayed(base),
            Timer::AcceptControl => base.core.accept_control(),
            Timer::Callers => self.clients.callers.accept_callers(base, &self.relays),
            Timer::DoorListeners => self.clients.doors.accept(base, &mut self.attempts),
            Timer::Ping(id) => self.datagrams.on_packets(base, &mut self.services, id),
            Timer::DoorDatagrams(id) => self.clients.doors.on_datagrams(base, id, true),
            Timer::DoorClient(id) => {
                self.clients.doors.on_client_timer(base, &mut self.attempts, id)
            }
            Timer::StatusLine => {
                let dials = self.services.dials();
                self.clients.callers.on_status_line_timer(base, &self.relays, dials);
            }
            Timer::Service => self.service.on_timer(base, &self.relays),
            Timer::SavePeers => self.attempts.peers.save(&mut base.core),
            Timer::Hours => base.core.on_hours_timer(),
            Timer::Budgets => base.core.on_budgets_timer(),
            Timer::Quotas => {
                let Core { now, quotas, timers, counters, .. } = &mut base.core;
                quotas.on_timer(*now, timers, counters);
            }
            Timer::RelayNames => self.attempts.relays.on_names_timer(&mut base.core),
            Timer::Register => self.datagrams.rendezvous.register(base, &self.attempts),
            Timer::Punch(id) => self.datagrams.rendezvous.punch(base, id),
            Timer::Ways => self.datagrams.rendezvous.on_ways_timer(base),
            // Each turn looks at it.
            Timer::Search => {}
            Timer::Watch => self.watch.on_watch_timer(base),
            Timer::Drain => self.on_drain_timer(),
            Timer::Deserted => {
                if self.sharing.on_timer(&mut base.core) {
                    self.drain();
                }
            }
            Timer::Successor => {
                if self.succession.is_overdue() {
                    self.stop();
                }
            }
        }
    }

    fn on_signal(&mut self) {
        while let Some(signal) = self.signals.as_ref().and_then(|signals| signals.next()) {
            match signal {
                Signal::Terminate if self.succession.detach(&mut self.base.core) => {
                    self.service = Service::new(false, true);
                }
                Signal::Terminate => self.stop(),
                Signal::Interrupt | Signal::Hangup
                    if self.base.core.config.process.ignore_interrupt => {}
                Signal::Hangup if self.service.is_managed() => {
                    self.service.tell_reloading();
                    if let Some(seat) = &self.base.core.config.process.seat {
                        seat.reload_others();
                    }
                    let result = self.reload();
                    self.service.tell_reloaded(&result);
                }
                Signal::Interrupt | Signal::Hangup => self.stop(),
            }
        }
    }

    /// Another thread has something for this loop.
    fn on_wake(&mut self) {
        self.on_names_found();
        if self.stopper.is_told() {
            self.stop();
        }
        let Some(seat) = self.base.core.config.process.seat.clone() else { return };
        (0..seat.take_stops()).for_each(|_| self.stop_this());
        if seat.take_reload() {
            // What keeps it from doing so is in its counters and in the log.
            let _ = self.reload();
        }
    }

    fn on_names_found(&mut self) {
        let (base, attempts) = (&mut self.base, &mut self.attempts);
        for found in base.core.names.take() {
            let (doors, addresses) = (&mut self.clients.doors, found.addresses);
            match found.asker {
                Asker::Onward(id) => {
                    let relays = &mut self.relays;
                    self.services.on_onward_name(base, attempts, relays, DialId(id), addresses);
                }
                Asker::Door(id) => doors.on_addresses(base, attempts, id, addresses),
                Asker::DoorDatagrams(id) => doors.on_datagram_name(base, id, &addresses),
                Asker::Relay(host) => attempts.relays.note(&mut base.core, host, addresses),
            }
        }
    }
}
