//! Every way to write that the program has.

use super::common::Home;
use std::path::Path;
use std::process::{Command, Output};

/// A way to write to a target.
pub struct Way {
    pub name: &'static str,
    /// Whether what is free may be written so: a benchmark may overwrite a free device, a report must not.
    pub may: May,
    /// The command that writes to the target in a home.
    pub command: fn(&Home, &Path) -> Command,
}

/// What a way may write when it is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum May {
    /// Devices and files.
    Anything,
    /// Devices.
    Devices,
    /// Files, in whose place something new comes.
    Files,
    /// Devices, where the host has the programs for it (the guest's tests have them), and not such that it is seen when the
    /// run has made the device blank again.
    DevicesPerhaps,
    /// Nothing that is there.
    Nothing,
}

fn bench(home: &Home, target: &Path, options: &str) -> Command {
    let mut command = home.ebb("bench");
    command.arg(target).args(options.split_whitespace());
    command
}

fn experiment(home: &Home, target: &Path, key: &str, options: &str) -> Command {
    let text = format!(
        "name = \"x\"\n[volumes.v]\n{key} = \"{}\"\n[designs.d]\nlayout = \"linear\"\nmembers = [\"v\"]\n\
         [workloads.w]\nrw = \"randwrite\"\nbs = \"4k\"\nruntime = \"20ms\"\n[answer]\ntrials_min = 6\n\
         trials_max = 6\nbudget = \"10s\"\n",
        target.display()
    );
    home.write("x.toml", &text);
    home.ebb(&format!("run x.toml --quiet {options}"))
}

/// A design that is built over the target, or has it as its swap, for a workload that writes nothing.
fn on_a_file_system(home: &Home, target: &Path, key: &str, swap: bool) -> Command {
    let named = format!("{key} = \"{}\"", target.display());
    let (new, rest) = match swap {
        true => ("[volumes.new]\nsize = \"160MiB\"\n", "swap = [{ members = [\"v\"] }]"),
        false => ("", ""),
    };
    let member = if swap { "new" } else { "v" };
    let text = format!(
        "name = \"x\"\n{new}[volumes.v]\n{named}\n[designs.d]\nlayout = \"linear\"\nmembers = [\"{member}\"]\n\
         filesystem = \"ext4\"\n{rest}\n[workloads.w]\nrw = \"randread\"\nspan = \"1MiB\"\nruntime = \"20ms\"\n\
         [answer]\nlevel = 0.75\ntrials_min = 3\ntrials_max = 3\nbudget = \"20s\"\n"
    );
    home.write("x.toml", &text);
    home.ebb("run x.toml --quiet --destroy --on kernel")
}

/// A session in the home's own store, for reports.
fn session(home: &Home) {
    if home.files_in("data").iter().any(|path| path.is_file()) {
        return;
    }
    home.write("s.toml", &super::common::tiny("", super::common::SHORT));
    let output: Output = home.ebb("run s.toml --on sim --quiet").output().unwrap();
    assert!(output.status.code() == Some(0) || output.status.code() == Some(3), "{output:?}");
}

fn report(home: &Home, target: &Path, options: &str) -> Command {
    session(home);
    let mut command = home.ebb(&format!("show {options} -o"));
    command.arg(target);
    command
}

fn with_store(home: &Home, target: &Path, line: &str) -> Command {
    home.write("s.toml", &super::common::tiny("", super::common::SHORT));
    home.write("results.csv", "1.98,1.98,h,1,1,8G,,100,1,200,2,300,3,400,4,500,5,600,6,,,,,,,,,,,,,,,,,,\n");
    let mut command = home.ebb(line);
    command.arg("--store").arg(target);
    command
}

