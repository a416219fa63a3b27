//! Guests for the tests.

use ebbtide_app::laboratory;
use ebbtide_core::backend::Control;
use ebbtide_host::lab::disks::{Disk, Throttle};
use ebbtide_host::lab::guest::{Finished, Guest};
use ebbtide_host::lab::image::{self, Image};
use ebbtide_host::lab::machine::{Machine, Use};
use ebbtide_host::lab::places::Places;
use ebbtide_host::lab::{accel, program};
use std::path::Path;
use std::sync::Arc;

/// The user's lab with its image, which is built where it is missing.
pub fn lab() -> (Places, Image) {
    let places = laboratory::places().unwrap();
    let image = image::build(&places, false, &mut |text| eprintln!("{text}")).unwrap();
    (places, image)
}

/// A guest with these disks (name, bytes).
pub fn guest(name: &str, disks: &[(String, u64)]) -> Guest {
    let (places, image) = lab();
    let accelerator = accel::choose(&places, &image).unwrap();
    let program = program::pack(&places, Path::new(env!("CARGO_BIN_EXE_ebb"))).unwrap();
    let disks = disks
        .iter()
        .map(|(name, size)| Disk {
            name: name.clone(),
            size: *size,
            throttle: Throttle::default(),
            link: None,
        })
        .collect();
    let name = format!("test-{name}-{}", std::process::id());
    let machine = Machine {
        name,
        memory_mib: 512,
        cpus: 2,
        disks,
        links: Vec::new(),
        place: None,
        usage: Use::Commands,
    };
    Guest::boot(&places, &image, &program, accelerator, &machine, Arc::new(Control::default())).unwrap()
}

/// Runs a script of bash, which must succeed; what it printed.
pub fn script(guest: &mut Guest, text: &str) -> Result<String, String> {
    let Finished { status, output, errors } = guest.capture(&["bash", "-ec", text], b"").unwrap();
    let (output, errors) = (String::from_utf8_lossy(&output), String::from_utf8_lossy(&errors));
    if status == 0 {
        Ok(output.into_owned())
    } else {
        Err(format!("status {status}: {output}{errors}\n{text}"))
    }
}
