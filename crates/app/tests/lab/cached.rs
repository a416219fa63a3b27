//! A cache of LVM's in front of an array that stays: made, stopped, changed, lost, taken away, killed in between. With the real dm-cache and
//! dm-writecache (User-Mode Linux).

use super::cases::check;
use super::kept::told;

/// Every so many boundaries one is tried; `EBB_TEST_EVERY=1` asks for all. The made-up machine is killed at each in every run.
fn every() -> usize {
    ebbtide_host::testing::every(11)
}

#[test]
fn a_cache_is_made_and_flushed_before_it_goes() {
    let script = r#"
modprobe -a dm-cache dm-cache-smq dm-writecache
put() { dd if=/dev/urandom of=/data/file bs=1M count=5 status=none; sum=$(md5sum </data/file); }
kept() { [ "$(md5sum </data/file)" = "$sum" ] && echo kept; }
# What is behind the cache, without it.
alone() { { vgchange -qay; mount /dev/data/data /data; } >/dev/null 2>&1; kept; lvs --noheadings -o segtype data/data 2>/dev/null; off; }
cached() { # design
    fresh; go $1-dry apply $1 --dry-run; go $1-new apply $1; go $1-kernel dmsetup status data-data; put
    go $1-again apply $1; go $1-status ebb status; off; go $1-started apply $1; go $1-kept kept
    go $1-plan undo --dry-run; [ $1 = cache_through ] || off; go $1-undone undo; go $1-alone alone
    go $1-back apply $1; go $1-attached dmsetup status data-data; go $1-data kept
    ${2:-true}
    go $1-gone undo --destroy; go $1-blank wipefs /dev/ubda /dev/ubdb /dev/ubdc
}
change() { go change-dry apply cache_back --dry-run; go change apply cache_back; go change-kernel dmsetup table data-data; go change-kept kept; }
cached cache_through change
cached cache_back
cached cache_writes
# Somebody takes the cache away.
fresh; apply cache_back >/dev/null; put; lvconvert -q --yes --uncache data/data >/dev/null; go taken-status ebb status; go taken apply cache_back; go taken-kept kept; go taken-now ebb status
"#;
    let told = told(script);
    for (name, kind, loss) in [
        ("cache_through", " cache ", "nothing is lost with a disk of the cache"),
        ("cache_back", " cache ", "all of the array is lost"),
        ("cache_writes", " writecache ", "all of the array is lost"),
    ] {
        let case = |end: &str| format!("{name}-{end}");
        check(
            &told,
            &[
                (&case("dry"), "0", loss),
                (&case("new"), "0", loss),
                (&case("kernel"), "0", kind),
                (&case("again"), "0", "nothing to do"),
                (&case("status"), "0", "healthy"),
                (&case("started"), "0", "applied"),
                (&case("kept"), "0", "kept"),
                (&case("plan"), "0", "lvconvert --yes --uncache data/data"),
                (&case("undone"), "0", "taken away"),
                (
                    &case("alone"),
                    "0",
                    if name == "cache_writes" { "kept   striped" } else { "kept   linear" },
                ),
                (&case("back"), "0", "applied"),
                (&case("attached"), "0", kind),
                (&case("data"), "0", "kept"),
                (&case("gone"), "0", "taken away"),
                (&case("blank"), "0", ""),
            ],
        );
    }
    check(
        &told,
        &[
            ("change-dry", "0", "cache_mode = \"writeback\""),
            ("change", "0", "applied"),
            ("change-kernel", "0", "writeback"),
            ("change-kept", "0", "kept"),
            ("taken-status", "1", "has no cache"),
            ("taken", "0", "applied"),
            ("taken-kept", "0", "kept"),
            ("taken-now", "0", "healthy"),
        ],
    );
}

#[test]
fn what_is_lost_with_a_disk_of_a_cache_is_said_and_else_nothing_is() {
    let script = r#"
modprobe -a dm-cache dm-cache-smq dm-writecache
blank() { off; dd if=/dev/zero of=/dev/ubdc bs=1M 2>/dev/null; }
lose() { fresh; apply $1 >/dev/null; echo kept >/data/file; "$2"; }
lose cache_through blank; go blank-status ebb status; go blank-dry apply cache_through --dry-run; go blank apply cache_through
go blank-kept cat /data/file; go blank-kernel dmsetup status data-data; go blank-now ebb status; go blank-again apply cache_through
# Killed anywhere while that is made good.
for n in $(seq 0 EVERY 40); do
    lose cache_through blank; EBB_TEST_HALT=$n apply cache_through >/dev/null; [ $? = 137 ] || break
    apply cache_through >/run/again || go killed-$n cat /run/again; [ "$(cat /data/file)" = kept ] || go killed-$n false
done
go killed echo $n
away() { off; mv /dev/disk/by-id/t-c /run; dd if=/dev/zero of=/dev/ubdc bs=1M 2>/dev/null; }
lose cache_through away; go away apply cache_through; go away-undone undo; mv /run/t-c /dev/disk/by-id
# Its mode was changed by hand: what was written last may be on the disk alone.
fresh; apply cache_through >/dev/null; lvchange -q --yes --cachemode writeback data/data >/dev/null; echo kept >/data/file; blank
go by_hand apply cache_through; go by_hand-undone undo
lose cache_writes blank; go writes-status ebb status; go writes apply cache_writes; go writes-undone undo
"#;
    let told = told(&script.replace("EVERY", &every().to_string()));
    check(
        &told,
        &[
            ("blank-status", "1", "its cache came back blank: `ebb apply` makes that anew"),
            ("blank-dry", "0", "--uncache --force data/data"),
            ("blank", "0", "applied"),
            ("blank-kept", "0", "kept"),
            ("blank-kernel", "0", " cache "),
            ("blank-now", "0", "healthy"),
            ("blank-again", "0", "nothing to do"),
            ("away", "1", "the cache is made anew, and nothing is lost"),
            ("away-undone", "0", "taken away"),
            ("by_hand", "1", "is not activated"),
            ("by_hand-undone", "0", "taken away"),
            ("writes-status", "1", "its data cannot be reached"),
            ("writes", "1", "What was written last may be there alone"),
            ("writes-undone", "0", "taken away"),
        ],
    );
    assert!(!told.iter().any(|(case, _)| case.starts_with("killed-")), "{told:?}");
    check(&told, &[("killed", "0", "")]);
}

#[test]
fn an_apply_of_a_cache_that_is_killed_goes_on() {
    let script = r#"
modprobe -a dm-cache dm-cache-smq dm-writecache
for n in $(seq 0 EVERY 60); do
    fresh; EBB_TEST_HALT=$n apply cache_back >/dev/null; [ $? = 137 ] || break
    [ $((n % 2)) = 0 ] || off
    apply cache_back >/run/again || go killed-$n cat /run/again
    dmsetup status data-data | grep -q ' cache ' || go killed-$n false
    echo kept >/data/file
    EBB_TEST_HALT=$((n / 2)) undo --destroy >/dev/null; [ ! -e /var/lib/ebbtide/apply/data.json ] || undo --destroy >/run/again || go killed-$n cat /run/again
    [ -z "$(wipefs /dev/ubda /dev/ubdb /dev/ubdc)" ] || go killed-$n wipefs /dev/ubda /dev/ubdb /dev/ubdc
done
go ended echo $n
"#;
    let told = told(&script.replace("EVERY", &every().to_string()));
    assert!(!told.iter().any(|(case, _)| case.starts_with("killed-")), "{told:?}");
    check(&told, &[("ended", "0", "")]);
}
