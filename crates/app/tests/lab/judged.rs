//! What `ebb status` and `ebb undo` judge before anything is taken away. With real md and file systems (User-Mode Linux).

use super::cases::check;
use super::kept::told;

#[test]
fn a_stopped_array_of_each_format_of_md_is_started_with_what_it_carries() {
    let script = r#"
for design in mirror mirror_11 mirror_10 mirror_090; do
    fresh; apply $design >/dev/null; echo kept >/data/file; off
    go $design-status ebb status; go $design-apply apply $design; go $design-kept cat /data/file
done
"#;
    let told = told(script);
    for design in ["mirror", "mirror_11", "mirror_10", "mirror_090"] {
        let case = |end: &str| format!("{design}-{end}");
        check(
            &told,
            &[
                (&case("status"), "1", "drift: the array /dev/md/data is not running"),
                (&case("apply"), "0", "applied"),
                (&case("kept"), "0", "kept"),
            ],
        );
    }
    assert!(!told.iter().any(|(_, said)| said.contains("/dev/zero")), "{told:?}");
}
