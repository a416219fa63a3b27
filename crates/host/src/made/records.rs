//! Records of what is made to stay: one form for every kind, each a file that is replaced as a whole. Those of earlier versions are read as what
//! they say now, and written so with the next change.

use super::{Context, Engine, Failure, Plan};
use crate::sys::{self, Sys};
use crate::{at_work, kept};
use ebbtide_door::own::Locked;
use ebbtide_door::{Directory, own};
use ebbtide_model::made::{Kind, Record, SCHEMA};
use ebbtide_model::shown::excerpt;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest record: a design has at most some hundred members.
pub(crate) const LONGEST: u64 = 16 << 20;

impl Context<'_> {
    /// Holds off every other `ebb` that would change what has its records in `records`, until it is dropped; `command` is at work on `name`. One that
    /// is at work is waited for as long as `patience`.
    pub(crate) fn lock_records(
        &self,
        records: &str,
        kind: Kind,
        (command, name): (&str, &str),
        patience: Duration,
    ) -> Result<Locked, Failure> {
        let place = self.sys.root().join(records);
        kept::is_trusted_place(&self.sys, &place).map_err(Failure::Refused)?;
        let fail = |error| Failure::file(&place, error);
        Directory::make_all(&place).map_err(fail)?;
        let until = Instant::now() + patience;
        loop {
            if let Some(locked) = at_work::take(&self.sys, &place, command, name).map_err(fail)? {
                self.runner.forget();
                return Ok(locked);
            }
            if Instant::now() >= until {
                let commands = format!("`{}` or `ebb undo`", kind.command());
                return Err(Failure::Refused(at_work::refusal(&self.sys, &place, &commands)));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The file of the record of `name` among `records`.
    pub(crate) fn record_path(&self, records: &str, name: &str) -> PathBuf {
        self.sys.root().join(records).join(format!("{name}.json"))
    }

    /// Puts `record` on disk as the file `path`, replaced as a whole and durably.
    pub(crate) fn put_record(&self, path: &Path, record: &impl Serialize) -> Result<(), Failure> {
        let mut text = serde_json::to_vec_pretty(record).map_err(|error| Failure::file(path, error))?;
        text.push(b'\n');
        own::replace(path, &text).map_err(|error| Failure::file(path, error))
    }

    /// Takes the record `path` away: there is nothing any more that it is of.
    pub(crate) fn forget_record(&self, path: &Path) -> Result<(), Failure> {
        own::remove(path).map_err(|error| Failure::file(path, error))?;
        (self.boundary)();
        Ok(())
    }
}

/// What has a record in the directory `records`.
pub(crate) fn names(sys: &Sys, records: &str) -> Vec<String> {
    let names = sys::names(&sys.root().join(records)).into_iter().filter(|name| !name.starts_with('.'));
    names.filter_map(|name| name.strip_suffix(".json").map(str::to_owned)).collect()
}

impl<P: Plan> Engine<'_, P> {
    /// Directory of the records.
    pub(crate) fn place(&self) -> PathBuf {
        self.sys.root().join(P::RECORDS)
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.record_path(P::RECORDS, name)
    }

    /// [`Context::lock_records`] of this kind.
    pub(crate) fn lock(&self, command: &str, name: &str, patience: Duration) -> Result<Locked, Failure> {
        self.lock_records(P::RECORDS, P::KIND, (command, name), patience)
    }

    /// Every record of this kind, by name; those that cannot be read with why.
    pub fn records(&self) -> Vec<Result<Record<P>, Failure>> {
        let names = names(&self.sys, P::RECORDS);
        names.iter().filter_map(|name| self.record(name).transpose()).collect()
    }

    /// The record of `name`; nothing where there is none.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn record(&self, name: &str) -> Result<Option<Record<P>>, Failure> {
        let path = self.path_of(name);
        let fail = |what: String| Failure::file(&path, what);
        let Some(bytes) = kept::bytes(&self.sys, &path, LONGEST).map_err(fail)? else { return Ok(None) };
        let record: Record<P> = read(&bytes).map_err(fail)?;
        match () {
            () if record.kind != P::KIND => Err(fail(format!("it is a record of the kind {}", record.kind))),
            () if record.name != name => Err(fail(format!("it is a record of {}", record.name))),
            () => Ok(Some(record)),
        }
    }

    /// The record of `name`, which has to be there.
    ///
    /// # Errors
    /// That there is none, or that it cannot be read.
    pub fn known(&self, name: &str) -> Result<Record<P>, Failure> {
        P::find(self, name)?.ok_or_else(|| {
            Failure::Refused(format!(
                "there is no {} that `{}` made on this host; `ebb status` lists what there is",
                excerpt(name),
                P::KIND.command()
            ))
        })
    }

    /// Puts `record` on disk.
    pub(crate) fn write(&self, record: &Record<P>) -> Result<(), Failure> {
        self.put(record)?;
        (self.boundary)();
        Ok(())
    }

    /// The same where nothing more is to be made: who is killed after this has ended.
    pub(crate) fn put(&self, record: &Record<P>) -> Result<(), Failure> {
        self.put_record(&self.path_of(&record.name), record)
    }

    /// Takes the record of `name` away.
    pub(crate) fn forget(&self, name: &str) -> Result<(), Failure> {
        self.forget_record(&self.path_of(name))
    }
}

