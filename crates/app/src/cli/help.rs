//! `ebb help`, and the first screen: the commands in the order of the work.

use super::globals::Globals;
use crate::error::CliError;
use crate::views;
use clap::builder::styling::Styles;
use clap::{Args, Command};
use std::process::ExitCode;

/// A command with three lines that people type.
type Typed = (&'static str, [&'static str; 3]);

/// The commands under their headings; those that have none are tools, or hidden.
const HEADINGS: &[(&str, &[Typed])] = &[
    (
        "Choose",
        &[
            (
                "plan",
                [
                    "ebb plan experiments/needs/postgres.toml",
                    "ebb plan experiments/needs/postgres.toml --plans 3 --json",
                    "ebb plan --table --instance m6i.* --volume aws:gp3 --volumes 4",
                ],
            ),
            (
                "catalog",
                ["ebb catalog list volumes", "ebb catalog show aws:gp3", "ebb catalog show m6i.large"],
            ),
            (
                "layout",
                [
                    "ebb layout compare --members 4 --member-size 1TiB",
                    "ebb layout where --layout raid5 --members 4 --member-size 1GiB --offset 1MiB",
                    "ebb layout where experiments/first-run.toml:stripe-8 --offset 1MiB",
                ],
            ),
        ],
    ),
    (
        "Measure",
        &[
            (
                "check",
                [
                    "ebb check experiments/first-run.toml",
                    "ebb check experiments/first-run.toml experiments/eight-gp3.toml --json",
                    "ebb check --schema",
                ],
            ),
            (
                "run",
                [
                    "ebb run experiments/first-run.toml -o report.html",
                    "ebb run experiments/eight-gp3.toml --on sim",
                    "ebb run experiments/first-run.toml --dry-run",
                ],
            ),
            (
                "bench",
                [
                    "ebb bench /var/tmp/file --size 1g --rw randread --bs 8k --iodepth 32",
                    "ebb bench jobs.fio /mnt/data --dry-run",
                    "ebb bench --profile database /mnt/data",
                ],
            ),
            ("volumes", ["ebb volumes", "ebb volumes /dev/nvme1n1 --wide", "ebb volumes --json"]),
            ("watch", ["ebb watch", "ebb watch /mnt/data --interval 5s -n 12", "ebb watch --log iostat.txt"]),
        ],
    ),
    (
        "Read",
        &[
            ("list", ["ebb list", "ebb list --json", "ebb list --store other.sqlite"]),
            ("show", ["ebb show", "ebb show last --why", "ebb show last -o report.html"]),
            (
                "compare",
                [
                    "ebb compare 20261123-151421 last",
                    "ebb compare last:stripe-4 last:raid10-4 --metric lat_p99",
                    "ebb compare 20261123-151421 last --threshold 10% -o compared.html",
                ],
            ),
            (
                "blame",
                [
                    "ebb blame experiments/eight-gp3.toml --on sim --dry-run",
                    "ebb blame 20261123-151421 20261124-090210 last",
                    "ebb blame last /mnt/other/store.sqlite:last --margin 10%",
                ],
            ),
            (
                "import",
                ["ebb import fio.json", "ebb import bonnie.csv fio.json", "ebb import fio.json --json"],
            ),
            (
                "serve",
                ["ebb serve", "ebb serve --listen 127.0.0.1:0", "ebb serve --listen /run/user/1000/ebb.sock"],
            ),
        ],
    ),
    (
        "Keep",
        &[
            (
                "apply",
                [
                    "ebb apply best.toml --mount /data --dry-run",
                    "ebb apply best.toml --mount /data",
                    "ebb apply best.toml --members instance-store --mount /scratch",
                ],
            ),
            ("status", ["ebb status", "ebb status data", "ebb status --openmetrics"]),
            ("undo", ["ebb undo data --dry-run", "ebb undo data", "ebb undo monitor"]),
            ("cleanup", ["ebb cleanup --dry-run", "ebb cleanup", "ebb cleanup --json"]),
            (
                "attach",
                [
                    "ebb attach backup@store:/dev/vdb --encrypt ask --mount /backup",
                    "ebb attach store:/dev/vdb --name vault --dry-run",
                    "ebb attach nvme-tcp://10.0.0.7/nqn.2014-08.org.example:vdb --secret secret",
                ],
            ),
            (
                "export",
                [
                    "ebb export /dev/vdb --client iqn.2004-10.org.example:db --transport iscsi --secret secret --dry-run",
                    "ebb export disk.img --client nqn.2014-08.org.example:db --secret secret",
                    "ebb export /dev/vdb --client nqn.2014-08.org.example:db --secret secret --persistent",
                ],
            ),
            (
                "user-data",
                [
                    "ebb user-data best.toml --members instance-store --mount /data",
                    "ebb user-data best.toml --members ebs --ebb installed",
                    "ebb user-data best.toml --members ebs --script",
                ],
            ),
        ],
    ),
    (
        "Over time",
        &[
            ("monitor", ["ebb monitor run", "ebb monitor install --every 15min", "ebb monitor changes"]),
            (
                "limit",
                [
                    "ebb limit --write 20MB/s -- pg_dump -f dump.sql mine",
                    "ebb limit --read 50MB/s --net 10MB/s -- rsync -a /data backup:",
                    "ebb limit --read 20MB/s --pid 4711",
                ],
            ),
        ],
    ),
];

