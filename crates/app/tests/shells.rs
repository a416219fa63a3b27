//! Completions and manual pages, made from what the help is made from.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod common;

use common::{Home, status, stderr};
use std::process::Command;

fn commands(home: &Home) -> Vec<String> {
    let help = String::from_utf8(home.ebb("--help").output().unwrap().stdout).unwrap();
    let list = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names
        .map(|line| line.split_whitespace().next().unwrap().to_owned())
        .filter(|name| name != "help")
        .collect()
}

#[test]
fn every_command_has_a_page_with_its_options() {
    let home = Home::new();
    let commands = commands(&home);
    assert!(commands.len() > 15 && commands.contains(&"compare".to_owned()), "{commands:?}");
    std::fs::create_dir(home.path("man1")).unwrap();
    assert_eq!(status(&home.ebb("man man1").output().unwrap()), 0);
    let page = |name: &str| std::fs::read_to_string(home.path("man1").join(name)).unwrap();
    for command in &commands {
        assert!(page(&format!("ebb-{command}.1")).contains(".SH SYNOPSIS"), "{command}");
    }
    assert!(
        page("ebb-bench.1").contains("\\-\\-iodepth")
            && page("ebb-profile-run.1").contains("ebb profile run")
    );
    let one = home.ebb("man -").output().unwrap();
    assert_eq!(String::from_utf8(one.stdout).unwrap(), page("ebb.1"));
    let missing = home.ebb("man nowhere").output().unwrap();
    assert_eq!(status(&missing), 2, "{}", stderr(&missing));
}

#[test]
fn bash_completes_commands_and_options() {
    let home = Home::new();
    for shell in ["zsh", "fish"] {
        let script =
            String::from_utf8(home.ebb(&format!("completions {shell}")).output().unwrap().stdout).unwrap();
        for command in commands(&home) {
            assert!(script.contains(&command), "{shell}: {command}");
        }
    }
    let script = home.ebb("completions bash").output().unwrap().stdout;
    std::fs::write(home.path("ebb.bash"), script).unwrap();
    let complete = |words: &str| {
        let last = words.split(' ').count() - 1;
        let word = words.split(' ').next_back().unwrap();
        let text = format!(
            "source ebb.bash; COMP_WORDS=({words}); COMP_CWORD={last}; _ebb ebb '{word}' ''; echo \"${{COMPREPLY[*]}}\""
        );
        let output = Command::new("bash").args(["-ec", &text]).current_dir(home.path(".")).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(complete("ebb wat"), "watch");
    assert_eq!(complete("ebb bench --rwmixr"), "--rwmixread");
    assert_eq!(complete("ebb profile r"), "run");
    assert_eq!(status(&home.ebb("completions tcsh").output().unwrap()), 2);
}
