//! Lists of keys with values in the order in which the keys were first seen; short enough to be searched.

/// The value of `key`, which is put at the end where it is new.
pub fn entry<K: PartialEq, V: Default>(list: &mut Vec<(K, V)>, key: K) -> &mut V {
    let place = list.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
        list.push((key, V::default()));
        list.len() - 1
    });
    &mut list[place].1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_the_order_of_their_coming() {
        let mut counts: Vec<(&str, u32)> = Vec::new();
        for name in ["b", "a", "b"] {
            *entry(&mut counts, name) += 1;
        }
        assert_eq!(counts, [("b", 2), ("a", 1)]);
    }
}
