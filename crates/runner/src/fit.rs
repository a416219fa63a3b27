//! Whether a backend can do what an experiment asks for; what it cannot is refused by name.

use ebbtide_model::backend::{BackendError, BackendKind};
use ebbtide_model::experiment::Experiment;

/// What a backend cannot do of an experiment, and what to write instead.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// A limit that nothing holds a real device to.
    #[error(
        "volume {volume} has a `shape`, and the kernel runs devices as fast as they are; remove it, or say `--on files`"
    )]
    Shaped { volume: String },
    /// Keys of a design, as they are written.
    #[error("design {design} has {keys}, which only the kernel can build; say `--on kernel`")]
    KernelOnly { design: String, keys: String },
    /// Effects that only a simulation can have.
    #[error(
        "`[[effects]]` plants what {fields} would do, which only a simulation can have: say `--on sim`, or remove the effects \
         and measure the real ones"
    )]
    Planted { fields: String },
    /// A layout that is not computed in user space.
    #[error("{0}")]
    UserSpace(String),
    #[error(transparent)]
    Simulated(#[from] BackendError),
}

/// Checks that `backend` can honour every key of `experiment`.
///
/// # Errors
/// What it cannot.
pub fn check(experiment: &Experiment, backend: BackendKind) -> Result<(), Unfit> {
    let planted = &experiment.environment.planted_fields;
    if !matches!(backend, BackendKind::Sim | BackendKind::Import) && !planted.is_empty() {
        let fields: Vec<String> = planted.iter().map(|field| format!("`{field}`")).collect();
        return Err(Unfit::Planted { fields: fields.join(", ") });
    }
    match backend {
        BackendKind::Kernel => match experiment.volumes.iter().find(|volume| volume.shape.is_some()) {
            Some(volume) => Err(Unfit::Shaped { volume: volume.name.clone() }),
            None => Ok(()),
        },
        BackendKind::Files | BackendKind::Hosts => {
            let mut designs =
                experiment.designs.iter().map(|design| (&design.name, design.stack.kernel_only()));
            match designs.find(|(_, keys)| !keys.is_empty()) {
                Some((design, keys)) => {
                    let keys: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
                    Err(Unfit::KernelOnly { design: design.clone(), keys: keys.join(", ") })
                }
                None => experiment.refused_in_user_space().map_or(Ok(()), |what| Err(Unfit::UserSpace(what))),
            }
        }
        BackendKind::Sim => Ok(ebbtide_sim::check(experiment)?),
        // Imported results are never run: nothing can stand in their way.
        BackendKind::Lab | BackendKind::Import => Ok(()),
    }
}