/// What is needed rarely.
const TOOLS: &[&str] = &["lab", "verify", "self-test", "completions", "man"];

/// Options of `ebb bench` that its short help has.
const OFTEN: [&str; 13] = [
    "rw",
    "bs",
    "iodepth",
    "numjobs",
    "runtime",
    "size",
    "rwmixread",
    "fsync",
    "rate_iops",
    "design",
    "destroy",
    "profile",
    "dry_run",
];

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
    "Every command has --store, --catalog, --format, --json and --quiet: see `ebb help options`.";

/// Explain a command, the options of every command, or the tools
#[derive(Debug, Args)]
pub struct HelpArgs {
    /// A command with its subcommands; `options` or `tools`
    #[arg(value_name = "COMMAND")]
    words: Vec<String>,
}

/// `root` with what its help and that of each command shows.
pub fn told(root: Command, is_long: bool) -> Command {
    let style = *Styles::styled().get_header();
    let part = |(heading, commands): &(&str, &[Typed])| {
        let names = commands.iter().map(|(name, _)| *name);
        format!("\n\n{style}{heading}{style:#}{}", lines(&root, names))
    };
    let list: String = HEADINGS.iter().map(part).collect();
    let template = format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}{list}{{after-help}}");
    let globals: Vec<clap::Id> =
        Globals::augment_args(Command::default()).get_arguments().map(|one| one.get_id().clone()).collect();
    let root =
        root.help_template(template).after_help(MORE).mut_subcommands(|command| explained(command, is_long));
    globals.iter().fold(root, |root, id| root.mut_arg(id, |argument| argument.hide(true)))
}

/// A command of the first screen with its examples, and with a word on the options that it does not list.
fn explained(command: Command, is_long: bool) -> Command {
    let name = command.get_name();
    let own = HEADINGS.iter().flat_map(|(_, commands)| *commands).find(|(known, _)| *known == name);
    let examples = own.map(|(_, lines)| format!("Examples:\n    {}\n\n", lines.join("\n    ")));
    match (name, is_long) {
        ("bench", true) => compact(ended(command, "", examples)),
        ("bench", false) => {
            ended(command, "`ebb bench --help` has all options.\n", examples).mut_args(rarely)
        }
        _ => ended(command, "", examples),
    }
}

