//! `command = [...]` in `[workloads.NAME]`: a program as the load, and `[setup.postgresql]`, the database that it may talk to.

use super::error::Mistake;
use super::names;
use super::problems::{Problems, Span};
use super::read::{At, Choice, Duration, FromToml, Given, Headed, Named, entries, required, section, valid};
use ebbtide_model::metric::{Figure, FigureDefinition};
use ebbtide_model::units::Nanos;
use ebbtide_model::workload::{
    Argv, Known, NoPlaceholder, Placeholder, Program, Reading, Reset, Source, Workload, placeholders,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use strum::VariantNames;
use toml::de::DeValue;

/// The key that makes a workload a program's.
pub(super) const COMMAND: &str = "command";
const TIMEOUT_DEFAULT: Nanos = Nanos::from_secs(3600);
/// Clients beyond which it is a mistake.
const CLIENTS_MAX: u32 = 10_000;
/// Figures of one program beyond which it is a mistake.
const FIGURES_MAX: usize = 8;
/// Longest unit, in characters.
const UNIT_MAX: usize = 16;
/// The largest scale of pgbench: its accounts are counted in 31 bits below 20,000.
const SCALE_MAX: u32 = 20_000;
const SCALE_DEFAULT: u32 = 50;

section! {
    /// A program as the load.
    #[schemars(rename = "ProgramWorkload")]
    "a program's workload"
    struct RawProgram {
        /// The program and its arguments, which is run and timed on every design. {run} is a directory of its own in the design's file
        /// system, where it starts; {mount}, {device}, {clients}, {seed} and {round} stand for what they say.
        #[schemars(required)]
        command: RawCommand,
        /// Commands are lines for `/bin/sh`, and not lists of arguments [default: false].
        shell: bool,
        /// Commands that lay out its data: once for a directory that stands, anew for each array that is built.
        prepare: RawCommands,
        /// Commands before each trial, not timed.
        before: RawCommands,
        /// Commands after each trial, one that failed too, not timed.
        after: RawCommands,
        /// Variables of its environment.
        env: Named<String>,
        /// Whom it runs as [default: who started the run; of root the user behind sudo, or nobody].
        user: String,
        /// How long each command may take [default: 1h].
        timeout: Duration,
        /// How a directory that stands has the same data before each trial: copy, reflink (XFS, btrfs: at once, but each first write copies),
        /// prepare (laid out anew) or none [default: copy].
        reset: Choice<Reset>,
        /// What {clients} stands for.
        #[schemars(range(min = 1, max = 10000))]
        clients: u32,
        /// A benchmark whose figures are known: pgbench, sysbench, db-bench, speedtest1 or ycsb [default: pgbench, where that is the command].
        output: Choice<Known>,
        /// Figures of its output, the one that decides first [default: those of `output`, else its wall time].
        metrics: Vec<At<RawMetric>>,
    }
}

section! {
    /// A figure of a program's output.
    #[schemars(rename = "ProgramMetric")]
    "a metric"
    struct RawMetric {
        /// Its name.
        #[schemars(required)]
        name: String,
        /// A regular expression whose first group is the number; the last match counts, ^ and $ are at lines.
        pattern: String,
        /// A JSON pointer to the number, where the output is JSON: "/results/0/mean".
        pointer: String,
        /// Its unit [default: none].
        unit: String,
        /// Which is better: higher or lower.
        #[schemars(required)]
        better: Choice<Better>,
    }
}

section! {
    /// What is set up for programs.
    #[schemars(rename = "Setup")]
    "`[setup]`"
    struct RawSetup {
        /// A PostgreSQL server on each design, with pgbench's tables in it.
        postgresql: RawPostgresql,
    }
}

section! {
    /// A PostgreSQL server whose data are in {run}: programs find it by PGHOST, PGDATABASE and PGUSER.
    #[schemars(rename = "Postgresql")]
    "`[setup.postgresql]`"
    struct RawPostgresql {
        /// Directory of its programs [default: the newest of /usr/lib/postgresql/*/bin, else those on the path].
        bin: String,
        /// Scale of pgbench's tables, of 15 MiB each; 0: none are made [default: 50].
        #[schemars(range(max = 20000))]
        scale: u32,
        /// Memory for its own cache [default: "128MB"].
        shared_buffers: String,
        /// Other settings, as postgresql.conf has them.
        settings: Named<String>,
        /// Whom the server and the programs run as [default: `user` of the workload; of root, postgres].
        user: String,
    }
}

/// Which values of a figure are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub(super) enum Better {
    Higher,
    Lower,
}

impl Headed for String {
    const HEADING: &'static str = "env";
}

/// A command: a list of arguments, or a line for a shell.
#[derive(Debug, Clone)]
pub(super) enum RawCommand {
    List(Argv),
    Line(String),
}

