//! The way to a volume through SSH: `ebb export` on the other host, and the process here that keeps the connection.

use super::Attachments;
use crate::build::BuildError;
use crate::made::{Failure, Now, Resource};
use crate::ssh::last_lines;
use ebbtide_door::{own, read};
use ebbtide_model::export::{Transport, check_client};
use ebbtide_model::shown::Shown;
use ebbtide_provision::attached::{Attachment, Place, Record, Tunnel};
use serde::Deserialize;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long the supervising process may take to connect: twice what `ssh` gives a host.
const TUNNEL_PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 45 });
/// How long the end of the supervising process is waited for.
const END_PATIENCE: Duration = Duration::from_secs(10);
/// What `ebb undo` says of an export that is not there.
const NO_EXPORT: &str = "that `ebb export` made on this host";

/// The export there and the connection to it; of a direct place there is nothing.
pub(super) struct Way;

impl Resource<Attachment> for Way {
    fn state(&self, on: &Attachments<'_>, record: &mut Record) -> Result<Now, Failure> {
        let is_direct = matches!(record.place, Place::Direct { .. });
        let is_connected = || on.supervised(&record.name).is_some_and(|state| state.connected);
        let stands = is_direct || record.tunnel.is_some() && on.is_supervised(&record.name) && is_connected();
        Ok(if stands { Now::Stands } else { Now::Absent })
    }

    fn make(&self, on: &Attachments<'_>, record: &mut Record) -> Result<(), Failure> {
        let Place::Ssh { destination, device } = record.place.clone() else { return Ok(()) };
        on.export(record, &destination, &device)?;
        on.tunnel(record)
    }

    fn unmake(&self, on: &Attachments<'_>, record: &Record, left: &mut Vec<String>) -> Result<(), Failure> {
        let Some(tunnel) = &record.tunnel else { return Ok(()) };
        // While the connection stands it carries this, too.
        match on.is_of_this_host(record) {
            true => on.leave(record, tunnel, left),
            false => left.push(format!(
                "what is on {} stays: it was made for the host that logs in as {}, of which this one may be a clone; if nobody uses it, run \
                 `ebb undo {} --force` there as root",
                tunnel.destination, record.client, record.name
            )),
        }
        on.end_tunnel(record)
    }

    fn unmaking(&self, _on: &Attachments<'_>, record: &Record) -> Vec<String> {
        let Some(tunnel) = &record.tunnel else { return Vec::new() };
        let export = (!tunnel.found).then(|| format!("on {}: ebb undo {}", tunnel.destination, record.name));
        export.into_iter().chain([format!("end the SSH connection to {}", tunnel.destination)]).collect()
    }
}

/// What `ebb export --json` says of an export.
#[derive(Debug, Clone, Deserialize)]
struct Exported {
    schema: String,
    name: String,
    transport: Transport,
    port: u16,
    target: String,
    bytes: u64,
    /// By a link that stays, where it has one.
    device: String,
}

/// What `ebb status --kind export --json` says.
#[derive(Debug, Clone, Deserialize)]
struct Exports {
    exports: Vec<Named>,
}

#[derive(Debug, Clone, Deserialize)]
struct Named {
    name: String,
    /// Whether its client is connected; nothing where that cannot be told.
    #[serde(default)]
    connected: Option<bool>,
}

/// The secret in the file `path`.
pub(super) fn secret(path: &Path) -> Result<String, Failure> {
    let text = read::secret_text(path).map_err(|error| Failure::file(path, format!("the secret {error}")))?;
    let line = text.trim();
    match !line.is_empty() && line.chars().all(|sign| sign.is_ascii_graphic() && sign != ',') {
        true => Ok(line.to_owned()),
        false => Err(Failure::Refused(format!(
            "{} is to hold the secret as one line of letters, digits and signs but a comma",
            path.shown()
        ))),
    }
}

/// Between two looks at what is waited for.
pub(super) fn pause() {
    std::thread::sleep(Duration::from_millis(if cfg!(test) { 1 } else { 100 }));
}

