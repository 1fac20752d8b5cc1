//! `--view`: shows the trace in a browser and serves it from this host.

use std::io::Write;
use std::path::Path;

use indicatif::HumanCount;

use super::answer::Answer;
use crate::atomic_file::Output;
use crate::command::arguments::Arguments;
use crate::command::export_trace::{Choice, add_notes, compression, exported};
use crate::command::outcome::Outcome;
use crate::command::question::Question;
use crate::command::refusals::failure::Failure;
use crate::command::shared_trace::SharedTrace;
use crate::viewer::forms::Form;
use crate::viewer::serve::{self, Server, Ui};

struct View {
    ui: Ui,
    choice: Choice,
    /// The server; it binds its port before the long work.
    server: Option<Server>,
}

pub fn requested(typed: &Arguments) -> Option<Box<dyn Answer>> {
    let ui = typed.ui.clone().unwrap_or_else(|| Ui::Site(serve::SITE.into()));
    let choice = Choice { form: Form::named("pftrace", compression(typed), false), all: typed.all, relations: false };
    typed.view.then(|| Box::new(View { ui, choice, server: None }) as Box<dyn Answer>)
}

impl Answer for View {
    fn check(&mut self, question: &Question) -> Result<(), Failure> {
        let trace = question.traces.first().map(|typed| Path::new(typed.trim_end_matches('/')));
        let stem = trace.and_then(Path::file_stem).map_or("trace".into(), |stem| stem.to_string_lossy());
        let server = Server::bind(self.ui.clone(), &format!("{stem}.pftrace")).map_err(Failure::Port)?;
        self.server = Some(server);
        Ok(())
    }

    fn give(&mut self, trace: &SharedTrace, _: &mut Output) -> Result<Outcome, Failure> {
        trace.open_rows().map(|_| Outcome::default())
    }

    /// Serves the trace until the browser has fetched it, or until Ctrl-C.
    fn linger(&mut self, trace: &SharedTrace) -> Result<(), Failure> {
        let Some(server) = self.server.take() else { return Ok(()) };
        // An unnamed file: no other process can open it, and nothing remains after any exit.
        let file = tempfile::tempfile().map_err(Failure::Scratch)?;
        let written = exported(&trace.question, trace.open_rows()?, self.choice, |export, progress| {
            export.write_to(self.choice.form, &file, progress).map_err(Failure::Scratch)
        })?;
        add_notes(&written, self.choice.form);
        let (url, port) = (server.url(), server.port());
        writeln!(crate::terminal::stdout(), "{url}").map_err(Failure::Write)?;
        let serves_viewer = matches!(self.ui, Ui::Folder(_));
        let until = if serves_viewer { "until Ctrl-C" } else { "until the viewer has fetched them" };
        let events = HumanCount(written.events);
        notice!("dlio-analyze: {events} events are served on 127.0.0.1:{port} {until}");
        if !serve::open(&url) {
            notice!(
                "              open the address above in a browser; from another machine, first: ssh -L {port}:127.0.0.1:{port} HOST"
            );
        }
        server.serve(file).map_err(Failure::Scratch)
    }
}
