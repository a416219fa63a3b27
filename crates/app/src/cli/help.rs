//! `ebb help`, and the first screen: the commands in the order of the work.

use super::globals::Globals;
use crate::error::CliError;
use crate::views;
use clap::builder::styling::Styles;
use clap::{Args, Command};
use std::process::ExitCode;

/// The commands under their headings; those that have none are tools, or hidden.
const HEADINGS: &[(&str, &[&str])] = &[
    ("Choose", &["plan", "catalog", "layout"]),
    ("Measure", &["check", "run", "bench", "profile", "fio", "volumes", "watch"]),
    ("Read", &["list", "show", "compare", "blame", "import", "serve"]),
    ("Keep", &["apply", "status", "undo", "cleanup", "attach", "export", "user-data"]),
    ("Over time", &["monitor", "limit"]),
];

/// What is needed rarely.
const TOOLS: &[&str] = &["lab", "verify", "self-test", "completions", "man"];

/// What all commands have in common.
const IN_COMMON: &str = "\
Sizes: 4k, 4K and 4KiB are 4096 bytes, 1m and 1MiB are 2^20, 10g and 10GiB are 10 x 2^30; 4kB is 4000 bytes, \
10GB is 10^10. Printed: MB/s is 10^6 bytes per second, MiB is 2^20 bytes. Times: 500us, 0.5ms, 10s, 2m.

Exit status: 0 done, 1 failed, 2 wrong usage, 3 it ran but the answer is inconclusive, 130 interrupted.

EBB_LOG=debug logs to standard error what is tried and why it fails [default: warn].
";

/// Below the commands.
const MORE: &str = "\
ebb help COMMAND    what it does, all its options, its exit status
ebb help options    options of every command, units of sizes and times
ebb help tools      laboratory, verification, completions, manual pages

First steps: `ebb run experiments/first-run.toml -o report.html`, then `ebb list` and `ebb show`.";

/// Below a command's own options.
const OF_EVERY_COMMAND: &str =
    "Every command has --store, --catalog, --json and --quiet: see `ebb help options`.";

/// Explain a command, the options of every command, or the tools
#[derive(Debug, Args)]
pub struct HelpArgs {
    /// A command with its subcommands; `options` or `tools`
    #[arg(value_name = "COMMAND")]
    words: Vec<String>,
}

/// `root` with what its help and that of each command shows.
pub fn told(root: Command) -> Command {
    let style = *Styles::styled().get_header();
    let part =
        |(heading, names): &(&str, &[&str])| format!("\n\n{style}{heading}{style:#}{}", lines(&root, names));
    let list: String = HEADINGS.iter().map(part).collect();
    let template = format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}{list}{{after-help}}");
    let globals: Vec<clap::Id> =
        Globals::augment_args(Command::new("")).get_arguments().map(|one| one.get_id().clone()).collect();
    let root = root.help_template(template).after_help(MORE).mut_subcommands(ended);
    globals.iter().fold(root, |root, id| root.mut_arg(id, |argument| argument.hide(true)))
}

/// `command`, and all below it, with a word on the options that it does not list.
fn ended(command: Command) -> Command {
    let before = command.get_after_help().map(|text| format!("{}\n\n", text.ansi()));
    command.after_help(before.unwrap_or_default() + OF_EVERY_COMMAND).mut_subcommands(ended)
}

/// A line for each of `names`.
fn lines(root: &Command, names: &[&str]) -> String {
    let line = |name: &&str| {
        let about = root.find_subcommand(name).and_then(Command::get_about);
        format!("\n  {name:<11}  {}", about.map(|about| about.ansi().to_string()).unwrap_or_default())
    };
    names.iter().map(line).collect()
}

/// Runs `ebb help`; `root` is the command line without what [`told`] does, and `ask` parses one as `main` does.
///
/// # Errors
/// A command that does not exist, or standard output that cannot be written.
pub fn run(
    args: &HelpArgs,
    root: &Command,
    ask: impl Fn(Vec<String>) -> clap::Error,
) -> Result<ExitCode, CliError> {
    let words: Vec<&str> = args.words.iter().map(String::as_str).collect();
    match words[..] {
        ["tools"] => views::print(&format!("Tools{}\n", lines(root, TOOLS)))?,
        ["options"] => {
            let mut alone = Globals::augment_args(Command::new("ebb"))
                .disable_help_flag(true)
                .max_term_width(100)
                .help_template("{all-args}{after-help}")
                .after_help(IN_COMMON);
            views::print(&alone.render_long_help().to_string())?;
        }
        _ => {
            let line = ["ebb"].into_iter().chain(words).chain(["--help"]).map(str::to_owned);
            let code = views::command_line(&ask(line.collect()));
            return Ok(ExitCode::from(u8::try_from(code).unwrap_or(2)));
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn each_command_stands_under_one_heading_with_a_line_of_ten_words() {
        let root = crate::cli::Cli::command();
        let listed: Vec<&str> = HEADINGS.iter().flat_map(|(_, names)| *names).chain(TOOLS).copied().collect();
        let visible: Vec<&Command> = root.get_subcommands().filter(|one| !one.is_hide_set()).collect();
        for one in &visible {
            let name = one.get_name();
            assert_eq!(listed.iter().filter(|listed| **listed == name).count(), 1, "{name}");
            let about = one.get_about().expect("says what it does").to_string();
            assert!(about.split_whitespace().count() <= 10, "{name}: {about}");
        }
        assert_eq!(listed.len(), visible.len());
        assert!(listed.len() - TOOLS.len() <= 26);
    }
}