impl Attachments<'_> {
    /// Has the other host export the device to this one.
    fn export(&self, record: &mut Record, destination: &str, device: &str) -> Result<(), Failure> {
        let mut connected = false;
        let mut tunnel = match record.tunnel.clone() {
            Some(tunnel) => tunnel,
            None => {
                (self.tell)(&format!("looking for ebb on {destination}"));
                let (ebb, sudo) = self.host.find(destination, record.copies)?;
                let mut tunnel = Tunnel {
                    destination: destination.to_owned(),
                    device: device.to_owned(),
                    ebb,
                    sudo,
                    export_port: 0,
                    found: false,
                    secret: None,
                };
                let said = self.far_json(record, &tunnel, &["status", "--kind", "export", "--json"])?;
                let exports: Exports = understood(destination, &said)?;
                let found = exports.exports.iter().find(|export| export.name == record.name);
                tunnel.found = found.is_some();
                connected = found.is_some_and(|export| export.connected == Some(true));
                tunnel
            }
        };
        record.tunnel = Some(tunnel.clone());
        self.write(record)?;
        if let Some(path) = &record.secret_file {
            let secret = secret(path)?;
            tunnel.secret = Some(self.host.put_secret(&self.sys, record, &tunnel, &secret)?);
            record.tunnel = Some(tunnel.clone());
            (self.boundary)();
        }
        let words = export_words(record, &tunnel);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        (self.tell)(&format!("on {destination}: ebb {}", words.join(" ")));
        let said = self.far_json(record, &tunnel, &words)?;
        let exported: Exported = understood(destination, &said)?;
        if exported.schema != "ebbtide.export/1"
            || exported.name != record.name
            || exported.transport != record.transport
        {
            return Err(Failure::far(
                destination,
                format!("its ebb answered with another export: {}", said.trim()),
            ));
        }
        if check_client(&exported.target, record.transport).is_err() {
            return Err(Failure::far(
                destination,
                format!("its ebb answered with a target that is none: {}", said.trim()),
            ));
        }
        if connected {
            return Err(Failure::far(
                destination,
                format!(
                    "somebody who logs in as this host does, {0}, is connected to the export {1}: a clone of this host, or what it had before and has \
                     forgotten; two that write to one volume destroy what is on it. Detach it there, or, if nobody uses it, `ebb undo {1} --force` on {destination}",
                    record.client, record.name
                ),
            ));
        }
        record.target = exported.target;
        record.bytes = Some(exported.bytes);
        if let Some(tunnel) = &mut record.tunnel {
            tunnel.export_port = exported.port;
            // After a boot there another device may have the name that was written.
            tunnel.device = exported.device;
        }
        Ok(())
    }

    /// Runs `ebb` there, which must succeed; what it printed.
    pub(super) fn far_json(
        &self,
        record: &Record,
        tunnel: &Tunnel,
        words: &[&str],
    ) -> Result<String, Failure> {
        let said = self.host.far(&self.sys, record, tunnel, words)?;
        match said.status {
            Some(0) => Ok(said.text().into_owned()),
            // One of them does not run: which, it says.
            Some(1) if words[0] == "status" && !said.stdout.is_empty() => Ok(said.text().into_owned()),
            _ => Err(Failure::far(&tunnel.destination, crate::ssh::last_lines(&said.stderr))),
        }
    }

    /// Has a process keep the SSH connection that leads to the export, and waits until it stands.
    fn tunnel(&self, record: &mut Record) -> Result<(), Failure> {
        if record.port == 0 {
            record.port = self.host.free_port(&record.name).map_err(|error| {
                Failure::Refused(format!("there is no free TCP port on the loopback: {error}"))
            })?;
        }
        self.write(record)?;
        if !self.is_supervised(&record.name) {
            (self.tell)(&format!(
                "keeping an SSH connection from 127.0.0.1:{} to 127.0.0.1:{} on {}",
                record.port,
                record.tunnel.as_ref().map_or(0, |tunnel| tunnel.export_port),
                record.host
            ));
            self.host.supervise(&record.name).map_err(|error| {
                Failure::Refused(format!(
                    "the process that keeps the SSH connection cannot be started: {error}"
                ))
            })?;
        }
        (self.boundary)();
        let until = Instant::now() + TUNNEL_PATIENCE;
        loop {
            let state = self.supervised(&record.name);
            match &state {
                Some(state) if state.connected => return Ok(()),
                Some(state) if state.error.is_some() && state.lost == 0 && state.tries > 1 => {
                    return Err(Failure::far(&record.host, state.error.clone().unwrap_or_default()));
                }
                _ => {}
            }
            if Instant::now() >= until {
                let why = state
                    .and_then(|state| state.error)
                    .unwrap_or_else(|| "the SSH connection does not come to be".to_owned());
                return Err(Failure::far(&record.host, why));
            }
            self.go_on()?;
            pause();
        }
    }

    /// Takes away what is on the other host, where it can be reached.
    fn leave(&self, record: &Record, tunnel: &Tunnel, left: &mut Vec<String>) {
        match tunnel.found {
            false => {
                self.remove_export(record, tunnel, left);
                (self.boundary)();
            }
            true if record.whole => left.push(format!(
                "the export {} on {} was there before it was attached, and stays",
                record.name, tunnel.destination
            )),
            true => {}
        }
        if record.secret_file.is_some()
            && let Err(error) = self.host.drop_secret(&self.sys, record, tunnel)
        {
            left.push(format!("the file with the secret on {} stays: {error}", tunnel.destination));
        }
        if let Err(error) = self.host.remove_copy(&self.sys, record, tunnel) {
            left.push(format!("the copy {} on {} stays: {error}", tunnel.ebb, tunnel.destination));
        }
    }

    /// Has the other host take its export away, where it can be reached.
    fn remove_export(&self, record: &Record, tunnel: &Tunnel, left: &mut Vec<String>) {
        // Whoever is still connected is this host, whose session has just ended.
        let words = ["undo", record.name.as_str(), "--kind", "export", "--force"];
        (self.tell)(&format!("on {}: ebb {}", tunnel.destination, words.join(" ")));
        let why = match self.host.far(&self.sys, record, tunnel, &words) {
            Ok(said) if said.status == Some(0) => return,
            // Gone already, or never made.
            Ok(said) if said.stderr.contains(NO_EXPORT) => return,
            Ok(said) => last_lines(&said.stderr),
            Err(error) => error.to_string(),
        };
        left.push(format!(
            "the export {} on {} may still be there ({why}): run `ebb undo {}` there as root",
            record.name, tunnel.destination, record.name
        ));
    }

    /// Ends the supervising process with its `ssh`, and removes what it has shown.
    fn end_tunnel(&self, record: &Record) -> Result<(), Failure> {
        let until = Instant::now() + END_PATIENCE;
        let mut told = false;
        while self.is_supervised(&record.name) {
            if let Some(process) = self.supervised(&record.name) {
                if !std::mem::replace(&mut told, true) {
                    (self.tell)(&format!("ending the SSH connection to {}", record.host));
                }
                self.host.end(&self.sys, &process);
            }
            if Instant::now() >= until {
                return Err(BuildError::StillThere {
                    what: format!("the process that keeps the SSH connection to {}", record.host),
                }
                .into());
            }
            pause();
        }
        let place = self.running(&record.name);
        for name in ["state.json", "ssh.log", "header", "ssh", "lock"] {
            let path = place.join(name);
            own::remove(&path).map_err(|error| Failure::file(&path, error))?;
        }
        self.remove_running(&record.name);
        Ok(())
    }

    /// Removes the directory of what is shown of `name` where nothing is in it.
    pub(super) fn remove_running(&self, name: &str) {
        let place = self.running(name);
        for place in
            [Some(place.as_path()), place.parent()].into_iter().flatten().filter(|place| place.is_dir())
        {
            // Another attachment's may be beside it.
            let _ = own::remove_empty(place);
        }
    }
}

fn understood<T: serde::de::DeserializeOwned>(host: &str, said: &str) -> Result<T, Failure> {
    serde_json::from_str(said).map_err(|error| {
        Failure::far(
            host,
            format!(
                "the answer of its ebb cannot be understood ({error}): {}",
                said.trim().chars().take(200).collect::<String>()
            ),
        )
    })
}

/// The words of the export on the other host.
pub(super) fn export_words(record: &Record, tunnel: &Tunnel) -> Vec<String> {
    let mut words: Vec<&str> =
        vec!["export", &tunnel.device, "--client", &record.client, "--name", &record.name];
    // A name that stays says more: what is there may have been made anew since.
    if let Some(carries) =
        record.carries.as_deref().filter(|_| !tunnel.device.starts_with("/dev/disk/by-id/"))
    {
        words.extend(["--carries", carries]);
    }
    words.extend(["--transport", record.transport.name()]);
    if let Some(secret) = &tunnel.secret {
        words.extend(["--secret", secret]);
    }
    words.push("--json");
    words.into_iter().map(str::to_owned).collect()
}
