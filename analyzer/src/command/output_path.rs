//! Checks the paths of output files.

use std::path::Path;

use super::question::Question;
use super::refusals::destination::Destination;
use super::refusals::failure::Failure;

/// Rejects a path among the traces, and an existing file unless `--force` was given.
pub fn must_be_free(question: &Question, path: &Path) -> Result<(), Failure> {
    if path == Path::new("-") {
        return Ok(());
    }
    if is_among(&question.traces, path) {
        return Err(Destination::AmongTraces(path.to_path_buf()).into());
    }
    match path.exists() && !question.replaces {
        true => Err(Destination::Exists(path.to_path_buf()).into()),
        false => Ok(()),
    }
}

/// Returns `true` if the next invocation would read the file as part of these traces.
fn is_among(traces: &[String], path: &Path) -> bool {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let own = folder.canonicalize().ok().zip(path.file_name()).map(|(folder, name)| folder.join(name));
    let holds = |trace: &String| {
        let trace = Path::new(trace).canonicalize().ok();
        trace.zip(own.as_ref()).is_some_and(|(trace, own)| own.starts_with(trace))
    };
    traces.iter().any(holds)
}
