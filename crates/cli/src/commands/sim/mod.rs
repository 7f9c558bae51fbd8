//! `manypath sim`: simulations from the command line.

mod campaign;
mod compare;
mod merge;
mod run;
mod table;

use crate::args::{SimAction, SimArgs};
use crate::failure::Failure;

/// Does what was asked of the simulator.
pub(crate) fn sim(args: &SimArgs) -> Result<u8, Failure> {
    match &args.action {
        SimAction::Run(args) => run::run(args),
        SimAction::Merge { results, out } => merge::merge(results, out),
        SimAction::Compare { a, b, figure, json } => compare::compare(a, b, figure, *json),
    }
}
