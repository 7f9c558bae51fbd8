//! A gateway: programs that speak SCTP to programs that speak TCP, one association for each
//! connection, in either direction.
//!
//! ```text
//! SCTP client ══▶ association ──▶ dial ──▶ TCP service        Way::ToTcp
//! TCP client ──▶ caller ──▶ association ══▶ SCTP server       Way::ToSctp
//! ```
//!
//! What joins the two is the direct form: its relays, its back-pressure and its ends. A gateway has
//! no rules and no fallback, and carries no flows of a shared association.

mod callers;
mod printer;
mod status_line;

pub(crate) use callers::Callers;
