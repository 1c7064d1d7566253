use super::*;

#[test]
fn no_kind_has_two_rows() {
    let mut kinds: Vec<_> = ROWS.iter().map(|(group, kind, _)| (group, kind)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds.len(), ROWS.len());
}
