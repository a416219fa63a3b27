//! The `ebb` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    ebbtide_app::cli::main()
}