impl FromToml for RawCommand {
    fn from_toml(value: &DeValue<'_>, span: &Span, problems: &mut Problems) -> Option<Self> {
        const EXAMPLE: &str = "write for example `[\"pgbench\", \"-c\", \"{clients}\", \"-T\", \"20\"]`";
        match value {
            DeValue::String(line) if !line.trim().is_empty() => Some(RawCommand::Line(line.to_string())),
            DeValue::Array(words) if !words.is_empty() => {
                let words: Vec<At<String>> = words.iter().map(|word| At::read(word, problems)).collect();
                words.into_iter().map(|word| word.value).collect::<Option<Argv>>().map(RawCommand::List)
            }
            _ => {
                problems.wrong_type(span, "a command", value, EXAMPLE.to_owned());
                None
            }
        }
    }
}

impl JsonSchema for RawCommand {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Command".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "type": "array", "items": { "type": "string" }, "minItems": 1 },
            { "type": "string", "description": "With shell = true" },
        ]})
    }
}

/// Commands, one after the other.
#[derive(Debug, Default)]
pub(super) struct RawCommands(Vec<At<RawCommand>>);

impl FromToml for RawCommands {
    fn from_toml(value: &DeValue<'_>, span: &Span, problems: &mut Problems) -> Option<Self> {
        match value {
            DeValue::Array(commands) => {
                Some(RawCommands(commands.iter().map(|command| At::read(command, problems)).collect()))
            }
            _ => {
                let remedy = "write a list of commands: `[[\"createdb\", \"bench\"]]`";
                problems.wrong_type(span, "a list of commands", value, remedy.to_owned());
                None
            }
        }
    }
}

impl JsonSchema for RawCommands {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Commands".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": RawCommand::json_schema(generator) })
    }
}

impl FromToml for Vec<At<RawMetric>> {
    fn from_toml(value: &DeValue<'_>, span: &Span, problems: &mut Problems) -> Option<Self> {
        if let DeValue::Array(values) = value {
            return Some(values.iter().map(|value| At::read(value, problems)).collect());
        }
        let remedy =
            "write a list: `[{ name = \"tps\", pattern = \"tps = ([0-9.]+)\", better = \"higher\" }]`";
        problems.wrong_type(span, "a list of metrics", value, remedy.to_owned());
        None
    }
}

/// Checks a program's workload, called `name` at `place`.
pub(super) fn workload(
    raw: &RawProgram,
    (name, place): (&str, &Span),
    setup: &Given<RawSetup>,
    problems: &mut Problems,
) -> Option<Workload> {
    let before = problems.count();
    let shell = valid(&raw.shell).is_some_and(|(shell, _)| *shell);
    let (command, at) =
        required(&raw.command, COMMAND, "command = [\"pgbench\"]", ("the workload", place), problems)?;
    let timeout = valid(&raw.timeout).map_or(TIMEOUT_DEFAULT, |(timeout, _)| *timeout);
    if let Some((Nanos(0), span)) = valid(&raw.timeout) {
        problems.out_of_range(span, "timeout", "0", "more than 0", "write for example `timeout = \"10m\"`");
    }
    let clients = valid(&raw.clients).map(|(clients, span)| {
        if !(1..=CLIENTS_MAX).contains(clients) {
            let range = format!("from 1 to {CLIENTS_MAX}");
            problems.out_of_range(span, "clients", clients, range, "write for example `clients = 16`");
        }
        *clients
    });
    let mut program = Program {
        command: argv(command, at, shell, problems)?,
        prepare: commands(&raw.prepare, shell, problems),
        before: commands(&raw.before, shell, problems),
        after: commands(&raw.after, shell, problems),
        env: pairs(&raw.env),
        user: valid(&raw.user).map(|(user, _)| user.clone()),
        as_root: None,
        timeout,
        reset: valid(&raw.reset).map_or(Reset::default(), |(Choice(reset), _)| *reset),
        clients,
        metrics: Vec::new(),
    };
    program.metrics = figures(raw, &program, problems);
    if let Some((raw, _)) = valid(setup)
        && let Some((postgresql, span)) = valid(&raw.postgresql)
    {
        postgresql_for(postgresql, span, &mut program, problems);
    }
    check_placeholders(&program, at, problems);
    (problems.count() == before).then(|| Workload::of_program(name, program))
}

