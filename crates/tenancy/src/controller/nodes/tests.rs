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

fn node(reported: bool, leaving: bool) -> NodeSummary {
    NodeSummary {
        name: format!("{ID}-edge").into(),
        uid: "1".into(),
        created: now(),
        owner_label: Some(ID.into()),
        has_owner_taints: true,
        is_cordoned: false,
        has_reported: reported,
        is_leaving: leaving,
    }
}

#[test]
fn decide_recreates_awaits_and_drops_nodes() {
    let until = now() + MAX_REQUEST_AGE;
    let (granted, returned) = (record(&["kubelet/1"], "1"), record(&[], "1"));
    let new = record(&["kubelet/1"], "");
    #[rustfmt::skip]
    let table = [
        (&granted,  Some(node(true, false)),  now(), NodeDecision::Keep),
        (&granted,  Some(node(true, false)),  until, NodeDecision::Keep),
        (&granted,  Some(node(false, false)), now(), NodeDecision::AwaitReport { until }),
        (&granted,  Some(node(false, false)), until, NodeDecision::Drop),
        (&granted,  Some(node(true, true)),   now(), NodeDecision::Drop),
        // Deleted: recreated, however long ago it was admitted.
        (&granted,  None,                     now(), NodeDecision::Create),
        (&granted,  None,                     until, NodeDecision::Create),
        // Never reported.
        (&new,      None,                     now(), NodeDecision::Create),
        (&new,      None,                     until, NodeDecision::Drop),
        (&returned, Some(node(true, false)),  now(), NodeDecision::Keep),
        (&returned, None,                     now(), NodeDecision::Drop),
    ];
    for (at, (record, node, now, expected)) in table.into_iter().enumerate() {
        assert_eq!(decide(record, node.as_ref(), now), expected, "row {at}");
    }
}
