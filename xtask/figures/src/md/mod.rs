//! `cargo xtask md`: the simulator beside real md and LVM in a guest, on disks that the simulator's own volume model holds:
//! writes the table of docs/explanation/simulator.md.
//!
//! A guest of User-Mode Linux runs a script of this command; each disk is a process of this program behind the kernel's NBD
//! client. What the guest measured is kept in `xtask/figures/src/md/measured.csv`, so that every change of the simulator can be held
//! against it.

mod cells;
mod disk;

use crate::pages::{between, read, root, write};
use cells::{Asked, Figures, Made};
use ebbtide_lab::places::Places;
use ebbtide_lab::uml::{Guest, Kernel};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

const PAGE: &str = "docs/explanation/simulator.md";
const MEASURED: &str = "xtask/figures/src/md/measured.csv";
/// Members of the largest array.
const DISKS: usize = 5;
/// The guest's: what is read through the page cache stays there, and disks keep what is not zero.
const MEMORY_MIB: u32 = 1024;
/// How far a cell may be off.
const WITHIN: f64 = 0.10;

/// What is compared, and how.
#[derive(clap::Args)]
pub struct Options {
    /// Measure in a guest what measured.csv does not have (root, fio, mdadm and LVM); a line removed there is measured anew
    #[arg(long)]
    measure: bool,
    /// Only arrays whose name contains this, or one of several between `|`
    #[arg(long, default_value = "")]
    only: String,
    /// Be a disk of the guest: standard input is the socket
    #[arg(long, hide = true)]
    disk: bool,
}

/// Measures where asked, compares, and writes the page.
pub fn run(options: &Options) -> Result<(), String> {
    if options.disk {
        return disk::serve(&cells::shape());
    }
    let is_chosen = |name: &str| options.only.split('|').any(|part| name.contains(part));
    let chosen: Vec<(Made, Vec<Asked>)> =
        cells::all().into_iter().filter(|(made, _)| is_chosen(&made.name())).collect();
    let path = root().join(MEASURED);
    let mut measured = parse(&read(&path)?);
    if options.measure {
        let new = measure(&missing(&chosen, &measured))?;
        // Another guest may have measured other cells meanwhile.
        measured = parse(&read(&path)?);
        measured.extend(new);
        write(&path, &written(&measured))?;
    }
    let compared = compare(&chosen, &measured)?;
    let table = table(&compared);
    println!("{table}");
    if options.only.is_empty() {
        let page = root().join(PAGE);
        write(&page, &between(&read(&page)?, "md", None, &table)?)?;
    }
    Ok(())
}

/// Name of a cell in the file.
fn key(made: &Made, asked: &Asked) -> String {
    format!("{};{};{};{}", made.name(), asked.name(), asked.bs.short(), asked.depth)
}

/// What has no figures.
fn missing(chosen: &[(Made, Vec<Asked>)], measured: &BTreeMap<String, Figures>) -> Vec<(Made, Vec<Asked>)> {
    let mut missing = chosen.to_vec();
    for (made, loads) in &mut missing {
        loads.retain(|asked| !measured.contains_key(&key(made, asked)));
    }
    missing.retain(|(_, loads)| !loads.is_empty());
    missing
}

fn parse(text: &str) -> BTreeMap<String, Figures> {
    let line = |line: &str| {
        let mut fields = line.rsplitn(4, ';');
        let mut number = || fields.next()?.parse::<f64>().ok();
        let (written, read, rate) = (number()?, number()?, number()?);
        Some((fields.next()?.to_owned(), Figures { rate, read, written }))
    };
    text.lines().filter_map(line).collect()
}

fn written(measured: &BTreeMap<String, Figures>) -> String {
    let mut text =
        String::from("array;load;size;depth;bytes per second;read from members;written to members\n");
    for (key, figures) in measured {
        let _never = writeln!(text, "{key};{:.0};{:.0};{:.0}", figures.rate, figures.read, figures.written);
    }
    text
}

