//! `[sweep]`: the designs that a template makes with every combination of what varies.
//!
//! A combination is made in the text's own terms: the template's table with the levels in place of its fields, each with its place in
//! the file, which then goes the way of every other design. So any field can vary, and a mistake points at the level that it is in.

mod best;
mod condition;
mod grid;
mod objective;
mod repeats;
#[cfg(test)]
pub(crate) mod tests;
mod value;
mod vary;

pub(crate) use condition::Condition;
use value::{Value, at as value_at};

use super::answer::within;
use super::array::RawArray;
use super::designs;
use super::error::Mistake;
use super::members::resolve_names;
use super::names::choose;
use super::problems::{Problems, Span};
use super::read::{At, Choice, Entry, Fraction, FromToml, Given, Named, entries, required, section, valid};
use super::volumes::Volumes;
use super::workloads::{self, RawWorkload};
pub use best::{alone, is_sweep};
use condition::When;
use ebbtide_model::experiment::{Answer, Design, Volume};
use ebbtide_model::metric::Metric;
use ebbtide_model::sweep::{Builds, Factor, Goal, Objective, Sweep, SweptDesign};
use ebbtide_model::units::{Bytes, format_number};
use ebbtide_model::workload::Workload;
use grid::{Combination, Grid};
use objective::RawObjective;
use repeats::Repeats;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use vary::Vary;

/// Most designs of a sweep: each is built and measured at least once.
const DESIGNS_MAX: usize = 1000;
const ERROR_DEFAULT: f64 = 0.05;
/// What a factor of the workload's begins with.
const OF_WORKLOAD: &str = "workload.";
const SECTION: &str = "[sweep]";

section! {
    /// Designs that differ in what varies, and what counts: they race for the best.
    #[schemars(rename = "Sweep")]
    "[sweep]"
    struct RawSweep {
        /// The design that is varied, one of [designs]. It runs itself only where [answer] has it as `control`.
        #[schemars(required)]
        design: String,
        /// Fields of the template and their levels.
        #[schemars(required)]
        vary: Vary,
        /// Combinations that are left out: fields, each with the value or values that are meant.
        exclude: Vec<At<Condition>>,
        /// Fields that apply only where others, before them in `vary`, have certain levels; elsewhere they are left out.
        when: When,
        /// What makes a design good [default: the metric that decides under the workload].
        objective: RawObjective,
        /// The workload that decides, required where there are several.
        workload: String,
        /// Difference within which two designs are as good as each other, from 0% to 50% [default: that of [answer]].
        indifference: Fraction,
        /// Probability with which the best design may be dropped, from 0.01% to 50% [default: 5%].
        error: Fraction,
        /// The most that the race may cost: a share, up to 100%, of the I/O that every design in `trials_max` rounds would be
        /// [default: no such limit].
        budget: Fraction,
        /// --on kernel and --on lab: designs that differ only in what can be set on a standing array take turns on one build a
        /// round (shared), or every trial has a build of its own (per-trial) [default: shared].
        builds: Choice<Builds>,
    }
}

/// What varies, and the combinations of it.
#[derive(Debug)]
pub(super) struct Combined<'r> {
    raw: &'r RawSweep,
    template: &'r str,
    factors: &'r [vary::Factor],
    combinations: Vec<Combination>,
}

/// A design that a sweep made, and its capacity where the file says it.
pub(super) type Made = (Design, Option<Bytes>);

/// The name of the sweep's template, whatever else is wrong with the sweep.
pub(super) fn template(raw: &Given<RawSweep>) -> Option<&str> {
    valid(raw).and_then(|(raw, _)| valid(&raw.design)).map(|(name, _)| name.as_str())
}

