//! The command line of QEMU.

use super::disks::{self, Disk, Throttle};
use super::network::Place;
use super::places::GuestDirectory;
use super::process::{Process, QEMU_LOG, command, new_log};
use super::{LabError, Laboratory};
use ebbtide_door::own;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

/// How the guest's instructions are carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accelerator {
    /// KVM: the processor's own virtualization.
    Kvm,
    /// TCG: emulated by QEMU.
    Tcg,
}

impl Accelerator {
    /// Its name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Accelerator::Kvm => "KVM",
            Accelerator::Tcg => "software emulation",
        }
    }

    /// QEMU's arguments for it. `tb-size` (MiB of translated code) keeps a guest's memory down: a third of a
    /// guest of 768 MiB without it. Without ERMS glibc and the kernel copy memory in vectors: under emulation
    /// `rep movsb` goes byte by byte, five times slower.
    const fn arguments(self) -> [&'static str; 4] {
        match self {
            Accelerator::Kvm => ["-accel", "kvm", "-cpu", "host"],
            Accelerator::Tcg => ["-accel", "tcg,thread=multi,tb-size=256", "-cpu", "max,-erms"],
        }
    }
}

/// What a guest is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Use {
    /// Commands through the agent.
    #[default]
    Commands,
    /// A shell on a terminal of this size.
    Shell {
        /// Lines of the terminal.
        rows: u16,
        /// Characters of a line.
        columns: u16,
    },
}

/// A guest to be started.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    /// Host name of the guest.
    pub name: String,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Virtual CPUs.
    pub cpus: u32,
    /// Disks, in the order of /dev/vda, /dev/vdb...
    pub disks: Vec<Disk>,
    /// Links that disks share.
    pub links: Vec<Throttle>,
    /// Its place on a private network; without one it has no network at all.
    pub place: Option<Place>,
    /// How it is driven.
    pub usage: Use,
}

/// What a guest's kernel is started with.
#[derive(Debug)]
pub struct Boot {
    /// The kernel's image.
    pub kernel: PathBuf,
    /// The initial RAM disk.
    pub initrd: PathBuf,
    /// Words of its command line, beside those of all guests.
    pub words: String,
    /// The disk with the root file system.
    pub root: Root,
}

/// The disk with a guest's root file system.
#[derive(Debug)]
pub enum Root {
    /// An image that guests share and none writes.
    Shared(PathBuf),
    /// One of the guest's own, which it writes. What it has flushed is in the host's memory, not on the host's disk: it outlives
    /// the guest's end, not the host's.
    Own(PathBuf),
}

/// Serial of the disk with the root file system.
pub(super) const ROOT: &str = "ebb-root";
/// Serial of the disk with the packed program.
pub(super) const PROGRAM: &str = "ebb-program";
/// Name of the guest console's file.
pub(super) const CONSOLE: &str = "console.log";

/// Starts QEMU, its standard input being the agent's channel and its standard output the network: sockets that it needs no paths for.
pub(super) fn boot(
    directory: &Arc<GuestDirectory>,
    channel: Stdio,
    boot: &Boot,
    laboratory: &Laboratory,
    machine: &Machine,
) -> Result<Process, LabError> {
    let at = directory.path();
    let direct = own::has_direct(&at.join("lock"));
    let arguments = arguments(machine, boot, &laboratory.program, laboratory.accelerator, direct);
    tracing::debug!(?arguments, "starting QEMU");
    let network = machine.place.as_ref().map(Place::attach).transpose();
    let network = network.map_err(LabError::file("make a network in", at))?;
    let mut qemu = command("qemu-system-x86_64");
    qemu.args(&arguments).current_dir(at).stdin(channel).stderr(new_log(at, QEMU_LOG)?);
    Process::start(qemu.stdout(network.map_or_else(Stdio::null, Stdio::from)), directory)
}

/// QEMU's arguments; it is started in the guest's directory.
fn arguments(
    machine: &Machine,
    boot: &Boot,
    program: &Path,
    accelerator: Accelerator,
    direct: bool,
) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut add = |arguments: &[&str]| all.extend(arguments.iter().map(|a| (*a).to_owned()));
    add(&["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-M", "q35"]);
    add(&accelerator.arguments());
    add(&["-smp", &machine.cpus.to_string(), "-m", &machine.memory_mib.to_string()]);
    add(&["-kernel", &boot.kernel.to_string_lossy(), "-initrd", &boot.initrd.to_string_lossy()]);
    add(&["-serial", &format!("file:{CONSOLE}")]);
    add(&["-object", "rng-random,filename=/dev/urandom,id=rng", "-device", "virtio-rng-pci,rng=rng"]);
    add(&["-chardev", "socket,fd=0,id=channel", "-device", "virtio-serial-pci"]);
    // On a busy host the kernel finds an emulated timer too late to trust it, and panics.
    let timer = "no_timer_check";
    // Emulation translates a program's code anew wherever it lies: at the same addresses it starts three times faster.
    let addresses = "norandmaps";
    let mut words = format!(
        "console=ttyS0 quiet panic=-1 {timer} {addresses} mitigations=off net.ifnames=0 {}",
        boot.words
    );
    match machine.usage {
        Use::Commands => add(&["-device", "virtserialport,chardev=channel,name=ebb"]),
        Use::Shell { rows, columns } => {
            add(&["-device", "virtconsole,chardev=channel"]);
            words += &format!(" ebb.shell={rows}x{columns}");
        }
    }
    add(&["-append", &words]);
    if let Some(place) = &machine.place {
        add(&["-netdev", "dgram,id=private,local.type=fd,local.str=1"]);
        add(&["-device", &format!("virtio-net-pci,netdev=private,mac={}", place.mac())]);
    }
    all.extend(disks::link_arguments(&machine.links));
    for (index, disk) in machine.disks.iter().enumerate() {
        all.extend(disk.arguments(index, direct, &machine.links));
    }
    // Last, so that the experiment's disks are vda, vdb...
    let (root, how) = match &boot.root {
        Root::Shared(root) => (root, "readonly=on"),
        Root::Own(root) => (root, "cache=unsafe,discard=unmap"),
    };
    for (id, file, how) in [(ROOT, root.as_path(), how), (PROGRAM, program, "readonly=on")] {
        let file = file.to_string_lossy().replace(',', ",,");
        all.extend([
            "-drive".to_owned(),
            format!("file={file},if=none,id={id},format=raw,{how}"),
            "-device".to_owned(),
            format!("{},drive={id},serial={id}", disks::VIRTIO),
        ]);
    }
    all
}
