//! What commands say on standard error, where their stacks and the programs that they start write too.

use std::fmt::Display;
use std::io::Write;

/// A line that begins with the name of the program.
pub fn say(text: impl Display) {
    say_line(format_args!("manypath: {text}"));
}

/// A line as it is, in one piece: nothing of others comes between its beginning and its end.
pub fn say_line(text: impl Display) {
    // Where nobody takes it there is nobody to tell.
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}
