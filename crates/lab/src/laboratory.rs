//! Everything that a guest is started from.

use crate::image::{self, Image};
use crate::machine::{Accelerator, Machine};
use crate::places::Places;
use crate::uml::Kernel;
use crate::{LabError, accel, program};
use ebbtide_model::backend::Control;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A lab that can start guests.
#[derive(Debug)]
pub struct Laboratory {
    pub(crate) places: Places,
    pub(crate) image: Image,
    /// Path of the packed `ebb` that guests run.
    pub(crate) program: PathBuf,
    pub(crate) accelerator: Accelerator,
    /// Why it is not KVM, as the end of a sentence; empty when it is.
    why: String,
    pub(crate) control: Arc<Control>,
    pub(crate) say: fn(&str),
    uml: Option<Kernel>,
}

/// What guests run on here.
///
/// # Errors
/// When there is no image to find out with.
pub fn accelerator(places: &Places) -> Result<Accelerator, LabError> {
    Ok(accel::choose(places, &image::find(places).ok_or(LabError::NoImage)?)?.0)
}

impl Laboratory {
    /// The lab at `places`, whose guests end when `control` says stop; `say` is told what its user may want to know.
    ///
    /// # Errors
    /// When there is no image.
    pub fn open(places: Places, control: Arc<Control>, say: fn(&str)) -> Result<Laboratory, LabError> {
        Self::with_program(places, Path::new(program::OWN), control, say)
    }

    /// [`Laboratory::open`] whose guests have `ebb` from the file `program`, which runs on the libraries that this process
    /// runs on.
    ///
    /// # Errors
    /// When there is no image, or `program` cannot be packed.
    pub fn with_program(
        places: Places,
        program: &Path,
        control: Arc<Control>,
        say: fn(&str),
    ) -> Result<Laboratory, LabError> {
        let image = image::find(&places).ok_or(LabError::NoImage)?;
        for left in places.clean(false)?.left {
            say(&format!("left alone: {left}"));
        }
        let (accelerator, why) = accel::choose(&places, &image)?;
        let program = program::pack(&places, program)?;
        Ok(Laboratory { places, image, program, accelerator, why, control, say, uml: None })
    }

    /// Starts on User-Mode Linux what that can be.
    pub fn with_uml(self, kernel: Kernel) -> Laboratory {
        Laboratory { uml: Some(kernel), ..self }
    }

    /// The kernel of User-Mode Linux where `machine` starts on it.
    pub(crate) fn uml(&self, machine: &Machine) -> Option<&Kernel> {
        self.uml.as_ref().filter(|_| Kernel::can_be(machine))
    }

    /// Release of the kernel of `machine`.
    pub(crate) fn kernel_release(&self, machine: &Machine) -> String {
        self.uml(machine).map_or_else(|| self.image.kernel_release(), Kernel::release)
    }

    /// What `machine` runs on, for people.
    pub(crate) fn runs_on(&self, machine: &Machine) -> String {
        match self.uml(machine) {
            Some(_) => "User-Mode Linux".to_owned(),
            None => format!("{}{}", self.accelerator.name(), self.why),
        }
    }

    /// Says stop to its guests.
    pub fn control(&self) -> &Control {
        &self.control
    }
}