pub const WAYS: &[Way] = &[
    Way {
        name: "bench write",
        may: May::Anything,
        command: |home, target| bench(home, target, "--rw write --size 1m --destroy"),
    },
    Way {
        name: "bench randwrite with psync",
        may: May::Anything,
        command: |home, target| {
            bench(home, target, "--rw randwrite --bs 4k --size 1m --ioengine psync --destroy")
        },
    },
    Way {
        name: "bench buffered rw by --filename",
        may: May::Anything,
        command: |home, target| {
            let mut command = home.ebb("bench --rw randrw --direct 0 --size 1m --destroy --filename");
            command.arg(target);
            command
        },
    },
    Way {
        name: "bench --verify",
        may: May::Anything,
        command: |home, target| {
            bench(home, target, "--verify --rw write --bs 4k --size 1m --destroy --ledger new-ledger")
        },
    },
    Way {
        name: "bench --profile",
        may: May::Anything,
        command: |home, target| {
            home.write("p.toml", "name = \"p\"\n[workloads.a]\nrw = \"read\"\nbs = \"4k\"\nsize = \"64k\"\n[workloads.b]\nrw = \"write\"\nbs = \"4k\"\nsize = \"64k\"\n");
            let mut command = home.ebb("bench --profile p.toml --destroy");
            command.arg(target);
            command
        },
    },
    Way {
        name: "bench JOBS.fio",
        may: May::Anything,
        command: |home, target| {
            home.write("j.fio", &format!("[j]\nfilename={}\nrw=write\nsize=1m\n", target.display()));
            home.ebb("bench j.fio --destroy")
        },
    },
    Way {
        name: "bench --design",
        may: May::Devices,
        command: |home, target| {
            experiment(home, target, "device", "");
            home.ebb("bench --design x.toml:d --rw write --size 1m --destroy")
        },
    },
    Way {
        name: "run on a device",
        may: May::Devices,
        command: |home, target| experiment(home, target, "device", "--destroy"),
    },
    Way {
        name: "run on a file",
        may: May::Files,
        command: |home, target| experiment(home, target, "file", "--destroy"),
    },
    Way {
        name: "run with an id that is not its own",
        may: May::Nothing,
        command: |home, target| {
            experiment(home, target, "device", "--destroy");
            let text = std::fs::read_to_string(home.path("x.toml")).unwrap();
            home.write("x.toml", &text.replace("\n[designs", "\nid = \"wwn-0x0\"\n[designs"));
            home.ebb("run x.toml --quiet --destroy")
        },
    },
    Way {
        name: "run without --destroy",
        may: May::Nothing,
        command: |home, target| experiment(home, target, "device", ""),
    },
    Way {
        name: "run on the kernel",
        may: May::DevicesPerhaps,
        command: |home, target| experiment(home, target, "device", "--destroy --on kernel"),
    },
    Way {
        name: "run on the kernel that only reads a new file system",
        may: May::Devices,
        command: |home, target| on_a_file_system(home, target, "device", false),
    },
    Way {
        name: "run on the kernel that only reads a new file system on a file",
        may: May::Files,
        command: |home, target| on_a_file_system(home, target, "file", false),
    },
    Way {
        name: "run on the kernel that makes it swap",
        may: May::DevicesPerhaps,
        command: |home, target| on_a_file_system(home, target, "device", true),
    },
    Way {
        name: "report -o a descriptor",
        may: May::Nothing,
        command: |home, target| {
            session(home);
            let script = format!(
                "exec {} show --format csv -o /proc/self/fd/9 9<{}",
                super::common::EBB,
                target.display()
            );
            let mut command = home.command("bash");
            command.args(["-c", &script]);
            command
        },
    },
    Way { name: "report --json", may: May::Files, command: |home, target| report(home, target, "--json") },
    Way {
        name: "report --csv",
        may: May::Files,
        command: |home, target| report(home, target, "--format csv"),
    },
    Way {
        name: "run on what a path below /dev leads to",
        may: May::Devices,
        command: |home, target| {
            experiment(home, Path::new(&format!("/dev/..{}", target.display())), "device", "--destroy")
        },
    },
    Way {
        name: "run -o",
        may: May::Nothing,
        command: |home, target| {
            home.write("s.toml", &super::common::tiny("", super::common::SHORT));
            // Its ending says what is written.
            let link = home.path("r.html");
            let _ = std::fs::remove_file(&link);
            std::os::unix::fs::symlink(target, &link).unwrap();
            home.ebb("run s.toml --on sim --quiet -o r.html")
        },
    },
    Way {
        name: "ledger",
        may: May::Nothing,
        command: |home, target| {
            let mut command = home.ebb("bench new-file --verify --rw write --bs 4k --size 64k --ledger");
            command.arg(target);
            command
        },
    },
    Way {
        name: "catalog import -o",
        may: May::Nothing,
        command: |home, target| {
            home.write("types.json", "{\"InstanceTypes\":[]}");
            let mut command = home.ebb("catalog import types.json -o");
            command.arg(target);
            command
        },
    },
    Way {
        name: "run --store",
        may: May::Nothing,
        command: |home, target| with_store(home, target, "run s.toml --on sim --quiet"),
    },
    Way {
        name: "import --store",
        may: May::Nothing,
        command: |home, target| with_store(home, target, "import results.csv"),
    },
    Way {
        // Nothing is written by it, but another host could: what may not be written is refused.
        name: "export",
        may: May::Nothing,
        command: |home, target| {
            let mut command =
                home.ebb("export --dry-run --client nqn.2014-08.org.nvmexpress:uuid:1 --name x");
            command.arg(target);
            command
        },
    },
    Way { name: "list --store", may: May::Nothing, command: |home, target| with_store(home, target, "list") },
];