fn argv(command: &RawCommand, span: &Span, shell: bool, problems: &mut Problems) -> Option<Argv> {
    match (command, shell) {
        (RawCommand::List(words), false) => Some(words.clone()),
        (RawCommand::Line(line), true) => Some(["/bin/sh", "-c", line].map(str::to_owned).to_vec()),
        (RawCommand::List(_), true) => {
            let remedy = "write it as one line in quotes, or remove `shell`";
            problems.report(span, Mistake::Workload("with `shell` a command is one text".to_owned()), remedy);
            None
        }
        (RawCommand::Line(line), false) => {
            let words: Vec<String> = line.split_whitespace().map(|word| format!("\"{word}\"")).collect();
            let remedy = format!("write `[{}]`, or `shell = true` to have a shell read it", words.join(", "));
            problems.report(span, Mistake::Workload("a command is a list of arguments".to_owned()), remedy);
            None
        }
    }
}

fn commands(raw: &Given<RawCommands>, shell: bool, problems: &mut Problems) -> Vec<Argv> {
    let Some((RawCommands(list), _)) = valid(raw) else { return Vec::new() };
    let read = list.iter().filter_map(|at| Some((at.value.as_ref()?, &at.span)));
    read.filter_map(|(command, span)| argv(command, span, shell, problems)).collect()
}

fn pairs(raw: &Given<Named<String>>) -> Vec<(String, String)> {
    entries(raw).iter().filter_map(|entry| Some((entry.name.clone(), entry.value.clone()?))).collect()
}

/// The figures that are asked for, or those that are known of its output.
fn figures(raw: &RawProgram, program: &Program, problems: &mut Problems) -> Vec<Reading> {
    let named = program.command.first().map(|path| path.rsplit('/').next().unwrap_or(path));
    let known = valid(&raw.output).map(|(Choice(known), _)| *known);
    let by_name = || (named == Some("pgbench")).then_some(Known::Pgbench);
    let logs = program
        .command
        .iter()
        .flat_map(|word| word.split_whitespace())
        .any(|word| word == "-l" || word == "--log");
    let known = known.or_else(by_name).map_or_else(Vec::new, |known| known.readings(logs));
    let Some((list, span)) = valid(&raw.metrics) else { return known };
    let mut readings: Vec<Reading> = Vec::new();
    for (metric, place) in list.iter().filter_map(|at| Some((at.value.as_ref()?, &at.span))) {
        let Some(reading) = figure(metric, place, &known, problems) else { continue };
        if readings.iter().any(|other| other.figure.definition().name == reading.figure.definition().name) {
            let name = reading.figure.definition().name.clone();
            problems.report(place, Mistake::Duplicate { what: "the metric", name }, "give it another name");
        }
        readings.push(reading);
    }
    if readings.len() > FIGURES_MAX {
        let what = format!("there are {} metrics", readings.len());
        problems.report(
            span,
            Mistake::Nothing(what),
            format!("write at most {FIGURES_MAX}, the one that decides first"),
        );
    }
    readings
}

fn figure(raw: &RawMetric, place: &Span, known: &[Reading], problems: &mut Problems) -> Option<Reading> {
    let section = ("a metric", place);
    let (name, at) = required(&raw.name, "name", "name = \"tps\"", section, problems)?;
    names::check(name, "a metric", at, problems);
    // A name alone chooses one that is known.
    let by_name = known.iter().find(|reading| reading.figure.definition().name == *name);
    let from = match (valid(&raw.pattern), valid(&raw.pointer)) {
        (Some((pattern, span)), None) => (Source::Pattern(pattern.clone()), span),
        (None, Some((pointer, span))) => (Source::Pointer(pointer.clone()), span),
        (Some(_), Some((_, span))) => {
            let remedy = "keep `pattern` for text, or `pointer` for JSON";
            problems.report(span, Mistake::Conflict { first: "pattern", second: "pointer" }, remedy);
            return None;
        }
        (None, None) if by_name.is_some() => return by_name.cloned(),
        (None, None) => {
            problems.missing(place, "pattern", "a metric", "pattern = 'tps = ([0-9.]+)'");
            return None;
        }
    };
    if let Err(error) = from.0.check() {
        problems.report(
            from.1,
            Mistake::Workload(error.to_string()),
            "see docs/experiment-file.md, programs as loads",
        );
    }
    let unit = valid(&raw.unit).map_or_else(String::new, |(unit, span)| {
        if unit.chars().count() > UNIT_MAX || unit.contains(char::is_control) {
            let range = format!("at most {UNIT_MAX} characters");
            problems.out_of_range(span, "unit", unit, range, "write for example `unit = \"tps\"`");
        }
        unit.clone()
    });
    let (Choice(better), _) = required(&raw.better, "better", "better = \"higher\"", section, problems)?;
    let definition = FigureDefinition { name: name.clone(), unit, lower_is_better: *better == Better::Lower };
    Some(Reading { figure: Figure::from(definition), from: from.0 })
}

