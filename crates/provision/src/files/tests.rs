//! Parts in files: what was there stays to the byte, and taking out is the inverse of putting in.

use super::entries::escaped;
use super::*;
use proptest::prelude::*;

fn text() -> impl Strategy<Value = String> {
    // Lines as people leave them: without an end, with carriage returns, empty, in blocks of other arrays.
    let line = prop_oneof![
        Just("UUID=1 / ext4 defaults 0 1\n".to_owned()),
        Just("\n".to_owned()),
        Just(
            "# ebb: begin other (written by `ebb apply`)\nARRAY /dev/md/other UUID=1\n# ebb: end other\n"
                .to_owned()
        ),
        "[ -~\t\r]{0,20}\n",
    ];
    (proptest::collection::vec(line, 0..6), "[ -~]{0,8}").prop_map(|(lines, last)| lines.concat() + &last)
}

proptest! {
    #[test]
    fn taking_out_is_the_inverse_of_putting_in(before in text(), lines in "([ -~]{0,30}\n){0,3}", changed in "([ -~]{0,30}\n){0,3}") {
        let (part, other) = (Part::block("/etc/f", lines.clone()), Part::block("/etc/f", changed.clone()));
        prop_assume!(!before.contains("data") && ![&lines, &changed].iter().any(|lines| lines.contains('#')));
        let with = part.put("data", Some(&before), &[]).unwrap();
        prop_assert!(with.starts_with(&before) && with.contains(&lines));
        prop_assert!(part.stands("data", Some(&with)));
        // A second time nothing changes; other lines take the place of the first.
        prop_assert_eq!(part.put("data", Some(&with), &[]).unwrap(), with.clone());
        let replaced = other.put("data", Some(&with), std::slice::from_ref(&part)).unwrap();
        prop_assert!(other.stands("data", Some(&replaced)));
        prop_assert_eq!(part.put("data", Some(&replaced), std::slice::from_ref(&other)).unwrap(), with.clone());
        // What others add later stays.
        let later = format!("{with}later\n");
        prop_assert_eq!(part.take("data", &with, &[]).unwrap(), Some(before.clone()));
        prop_assert!(part.take("data", &later, &[]).unwrap().unwrap().ends_with("later\n"));
        prop_assert_eq!(part.take("data", &before, &[]).unwrap(), Some(before));
    }

    #[test]
    fn two_arrays_do_not_disturb_each_other(before in text(), order: bool) {
        prop_assume!(!before.contains("data"));
        let (one, two) = (Part::block("/etc/f", "one\n".into()), Part::block("/etc/f", "two\n".into()));
        let both = two.put("data_2", Some(&one.put("data", Some(&before), &[]).unwrap()), &[]).unwrap();
        prop_assert!(one.stands("data", Some(&both)) && two.stands("data_2", Some(&both)));
        let (first, second) = if order { ((&one, "data"), (&two, "data_2")) } else { ((&two, "data_2"), (&one, "data")) };
        let left = first.0.take(first.1, &both, &[]).unwrap().unwrap();
        let left = second.0.take(second.1, &left, &[]).unwrap().unwrap();
        prop_assert_eq!(left, before);
    }

    #[test]
    fn a_field_of_fstab_comes_back(field in "[ -~\t]{1,40}") {
        let written = escaped(&field);
        prop_assert!(!written.contains([' ', '\t', '#']));
        let mut back = String::new();
        let mut rest = written.as_str();
        while let Some(at) = rest.find('\\') {
            back.push_str(&rest[..at]);
            back.push(char::from(u8::from_str_radix(&rest[at + 1..at + 4], 8).unwrap()));
            rest = &rest[at + 4..];
        }
        prop_assert_eq!(back + rest, field);
    }
}

#[test]
fn a_block_that_somebody_broke_is_left_alone() {
    let part = Part::block("/etc/fstab", "line\n".into());
    let whole = part.put("data", Some("first\n"), &[]).unwrap();
    let without = |gone: &str| {
        whole.lines().filter(|line| !line.contains(gone)).map(|line| format!("{line}\n")).collect::<String>()
    };
    for broken in [without("begin"), without("ebb: end"), whole.repeat(2)] {
        let error = part.put("data", Some(&broken), &[]).unwrap_err().to_string();
        assert!(error.starts_with("/etc/fstab: the block of data"), "{error}");
        assert!(part.take("data", &broken, &[]).is_err(), "{broken}");
    }
}

