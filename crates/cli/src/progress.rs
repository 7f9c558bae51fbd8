//! How far long work is: one line on standard error that is drawn again and again; where that cannot be, as in a file,
//! plain lines now and then.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::{Duration, Instant};

/// Time between two drawings of the line.
const REDRAW: Duration = Duration::from_millis(200);

/// The line, or the last plain one.
#[derive(Debug)]
pub struct ProgressLine {
    /// Counts, and tells rate and time left; hidden where it cannot be drawn.
    pub bar: ProgressBar,
    quiet: bool,
    pause: Duration,
    shown: Option<Instant>,
}

impl ProgressLine {
    /// Shows nothing if `quiet`. The first plain line comes after a `pause`, and so does each further one.
    #[must_use]
    pub fn new(quiet: bool, pause: Duration) -> Self {
        let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::no_length() };
        if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
            bar.set_style(style);
        }
        bar.finish_and_clear();
        let (pause, shown) =
            if bar.is_hidden() { (pause, Some(Instant::now())) } else { (REDRAW, None) };
        Self { bar, quiet, pause, shown }
    }

    /// Shows a text, if it is time to.
    pub fn show(&mut self, text: impl FnOnce(&ProgressBar) -> String) {
        if self.quiet || self.shown.is_some_and(|shown| shown.elapsed() < self.pause) {
            return;
        }
        self.shown = Some(Instant::now());
        if self.bar.is_hidden() {
            return eprintln!("{}", text(&self.bar));
        }
        self.bar.set_message(text(&self.bar));
        if self.bar.is_finished() {
            self.bar.reset();
        }
    }

    /// Prints a text that stays, above the line.
    pub fn say(&self, text: &str) {
        if !self.quiet {
            self.bar.suspend(|| eprintln!("{text}"));
        }
    }

    /// Prints a text that stays, instead of the line.
    pub fn end(&mut self, text: &str) {
        self.bar.finish_and_clear();
        self.say(text);
        self.shown = self.shown.filter(|_| self.bar.is_hidden());
    }
}
