//! The kernel: fetched from Debian's packages, with the C library it runs on.

use crate::LabError;
use crate::files::{lock, make_directory, path, remove_directory, rename, write};
use crate::places::Places;
use crate::tools::run;
use crate::uml::Guest;
use crate::{packages, recipe};
use ebbtide_door::{Directory, own, read};
use ebbtide_host::sys;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where it is unpacked, below the lab's directory.
const BUILDING: &str = "building-uml";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const LARGEST: u64 = 256 << 20;
/// The loader that the program names, and one in its working directory, as long.
const LOADER: &[u8] = b"/lib64/ld-linux-x86-64.so.2\0";
const LOADER_HERE: &[u8] = b"./ld-linux-x86-64.so.2\0\0\0\0\0\0";
/// A kernel that cannot run here ends at once; only a machine under load needs so long.
const TRY_PATIENCE: Duration = Duration::from_secs(60);

/// A kernel that starts on this machine.
#[derive(Debug, Clone)]
pub struct Kernel {
    pub(super) places: Places,
    pub(super) directory: PathBuf,
}

impl Kernel {
    /// The kernel, fetched where it is missing; `say` is told what happens.
    ///
    /// # Errors
    /// When it cannot be fetched, or a guest that only powers off does not start.
    pub fn ready(places: &Places, say: &mut dyn FnMut(&str)) -> Result<Kernel, LabError> {
        make_directory(places.root())?;
        let _lock = lock(&places.root().join("uml.lock"))?;
        let kernel = Kernel { places: places.clone(), directory: places.uml_kernel() };
        if !kernel.directory.join("release").is_file() {
            kernel.fetch(say)?;
        }
        let works = kernel.directory.join("works");
        let boot = sys::text(Path::new(BOOT_ID)).unwrap_or_default();
        if boot.is_empty() || sys::text(&works).as_ref() != Some(&boot) {
            kernel.try_it()?;
            write(&works, boot.as_bytes())?;
        }
        Ok(kernel)
    }

    /// Its release.
    pub fn release(&self) -> String {
        sys::word(&self.directory.join("release")).unwrap_or_default()
    }

    /// Puts its modules in the place of the only kernel in a root directory that was unpacked.
    ///
    /// # Errors
    /// When a file cannot be removed or copied.
    pub(crate) fn replace(&self, root: &Path) -> Result<(), LabError> {
        for directory in ["boot", "usr/lib/modules"].map(|name| root.join(name)) {
            remove_directory(&directory)?;
            make_directory(&directory)?;
        }
        let to = root.join("usr/lib/modules").join(self.release());
        run("cp", &["-r", "--", path(&self.directory.join("modules"))?, path(&to)?]).map(drop)
    }

    fn fetch(&self, say: &mut dyn FnMut(&str)) -> Result<(), LabError> {
        self.places.check_image(&self.directory)?;
        self.places.remove_marked(Path::new(BUILDING))?;
        let work = self.places.make_marked(Path::new(BUILDING))?;
        say("downloading User-Mode Linux");
        let result = self.assemble(&work);
        self.places.remove_marked(Path::new(BUILDING))?;
        result
    }

    fn assemble(&self, work: &Path) -> Result<(), LabError> {
        let packages =
            packages::download_of(&work.join("downloads"), recipe::UML_SUITE, recipe::UML_PACKAGES)?;
        let (root, new) = (work.join("root"), work.join("new"));
        let marked = Directory::make_all(&new).and_then(|new| new.mark());
        marked.map_err(LabError::file("make", &new))?;
        packages::unpack_files(packages.iter(), &root)?;
        let all = root.join("usr/lib/uml/modules");
        let modules = std::fs::read_dir(&all).map_err(LabError::file("read", &all))?;
        let modules = modules.flatten().map(|entry| entry.path()).next();
        let modules = modules.ok_or(LabError::Kernels { found: 0 })?;
        let release = modules.file_name().unwrap_or_default().to_string_lossy().into_owned();
        rename(&modules, &new.join("modules"))?;
        let lib = new.join("lib");
        rename(&root.join("usr/lib/x86_64-linux-gnu"), &lib)?;
        own_loader(&root.join("usr/bin/linux.uml"), &lib.join("linux"))?;
        write(&new.join("init"), recipe::UML_INIT.as_bytes())?;
        for program in [new.join("init"), lib.join("linux")] {
            own::make_executable(&program).map_err(LabError::file("make executable", &program))?;
        }
        remove_directory(&root)?;
        // Last: one with it is whole.
        write(&new.join("release"), format!("{release}\n").as_bytes())?;
        self.places.publish_image(&new, &self.directory)
    }

    fn try_it(&self) -> Result<(), LabError> {
        let guest = Guest { script: "true".to_owned(), memory_mib: 256, ..Guest::default() };
        let outcome = guest.run(self, TRY_PATIENCE)?;
        match outcome.status {
            Some(0) => Ok(()),
            _ => Err(LabError::Guest {
                what: "of User-Mode Linux does not start here".to_owned(),
                log: format!(":\n{}", outcome.output),
            }),
        }
    }
}

/// Copies the program `from` to `to`, changed to take the loader of its working directory: it needs a newer C library than this
/// machine's, and starts itself again, so that it cannot be started through that loader.
fn own_loader(from: &Path, to: &Path) -> Result<(), LabError> {
    let fault = |error| LabError::file("read", from)(error);
    let mut program = read::bytes(from, LARGEST).map_err(io::Error::from).map_err(fault)?;
    let found = program.windows(LOADER.len()).position(|part| part == LOADER);
    let at = found.ok_or_else(|| fault(io::Error::other("it names no loader of this architecture")))?;
    program[at..at + LOADER.len()].copy_from_slice(LOADER_HERE);
    path(to).and_then(|_| write(to, &program))
}
