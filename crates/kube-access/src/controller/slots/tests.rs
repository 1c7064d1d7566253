//! Slots under hostile load; time is an argument.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn limits() -> SlotLimits {
    SlotLimits {
        active: 8,
        active_share: 2,
        reserve: 2,
        slow: 6,
        slow_share: 3,
        slow_after: 10 * SECOND,
        deadline: 60 * SECOND,
    }
}

#[expect(clippy::ptr_arg, reason = "a function of the key, which is a String")]
fn tenant_of(key: &String) -> String {
    key.split('/').next().unwrap_or_default().to_owned()
}

fn push(slots: &mut Slots<String>, tenant: &str, count: usize, now: Instant) {
    for number in 0..count {
        slots.push(tenant, format!("{tenant}/{number}"), now);
    }
}

fn begin_all(slots: &mut Slots<String>, now: Instant) -> Vec<String> {
    std::iter::from_fn(|| slots.begin(now)).map(|(_, key)| key).collect()
}

#[test]
fn hanging_tenant_leaves_half_of_the_slots_to_others() {
    let (mut slots, now) = (Slots::new(limits()), Instant::now());
    push(&mut slots, "hostile", 600, now);
    assert_eq!(begin_all(&mut slots, now).len(), 4, "nobody else waits");
    push(&mut slots, "good", 3, now);
    assert_eq!(begin_all(&mut slots, now), ["good/0", "good/1"], "up to its share");
    push(&mut slots, "late", 2, now);
    assert_eq!(begin_all(&mut slots, now), ["late/0"], "the reserve serves tenants without a slot");
    push(&mut slots, "later", 1, now);
    assert_eq!(begin_all(&mut slots, now), ["later/0"]);
    assert_eq!((slots.usage().active, slots.usage().waiting), (8, 598));
    slots.end("hostile", &"hostile/0".to_owned());
    assert!(begin_all(&mut slots, now).is_empty(), "only the reserve is left");
    slots.end("later", &"later/0".to_owned());
    slots.end("good", &"good/0".to_owned());
    assert_eq!(begin_all(&mut slots, now), ["good/2"], "it waited longest among those below their share");
}

#[test]
fn slow_reconciles_leave_the_active_slots_up_to_the_share_of_their_tenant() {
    let (mut slots, now) = (Slots::new(limits()), Instant::now());
    push(&mut slots, "hostile", 600, now);
    assert_eq!(begin_all(&mut slots, now).len(), 4);
    assert_eq!(slots.next_wake(), Some(now + 10 * SECOND));
    slots.demote(now + 10 * SECOND, tenant_of);
    assert_eq!((slots.usage().active, slots.usage().slow), (1, 3));
    assert_eq!(begin_all(&mut slots, now + 10 * SECOND).len(), 3);
    slots.demote(now + 20 * SECOND, tenant_of);
    assert_eq!((slots.usage().active, slots.usage().slow), (4, 3), "its share of the slow slots is used up");
    slots.end("hostile", &"hostile/0".to_owned());
    slots.demote(now + 30 * SECOND, tenant_of);
    assert_eq!((slots.usage().active, slots.usage().slow), (3, 3), "the place that became free is taken");
    for number in 0..7 {
        slots.end("hostile", &format!("hostile/{number}"));
    }
    assert_eq!((slots.usage().active, slots.usage().slow), (0, 0));
    assert_eq!(slots.next_wake(), None);
}

#[test]
fn only_tenants_below_their_share_count_as_starved() {
    let (mut slots, now) = (Slots::new(limits()), Instant::now());
    push(&mut slots, "a", 100, now);
    begin_all(&mut slots, now);
    assert_eq!(slots.usage().starving_since, None, "it uses more than its share");
    for tenant in ["b", "c", "d", "e"] {
        push(&mut slots, tenant, 1, now);
    }
    assert_eq!(begin_all(&mut slots, now).len(), 4);
    let later = now + SECOND;
    push(&mut slots, "f", 1, later);
    assert!(begin_all(&mut slots, later).is_empty());
    assert_eq!(slots.usage().starving_since, Some(later));
    slots.end("b", &"b/0".to_owned());
    assert_eq!(begin_all(&mut slots, later), ["f/0"]);
    assert_eq!(slots.usage().starving_since, None);
}

#[test]
fn slots_without_shares_serve_every_key() {
    let (mut slots, now) = (Slots::new(SlotLimits::from(3)), Instant::now());
    for key in ["a", "b", "c", "d"] {
        slots.push(key, key.to_owned(), now);
    }
    assert_eq!(begin_all(&mut slots, now), ["a", "b", "c"]);
    assert_eq!(slots.next_wake(), None);
    slots.end("b", &"b".to_owned());
    assert_eq!(begin_all(&mut slots, now), ["d"]);
}