/// The guest's script: prints a line for each cell.
fn script(chosen: &[(Made, Vec<Asked>)]) -> Result<String, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut text = format!(
        r#"export DM_DISABLE_UDEV=1 LVM_SUPPRESS_FD_WARNINGS=1
for module in nbd loop raid0 raid1 raid10 raid456 dm-mod; do modprobe $module; done
cat >/run/disks <<'END'
import fcntl, socket, subprocess, threading
SET_SOCK, SET_BLKSIZE, DO_IT, SET_SIZE_BLOCKS, SET_FLAGS = 0xab00, 0xab01, 0xab03, 0xab07, 0xab0a
for disk in range({DISKS}):
    kernel, program = socket.socketpair()
    subprocess.Popen(["{own}", "md", "--disk"], stdin=program)
    device = open(f"/dev/nbd{{disk}}", "r+b", buffering=0)
    # Sectors of 512 bytes; it understands flushes.
    for request, value in (SET_SOCK, kernel.fileno()), (SET_BLKSIZE, 512), (SET_SIZE_BLOCKS, {sectors}), (SET_FLAGS, 5):
        fcntl.ioctl(device, request, value)
    threading.Thread(target=fcntl.ioctl, args=(device, DO_IT)).start()
END
python3 /run/disks &
disk() {{
  echo none >/sys/block/$1/queue/scheduler
  echo {most} >/sys/block/$1/queue/max_sectors_kb
  echo 0 >/sys/block/$1/queue/rotational
  echo 0 >/sys/block/$1/queue/wbt_lat_usec
}}
for n in $(seq 0 {last}); do
  until [ "$(cat /sys/block/nbd$n/size)" = {sectors} ]; do sleep 0.05; done
  disk nbd$n
done
loops() {{
  for n in $(seq 0 {last}); do losetup --direct-io=on /dev/loop$n /dev/nbd$n; disk loop$n; done
  echo 'devices {{ global_filter = [ "r|/dev/nbd.*|" ] }}' >/etc/lvm/lvmlocal.conf
}}
no_loops() {{ losetup --detach-all; rm /etc/lvm/lvmlocal.conf; }}
moved() {{ cat /sys/block/nbd*/stat | awk '{{ r += $3; w += $7 }} END {{ print r * 512, w * 512 }}'; }}
cell() {{
  before=$(moved)
  fio --name=load --filename=$array $2 --rwmixread=70 --group_reporting \
    --iodepth_batch_submit=1 --iodepth_batch_complete_min=1 --zero_buffers --norandommap --randrepeat=0 \
    --time_based --minimal >/run/out 2>&1
  echo "cell;$1;$before $(moved) $(tail -n 1 /run/out | awk -F';' '{{ print $6 * 1024, $47 * 1024, ($9 > $50 ? $9 : $50) }}')"
}}
"#,
        own = own.display(),
        last = DISKS - 1,
        sectors = cells::SIZE.0 >> 9,
        most = cells::REQUEST_MAX.0 >> 10,
    );
    for (made, loads) in chosen {
        for (device, before, after) in [("nbd", ":", ":"), ("loop", "loops", "no_loops")] {
            let on_it = |asked: &&Asked| made.is_over_loops(asked) == (device == "loop");
            let loads: Vec<&Asked> = loads.iter().filter(on_it).collect();
            if loads.is_empty() {
                continue;
            }
            let (make, end) = made.commands(device);
            let _never = writeln!(
                text,
                "{before}; {make}\nwindow=/sys/block/$(lsblk -dno KNAME $array)/queue/read_ahead_kb; own=$(cat $window)"
            );
            for asked in loads {
                let (options, window) = asked.options();
                let window = window.map_or("$own".to_owned(), |kib| kib.to_string());
                let _never =
                    writeln!(text, "echo {window} >$window; cell '{}' '{options}'", key(made, asked));
            }
            let _never = writeln!(text, "{end}; {after}");
        }
    }
    Ok(text)
}

