//! What `ebb bench --profile list` and `show` print.

use ebbtide_model::profile::{PROFILES, Profile, ProfileRequest};
use ebbtide_model::samples::Execution;
use ebbtide_model::shown::{column_width, json as told, one_line, pad};
use ebbtide_model::workload::{Stop, Workload};
use ebbtide_report::workload_words;
use serde_json::{Value, json};

/// Groups of steps that are printed; a longer course goes on in the same way.
const GROUPS_SHOWN: usize = 12;

/// All profiles.
pub(super) fn list(as_json: bool) -> String {
    if as_json {
        let profiles: Vec<Value> = PROFILES.iter().map(facts).collect();
        return told(&json!({ "profiles": profiles }));
    }
    PROFILES.iter().map(|profile| format!("{:<10}{}\n", profile.name, profile.imitates)).collect()
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
pub(super) fn built_in(profile: &Profile, request: &ProfileRequest, as_json: bool) -> String {
    let groups: Vec<Vec<Workload>> = profile
        .course(request)
        .1
        .at_most()
        .into_iter()
        .map(|group| group.into_iter().map(|step| step.workload).collect())
        .collect();
    if as_json {
        let mut value = facts(profile);
        value["groups_at_most"] = json!(groups);
        return told(&value);
    }
    format!(
        "{}\n\nimitates: {}\n\ndiffers: {}\n\n{}\n\n{}",
        profile.name,
        profile.imitates,
        profile.differs,
        if profile.writes { "writes: existing files and devices need --destroy" } else { "only reads" },
        steps(&groups),
    )
}

/// A profile of the user's own, in the file `name`.
pub(super) fn own(name: &str, workloads: &[Workload], as_json: bool) -> String {
    let groups: Vec<Vec<Workload>> = workloads.iter().map(|workload| vec![workload.clone()]).collect();
    if as_json {
        let writes = workloads.iter().any(Workload::writes);
        return told(&json!({ "name": name, "writes": writes, "groups_at_most": groups }));
    }
    format!("{name}\n\n{}", steps(&groups))
}

/// A line for each step; those of one group run at the same time.
fn steps(groups: &[Vec<Workload>]) -> String {
    let mut lines = String::from("steps, one after the other:\n");
    let width =
        column_width(groups.iter().take(GROUPS_SHOWN).flatten().map(|workload| workload.name.as_str()));
    for group in groups.iter().take(GROUPS_SHOWN) {
        for (index, workload) in group.iter().enumerate() {
            let stop = match workload.stop {
                Stop::Runtime(time) => format!("for {time}"),
                Stop::Size(size) => format!("until {size} are done"),
            };
            let span = workload.span.map(|span| format!(", within {span}")).unwrap_or_default();
            let beside = if index > 0 { ", at the same time" } else { "" };
            lines += &format!(
                "  {}  {}, {stop}{span}{beside}\n",
                pad(&one_line(&workload.name), width),
                workload_words(workload, &Execution::default())
            );
        }
    }
    if groups.len() > GROUPS_SHOWN {
        lines += &format!("  and so on, {} steps at most\n", groups.len());
    }
    lines
}
