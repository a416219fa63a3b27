//! `cargo xtask md`: the simulator beside real md and LVM in a guest, on disks that the simulator's own volume model holds:
//! writes the table of docs/simulator.md.
//!
//! A guest runs a script of this command; each disk is a process of this program behind the kernel's NBD client. What the
//! guest measured is kept in `xtask/src/md/measured.csv`, so that every change of the simulator can be held against it.

mod cells;
mod disk;

use crate::pages::{between, read, root, write};
use cells::{Asked, Figures, Made};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const PAGE: &str = "docs/simulator.md";
const MEASURED: &str = "xtask/src/md/measured.csv";
/// Members of the largest array.
const DISKS: usize = 5;
/// How far a cell may be off.
const WITHIN: f64 = 0.10;

/// What is compared, and how.
#[derive(clap::Args)]
pub struct Options {
    /// Measure anew: a program that boots a guest whose root is this host's file tree, runs the script it is given, and passes on
    /// its output
    #[arg(long, value_name = "PROGRAM")]
    guest: Option<PathBuf>,
    /// Only arrays whose name contains this, or one of several between `|`
    #[arg(long, default_value = "")]
    only: String,
    /// Print every cell
    #[arg(long)]
    all: bool,
    /// Be a disk of the guest at this socket
    #[arg(long, value_name = "SOCKET", hide = true)]
    disk: Option<PathBuf>,
    /// Print the script of the guest, and end
    #[arg(long)]
    script: bool,
}

/// Measures where asked, compares, and writes the page.
pub fn run(options: &Options) -> Result<(), String> {
    if let Some(socket) = &options.disk {
        return disk::serve(socket, cells::SIZE, &cells::shape());
    }
    let is_chosen = |name: &str| options.only.split('|').any(|part| name.contains(part));
    let chosen: Vec<(Made, Vec<Asked>)> =
        cells::all().into_iter().filter(|(made, _)| is_chosen(&made.name())).collect();
    if options.script {
        print!("{}", script(&chosen)?);
        return Ok(());
    }
    let path = root().join(MEASURED);
    let now = options.guest.as_ref().map(|guest| measure(guest, &chosen)).transpose()?;
    let mut measured = if path.exists() { parse(&read(&path)?) } else { BTreeMap::new() };
    if let Some(now) = now {
        measured.extend(now);
        write(&path, &written(&measured))?;
    }
    let compared = compare(&chosen, &measured)?;
    if options.all {
        compared.iter().for_each(|cell| println!("{}", cell.line()));
    }
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
    format!("{};{};{};{}", made.name(), asked.rw, asked.bs.short(), asked.depth)
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
for module in nbd linear raid0 raid1 raid10 raid456 dm-mod; do modprobe $module; done
sockets=$(mktemp -d)
for disk in $(seq 0 {last}); do
  '{own}' md --disk $sockets/$disk &
  while [ ! -S $sockets/$disk ]; do sleep 0.05; done
  nbd-client -nonetlink -unix $sockets/$disk /dev/nbd$disk >/dev/null 2>&1 || echo "no disk $disk"
  echo none >/sys/block/nbd$disk/queue/scheduler
  echo {most} >/sys/block/nbd$disk/queue/max_sectors_kb
  echo 0 >/sys/block/nbd$disk/queue/rotational
  echo 0 >/sys/block/nbd$disk/queue/wbt_lat_usec
done
moved() {{ cat /sys/block/nbd*/stat | awk '{{ r += $3; w += $7 }} END {{ print r * 512, w * 512 }}'; }}
cell() {{
  before=$(moved)
  fio --name=load --filename=$array --direct=1 --ioengine=libaio --rw=$2 --bs=$3 --iodepth=$4 --rwmixread=70 \
    --iodepth_batch_submit=1 --iodepth_batch_complete_min=1 --zero_buffers --norandommap --randrepeat=0 \
    --time_based --runtime=$5 --minimal >$sockets/out 2>&1
  echo "cell;$1;$before $(moved) $(tail -n 1 $sockets/out | awk -F';' '{{ print $6 * 1024, $47 * 1024, ($9 > $50 ? $9 : $50) }}')"
}}
"#,
        own = own.display(),
        last = DISKS - 1,
        most = cells::REQUEST_MAX.0 >> 10,
    );
    for (made, loads) in chosen {
        let (make, end) = made.commands();
        let _never = writeln!(text, "{make}");
        for asked in loads {
            let Asked { rw, bs, depth } = asked;
            let _never =
                writeln!(text, "cell '{}' {rw} {} {depth} {}", key(made, asked), bs.0, asked.seconds());
        }
        let _never = writeln!(text, "{end}");
    }
    text.push_str("for disk in /dev/nbd[0-9]; do nbd-client -d $disk >/dev/null; done\n");
    Ok(text)
}

/// Runs the script in a guest.
fn measure(guest: &Path, chosen: &[(Made, Vec<Asked>)]) -> Result<BTreeMap<String, Figures>, String> {
    let path = std::env::temp_dir().join(format!("ebbtide-md-{}.sh", std::process::id()));
    write(&path, &script(chosen)?)?;
    let output =
        Command::new(guest).arg(&path).output().map_err(|error| format!("{}: {error}", guest.display()))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let cells: BTreeMap<String, Figures> = said.lines().filter_map(cell).collect();
    let wanted: usize = chosen.iter().map(|(_, loads)| loads.len()).sum();
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

    fn line(&self) -> String {
        let mb = |bytes: f64| bytes / 1e6;
        let (real, simulated) = (self.real, self.simulated);
        format!(
            "{:5.2} {:50} md {:6.2} (r {:6.2} w {:6.2})  sim {:6.2} (r {:6.2} w {:6.2})",
            self.ratio(),
            key(&self.made, &self.asked),
            mb(real.rate),
            mb(real.read),
            mb(real.written),
            mb(simulated.rate),
            mb(simulated.read),
            mb(simulated.written)
        )
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
        let Asked { rw, bs, depth } = cell.asked;
        let mb = |bytes: f64| format!("{:.2} MB/s", bytes / 1e6);
        let (name, real, simulated) = (cell.made.name(), mb(cell.real.rate), mb(cell.simulated.rate));
        let _never = writeln!(text, "| {name} | {rw} | {} | {depth} | {real} | {simulated} |", bs.short());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(share(&others) >= 0.95, "{}", share(&others));
        assert!(share(&parity) >= 0.70, "{}", share(&parity));
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