/// The record in `bytes`, of whatever version.
fn read<P: Plan>(bytes: &[u8]) -> Result<Record<P>, String> {
    let unfit = |error| format!("it is no record of this version: {error}");
    let mut value: Value = serde_json::from_slice(bytes).map_err(unfit)?;
    let schema = value["schema"].as_str().unwrap_or_default().to_owned();
    let phases = match schema.as_str() {
        SCHEMA => return serde_json::from_value(value).map_err(unfit),
        "ebbtide.export-record/1" => EXPORT,
        "ebbtide.attached/1" => ATTACHED,
        _ => return Err(kept::other_form(&schema, SCHEMA)),
    };
    if let Value::Object(record) = &mut value {
        renew(record, P::KIND.name(), phases);
    }
    serde_json::from_value(value).map_err(unfit)
}

/// A phase of earlier records, the state that it is now, and whether what is in it was whole before.
type Phase = (&'static str, &'static str, bool);
const EXPORT: &[Phase] =
    &[("making", "making", false), ("exported", "made", true), ("removing", "unmaking", true)];
const ATTACHED: &[Phase] = &[
    ("attaching", "making", false),
    ("attached", "made", true),
    ("returning", "making", true),
    ("detaching", "unmaking", true),
    ("abandoning", "unmaking", false),
];
/// What steps of earlier records are called now, where they are called otherwise.
const RESOURCES: &[(&str, &str)] =
    &[("export", "way"), ("tunnel", "way"), ("format", "header"), ("backup", "copy"), ("open", "mapping")];

