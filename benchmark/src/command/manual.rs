//! The manual pages, generated from `--help`.

use std::path::Path;

use clap::Command;
use clap_mangen::Man;

use crate::failure::{Failure, Outcome};

/// Writes a page for the command and one for each verb that it implements. `foreign` verbs, which other programs
/// implement, are only listed, because those programs have their own pages.
pub fn write(command: Command, foreign: &[&'static str], folder: &Path) -> Outcome<()> {
    let unwritten = |error| Failure::unwritable("write the manual pages to", folder, error);
    std::fs::create_dir_all(folder).map_err(unwritten)?;
    let hidden = |command: Command, verb: &&'static str| command.mut_subcommand(*verb, |verb| verb.hide(true));
    let own = foreign.iter().fold(command.clone(), hidden);
    clap_mangen::generate_to(own, folder).map_err(unwritten)?;
    // Again, to list the verb itself.
    let mut command = command.disable_help_subcommand(true);
    command.build();
    Man::new(command).generate_to(folder).map_err(unwritten)?;
    Ok(())
}