/// The combinations of what varies; `designs` are the names in the file.
pub(super) fn combine<'r>(
    raw: &'r Given<RawSweep>,
    designs: &[&str],
    problems: &mut Problems,
) -> Option<Combined<'r>> {
    let (raw, span) = valid(raw)?;
    let section = (SECTION, span);
    let template = required(&raw.design, "design", "design = \"stripe\"", section, problems);
    let template = template.filter(|(name, span)| {
        let known = designs.contains(&name.as_str());
        if !known {
            let mistake = Mistake::UnknownName { what: "design", name: (*name).clone() };
            problems.report(span, mistake, choose(name, designs));
        }
        known
    });
    let example = "vary = { chunk = [\"64KiB\", \"256KiB\"] }";
    let (Vary(factors), vary_span) = required(&raw.vary, "vary", example, section, problems)?;
    let before = problems.count();
    let mut grid =
        Grid { levels: factors.iter().map(|factor| factor.levels.len()).collect(), ..Grid::default() };
    grid.when = vec![Vec::new(); factors.len()];
    for (field, span, condition) in valid(&raw.when).map_or(&[][..], |(When(all), _)| all) {
        let Some(index) = factors.iter().position(|factor| factor.name == *field) else {
            let names: Vec<&str> = factors.iter().map(|factor| factor.name.as_str()).collect();
            let mistake = Mistake::UnknownName { what: "field that varies called", name: field.clone() };
            problems.report(span, mistake, choose(field, &names));
            continue;
        };
        if let Some(later) = condition.0.iter().find(|on| factors[index..].iter().any(|f| f.name == on.name))
        {
            let what = format!("`{field}` cannot depend on `{}`, which does not come before it", later.name);
            let remedy = format!("write `{}` before `{field}` in `vary`", later.name);
            problems.report(&later.span, Mistake::Sweep(what), remedy);
            continue;
        }
        grid.when[index] = condition.resolve(&factors[..index], problems).unwrap_or_default();
    }
    for condition in valid(&raw.exclude).map_or(&[][..], |(all, _)| all) {
        grid.exclude
            .extend(condition.value.as_ref().and_then(|condition| condition.resolve(factors, problems)));
    }
    let (template, _) = template?;
    if problems.count() > before {
        return None;
    }
    let combinations = grid.combinations();
    let many = combinations.as_ref().map_or(grid.all(), |all| all.len() as u128);
    if many > DESIGNS_MAX as u128 || combinations.is_none() {
        let what = format!("this makes {many} designs, and a sweep has at most {DESIGNS_MAX}");
        let remedy = "write fewer levels, or leave combinations out with `exclude` or `when`";
        problems.report(vary_span, Mistake::Sweep(what), remedy);
        return None;
    }
    let combinations = combinations.filter(|all| !all.is_empty());
    if combinations.is_none() {
        let what = "`exclude` leaves no combination".to_owned();
        let place = raw.exclude.as_ref().map_or(vary_span, |exclude| &exclude.span);
        problems.report(place, Mistake::Nothing(what), "exclude less");
    }
    Some(Combined { raw, template, factors, combinations: combinations? })
}

impl<'r> Combined<'r> {
    /// Names of the designs, in their order.
    pub fn names(&self) -> Vec<String> {
        self.combinations.iter().map(|combination| self.name(combination)).collect()
    }

    /// `TEMPLATE/field=value,field=value`.
    fn name(&self, combination: &Combination) -> String {
        let parts: Vec<String> = self
            .levels(combination)
            .map(|(factor, level)| format!("{}={}", factor.name, level.label))
            .collect();
        format!("{}/{}", self.template, parts.join(","))
    }