/// Makes an earlier version's `record` one of this version.
fn renew(record: &mut Map<String, Value>, kind: &str, phases: &[Phase]) {
    let phase = record.remove("phase").unwrap_or_default();
    let found = phases.iter().find(|(name, ..)| phase == *name);
    if let Some((_, state, whole)) = found {
        record.extend([("state".to_owned(), json!(state)), ("whole".to_owned(), json!(whole))]);
    }
    record.extend([("schema".to_owned(), json!(SCHEMA)), ("kind".to_owned(), json!(kind))]);
    // An export was known by the run that made it, and had its volume's id under that name; all of it was one step.
    if let Some(run) = record.remove("run") {
        let stable = record.insert("id".to_owned(), run).unwrap_or_default();
        record.insert("stable_id".to_owned(), stable);
        record.insert("begun".to_owned(), json!(["target", "unit"]));
    } else {
        for key in ["begun", "made"] {
            let steps = record.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
            let now =
                |step: &Value| RESOURCES.iter().find(|(then, _)| step == then).map(|(_, now)| json!(now));
            let resources: Vec<Value> =
                steps.iter().map(|step| now(step).unwrap_or_else(|| step.clone())).collect();
            record.insert(key.to_owned(), json!(resources));
        }
    }
    // What is whole is made, whatever it was of.
    if found.is_some_and(|(_, _, whole)| *whole) {
        let begun = record.get("begun").cloned().unwrap_or_default();
        record.insert("made".to_owned(), begun);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_model::export::{Exporting, Transport};
    use ebbtide_model::made::State;
    use ebbtide_provision::attached::Attachment;

    /// As versions before this form wrote them.
    const EXPORTED: &str = r#"{
      "schema": "ebbtide.export-record/1", "phase": "exported", "run": "20261122-123909-a070", "boot": "b", "name": "data",
      "transport": "iscsi", "address": "127.0.0.1", "port": 3260, "target": "iqn.2026-11.ebbtide:store-0123abcd-4abf6afe:data",
      "client": "iqn.1993-08.org.debian:01:a", "secret": null, "device": "/dev/disk/by-id/virtio-a", "id": "virtio-a",
      "bytes": 1073741824, "persistent": true, "uuid": "8e633e37-f62d-47c0-9786-adbcadff7246",
      "paths": ["/sys/kernel/config/target/core/iblock_0"], "shared": ["/sys/kernel/config/target/iscsi"]
    }"#;
    const ATTACHED: &str = r#"{
      "schema": "ebbtide.attached/1", "name": "data", "id": "00000000-0000-4000-8000-000000000000", "phase": "attaching",
      "place": {"ssh": {"destination": "ada@store1", "device": "/dev/vdb"}}, "host": "store1", "transport": "nvme-tcp",
      "target": "nqn.2026-11.ebbtide:store1:data", "address": "127.0.0.1", "port": 607, "client": "nqn.2014-08.org.nvmexpress:uuid:1",
      "machine": "m", "device": "/dev/disk/by-path/far", "path": "/dev/disk/by-path/far", "bytes": 1048576, "hold_s": 30,
      "tunnel": {"destination": "ada@store1", "device": "/dev/vdb", "ebb": "ebb", "sudo": true, "export_port": 4420, "found": false},
      "encryption": {"uuid": "u", "integrity": true, "key_file": null}, "begun": ["export", "tunnel", "session", "format"], "made": []
    }"#;

    #[test]
    fn records_of_earlier_versions_are_read_as_what_they_say_now() {
        let export = read::<Exporting>(EXPORTED.as_bytes()).expect("reads");
        assert_eq!(
            (export.state, export.whole, export.id.as_str()),
            (State::Made, true, "20261122-123909-a070")
        );
        assert_eq!((export.transport, export.stable_id.as_deref()), (Transport::Iscsi, Some("virtio-a")));
        assert!(["target", "unit"].iter().all(|name| export.has_begun(name) && export.made.contains(*name)));
        let attached = read::<Attachment>(ATTACHED.as_bytes()).expect("reads");
        assert_eq!((attached.state, attached.whole, attached.made.len()), (State::Making, false, 0));
        assert_eq!(attached.begun, ["header", "session", "way"].map(str::to_owned).into());
        for (phase, state, whole) in [
            ("attached", State::Made, true),
            ("returning", State::Making, true),
            ("detaching", State::Unmaking, true),
            ("abandoning", State::Unmaking, false),
        ] {
            let read = read::<Attachment>(ATTACHED.replace("attaching", phase).as_bytes()).expect(phase);
            assert_eq!((read.state, read.whole), (state, whole), "{phase}");
        }
        // Written again they are of this version.
        let now = serde_json::to_vec(&export).expect("writes");
        assert!(String::from_utf8_lossy(&now).contains(SCHEMA) && read::<Exporting>(&now) == Ok(export));
        let newer = read::<Exporting>(br#"{"schema":"ebbtide.made/2"}"#).expect_err("is newer");
        assert!(newer.contains("a newer ebb (ebbtide.made/2"), "{newer}");
    }
}
