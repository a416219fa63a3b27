//! What `ssh` is told, what a shell makes of it, and what comes of the answers: with a shell of this host in the place of
//! the other side.

use super::*;
use crate::command::Real;
use crate::program::own_identity;
use proptest::prelude::*;
use std::sync::Mutex;

/// Stands for `ssh`: the remote command is run by a shell here, with `HOME` and `PATH` of the other side.
struct Local {
    home: tempfile::TempDir,
    told: Mutex<Vec<Vec<String>>>,
}

impl Local {
    fn new() -> Local {
        Local { home: tempfile::tempdir_in("/var/tmp").expect("a directory"), told: Mutex::new(Vec::new()) }
    }

    /// Puts a script called `ebb` on the path there.
    fn with_ebb(self, script: &str) -> Local {
        use std::os::unix::fs::PermissionsExt;
        let path = self.home.path().join("ebb");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("writes");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("may be run");
        self
    }

    fn shell(&self, program: &str, arguments: &[&str]) -> Vec<String> {
        assert_eq!(program, SSH);
        let told = arguments.iter().map(|word| (*word).to_owned()).collect();
        self.told.lock().expect("no panic").push(told);
        let home = self.home.path().to_string_lossy();
        let environment = [format!("HOME={home}"), format!("PATH={home}:/usr/bin:/bin")];
        let mut words = vec!["-i".to_owned()];
        words.extend(environment);
        words.extend(["sh", "-c", arguments.last().expect("a command")].map(str::to_owned));
        words
    }

    fn left(&self) -> Vec<String> {
        let directory = self.home.path().join(".cache/ebbtide");
        let names = std::fs::read_dir(directory).into_iter().flatten();
        names.map(|entry| entry.expect("reads").file_name().to_string_lossy().into_owned()).collect()
    }
}

impl Runner for Local {
    fn run_with(&self, program: &str, arguments: &[&str], input: &[u8]) -> Result<Output, CommandError> {
        let words = self.shell(program, arguments);
        Real.run_with("env", &words.iter().map(String::as_str).collect::<Vec<_>>(), input)
    }

    fn run_on(&self, program: &str, arguments: &[&str], file: &File) -> Result<Output, CommandError> {
        let words = self.shell(program, arguments);
        Real.run_on("env", &words.iter().map(String::as_str).collect::<Vec<_>>(), file)
    }
}

