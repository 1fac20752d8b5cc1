//! `dlio-top`: runs [`dlio_analyzer::top::command`].

fn main() -> std::process::ExitCode {
    dlio_analyzer::top::command::main()
}
