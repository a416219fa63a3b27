//! Whether a backend can do what an experiment asks for; what it cannot is refused by name.

use ebbtide_model::backend::BackendKind;
use ebbtide_model::experiment::Experiment;

/// Checks that `backend` can honour every key of `experiment`.
///
/// # Errors
/// What it cannot, and what to write instead.
pub fn check(experiment: &Experiment, backend: BackendKind) -> Result<(), String> {
    match backend {
        BackendKind::Kernel => match experiment.volumes.iter().find(|volume| volume.shape.is_some()) {
            Some(volume) => Err(format!(
                "volume {} has a `shape`, and the kernel runs devices as fast as they are; remove it, or say `--on files`",
                volume.name
            )),
            None => Ok(()),
        },
        BackendKind::Files => {
            let mut designs =
                experiment.designs.iter().map(|design| (&design.name, design.stack.kernel_only()));
            match designs.find(|(_, keys)| !keys.is_empty()) {
                Some((design, keys)) => Err(format!(
                    "design {design} has {}, which only the kernel can build; say `--on kernel`",
                    keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")
                )),
                None => experiment.refused_in_user_space().map_or(Ok(()), Err),
            }
        }
        BackendKind::Sim => ebbtide_sim::check(experiment).map_err(|error| error.to_string()),
        // Imported results are never run: nothing can stand in their way.
        BackendKind::Lab | BackendKind::Import => Ok(()),
    }
}
