//! Decision about a node record, by the state of its Node.

use super::*;

const ID: &str = "uaaaaaaaaaa";

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn record(requests: &[&str], uid: &str) -> JoinedNode {
    JoinedNode {
        name: format!("{ID}-edge"),
        since: Time(now()),
        token: String::new(),
        pool: String::new(),
        requests: requests.iter().map(|&request| request.to_owned()).collect(),
        uid: uid.to_owned(),
    }
}

fn node(reported: bool, leaving: bool) -> Kept {
    Kept {
        name: format!("{ID}-edge").into(),
        uid: "1".into(),
        created: now(),
        labelled: Some(ID.into()),
        tainted: true,
        cordoned: false,
        reported,
        leaving,
    }
}

#[test]
fn node_is_created_again_awaited_and_given_up() {
    let until = now() + WITHIN;
    let (granted, returned) = (record(&["kubelet/1"], "1"), record(&[], "1"));
    let new = record(&["kubelet/1"], "");
    #[rustfmt::skip]
    let table = [
        (&granted,  Some(node(true, false)),  now(), Fate::Keep),
        (&granted,  Some(node(true, false)),  until, Fate::Keep),
        (&granted,  Some(node(false, false)), now(), Fate::Await { until }),
        (&granted,  Some(node(false, false)), until, Fate::Drop),
        (&granted,  Some(node(true, true)),   now(), Fate::Drop),
        // Deleted: recreated, however long ago it was admitted.
        (&granted,  None,                     now(), Fate::Create),
        (&granted,  None,                     until, Fate::Create),
        // Never reported.
        (&new,      None,                     now(), Fate::Create),
        (&new,      None,                     until, Fate::Drop),
        (&returned, Some(node(true, false)),  now(), Fate::Keep),
        (&returned, None,                     now(), Fate::Drop),
    ];
    for (at, (record, node, now, expected)) in table.into_iter().enumerate() {
        assert_eq!(fate(record, node.as_ref(), now), expected, "row {at}");
    }
}