    fn levels<'s>(
        &'s self,
        combination: &'s Combination,
    ) -> impl Iterator<Item = (&'s vary::Factor, &'s vary::Level)> {
        let level =
            |(factor, level): (&'s vary::Factor, &Option<usize>)| Some((factor, &factor.levels[(*level)?]));
        self.factors.iter().zip(combination).filter_map(level)
    }

    /// The level of each factor that the design at `index` has, as names have them.
    pub fn labels(&self, index: usize) -> Vec<(&'r str, Option<&'r str>)> {
        let label = |(factor, level): (&'r vary::Factor, &Option<usize>)| {
            (factor.name.as_str(), level.map(|level| factor.levels[level].label.as_str()))
        };
        self.factors.iter().zip(&self.combinations[index]).map(label).collect()
    }

    /// Name of the design that is varied.
    pub fn template(&self) -> &'r str {
        self.template
    }

    /// The designs, all of them where none has a mistake. `file` is the whole file.
    pub fn designs(&self, file: &DeTable<'_>, volumes: &Volumes, problems: &mut Problems) -> Vec<Made> {
        let Some(template) =
            value_at(file, "designs").and_then(|designs| designs.get_ref().get(self.template))
        else {
            return Vec::new();
        };
        let Some(fields) = template.get_ref().as_table() else { return Vec::new() };
        let span = template.span();
        let mut made = Vec::new();
        let mut repeats = Repeats::new(&self.combinations, self.factors);
        for (index, combination) in self.combinations.iter().enumerate() {
            let mut found = Problems::default();
            let table = self.with_levels(fields, combination, "", volumes, &mut found);
            let array = RawArray::from_toml(&DeValue::Table(table), &span, &mut found);
            let name = self.name(combination);
            let design = array
                .and_then(|array| designs::design(&name, self.template, &array, &span, volumes, &mut found));
            repeats.add(index, found);
            made.extend(design);
        }
        repeats.report(&self.names(), problems);
        made
    }

    /// `fields` with the levels whose names begin with `prefix` in place of their fields; without those that do not apply.
    fn with_levels<'a>(
        &'a self,
        fields: &DeTable<'a>,
        combination: &Combination,
        prefix: &str,
        volumes: &Volumes,
        problems: &mut Problems,
    ) -> DeTable<'a> {
        let mut table = fields.clone();
        for (factor, level) in self.factors.iter().zip(combination) {
            let path = match factor.name.strip_prefix(OF_WORKLOAD) {
                Some(path) if prefix == OF_WORKLOAD => path,
                None if prefix.is_empty() => &factor.name,
                _ => continue,
            };
            let Some(level) = level.map(|level| &factor.levels[level]) else {
                value::take_out(&mut table, path);
                continue;
            };
            let mut value = level.value.toml();
            if path == "members"
                && let DeValue::Integer(number) = value.get_ref()
            {
                let wanted = i128::from_str_radix(number.as_str(), number.radix()).unwrap_or(i128::MAX);
                match first_members(fields, wanted, &value.span(), volumes, problems) {
                    Some(members) => value = members,
                    None => continue,
                }
            }
            value::put(&mut table, path, &factor.span, value);
        }
        table
    }

    /// The sweep, of `arms` that follow `before` other designs.
    pub fn finish(
        &self,
        (before, arms): (usize, &[Made]),
        file: &DeTable<'_>,
        (raw, workloads): (&Given<Named<RawWorkload>>, &[Workload]),
        answer: &Answer,
        volumes: &Volumes,
        problems: &mut Problems,
    ) -> Option<Sweep> {
        let raw_sweep = self.raw;
        let written = entries(raw);
        let workload = self.workload(workloads, written, problems);
        let indifference =
            within("indifference", &raw_sweep.indifference, answer.indifference, 0.0..=0.5, problems);
        let error = within("error", &raw_sweep.error, ERROR_DEFAULT, 0.0001..=0.5, problems);
        let budget = self.budget(answer, problems);
        self.check_prices(arms, volumes, problems);
        let index = workload?;
        let objective = match &raw_sweep.objective {
            Some(at) => at.value.as_ref()?.0.clone(),
            None => {
                let metric = answer.metric.unwrap_or_else(|| Metric::natural(&workloads[index]));
                Objective::Best(Goal::Measured(metric))
            }
        };
        let loads = self.loads(&workloads[index], arms, raw, file, volumes, problems)?;
        let arm =
            |(number, (combination, load)): (usize, (&Combination, Option<Box<Workload>>))| SweptDesign {
                design: before + number,
                levels: combination.clone(),
                load,
                price: arms.get(number).and_then(|(design, _)| design.price(&volumes.list).ok()),
            };
        let factor = |factor: &vary::Factor| Factor {
            name: factor.name.clone(),
            levels: factor.levels.iter().map(|level| level.label.clone()).collect(),
        };
        Some(Sweep {
            template: self.template.to_owned(),
            workload: index,
            factors: self.factors.iter().map(factor).collect(),
            arms: self.combinations.iter().zip(loads).enumerate().map(arm).collect(),
            objective,
            indifference,
            error,
            budget,
            builds: raw_sweep
                .builds
                .as_ref()
                .and_then(|at| at.value)
                .map_or(Builds::Shared, |Choice(builds)| builds),
        })
    }

    /// The share of the full grid that the race may cost: enough for a round.
    fn budget(&self, answer: &Answer, problems: &mut Problems) -> Option<f64> {
        let (Fraction(share), span) = valid(&self.raw.budget)?;
        let rounds = answer.trials_max.max(1);
        let least = 1.0 / f64::from(rounds);
        if *share < least {
            let percent = (least * 100.0).ceil();
            let range = format!("at least {percent}%, one round of trials_max = {rounds}");
            let remedy = format!("write for example `budget = \"{}%\"`", percent.max(20.0));
            problems.out_of_range(span, "budget", format!("{}%", percent_of(*share)), range, remedy);
        }
        Some(*share)
    }

    /// Index of the workload that decides.
    fn workload(
        &self,
        workloads: &[Workload],
        written: &[Entry<RawWorkload>],
        problems: &mut Problems,
    ) -> Option<usize> {
        let names: Vec<&str> = workloads.iter().map(|workload| workload.name.as_str()).collect();
        let Some((name, span)) = valid(&self.raw.workload) else {
            if workloads.len() > 1 && self.raw.workload.is_none() {
                let place = &self.raw.vary.as_ref()?.span;
                let example = format!("workload = \"{}\"", names[0]);
                problems.missing(place, "workload", format!("{SECTION} of several workloads"), &example);
            }
            return (workloads.len() == 1 && self.raw.workload.is_none()).then_some(0);
        };
        let found = names.iter().position(|known| known == name);
        // One that is written but wrong has been reported; what is right may stand for several, with names of their own.
        let reported = !problems.is_empty();
        if found.is_none() && !(reported && written.iter().any(|entry| entry.name == *name)) {
            let mistake = Mistake::UnknownName { what: "workload", name: name.clone() };
            problems.report(span, mistake, choose(name, &names));
        }
        found
    }

    /// Reports a volume without a price where price is a goal, and prices that leave nothing to be measured.
    fn check_prices(&self, arms: &[Made], volumes: &Volumes, problems: &mut Problems) {
        let Some((RawObjective(objective), span)) = valid(&self.raw.objective) else { return };
        let goals = objective::goals(objective);
        if !goals.contains(&Goal::Price) {
            return;
        }
        let prices: Result<Vec<f64>, &Volume> =
            arms.iter().map(|(design, _)| design.price(&volumes.list)).collect();
        let volume = match prices {
            Ok(prices) => {
                // Designs with mistakes of their own are not there, and another may be the cheapest.
                if arms.len() == self.combinations.len() {
                    let names = arms.iter().map(|(design, _)| design.name.as_str());
                    let cheapest = names.zip(prices).min_by(|(_, one), (_, other)| one.total_cmp(other));
                    let problem =
                        cheapest.and_then(|cheapest| objective::known_from_prices(objective, cheapest));
                    problem.into_iter().for_each(|problem| problems.add(span, problem));
                }
                return;
            }
            Err(volume) => volume,
        };
        let (why, remedy) = match &volume.ordered {
            None => (
                "it is not ordered from the catalogue".to_owned(),
                "give it a `type`, for example \"aws:gp3\"".to_owned(),
            ),
            Some(ordered) => (
                format!("the catalogue has none for {}", ordered.volume_type),
                "add a `price` to its record in a catalogue of your own (`--catalog FILE`)".to_owned(),
            ),
        };
        let what = format!("volume `{}` has no price: {why}", volume.name);
        problems.report(
            span,
            Mistake::Sweep(what),
            format!("{remedy}, or write an objective without `price`"),
        );
    }

    /// What is asked of each design, where fields of the workload vary.
    fn loads(
        &self,
        base: &Workload,
        arms: &[Made],
        raw: &Given<Named<RawWorkload>>,
        file: &DeTable<'_>,
        volumes: &Volumes,
        problems: &mut Problems,
    ) -> Option<Vec<Option<Box<Workload>>>> {
        let Some(of_workload) = self.factors.iter().find(|factor| factor.name.starts_with(OF_WORKLOAD))
        else {
            return Some(vec![None; self.combinations.len()]);
        };
        let entries = valid(raw).map(|(Named(entries), _)| entries)?;
        let written = entries.iter().find(|entry| entry.name == base.name);
        let written = written.filter(|entry| entry.value.as_ref().is_none_or(|raw| raw.profile.is_none()));
        let table =
            value_at(file, "workloads").and_then(|workloads| workloads.get_ref().get(base.name.as_str()));
        let (Some(entry), Some(table)) = (written, table) else {
            let (what, remedy) = match &base.group {
                None => ("is made by a profile", "write the workload out, with `rw` instead of `profile`"),
                Some(_) => ("is one of several jobs", "make it a workload of its own, without `jobs`"),
            };
            let what = format!("workload `{}` {what}, whose fields cannot vary", base.name);
            problems.report(&of_workload.span, Mistake::Sweep(what), remedy);
            return None;
        };
        let fields = table.get_ref().as_table()?;
        let mut repeats = Repeats::new(&self.combinations, self.factors);
        let mut loads = Vec::new();
        for (index, combination) in self.combinations.iter().enumerate() {
            let mut found = Problems::default();
            let table = self.with_levels(fields, combination, OF_WORKLOAD, volumes, &mut found);
            let raw = RawWorkload::from_toml(&DeValue::Table(table), &entry.span, &mut found);
            let room =
                arms.get(index).and_then(|(design, capacity)| Some((design.name.as_str(), (*capacity)?)));
            let load =
                raw.and_then(|raw| workloads::workload(&raw, (&entry.name, &entry.span), room, &mut found));
            repeats.add(index, found);
            loads.push(load.map(Box::new));
        }
        repeats.report(&self.names(), problems);
        Some(loads)
    }
}

