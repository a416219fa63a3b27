use super::*;

/// The place of a design is among as many of each build as of its own: so it is that of a block among blocks that are alike.
#[test]
fn rivals_are_as_many_of_each_build_as_of_the_design_s_own() {
    let builds = [0, 1, 1, 1, 2, 2];
    let of = |design: usize, field: &[usize]| {
        let mut found = rivals(design, field, &builds);
        found.sort_unstable();
        found
    };
    // The best of each other build, by the order of the field.
    assert_eq!(of(0, &[5, 3, 0, 1, 2, 4]), [3, 5]);
    assert_eq!(of(4, &[5, 3, 0, 1, 2, 4]), [1, 3, 5]);
    assert_eq!(of(1, &[5, 3, 0, 1, 2, 4]), [2, 3]);
    // Whether it is in the field itself or not.
    assert_eq!((of(4, &[5, 3, 1]), of(2, &[0, 4, 5])), (vec![1, 3, 5], vec![0, 4]));
    let alone: Vec<usize> = (0..6).collect();
    assert_eq!(rivals(2, &[0, 1, 2, 3, 4, 5], &alone), [0, 1, 3, 4, 5]);
}
