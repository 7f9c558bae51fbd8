//! Rounds of runs: each transport in turn, so that what a machine does beside falls on all of them.

use crate::case::{Settings, Transport, Workload};
use crate::local::LocalSide;
use crate::place::Place;
use crate::remote::Remote;
use crate::result::{Results, Row, Skipped, relate};
use crate::side::{Outcome, Side};
use crate::stage::{Interval, Run, Stage};
use manypath_lab::Host;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// Who watches.
pub trait Observer {
    /// A run begins: case, transport, its number, how many there will be of it.
    fn begins(&mut self, case: &str, transport: Transport, round: u32, rounds: u32);
    /// An interval of it is over.
    fn interval(&mut self, interval: &Interval);
    /// It is over, or has failed.
    fn ends(&mut self, result: Result<&Run, &str>);
    /// Something is not measured.
    fn skips(&mut self, skipped: &Skipped);
}

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Campaign<'a> {
    /// The manypath program.
    pub manypath: PathBuf,
    /// How.
    pub settings: Settings,
    /// What is done.
    pub workloads: Vec<Workload>,
    /// By what.
    pub transports: Vec<Transport>,
    /// Set when the user wants an end.
    pub interrupted: &'a AtomicBool,
}

impl Campaign<'_> {
    /// Measures everything at a place, this host being both ends.
    ///
    /// # Errors
    /// Interrupted, or no program can be started at all.
    pub fn at(&self, place: &Place, watcher: &mut dyn Observer) -> Outcome<Results> {
        let client = LocalSide::new(place, Host::Left, &self.manypath)?;
        let server = LocalSide::new(place, Host::Right, &self.manypath)?;
        self.measure(place, (client, server), watcher)
    }

    /// Measures everything from here to a host where `manypath-lab bench -s` runs.
    ///
    /// # Errors
    /// As [`Campaign::at`]; or the host does not answer.
    pub fn towards(&self, server: Remote, watcher: &mut dyn Observer) -> Outcome<Results> {
        let place = server.place();
        let client = LocalSide::new(&place, Host::Left, &self.manypath)?;
        self.measure(&place, (client, server), watcher)
    }

    fn measure(
        &self,
        place: &Place,
        (mut client, mut server): (impl Side, impl Side),
        watcher: &mut dyn Observer,
    ) -> Outcome<Results> {
        let mut results = Results::default();
        for workload in &self.workloads {
            let case = format!("{}/{}", place.name, workload.name());
            let transports = self.possible(place, &case, *workload, &mut results, watcher);
            let mut case = Case { name: case, workload: *workload, transports, rows: Vec::new() };
            let sides: (&mut dyn Side, &mut dyn Side) = (&mut client, &mut server);
            self.rounds(place, &mut case, sides, &mut results, watcher)?;
            let mut rows: Vec<_> = case.rows.into_iter().collect();
            rows.sort_by_key(|row| row.0);
            let rows = rows
                .into_iter()
                .map(|(transport, runs)| Row::new(&place.name, *workload, transport, runs));
            let mut rows: Vec<_> = rows.collect();
            relate(&mut rows);
            results.results.extend(rows);
        }
        Ok(results)
    }

    /// The transports by which a workload can be had here.
    fn possible(
        &self,
        place: &Place,
        case: &str,
        workload: Workload,
        results: &mut Results,
        watcher: &mut dyn Observer,
    ) -> Vec<Transport> {
        let mut possible = Vec::new();
        for transport in &self.transports {
            match transport
                .can(workload)
                .map_err(str::to_owned)
                .and_then(|()| place.can(*transport))
            {
                Ok(()) => possible.push(*transport),
                Err(reason) => {
                    let transport = Some(*transport);
                    let skipped =
                        Skipped { case: case.to_owned(), transport, reason, failed: false };
                    watcher.skips(&skipped);
                    results.skipped.push(skipped);
                }
            }
        }
        possible
    }

    fn rounds(
        &self,
        place: &Place,
        case: &mut Case,
        (client, server): (&mut dyn Side, &mut dyn Side),
        results: &mut Results,
        watcher: &mut dyn Observer,
    ) -> Outcome<()> {
        let rounds = self.settings.runs;
        for round in 0..rounds {
            for transport in case.order(round) {
                if self.interrupted.load(Ordering::Relaxed) {
                    return Err("interrupted".to_owned());
                }
                watcher.begins(&case.name, transport, round + 1, rounds);
                let mut stage = Stage {
                    client: &mut *client,
                    server: &mut *server,
                    on_interval: &mut |interval| watcher.interval(interval),
                    interrupted: &|| self.interrupted.load(Ordering::Relaxed),
                    rtt: place.rtt(),
                };
                let result = stage.run(case.workload, transport, &self.settings);
                watcher.ends(result.as_ref().map_err(String::as_str));
                match result {
                    Ok(run) => case.add(transport, run),
                    Err(_) if self.interrupted.load(Ordering::Relaxed) => {
                        return Err("interrupted".to_owned());
                    }
                    Err(reason) => {
                        results.skipped.push(Skipped {
                            case: case.name.clone(),
                            transport: Some(transport),
                            reason,
                            failed: true,
                        });
                        case.give_up(transport);
                    }
                }
            }
        }
        Ok(())
    }
}

/// A case in progress.
struct Case {
    name: String,
    workload: Workload,
    transports: Vec<Transport>,
    rows: Vec<(Transport, Vec<Run>)>,
}

impl Case {
    /// Who goes first changes from round to round, so that nothing of the order stays in the medians.
    fn order(&self, round: u32) -> Vec<Transport> {
        let mut order = self.transports.clone();
        let turn = round as usize % order.len().max(1);
        order.rotate_left(turn);
        order
    }

    fn add(&mut self, transport: Transport, run: Run) {
        match self.rows.iter_mut().find(|(known, _)| *known == transport) {
            Some((_, runs)) => runs.push(run),
            None => self.rows.push((transport, vec![run])),
        }
    }

    /// What has failed once is not tried again.
    fn give_up(&mut self, transport: Transport) {
        self.transports.retain(|one| *one != transport);
        self.rows.retain(|(one, _)| *one != transport);
    }
}
