//! Progress on standard error: a bar on a terminal, or lines for the program that started this one.

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::question::{ProgressDisplay, Question};
use super::refusals::failure::Failure;
use crate::load::Trace;
use crate::load::sources::errors::LoadError;
use crate::scan::Progress;
use crate::terminal;

/// The time between two updates.
const REDRAW: Duration = Duration::from_millis(100);

/// Reads a trace and shows progress.
pub fn reading<T>(
    question: &Question,
    trace: &Trace,
    read: impl FnOnce(&Progress) -> io::Result<T>,
) -> Result<T, Failure> {
    let progress = Progress::default();
    let read = shown(&progress, trace.size(), question.progress, || read(&progress));
    read.map_err(|error| Failure::Load(LoadError::Memory(error)))
}

/// Does work and shows progress in bytes.
pub fn shown<T>(progress: &Progress, bytes: u64, display: ProgressDisplay, work: impl FnOnce() -> T) -> T {
    drawn((progress, bytes), display, |bar| paint(bar, progress), work)
}

/// Like [`shown`], but counts events instead of bytes.
pub fn counted<T>(progress: &Progress, events: u64, display: ProgressDisplay, work: impl FnOnce() -> T) -> T {
    let paint = |bar: &ProgressBar| {
        let done = progress.events.load(Ordering::Relaxed);
        bar.set_message(format!("{} events", HumanCount(done)));
        bar.set_position(done.min(events));
    };
    drawn((progress, events), display, paint, work)
}

fn drawn<T>(
    (progress, all): (&Progress, u64),
    display: ProgressDisplay,
    paint: impl Fn(&ProgressBar) + Sync,
    work: impl FnOnce() -> T,
) -> T {
    let target = match display {
        ProgressDisplay::Bar if std::io::stderr().is_terminal() => ProgressDrawTarget::stderr(),
        ProgressDisplay::Lines => ProgressDrawTarget::hidden(),
        _ => return work(),
    };
    let done = AtomicBool::new(false);
    let bar = ProgressBar::with_draw_target(Some(all.max(1)), target);
    let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}, {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    std::thread::scope(|scope| {
        let painter = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                paint(&bar);
                if display == ProgressDisplay::Lines {
                    let (done, events) = (bar.position().min(all), progress.events.load(Ordering::Relaxed));
                    terminal::warn(format_args!("progress {done} {all} {events}"));
                }
                std::thread::park_timeout(REDRAW);
            }
            bar.finish_and_clear();
        });
        let result = work();
        done.store(true, Ordering::Relaxed);
        painter.thread().unpark();
        result
    })
}

fn paint(bar: &ProgressBar, progress: &Progress) {
    let (events, bytes) = (progress.events.load(Ordering::Relaxed), progress.bytes.load(Ordering::Relaxed));
    let seconds = bar.elapsed().as_secs_f64().max(0.001);
    let rate = HumanCount((events as f64 / seconds) as u64);
    bar.set_message(format!("{} events, {rate} events/s, {}", HumanCount(events), HumanBytes(bytes)));
    bar.set_position(bytes);
}
