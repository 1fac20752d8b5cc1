//! `dlio trace --ptrace-static`: starts the process that records static programs and Go programs, and reports about it.

use std::path::Path;

use dlio_schemas::env;
use dlio_tracer::programs::Loading;
use dlio_tracer::ptrace_request;

use crate::failure::{Failure, Outcome};
use crate::ptrace::supervisor::{Settings, Supervisor};
use crate::system::processes::Variables;
use crate::system::terminal;

/// The recording of programs that the library cannot enter.
pub struct StaticPrograms {
    /// `None` without the option.
    supervisor: Option<Supervisor>,
    /// `true` if the command itself is such a program.
    is_command: bool,
}

impl StaticPrograms {
    /// Starts the process if the option is given; `settings` are those of its traces.
    ///
    /// Only for a process with one thread.
    pub fn begin(loading: Loading, settings: Option<Settings>) -> Outcome<StaticPrograms> {
        let supervisor = settings.map(start).transpose()?;
        let is_command = supervisor.is_some() && ptrace_request::is_possible(loading);
        Ok(StaticPrograms { supervisor, is_command })
    }

    /// Lets the command and the programs that it starts find the process.
    pub fn prepare(&self, variables: &mut Variables) {
        let Some(name) = self.supervisor.as_ref().map(|supervisor| supervisor.name.clone()) else { return };
        variables.set(env::PTRACE, &name);
        if self.is_command {
            variables.run_last(move || {
                ptrace_request::send_to(name.as_bytes(), ptrace_request::THIS_THREAD);
            });
        }
    }

    /// Returns `true` if the command itself is to be recorded from outside.
    pub fn record_command(&self) -> bool {
        self.is_command
    }

    /// Prints how many programs were recorded from outside.
    pub fn report(&self, program: &Path) {
        let Some(supervisor) = &self.supervisor else { return };
        match supervisor.recorded() {
            0 if self.is_command => terminal::warn(format_args!(
                "dlio: cannot record {} by ptrace: the kernel refused it, or is older than Linux 5.3; it ran untraced",
                program.display()
            )),
            0 => {}
            1 => report_number("1 program that the library cannot enter was"),
            more => report_number(&format!("{more} programs that the library cannot enter were")),
        }
    }
}

fn report_number(programs: &str) {
    terminal::warn(format_args!("      {programs} recorded by ptrace, which makes each system call some 25 us longer"));
}

fn start(settings: Settings) -> Outcome<Supervisor> {
    refuse_counting()?;
    let name = format!("dlio-{}", settings.unique);
    Supervisor::start(&name, settings).map_err(|error| {
        Failure::refused(format!("--ptrace-static: cannot start the process that records by ptrace: {error}"))
            .remedy("run without --ptrace-static")
    })
}

/// Refuses modes in which a process counts events instead of recording them.
fn refuse_counting() -> Outcome<()> {
    let is_set = |name: &&&str| std::env::var(name).is_ok_and(|value| !value.is_empty() && value != "full");
    match [env::MODE, env::MAX_MB, env::LAST].iter().find(is_set) {
        None => Ok(()),
        Some(name) => {
            Err(Failure::refused(format!("--ptrace-static cannot be used with {name}: it records every event"))
                .remedy(format!("unset {name}")))
        }
    }
}