/// Runs the script in a guest.
fn measure(chosen: &[(Made, Vec<Asked>)]) -> Result<BTreeMap<String, Figures>, String> {
    let wanted: usize = chosen.iter().map(|(_, loads)| loads.len()).sum();
    let places = Places::new(root().join("target/tools/lab"));
    let kernel =
        Kernel::ready(&places, &mut |text| println!("== {text}")).map_err(|error| error.to_string())?;
    println!("== a guest of Linux {} measures {wanted} cells", kernel.release());
    let guest = Guest { script: script(chosen)?, memory_mib: MEMORY_MIB, ..Guest::default() };
    let patience = Duration::from_secs(600 + 10 * wanted as u64);
    let said = guest.run(&kernel, patience).map_err(|error| error.to_string())?.output;
    let cells: BTreeMap<String, Figures> = said.lines().filter_map(cell).collect();
    if cells.len() < wanted {
        eprintln!("{} of {wanted} cells were measured; the guest said:", cells.len());
        let other = said.lines().filter(|line| !line.starts_with("cell;"));
        other.take(40).for_each(|line| eprintln!("  {line}"));
    }
    Ok(cells)
}

/// `cell;KEY;READ WRITTEN READ WRITTEN READ WRITTEN MILLISECONDS`: of the members before and after, of the load.
fn cell(line: &str) -> Option<(String, Figures)> {
    let (key, numbers) = line.trim().strip_prefix("cell;")?.rsplit_once(';')?;
    let numbers: Vec<f64> = numbers.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    let [read, written, read_after, written_after, load_read, load_written, millis] = numbers[..] else {
        return None;
    };
    let per_second = |bytes: f64| bytes * 1000.0 / millis;
    (millis > 0.0).then(|| {
        let rate = per_second(load_read + load_written);
        (
            key.to_owned(),
            Figures {
                rate,
                read: per_second(read_after - read),
                written: per_second(written_after - written),
            },
        )
    })
}

/// A cell with both figures.
struct Compared {
    made: Made,
    asked: Asked,
    real: Figures,
    simulated: Figures,
}

impl Compared {
    fn ratio(&self) -> f64 {
        self.simulated.rate / self.real.rate.max(1.0)
    }

    fn is_near(&self) -> bool {
        (self.ratio() - 1.0).abs() <= WITHIN
    }
}

fn compare(
    chosen: &[(Made, Vec<Asked>)],
    measured: &BTreeMap<String, Figures>,
) -> Result<Vec<Compared>, String> {
    let mut compared = Vec::new();
    for (made, loads) in chosen {
        for asked in loads {
            let Some(real) = measured.get(&key(made, asked)).copied() else { continue };
            compared.push(Compared { made: *made, asked: *asked, real, simulated: made.simulated(asked)? });
        }
    }
    Ok(compared)
}

