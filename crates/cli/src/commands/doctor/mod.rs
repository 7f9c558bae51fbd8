//! `manypath doctor`: why paths to a host are not used, and how to fix it.
//!
//! Three steps that know nothing of each other: [`probes`] find things out, [`diagnosis`] judges what was found, and
//! [`render`] shows both. [`speed`] measures instead.

pub(crate) mod args;
mod diagnosis;
mod findings;
mod probes;
mod render;
mod speed;

use super::rules::print_json;
use crate::failure::Failure;
use args::DoctorArgs;
use std::io::IsTerminal;

/// Finds out, judges and shows. The exit status is 1 if something is wrong.
pub(crate) fn doctor(args: &DoctorArgs) -> Result<u8, Failure> {
    if args.speed {
        return speed::speed(args);
    }
    let tell = !args.json && std::io::stderr().is_terminal();
    let mut progress = |what: &str| {
        if tell {
            eprintln!("{what} ...");
        }
    };
    let findings = probes::collect(args, &mut progress)?;
    let causes = diagnosis::diagnose(&findings);
    if args.json {
        print_json(&render::Report::new(&findings, &causes))?;
    } else {
        super::print(render::text(&findings, &causes).as_bytes())?;
    }
    Ok(u8::from(!diagnosis::is_well(&causes)))
}