#[test]
fn an_end_that_is_gone_belongs_after_the_last_line_of_ebb_s_own() {
    let part = Part::block("/etc/fstab", "UUID=1 /a ext4\nUUID=2 none swap\n".into());
    let whole = part.put("data", Some("first\n"), &[]).unwrap();
    let rest = "/dev/vdz1 /home ext4\n# ebb: begin other (written by `ebb apply`)\nUUID=1 /b ext4\n# ebb: end other\n";
    let wanted = "add the line `# ebb: end data` after line 4, UUID=2 none swap";
    let error = |text: &str| part.take("data", text, &[]).unwrap_err().to_string();
    let broken = whole.replace("# ebb: end data\n", rest);
    assert!(error(&broken).ends_with(wanted), "{}", error(&broken));
    let mended = broken.replace("UUID=2 none swap\n", "UUID=2 none swap\n# ebb: end data\n");
    assert_eq!(part.take("data", &mended, &[]).unwrap().unwrap(), format!("first\n{rest}"));
    let edited = broken.replace("UUID=2 none swap\n", "").replace("/a ext4", "/a ext4 noatime");
    assert!(error(&edited).ends_with("after line 3, UUID=1 /a ext4 noatime"), "{}", error(&edited));
    let empty = edited.replace("UUID=1 /a ext4 noatime\n", "");
    assert!(error(&empty).contains("after line 2, # ebb: begin data"), "{}", error(&empty));
}

#[test]
fn an_array_of_somebody_s_in_the_block_stays() {
    let own = "ARRAY /dev/md/data UUID=1:2:3:4\n";
    let part = Part::block("/etc/mdadm/mdadm.conf", own.into());
    let with = part.put("data", Some("HOMEHOST <system>\n"), &[]).unwrap();
    let theirs = "ARRAY /dev/md/mine UUID=5:6:7:8\nARRAY <ignore> UUID=9:9:9:9\n";
    let with = with.replace(own, &format!("{own}{theirs}"));
    assert_eq!(part.take("data", &with, &[]).unwrap().unwrap(), format!("HOMEHOST <system>\n{theirs}"));
    // What was edited is ebb's still: its name or its uuid says so.
    for edited in ["ARRAY /dev/md/data metadata=1.2 UUID=1:2:3:4\n", "ARRAY <ignore> UUID=1:2:3:4\n"] {
        let with = with.replace(own, edited);
        assert_eq!(part.take("data", &with, &[]).unwrap().unwrap(), format!("HOMEHOST <system>\n{theirs}"));
    }
}

#[test]
fn a_file_of_ebb_s_own_takes_the_place_of_nobody_s() {
    let part = Part::file("/etc/udev/rules.d/90-ebb-data.rules", "data", "rule\n");
    let text = part.put("data", None, &[]).unwrap();
    assert!(part.stands("data", Some(&text)) && !part.stands("data", None));
    assert_eq!(part.take("data", &text, &[]).unwrap(), None);
    assert_eq!(part.put("data", Some(&text.replace("rule", "other")), &[]).unwrap(), text);
    assert!(part.put("data", Some("somebody's\n"), &[]).is_err());
    assert_eq!(part.take("data", "somebody's\n", &[]).unwrap().as_deref(), Some("somebody's\n"));
    let program = Part::program("/usr/lib/ebb", "data", "#!/bin/sh\nexit 0\n");
    let text = program.put("data", None, &[]).unwrap();
    assert!(text.starts_with("#!/bin/sh\n# ebb: data") && text.ends_with("exit 0\n"), "{text}");
    assert_eq!(program.take("data", &text, &[]).unwrap(), None);
}

#[test]
fn a_line_of_somebody_s_in_the_block_stays_and_so_do_ends_of_lines() {
    let part = Part::block("/etc/fstab", "UUID=1 /a ext4\nUUID=2 none swap\n".into());
    let with = part.put("data", Some("first\n"), &[]).unwrap();
    let with = with
        .replace("UUID=2 none", "theirs\nUUID=9 none swap\nUUID=2 none")
        .replace("swap\n# ebb: end", "swap\n# a note\n# ebb: end");
    assert_eq!(
        part.take("data", &with, &[]).unwrap().unwrap(),
        "first\ntheirs\nUUID=9 none swap\n# a note\n"
    );
    let edited = part.put("data", Some("first\n"), &[]).unwrap().replace("ext4", "ext4,noatime");
    assert_eq!(part.take("data", &edited, &[]).unwrap().unwrap(), "first\n");
    let again = part.put("data", Some(&with), &[]).unwrap();
    assert!(
        again.contains("swap\ntheirs\nUUID=9 none swap\n# a note\n# ebb: end")
            && part.stands("data", Some(&again))
    );
    // What the design before it had goes.
    let earlier = [
        Part::block("/etc/fstab", "UUID=9 none swap\n".into()),
        Part::block("/etc/other", "theirs\n".into()),
    ];
    let again = part.put("data", Some(&with), &earlier).unwrap();
    assert!(again.contains("swap\ntheirs\n# a note\n# ebb: end"), "{again}");
    assert_eq!(part.take("data", &with, &earlier).unwrap().unwrap(), "first\ntheirs\n# a note\n");
    let dos = part.put("data", Some("first\n"), &[]).unwrap().replace('\n', "\r\n");
    assert!(part.stands("data", Some(&dos)));
    assert_eq!(part.take("data", &dos, &[]).unwrap().unwrap(), "first\r\n");
    assert_eq!(others(&with), others("first\n"));
    assert_ne!(others("first\n"), others("second\n"));
}