/// Reports words in braces that stand for nothing, and what nothing says.
fn check_placeholders(program: &Program, place: &Span, problems: &mut Problems) {
    for text in program.texts() {
        if let Err(NoPlaceholder(word)) = placeholders(text) {
            let mistake = Mistake::UnknownChoice { what: "placeholder", found: format!("{{{word}}}") };
            let known: Vec<String> = Placeholder::VARIANTS.iter().map(|name| format!("{{{name}}}")).collect();
            problems.report(place, mistake, format!("write one of {}", known.join(", ")));
            return;
        }
    }
    if program.clients.is_none() && program.uses(Placeholder::Clients) {
        problems.missing(place, "clients", "the workload", "clients = 16");
    }
}

/// Has a server of PostgreSQL in {run}: data are laid out while it is stopped again, and each trial starts and stops it.
fn postgresql_for(raw: &RawPostgresql, place: &Span, program: &mut Program, problems: &mut Problems) {
    let scale = valid(&raw.scale).map_or(SCALE_DEFAULT, |(scale, span)| {
        if *scale > SCALE_MAX {
            problems.out_of_range(
                span,
                "scale",
                scale,
                format!("at most {SCALE_MAX}"),
                "write for example `scale = 100`",
            );
        }
        *scale
    });
    let buffers = valid(&raw.shared_buffers).map_or("128MB", |(text, _)| text.as_str());
    let mut settings = vec![("listen_addresses".to_owned(), String::new())];
    // A checkpoint by time or a vacuum in the middle of one trial and not of another is a difference that no array made.
    for (name, value) in [
        ("shared_buffers", buffers),
        ("autovacuum", "off"),
        ("checkpoint_timeout", "1h"),
        ("max_wal_size", "16GB"),
    ] {
        settings.push((name.to_owned(), value.to_owned()));
    }
    let own = pairs(&raw.settings);
    settings.retain(|(name, _)| own.iter().all(|(own, _)| own != name));
    settings.extend(own);
    for (name, value) in &settings {
        let is_name =
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.".contains(&b));
        if !is_name || value.contains(|c: char| c.is_control() || c == '\'' || c == '\\') {
            let what = format!("`{name}` cannot be set to that");
            problems.report(
                place,
                Mistake::Workload(what),
                "write settings as postgresql.conf has them, without quotes",
            );
        }
    }
    let own_bin = valid(&raw.bin).map(|(bin, _)| bin.trim_end_matches('/').to_owned());
    let path: Vec<String> = own_bin
        .into_iter()
        .chain(BINS.iter().flat_map(|(before, after)| {
            NEWEST.clone().rev().map(move |version| format!("{before}{version}{after}"))
        }))
        .collect();
    let lines = settings.iter().map(|(name, value)| format!("{name} = '{value}'"));
    let append = ["/bin/sh", "-c", "printf '%s\\n' \"$@\" >> data/postgresql.conf", "sh"].map(str::to_owned);
    let start = shell(
        "pg_ctl -D data -w -t 600 -l server.log -o \"-k '{run}'\" start >/dev/null || { tail -n 20 server.log >&2; exit 1; }",
    );
    let stop =
        shell("if [ -e data/postmaster.pid ]; then pg_ctl -D data -w -t 600 -m fast stop >/dev/null; fi");
    let tables = (scale > 0).then(|| list(&["pgbench", "-i", "-q", "-s", &scale.to_string()]));
    let mut prepare = vec![
        list(&["initdb", "-D", "data", "-U", "bench", "-A", "trust", "-E", "UTF8", "--locale=C"]),
        append.into_iter().chain(lines).collect(),
        start.clone(),
        list(&["createdb", "bench"]),
    ];
    prepare.extend(tables);
    prepare.append(&mut program.prepare);
    prepare.push(stop.clone());
    program.prepare = prepare;
    program.before.insert(0, start);
    program.after.push(stop);
    let own = [
        ("PATH", path.join(":")),
        ("PGHOST", "{run}".to_owned()),
        ("PGUSER", "bench".to_owned()),
        ("PGDATABASE", "bench".to_owned()),
    ];
    let own = own.map(|(name, value)| (name.to_owned(), value));
    program.env = own.into_iter().chain(std::mem::take(&mut program.env)).collect();
    program.user = program.user.take().or_else(|| valid(&raw.user).map(|(user, _)| user.clone()));
    program.as_root = Some("postgres".to_owned());
}

/// Where packages have PostgreSQL's programs, before and after the version.
const BINS: [(&str, &str); 2] = [("/usr/lib/postgresql/", "/bin"), ("/usr/pgsql-", "/bin")];
/// Versions that are looked for.
const NEWEST: std::ops::RangeInclusive<u32> = 10..=19;

fn list(words: &[&str]) -> Argv {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn shell(line: &str) -> Argv {
    list(&["/bin/sh", "-c", line])
}