/// A row for each array, and a line for each cell that is off.
fn table(compared: &[Compared]) -> String {
    let near = compared.iter().filter(|cell| cell.is_near()).count();
    let mut text = format!(
        "{near} of {} cells are within {:.0}%.\n\n| array | cells | within {:.0}% | simulated / md |\n| --- | ---: | ---: | --- |\n",
        compared.len(),
        WITHIN * 100.0,
        WITHIN * 100.0
    );
    for group in compared.chunk_by(|a, b| a.made == b.made) {
        let near = group.iter().filter(|cell| cell.is_near()).count();
        let least = group.iter().map(Compared::ratio).fold(f64::MAX, f64::min);
        let most = group.iter().map(Compared::ratio).fold(0.0, f64::max);
        let name = group.first().map(|cell| cell.made.name()).unwrap_or_default();
        let _never = writeln!(text, "| {name} | {} | {near} | {least:.2} to {most:.2} |", group.len());
    }
    let off: Vec<&Compared> = compared.iter().filter(|cell| !cell.is_near()).collect();
    if !off.is_empty() {
        text.push_str("\n| further off | load | size | depth | md | simulated |\n| --- | --- | ---: | ---: | ---: | ---: |\n");
    }
    for cell in off {
        let (load, Asked { bs, depth, .. }) = (cell.asked.name(), cell.asked);
        let mb = |bytes: f64| format!("{:.2} MB/s", bytes / 1e6);
        let (name, real, simulated) = (cell.made.name(), mb(cell.real.rate), mb(cell.simulated.rate));
        let _never = writeln!(text, "| {name} | {load} | {} | {depth} | {real} | {simulated} |", bs.short());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_model::layout::compare;
    use ebbtide_model::units::Bytes;

    /// A change of the simulator that leaves md behind shows here, without a guest.
    #[test]
    fn the_simulator_stays_beside_what_md_did() {
        let measured = parse(&read(&root().join(MEASURED)).expect("the figures are kept"));
        let compared = compare(&cells::all(), &measured).expect("simulates");
        assert_eq!(compared.len(), measured.len());
        let share = |of: &[&Compared]| {
            let near = of.iter().filter(|cell| cell.is_near()).count();
            near as f64 / of.len() as f64
        };
        let (parity, others): (Vec<&Compared>, Vec<&Compared>) =
            compared.iter().partition(|cell| cell.made.kind.facts().parity() > 0);
        let all: Vec<&Compared> = compared.iter().collect();
        assert!(share(&all) >= 0.95, "{}", share(&all));
        assert!(share(&others) >= 0.98, "{}", share(&others));
        assert!(share(&parity) >= 0.75, "{}", share(&parity));
        // And the others are not far off.
        let ratios = || compared.iter().map(Compared::ratio);
        let (least, most) = (ratios().fold(1.0, f64::min), ratios().fold(1.0, f64::max));
        assert!(least >= 0.25 && most <= 2.0, "{least} to {most}");
    }

    /// What `ebb layout compare` says: members that a deep sequential load works, and what a write of 4 KiB costs.
    #[test]
    fn fan_out_and_cost_of_writes_are_what_md_did() {
        let measured = parse(&read(&root().join(MEASURED)).expect("the figures are kept"));
        let chunk = Bytes(64 << 10);
        let is_asked = |made: &Made| !made.degraded && made.kind.chunk().is_none_or(|own| own == chunk);
        for (made, _) in cells::all().into_iter().filter(|(made, _)| is_asked(made)) {
            let name = made.name();
            let rows = compare::compare(&vec![cells::SIZE; made.members], chunk).expect("few members");
            let is_it = |row: &&compare::Row| {
                row.layout == made.kind.name() && row.copies.zip(row.arrangement) == made.kind.copies()
            };
            let figures = rows.iter().find(is_it).and_then(|row| row.figures.clone()).expect("can be built");
            let md = |load: &str| measured[&format!("{name};{load}")];
            // A member moves 10 MB/s.
            let worked = |load: &str| ((md(load).read + md(load).written) / 10e6).round() as usize;
            assert_eq!(figures.read_fan_out, worked("read;1MiB;32"), "{name}");
            assert_eq!(figures.write_fan_out, worked("write;1MiB;32"), "{name}");
            let small = md("randwrite;4KiB;1");
            let cost = [figures.small_write_reads, figures.small_write_writes];
            assert_eq!(
                cost,
                [small.read, small.written].map(|bytes| (bytes / small.rate).round() as u64),
                "{name}"
            );
        }
    }

    #[test]
    fn what_is_measured_is_read_as_it_was_written() {
        let figures = Figures { rate: 1.0, read: 2.0, written: 3.0 };
        let measured = BTreeMap::from([("raid5 of 4, chunk 16KiB;read;64KiB;1".to_owned(), figures)]);
        assert_eq!(parse(&written(&measured)), measured);
        let line = "cell;mirror of 2;read;4KiB;1;100 0 200 50 100 0 2000";
        let half = Figures { rate: 50.0, read: 50.0, written: 25.0 };
        assert_eq!(cell(line), Some(("mirror of 2;read;4KiB;1".to_owned(), half)));
    }
}