/// The long help of `command` with its options in two columns: it has too many for a paragraph each.
fn compact(command: Command) -> Command {
    let about = command.get_long_about().cloned().unwrap_or_default();
    let after = command.get_after_long_help().cloned().unwrap_or_default();
    let help =
        clap::Arg::new("help").short('h').long("help").action(clap::ArgAction::HelpShort).help("Print help");
    command.about(about).after_help(after).disable_help_flag(true).arg(help)
}

/// `command`, and all below it, with a word on the options that it does not list; with what only the short and only the long help say before.
fn ended(command: Command, short: &str, long: Option<String>) -> Command {
    let before = command.get_after_help().map(|text| format!("{}\n\n", text.ansi())).unwrap_or_default();
    command
        .after_help(format!("{before}{short}{OF_EVERY_COMMAND}"))
        .after_long_help(format!("{before}{}{OF_EVERY_COMMAND}", long.unwrap_or_default()))
        .mut_subcommands(|below| ended(below, "", None))
}

/// An option of `ebb bench`, which only the long help has where few need it.
fn rarely(option: clap::Arg) -> clap::Arg {
    let hidden = !option.is_positional() && !OFTEN.contains(&option.get_id().as_str());
    let grouped = option.get_help_heading().is_some();
    let option = option.hide_short_help(hidden);
    if grouped { option.help_heading("Workload") } else { option }
}

/// A line for each of `names`.
fn lines<'a>(root: &Command, names: impl Iterator<Item = &'a str>) -> String {
    let line = |name: &str| {
        let about = root.find_subcommand(name).and_then(Command::get_about);
        format!("\n  {name:<11}  {}", about.map(|about| about.ansi().to_string()).unwrap_or_default())
    };
    names.map(line).collect()
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
        ["tools"] => views::print(&format!("Tools{}\n", lines(root, TOOLS.iter().copied())))?,
        ["options"] => {
            let mut alone = Globals::augment_args(Command::default())
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
        let shown = HEADINGS.iter().flat_map(|(_, commands)| commands.iter().map(|(name, _)| *name));
        let listed: Vec<&str> = shown.chain(TOOLS.iter().copied()).collect();
        let visible: Vec<&Command> = root.get_subcommands().filter(|one| !one.is_hide_set()).collect();
        for one in &visible {
            let name = one.get_name();
            assert_eq!(listed.iter().filter(|listed| **listed == name).count(), 1, "{name}");
            let about = one.get_about().expect("says what it does").to_string();
            assert!(about.split_whitespace().count() <= 10, "{name}: {about}");
        }
        assert_eq!(listed.len(), visible.len());
        let told = told(root.clone(), true);
        for (name, below, is_said) in [("monitor", None, true), ("monitor", Some("run"), false)] {
            let one = told.find_subcommand(name).expect("is one");
            let one = below.map_or(one, |below| one.find_subcommand(below).expect("is one"));
            assert_eq!(
                one.clone().render_long_help().to_string().contains("Examples:"),
                is_said,
                "{below:?}"
            );
        }
        assert!(listed.len() - TOOLS.len() <= 26);
    }

    #[test]
    fn short_help_fits_a_screen() {
        let mut told = told(crate::cli::Cli::command(), false);
        told.build();
        for one in told.get_subcommands().filter(|one| !one.is_hide_set()) {
            let help = one.clone().render_help().to_string();
            assert!(help.lines().count() <= 40, "{help}");
        }
    }
    #[test]
    fn an_option_of_bench_has_two_lines() {
        let told = told(crate::cli::Cli::command(), true);
        let help =
            told.find_subcommand("bench").expect("is one").clone().term_width(100).render_help().to_string();
        assert!(help.contains("--steadystate_check_interval") && help.contains("Examples:"), "{help}");
        let options = help.split("\n").collect::<Vec<_>>();
        let is_continued = |line: &str| line.starts_with("              ");
        for three in options.windows(3) {
            assert!(!(is_continued(three[1]) && is_continued(three[2])), "{}", three.join("\n"));
        }
    }
}
