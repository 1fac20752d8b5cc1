//! Progress of a run for a user at a terminal; a pipe gets no output.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;

/// Redraws per second: more would cost time and show nothing new.
const REFRESH: u8 = 8;

pub struct Progress(ProgressBar);

impl Progress {
    /// Creates a bar, with `shown` only on the rank that prints; without a terminal the drawing target is silent.
    pub fn new(shown: bool, what: &str, length: u64, unit: &str) -> Progress {
        let target = if shown { ProgressDrawTarget::stderr_with_hz(REFRESH) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(length), target);
        let template = format!("{{prefix}} [{{bar:30}}] {{pos}}/{{len}} {unit} {{msg}} {{elapsed}}<{{eta}}");
        // The template is a constant; if it were wrong, the default style would still show the bar.
        bar.set_style(
            ProgressStyle::with_template(&template)
                .unwrap_or_else(|_| ProgressStyle::default_bar())
                .progress_chars("=> "),
        );
        bar.set_prefix(what.to_string());
        Progress(bar)
    }

    pub fn advance(&self, count: u64) {
        self.0.inc(count);
    }

    /// Shows a number next to the bar, such as a rate.
    pub fn set_message(&self, message: String) {
        self.0.set_message(message);
    }

    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
