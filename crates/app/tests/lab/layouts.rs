//! The layouts of `ebbtide_model` against md and LVM, byte for byte.
//!
//! Every array is made by a real kernel, its sectors are written through it with a content that tells their place,
//! and the raw members are read on the host. Three things must hold: the capacity is the same; where
//! `Map::locate` says that a sector is, it is; and what `Map::reverse` says of every sector of every member is
//! true, parity to the last bit, and unused space unwritten.

use super::guests::{guest, qemu_guest, script};
use super::pattern::{self, Content, SECTOR};
use ebbtide_lab::guest::Guest;
use ebbtide_model::layout::Arrangement::{Far, Near, Offset};
use ebbtide_model::layout::{Arrangement, ArrayKind, LayoutNode, Map, Role};
use ebbtide_model::units::{ArrayOffset, Bytes, MemberOffset};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

const MIB: u64 = 1 << 20;
/// Where members' data begin, for md (`--data-offset`) and LVM (`--dataalignment`).
const DATA: u64 = MIB;
/// Equal members are no multiple of any larger chunk: the rest must stay unused.
const EQUAL: u64 = DATA + 3 * MIB + 172 * 1024;
/// Unequal members, in no order.
const UNEQUAL: [u64; 4] =
    [DATA + 3 * MIB + 300 * 1024, DATA + MIB + 72 * 1024, DATA + 4 * MIB + 4096, DATA + 2 * MIB + 500 * 1024];

#[derive(Debug, Clone)]
struct Case {
    /// mdadm's or lvcreate's own words.
    tool: Tool,
    kind: ArrayKind,
    /// Names of the disks, in the array's order.
    disks: Vec<String>,
}

#[derive(Debug, Clone)]
enum Tool {
    Mdadm(String),
    /// Extents are of 1 MiB.
    Lvcreate(String),
}

fn equal(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("e{index}")).collect()
}

fn unequal(order: &[usize]) -> Vec<String> {
    order.iter().map(|index| format!("u{index}")).collect()
}

fn kib(bytes: u64) -> u64 {
    bytes / 1024
}

fn stripe(chunk: u64, disks: Vec<String>) -> Case {
    let tool = Tool::Mdadm(format!("--level=0 --chunk={}", kib(chunk)));
    Case { tool, kind: ArrayKind::Stripe { chunk: Bytes(chunk) }, disks }
}

fn raid10(chunk: u64, arrangement: Arrangement, disks: usize, copies: u32) -> Case {
    let letter = match arrangement {
        Near => 'n',
        Far => 'f',
        Offset => 'o',
    };
    let tool =
        Tool::Mdadm(format!("--level=10 --bitmap=none --layout={letter}{copies} --chunk={}", kib(chunk)));
    let kind = ArrayKind::Raid10 { chunk: Bytes(chunk), copies, arrangement };
    Case { tool, kind, disks: equal(disks) }
}

fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    let chunks = [4 << 10, 64 << 10, 512 << 10];
    for (chunk, disks) in [(chunks[0], 2), (chunks[1], 3), (chunks[1], 5), (chunks[2], 4)] {
        all.push(stripe(chunk, equal(disks)));
    }
    for (chunk, order) in [(chunks[0], [0, 1, 2, 3]), (chunks[1], [3, 1, 0, 2]), (chunks[2], [2, 0, 3, 1])] {
        all.push(stripe(chunk, unequal(&order)));
    }
    all.push(stripe(chunks[1], unequal(&[1, 2])));

    let linear =
        |disks| Case { tool: Tool::Mdadm("--level=linear".to_owned()), kind: ArrayKind::Linear, disks };
    all.push(linear(equal(3)));
    all.push(linear(unequal(&[2, 1, 3, 0])));
    let mirror = |disks| Case {
        tool: Tool::Mdadm("--level=1 --bitmap=none".to_owned()),
        kind: ArrayKind::Mirror,
        disks,
    };
    all.push(mirror(equal(2)));
    all.push(mirror(unequal(&[0, 3, 2])));

    for arrangement in [Near, Far, Offset] {
        for (disks, copies) in [(2, 2), (3, 2), (4, 2), (3, 3), (4, 3), (5, 2)] {
            all.push(raid10(chunks[1], arrangement, disks, copies));
        }
        all.push(raid10(chunks[0], arrangement, 3, 2));
        all.push(raid10(chunks[2], arrangement, 4, 3));
    }
    for (chunk, disks) in [(chunks[0], 3), (chunks[1], 4), (chunks[2], 5)] {
        let tool = Tool::Mdadm(format!("--level=5 --bitmap=none --chunk={}", kib(chunk)));
        all.push(Case { tool, kind: ArrayKind::Raid5 { chunk: Bytes(chunk) }, disks: equal(disks) });
    }
    for (chunk, disks) in [(chunks[0], 4), (chunks[1], 5), (chunks[2], 5)] {
        let tool = Tool::Mdadm(format!("--level=6 --bitmap=none --chunk={}", kib(chunk)));
        all.push(Case { tool, kind: ArrayKind::Raid6 { chunk: Bytes(chunk) }, disks: equal(disks) });
    }

    let lvm = |options: String, kind, disks| Case { tool: Tool::Lvcreate(options), kind, disks };
    all.push(lvm(String::new(), ArrayKind::Linear, equal(3)));
    all.push(lvm(String::new(), ArrayKind::Linear, unequal(&[2, 1, 3, 0])));
    for (chunk, disks) in [(chunks[0], 2), (chunks[1], 3), (chunks[2], 5)] {
        let options = format!("--stripes {disks} --stripesize {}k", kib(chunk));
        all.push(lvm(options, ArrayKind::Stripe { chunk: Bytes(chunk) }, equal(disks)));
    }
    all
}

