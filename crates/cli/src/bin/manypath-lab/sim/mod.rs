//! `manypath-lab sim`: simulations from the command line.

pub(crate) mod args;
mod bars;
mod campaign;
mod compare;
mod figure;
pub(crate) mod live;
mod merge;
mod page;
mod plan;
mod present;
mod run;
mod table;

use crate::failure::Failure;
use args::{SimAction, SimArgs};

/// Does what was asked of the simulator.
pub(crate) fn sim(args: &SimArgs) -> Result<u8, Failure> {
    match &args.action {
        SimAction::Plan(args) => plan::plan(args),
        SimAction::Run(args) => run::run(args),
        SimAction::Live(args) => live::live(args),
        SimAction::Figure(args) => figure::figure(args),
        SimAction::List { json } => figure::list(*json),
        SimAction::Merge { results, out, json } => merge::merge(results, out, *json),
        SimAction::Compare { a, b, figure, json } => compare::compare(a, b, figure, *json),
    }
}
