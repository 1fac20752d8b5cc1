//! `dlio-analyze`: see [`dlio_analyzer::command`].

fn main() -> std::process::ExitCode {
    dlio_analyzer::command::main()
}