/// `share` in percent as it was written: without the digits that the product with 100 makes up.
fn percent_of(share: f64) -> String {
    // 15 significant digits are those that any decimal number keeps (IEEE 754, binary64).
    let rounded = format!("{:.14e}", share * 100.0).parse::<f64>();
    format_number(rounded.unwrap_or(share * 100.0))
}

/// How the value at the dotted `path` of `table` is written in the names of designs, where there is one.
pub(super) fn label_at(table: &DeTable<'_>, path: &str) -> Option<String> {
    value_at(table, path).map(|value| Value::of(value).label())
}

/// The first `wanted` of the members that `template` has, each by itself.
fn first_members<'a>(
    template: &DeTable<'a>,
    wanted: i128,
    span: &Span,
    volumes: &Volumes,
    problems: &mut Problems,
) -> Option<Spanned<DeValue<'a>>> {
    let all = template.get("members").map(Spanned::get_ref);
    let Some(DeValue::Array(all)) = all else {
        let what = "a number of members is that of the first ones of the template, which has none".to_owned();
        let remedy = "write all of them into the template, for example `members = [\"vol[0..23]\"]`";
        problems.report(span, Mistake::Sweep(what), remedy);
        return None;
    };
    let mut members: Vec<Spanned<DeValue<'a>>> = Vec::new();
    for member in all {
        match member.get_ref() {
            DeValue::String(text) => match resolve_names(text, volumes) {
                Ok(indices) => {
                    let named = |index: &usize| DeValue::String(volumes.list[*index].name.clone().into());
                    members.extend(indices.iter().map(|index| Spanned::new(member.span(), named(index))));
                }
                // The parser of members says what is wrong with it.
                Err(_) => return Some(Spanned::new(span.clone(), DeValue::Array(all.clone()))),
            },
            _ => members.push(member.clone()),
        }
    }
    let Some(number) = usize::try_from(wanted).ok().filter(|number| (1..=members.len()).contains(number))
    else {
        let range = format!("from 1 to {}, the members of the template", members.len());
        let remedy = "write a smaller number, or more members into the template";
        problems.out_of_range(span, "members", wanted, range, remedy);
        return None;
    };
    members.truncate(number);
    Some(Spanned::new(span.clone(), DeValue::Array(members.into_iter().collect())))
}