/// A guest whose disks are files here, and what is written through its arrays.
struct Bench {
    guest: Guest,
    content: Content,
}

impl Bench {
    fn file(&self, disk: &str) -> PathBuf {
        self.guest.directory().join(format!("{disk}.disk"))
    }

    /// Makes the array, writes the whole of it, takes it apart; returns its size in bytes.
    fn fill(&mut self, case: &Case) -> Result<u64, String> {
        for disk in &case.disks {
            // Holes again: what an earlier case wrote must not look right.
            let file = OpenOptions::new().write(true).open(self.file(disk)).unwrap();
            let size = file.metadata().unwrap().len();
            file.set_len(0).and_then(|()| file.set_len(size)).unwrap();
        }
        let devices: String =
            case.disks.iter().map(|disk| format!(" /dev/disk/by-id/virtio-{disk}")).collect();
        let write = |array: &str| {
            format!(
                "size=$(blockdev --getsize64 {array})\n\
                 dd if=/dev/disk/by-id/virtio-content of={array} bs=1M count=$size iflag=direct,count_bytes oflag=direct conv=fsync status=none\n"
            )
        };
        let text = match &case.tool {
            Tool::Mdadm(options) => format!(
                "mdadm --quiet --create /dev/md0 --run --assume-clean --metadata=1.2 --data-offset={}K {options} --raid-devices={}{devices}\n\
                 {}mdadm --quiet --stop /dev/md0\n",
                kib(DATA),
                case.disks.len(),
                write("/dev/md0"),
            ),
            Tool::Lvcreate(options) => {
                // A linear volume that is made over unequal ones at once takes the largest first.
                let made = match case.kind {
                    ArrayKind::Linear => format!(
                        "set --{devices}; lvcreate -q -y -Wn -Zn -l 100%PVS -n lv vg $1 >/dev/null; shift\n\
                         for device; do lvextend -q -l +100%PVS vg/lv $device >/dev/null; done\n"
                    ),
                    _ => {
                        format!("lvcreate -q -y -Wn -Zn -l 100%FREE -n lv {options} vg{devices} >/dev/null\n")
                    }
                };
                format!(
                    "pvcreate -q -y --dataalignment {}k{devices} >/dev/null\n\
                     vgcreate -q -s 1m vg{devices} >/dev/null\n\
                     {made}{}vgremove -q -y -ff vg >/dev/null\n",
                    kib(DATA),
                    write("/dev/vg/lv"),
                )
            }
        };
        // udev looks at what was made and must be done before the next case.
        let said = script(&mut self.guest, &format!("{text}udevadm settle\necho $size\n"));
        if said.is_err() {
            let _ = script(&mut self.guest, "mdadm --stop /dev/md0; vgremove -q -y -ff vg; true");
        }
        let said = said?;
        said.trim().parse().map_err(|_| format!("expected the array's size, got {said:?}"))
    }

    fn check(&mut self, case: &Case) -> Result<(), String> {
        let capacity = self.fill(case)?;
        let members: Vec<Vec<u8>> = case
            .disks
            .iter()
            .map(|disk| {
                let file = File::open(self.file(disk)).unwrap();
                let mut content = vec![0; (file.metadata().unwrap().len() - DATA) as usize];
                file.read_exact_at(&mut content, DATA).unwrap();
                if matches!(case.tool, Tool::Lvcreate(_)) {
                    // A physical volume ends with its last whole extent.
                    content.truncate(content.len() / MIB as usize * MIB as usize);
                }
                content
            })
            .collect();
        let sizes: Vec<Bytes> = members.iter().map(|content| Bytes(content.len() as u64)).collect();
        let nodes = (0..sizes.len()).map(LayoutNode::Volume).collect();
        let map = Map::new(&LayoutNode::Array { kind: case.kind, members: nodes }, &sizes)
            .map_err(|error| error.to_string())?;
        if map.capacity() != Bytes(capacity) {
            return Err(format!("capacity: the map says {}, the kernel {capacity}", map.capacity().0));
        }
        forward(&map, &members, &self.content)?;
        backward(case.kind, &map, &members, &self.content)
    }
}