/// Answers everything with this status and standard error.
struct Says(i32, &'static str);

impl Runner for Says {
    fn run_with(&self, _: &str, _: &[&str], _: &[u8]) -> Result<Output, CommandError> {
        Ok(Output { status: Some(self.0), stdout: Vec::new(), stderr: self.1.to_owned() })
    }
}

fn here() -> Identity {
    own_identity(&Real).expect("a sum")
}

fn program() -> File {
    File::open(std::env::current_exe().expect("a path")).expect("opens")
}

#[test]
fn names_are_given_to_ssh_as_they_are_and_never_as_options() {
    for name in ["alpha", "ada@alpha", "ssh://ada@alpha:2222", "10.0.0.1", "fe80::1%eth0", "a_b.example.org"]
    {
        assert_eq!(Ssh::new(name).map(|ssh| ssh.host().to_owned()), Ok(name.to_owned()));
    }
    for name in ["", "-oProxyCommand=x", "@alpha", "ada@", "ada@-x", "a b", "a\nb", "a\0b"] {
        assert!(matches!(Ssh::new(name), Err(SshError::NoHost(_))), "{name:?}");
    }
}

#[test]
fn a_call_asks_nothing_forwards_nothing_and_notices_a_host_that_is_gone() {
    let ssh = Ssh::new("ada@alpha").and_then(|ssh| ssh.through(Path::new("/run/x/c"))).expect("a host");
    let told = texts(ssh.arguments(&["ebb", "it's", "$HOME"]).expect("tells"));
    assert_eq!(
        told.join(" "),
        "-T -o BatchMode=yes -o ConnectTimeout=20 -o ServerAliveInterval=5 -o ServerAliveCountMax=3 -S /run/x/c \
         -o ClearAllForwardings=yes -o ControlMaster=no -- ada@alpha ebb 'it'\\''s' '$HOME'"
    );
    assert!(matches!(ssh.arguments(&["a\0b"]), Err(SshError::Nul(_))));
    let long = format!("/run/{}", "x".repeat(CONTROL_MAX));
    assert!(matches!(ssh.through(Path::new(&long)), Err(SshError::ControlPath { .. })));
}

#[test]
fn a_master_forwards_ports_and_is_asked_by_its_socket() {
    let ssh = Ssh::new("alpha").and_then(|ssh| ssh.through(Path::new("/run/x/c"))).expect("a host");
    let forward =
        |bind: &str, to: &str| Forward { bind: bind.into(), port: 4420, to: to.into(), to_port: 4421 };
    let told = texts(ssh.master(&[forward("127.0.0.1", "localhost"), forward("::1", "::1")])).join(" ");
    assert!(
        told.ends_with(
            "-S /run/x/c -N -M -o ControlPersist=no -o ExitOnForwardFailure=yes \
         -L 127.0.0.1:4420:localhost:4421 -L [::1]:4420:[::1]:4421 -- alpha"
        ),
        "{told}"
    );
    assert!(texts(ssh.ask_master("check")).join(" ").ends_with("-S /run/x/c -O check -- alpha"));
}

#[test]
fn a_host_that_cannot_be_reached_is_told_from_a_command_that_fails() {
    let ssh = Ssh::new("alpha").expect("a host");
    let gone = Says(255, "Welcome\n\nssh: connect to host alpha port 22: Connection refused\n");
    let error = ssh.find(&gone).expect_err("unreachable").to_string();
    assert!(
        error.contains("alpha cannot be reached: Welcome; ssh: connect") && error.contains("without asking")
    );
    let failed = ssh.succeed(&Says(3, "no such thing\n"), &["ebb", "x"], b"").expect_err("fails").to_string();
    assert_eq!(failed, "alpha: `ebb` ended with status 3: no such thing");
    let missing = ssh.run(&crate::command::Never, &["true"], b"").expect_err("missing").to_string();
    assert_eq!(missing, "`ssh` is not installed; install it: apt-get install openssh-client");
}

#[test]
fn the_same_program_is_told_from_another_one_and_from_none() {
    let ssh = Ssh::new("alpha").expect("a host");
    let here = here();
    let none = ssh.same(&Local::new(), &here).expect_err("none").to_string();
    assert!(none.starts_with("alpha has no ebb") && none.ends_with("or write --copy-ebb"), "{none}");

    let old = Local::new().with_ebb("[ \"$1\" = --version ] && echo ebb 0.0.9");
    let found = ssh.find(&old).expect("reached").expect("one");
    assert_eq!((found.version.as_str(), found.sha256), ("0.0.9", None));
    let error = ssh.same(&old, &here).expect_err("another").to_string();
    assert!(error.contains("alpha has ebb 0.0.9, here is ") && error.contains(&here.short()), "{error}");

    let json = serde_json::to_string(&here).expect("JSON");
    let version = &here.version;
    let same = format!("case $1 in --version) echo ebb {version};; identity) echo '{json}';; esac");
    let found = ssh.same(&Local::new().with_ebb(&same), &here).expect("the same");
    assert_eq!((found.program.as_str(), found.sha256.as_ref()), ("ebb", Some(&here.sha256)));

    let other = Identity { sha256: "0".repeat(64), ..here.clone() };
    let error = ssh.same(&Local::new().with_ebb(&same), &other).expect_err("another build").to_string();
    assert!(error.contains("(000000000000)"), "{error}");

    let odd = Local::new().with_ebb("echo Elegant Burst Balancer");
    assert!(matches!(ssh.find(&odd), Err(SshError::Odd { .. })));
}

#[test]
fn a_copy_is_whole_can_be_run_and_is_removed_with_its_directory() {
    let ssh = Ssh::new("alpha").expect("a host");
    let here = here();
    // Any program that knows --version will do.
    let cat = File::open("/bin/cat").expect("opens");
    let sum = Real.run("sha256sum", &["/bin/cat"]).expect("runs").text()[..64].to_owned();
    let there = Local::new();
    let cat_identity = Identity { sha256: sum, ..here.clone() };
    let found = ssh.same_or_copied(&there, &cat_identity, &cat).expect("copies");
    assert!(found.program.starts_with(&*there.home.path().to_string_lossy()) && is_copy(&found.program));
    assert_eq!(there.left().len(), 1);
    assert_eq!(ssh.succeed(&there, &[&found.program], b"said").expect("runs"), "said");
    ssh.remove_copy(&there, &found).expect("removes");
    assert_eq!(there.left(), Vec::<String>::new());

    // One that is not what was meant is not left there.
    let cut = ssh.same_or_copied(&there, &here, &cat).expect_err("not whole");
    assert!(matches!(cut, SshError::Failed { .. }), "{cut}");
    // One that cannot be run there is not left either.
    let text = there.home.path().join("text");
    std::fs::write(&text, "exit 7").expect("writes");
    let sum = Real.run("sha256sum", &[&text.to_string_lossy()]).expect("runs").text()[..64].to_owned();
    let useless = Identity { sha256: sum, ..here };
    let error =
        ssh.same_or_copied(&there, &useless, &File::open(&text).expect("opens")).expect_err("useless");
    assert!(matches!(error, SshError::CopyUseless { .. }), "{error}");
    assert_eq!(there.left(), Vec::<String>::new());
}

#[test]
fn only_copies_are_removed() {
    for path in
        ["/", "/home/ada/ebb", "ebb", "/x/ebbtide/copy-12345678/../ebb", "/x/ebbtide/copy-1234567/ebb", ""]
    {
        assert!(!is_copy(path), "{path}");
    }
    assert!(is_copy("/home/a da/.cache/ebbtide/copy-aB345678/ebb"));
    let ssh = Ssh::new("alpha").expect("a host");
    let found = RemoteProgram { program: "ebb".into(), version: "1".into(), sha256: None };
    ssh.remove_copy(&Says(1, ""), &found).expect("nothing to do");
}

#[test]
fn a_program_that_comes_with_the_input_is_run_on_the_rest_and_goes() {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::process::Stdio;
    let there = Local::new();
    let bytes = std::fs::read("/bin/cat").expect("reads");
    let sum = Real.run("sha256sum", &["/bin/cat"]).expect("runs").text()[..64].to_owned();
    let words = line(&["sh", "-c", &run_a_copy(), "sh", &sum, &bytes.len().to_string(), "-"]).expect("tells");
    for whole in [true, false] {
        let words = there.shell(SSH, &[&words]);
        let mut child = Command::new("env")
            .args(&words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("starts");
        let mut input = child.stdin.take().expect("a pipe");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut said = String::new();
        if whole {
            input.write_all(&bytes).expect("writes");
            output.read_line(&mut said).expect("reads");
            assert_eq!(said.trim(), COPIED);
            assert_eq!(there.left().len(), 1);
            input.write_all(b"the rest").expect("writes");
            drop(input);
            said.clear();
            output.read_to_string(&mut said).expect("reads");
            assert_eq!(said, "the rest");
            assert!(child.wait().expect("ends").success());
        } else {
            input.write_all(&bytes[..1000]).expect("writes");
            drop(input);
            output.read_to_string(&mut said).expect("reads");
            assert_eq!((said.as_str(), child.wait().expect("ends").success()), ("", false));
        }
        assert_eq!(there.left(), Vec::<String>::new());
    }
}

#[test]
fn this_program_is_copied_from_its_own_file() {
    // A test program does not know --version: it arrives whole and is refused as useless there, not as another one.
    let error = Ssh::new("alpha").expect("a host").same_or_copied(&Local::new(), &here(), &program());
    assert!(!matches!(error, Err(SshError::Failed { .. })), "{error:?}");
}

proptest! {
    #[test]
    fn a_shell_reads_the_words_that_were_quoted(words in proptest::collection::vec("[^\0]{0,12}", 1..6)) {
        let mut all = vec!["printf", "%s\\0"];
        all.extend(words.iter().map(String::as_str));
        let text = line(&all).expect("tells");
        let said = Real.run("sh", &["-c", &text]).expect("a shell");
        let said = said.text().into_owned();
        let read: Vec<&str> = said.trim_end_matches('\0').split('\0').collect();
        let expected = words.join("\0");
        prop_assert_eq!(read.join("\0"), expected.trim_end_matches('\0'));
    }
}
