//! What `ebb bench --profile list` and `--profile NAME --dry-run` print.

use ebbtide_model::profile::{PROFILES, Profile, ProfileRequest};
use ebbtide_model::samples::Execution;
use ebbtide_model::shown::columns;
use ebbtide_model::workload::Workload;
use ebbtide_report::workload_words;
use serde_json::{Value, json};

/// Groups of steps that are printed; a longer course goes on in the same way.
const GROUPS_SHOWN: usize = 12;

/// What is printed: for programs, and for people.
pub(super) type Shown = (Value, String);

pub(super) fn list() -> Shown {
    let rows: Vec<[String; 2]> = PROFILES.iter().map(|p| [p.name, p.imitates].map(str::to_owned)).collect();
    (json!({ "profiles": PROFILES.iter().map(facts).collect::<Vec<_>>() }), columns(&rows, 0))
}

fn facts(profile: &Profile) -> Value {
    json!({
        "name": profile.name,
        "imitates": profile.imitates,
        "differs": profile.differs,
        "writes": profile.writes,
        "takes_size": profile.takes_size,
        "takes_runtime": profile.takes_runtime,
    })
}

/// A profile that comes with the program, with its steps under `request`.
pub(super) fn built_in(profile: &Profile, request: &ProfileRequest) -> Shown {
    let groups = profile.course(request).1.at_most().into_iter();
    let groups: Vec<Vec<Workload>> =
        groups.map(|group| group.into_iter().map(|step| step.workload).collect()).collect();
    let mut value = facts(profile);
    value["groups_at_most"] = json!(groups);
    let Profile { name, imitates, differs, .. } = profile;
    let writes =
        if profile.writes { "writes: existing files and devices need --destroy" } else { "only reads" };
    let steps = steps(&groups);
    (value, format!("{name}\n\nimitates: {imitates}\n\ndiffers: {differs}\n\n{writes}\n\n{steps}"))
}

/// A profile of the user's own, in the file `name`.
pub(super) fn own(name: &str, workloads: &[Workload]) -> Shown {
    let groups: Vec<Vec<Workload>> = workloads.iter().map(|workload| vec![workload.clone()]).collect();
    let writes = workloads.iter().any(Workload::writes);
    let value = json!({ "name": name, "writes": writes, "groups_at_most": groups });
    (value, format!("{name}\n\n{}", steps(&groups)))
}

/// A line for each step; those of one group run at the same time.
fn steps(groups: &[Vec<Workload>]) -> String {
    let line = |workload: &Workload, beside: bool| {
        let what = workload_words(workload, &Execution::default());
        [workload.name.clone(), format!("{what}{}", if beside { ", at the same time" } else { "" })]
    };
    let shown = groups.iter().take(GROUPS_SHOWN);
    let rows: Vec<[String; 2]> =
        shown.flat_map(|group| group.iter().enumerate().map(|(index, step)| line(step, index > 0))).collect();
    let mut lines = format!("steps, one after the other:\n{}", columns(&rows, 2));
    if groups.len() > GROUPS_SHOWN {
        lines += &format!("  and so on, {} steps at most\n", groups.len());
    }
    lines
}