/// Where the map says that the array's bytes are, they are.
fn forward(map: &Map, members: &[Vec<u8>], content: &Content) -> Result<(), String> {
    const PIECE: u64 = 64 << 10;
    let capacity = map.capacity().0;
    for start in (0..capacity).step_by(PIECE as usize) {
        let length = PIECE.min(capacity - start);
        let mut found = 0;
        for extent in map.locate(ArrayOffset(start), Bytes(length)).map_err(|error| error.to_string())? {
            let Role::Data { .. } = extent.role else { continue };
            let held = &members[extent.member][extent.offset.0 as usize..][..extent.length.0 as usize];
            let wanted = content.at(extent.array_offset.0, extent.length.0);
            if held != wanted {
                let at = held.iter().zip(wanted).take_while(|(held, wanted)| held == wanted).count() as u64;
                let at = at / SECTOR * SECTOR;
                return Err(format!(
                    "array byte {} should be at byte {} of member {} ({:?}), which holds {}",
                    extent.array_offset.0 + at,
                    extent.offset.0 + at,
                    extent.member,
                    extent.role,
                    describe(&held[at as usize..][..SECTOR as usize])
                ));
            }
            found += extent.length.0;
        }
        if found != length * u64::from(map.copies()) {
            return Err(format!("{found} bytes hold {length} at {start} in {} copies", map.copies()));
        }
    }
    Ok(())
}

/// What the map says of every sector of every member is true.
fn backward(kind: ArrayKind, map: &Map, members: &[Vec<u8>], content: &Content) -> Result<(), String> {
    let chunk = kind.chunk().map_or(SECTOR, |chunk| chunk.0);
    let data_members = match kind {
        ArrayKind::Raid5 { .. } => members.len() as u64 - 1,
        ArrayKind::Raid6 { .. } => members.len() as u64 - 2,
        _ => 0,
    };
    for (member, held) in members.iter().enumerate() {
        for (index, held) in held.chunks_exact(SECTOR as usize).enumerate() {
            let offset = index as u64 * SECTOR;
            let meaning = map.reverse(member, MemberOffset(offset));
            let stripe = |first: u64| -> Vec<u64> {
                (0..data_members).map(|k| first + k * chunk + offset % chunk).collect()
            };
            let right = match meaning.map(|meaning| (meaning.role, meaning.array_offset.0)) {
                None => held.iter().all(|byte| *byte == 0),
                Some((Role::Data { .. }, at)) => held == content.at(at, SECTOR),
                Some((Role::ParityP, first)) => held == content.parity_p(&stripe(first)),
                Some((Role::ParityQ, first)) => held == content.parity_q(&stripe(first)),
            };
            if !right {
                return Err(format!(
                    "byte {offset} of member {member} should be {meaning:?}, but holds {}",
                    describe(held)
                ));
            }
        }
    }
    Ok(())
}

fn describe(content: &[u8]) -> String {
    match pattern::told(content) {
        Some(offset) => format!("array byte {offset}"),
        None if content.iter().all(|byte| *byte == 0) => "nothing".to_owned(),
        None => "something else".to_owned(),
    }
}

/// Checks those of the cases that are `md_linear` or not, in a guest that `boot` starts.
fn check(name: &str, boot: fn(&str, &[(String, u64)]) -> Guest, md_linear: bool) {
    let mut disks: Vec<(String, u64)> = equal(5).into_iter().map(|name| (name, EQUAL)).collect();
    disks.extend(unequal(&[0, 1, 2, 3]).into_iter().zip(UNEQUAL));
    let most = disks.iter().map(|(_, size)| size).sum();
    disks.push(("content".to_owned(), most));
    let mut bench = Bench { guest: boot(name, &disks), content: Content::new(most) };
    let file = OpenOptions::new().write(true).open(bench.file("content")).unwrap();
    file.write_all_at(bench.content.bytes(), 0).unwrap();
    let mut wrong = Vec::new();
    let is_md_linear = |case: &Case| matches!((&case.tool, case.kind), (Tool::Mdadm(_), ArrayKind::Linear));
    let cases: Vec<Case> = cases().into_iter().filter(|case| is_md_linear(case) == md_linear).collect();
    for case in &cases {
        let start = std::time::Instant::now();
        let result = bench.check(case);
        eprintln!("{:.1} s {:?} {:?}", start.elapsed().as_secs_f64(), case.tool, case.disks);
        if let Err(error) = result {
            wrong.push(format!("{:?} on {:?}: {error}", case.tool, case.disks));
        }
    }
    assert!(
        !cases.is_empty() && wrong.is_empty(),
        "{} of {} cases:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}

#[test]
fn layouts_are_those_of_md_and_lvm_byte_for_byte() {
    check("layouts", guest, false);
}

/// Newer kernels, User-Mode Linux's among them, have no linear arrays of md.
#[test]
fn linear_arrays_are_those_of_md_byte_for_byte() {
    check("linear", qemu_guest, true);
}
