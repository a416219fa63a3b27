//! The catalogue as this user has it: the built-in records, the user's file, and those of the command line.

use crate::error::CliError;
use ebbtide_formats::aws::{self, AwsOutput, OwnedVolumes};
use ebbtide_model::catalog::{Catalog, CatalogFile, PriceList};
use ebbtide_model::shown::Shown;
use std::path::{Path, PathBuf};

/// Largest file that is read; the output of `describe-instance-types` for all types is a few megabytes, all prices of a region tens.
const LONGEST: u64 = 256 << 20;

/// The user's own catalogue: `$XDG_CONFIG_HOME/ebbtide/catalog.toml`, `~/.config` where that is not set.
pub fn user_file() -> Option<PathBuf> {
    ebbtide_runner::places::user_directory("XDG_CONFIG_HOME", ".config")
        .map(|directory| directory.join("catalog.toml"))
}

/// What files say: a catalogue, price lists that are not in it yet, and volumes that somebody has.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The built-in catalogue with the user's own records.
    pub catalog: Catalog,
    /// Price lists, in the order of the files.
    pub lists: Vec<PriceList>,
    /// Volumes, in the order of the files.
    pub owned: Vec<OwnedVolumes>,
}

/// The built-in catalogue with the user's file, where there is one, and with `files`, prices included.
///
/// # Errors
/// As [`read_all`].
pub fn load(files: &[PathBuf]) -> Result<Catalog, CliError> {
    let Loaded { mut catalog, lists, .. } = read_all(files)?;
    lists.iter().for_each(|list| catalog.reprice(list, None));
    Ok(catalog)
}

/// The same, with what is not the catalogue's beside it.
///
/// # Errors
/// Wrong usage: a file that cannot be read, is no catalogue, and is not what AWS's command line prints.
pub fn read_all(files: &[PathBuf]) -> Result<Loaded, CliError> {
    let mut loaded = Loaded { catalog: Catalog::builtin().clone(), ..Loaded::default() };
    let user = user_file().filter(|path| path.exists());
    for path in user.iter().chain(files) {
        let text = read(path)?;
        if aws::is_json(&text) {
            let wrong = |error| CliError::Usage(format!("{}: {error}", path.shown()));
            match aws::parse(&text).map_err(wrong)? {
                AwsOutput::Instances(instance) => add_instances(&mut loaded.catalog, instance, path)?,
                AwsOutput::Prices(list) => {
                    loaded.lists.push(PriceList { source: source(&list.source, path), ..list })
                }
                AwsOutput::Volumes(owned) => loaded.owned.extend(owned),
            }
        } else {
            add(&mut loaded.catalog, &text, path)?;
        }
    }
    Ok(loaded)
}

fn source(command: &str, path: &Path) -> String {
    format!("{command}, saved in {}", path.shown())
}

fn add(catalog: &mut Catalog, text: &str, path: &Path) -> Result<(), CliError> {
    catalog.add_file(text, &path.to_string_lossy()).map_err(CliError::usage)
}

/// Instance types as EC2 describes them. It tells no speed of their own disks: what the catalogue knows of that stays.
fn add_instances(
    catalog: &mut Catalog,
    mut instances: Vec<ebbtide_model::catalog::Instance>,
    path: &Path,
) -> Result<(), CliError> {
    for instance in &mut instances {
        let known = catalog.instance(&instance.id).ok().and_then(|known| known.disks.as_ref()?.speed.clone());
        if let Some(disks) = &mut instance.disks {
            disks.speed = disks.speed.take().or(known);
        }
        instance.sources = instance.sources.iter().map(|command| source(command, path)).collect();
    }
    let file = CatalogFile { instance: instances, ..CatalogFile::default() };
    add(catalog, &file.to_toml(), path)
}

/// The text of a file.
///
/// # Errors
/// Wrong usage when it cannot be read, is no file or is too long.
pub fn read(path: &Path) -> Result<String, CliError> {
    ebbtide_door::read::text(path, LONGEST)
        .map_err(|error| CliError::Usage(format!("{}: {error}", path.shown())))
}
