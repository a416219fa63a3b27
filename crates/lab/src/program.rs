//! The running program, packed for the guest with the loader and the libraries it runs on.
//!
//! Nobody has to build a static program: whatever `ebb` runs here runs there too, because the guest is given the
//! very files that are mapped into this process. A static one has no loader and comes alone.

use super::files::{lock, rename};
use super::places::Places;
use super::recipe::Hash;
use super::{LabError, tools};
use ebbtide_door::{own, read};
use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// This process's own program, also when its file was replaced since.
pub const OWN: &str = "/proc/self/exe";
const MAPS: &str = "/proc/self/maps";
const MAPS_MAX: u64 = 64 << 20;

/// `program` packed, where that was not done before. One other than [`OWN`] must run on the libraries that this
/// process runs on.
///
/// # Errors
/// When a file cannot be read or written, or mksquashfs fails.
pub fn pack(places: &Places, program: &Path) -> Result<PathBuf, LabError> {
    let maps = read::text(Path::new(MAPS), MAPS_MAX).map_err(io::Error::from);
    let maps = maps.map_err(LabError::file("read", Path::new(MAPS)))?;
    let own = Path::new(OWN);
    let name = std::fs::read_link(own).map_err(LabError::file("read", own))?;
    let libraries = libraries(&maps, &name);
    let mut hash = Hash::default();
    for file in libraries.iter().map(PathBuf::as_path).chain([program]) {
        let found = std::fs::metadata(file).map_err(LabError::file("look at", file))?;
        hash.add(file.as_os_str().as_encoded_bytes());
        for number in [found.ino(), found.size(), found.mtime() as u64, found.mtime_nsec() as u64] {
            hash.add(&number.to_le_bytes());
        }
    }
    let packed = places.programs().join(format!("{}.squashfs", hash.text()));
    places.make_marked(&places.programs())?;
    let _lock = lock(&places.root().join("program.lock"))?;
    if packed.is_file() {
        return Ok(packed);
    }
    let work = places.programs().join("packing");
    places.remove_marked(&work)?;
    places.make_marked(&work)?;
    let copy =
        |from: &Path, name: &str| own::copy(from, &work.join(name)).map_err(LabError::file("copy", from));
    copy(program, "ebb")?;
    for library in &libraries {
        let name = library.file_name().unwrap_or_default().to_string_lossy();
        copy(library, if name.starts_with("ld-") { "loader" } else { &name })?;
    }
    let new = places.programs().join("packing.squashfs");
    let (from, to) = (work.to_string_lossy(), new.to_string_lossy());
    // Other users of the guest than root run it, too.
    let how = "-all-root -root-mode 755 -comp lz4 -noappend -no-progress -quiet -no-xattrs";
    tools::run("mksquashfs", &[from.as_ref(), &to].into_iter().chain(how.split(' ')).collect::<Vec<_>>())?;
    places.remove_marked(&work)?;
    rename(&new, &packed)?;
    Ok(packed)
}

/// The loader and the shared libraries in a process's `maps`: every file that is mapped to be executed, but the
/// program itself.
fn libraries(maps: &str, program: &Path) -> BTreeSet<PathBuf> {
    maps.lines()
        .filter_map(|line| {
            // Address, permissions, offset, device, inode, path; the path may have spaces.
            let permissions = line.split_whitespace().nth(1)?;
            let path = Path::new(&line[line.find('/')?..]);
            (permissions.contains('x') && path != program).then(|| path.to_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_what_is_mapped_to_be_executed() {
        let maps = "\
5581-5582 r--p 00000000 fe:00 12 /opt/my tools/ebb
5582-5583 r-xp 00001000 fe:00 12 /opt/my tools/ebb
7f01-7f02 r--p 00000000 fe:00 13 /usr/lib/x86_64-linux-gnu/libc.so.6
7f02-7f03 r-xp 00026000 fe:00 13 /usr/lib/x86_64-linux-gnu/libc.so.6
7f04-7f05 r-xp 00001000 fe:00 14 /usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2
7f06-7f07 r--s 00000000 fe:00 15 /usr/lib/locale/C.utf8/LC_CTYPE
7ffc-7ffd rw-p 00000000 00:00 0 [stack]
7ffe-7fff r-xp 00000000 00:00 0 [vdso]
";
        let found = libraries(maps, Path::new("/opt/my tools/ebb"));
        let names: Vec<String> = found.iter().map(|path| path.to_string_lossy().into_owned()).collect();
        assert_eq!(
            names,
            ["/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", "/usr/lib/x86_64-linux-gnu/libc.so.6",]
        );
    }
}
