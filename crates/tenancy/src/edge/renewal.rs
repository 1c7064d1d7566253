//! Decides on certificate renewals of nodes. Pure: no I/O, no clock.
//!
//! The requester authenticates with its current certificate, so Kubernetes vouches for the node's identity. It gets another
//! certificate for that node only, while the node is its account's and the account is open.

use jiff::Timestamp;

use super::request::{Asked, Program};
use super::ruling::{Account, Denial, Ruling, WITHIN, holds};

/// Decides on a request of the node `node`. `owner` is the account that the node's name belongs to, if it still exists.
pub(crate) fn rule(asked: &Asked, node: &str, owner: Option<&Account<'_>>, now: Timestamp) -> Ruling {
    match weigh(asked, node, owner, now) {
        Ok(program) => Ruling::Grant { node: node.to_owned(), program },
        Err(denial) => Ruling::Deny(denial),
    }
}

/// Checks the rules in order. Returns the first violation.
fn weigh(asked: &Asked, node: &str, owner: Option<&Account<'_>>, now: Timestamp) -> Result<Program, Denial> {
    let owner = owner.filter(|owner| owner.open).ok_or(Denial::AccountClosed)?;
    holds(asked.is_for_a_client(), Denial::WrongUsages)?;
    holds(asked.is_short_lived(), Denial::TooLong)?;
    let (name, program) = asked.machine(owner.namespace).ok_or(Denial::WrongSubject)?;
    holds(name == node, Denial::WrongSubject)?;
    holds(owner.joined.iter().any(|joined| joined.name == node), Denial::NodeGone)?;
    holds(now.duration_since(asked.created) <= WITHIN, Denial::TooOld)?;
    Ok(program)
}

#[cfg(test)]
mod tests {
    use domain::ids::UserId;
    use jiff::SignedDuration;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kube_types::user::JoinedNode;

    use super::super::request::{CLIENT, KUBELET, Subject};
    use super::Denial::*;
    use super::*;

    /// A valid case, of which a row changes one thing.
    struct Case {
        asked: Asked,
        there: bool,
        open: bool,
        joined: Vec<JoinedNode>,
        now: Timestamp,
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    fn right() -> Case {
        let now = "2026-01-02T03:04:05Z".parse().unwrap();
        let joined = JoinedNode {
            name: "edge-1".to_owned(),
            since: Time(now),
            token: String::new(),
            pool: String::new(),
            requests: Vec::new(),
            uid: String::new(),
        };
        Case {
            asked: Asked {
                uid: "request-2".to_owned(),
                user: "system:node:edge-1".to_owned(),
                groups: words(&["system:nodes", "system:authenticated"]),
                signer: KUBELET.to_owned(),
                usages: words(&["client auth", "digital signature"]),
                created: now,
                seconds: None,
                subject: Some(Subject {
                    name: "system:node:edge-1".to_owned(),
                    organizations: words(&["system:nodes"]),
                    more: false,
                }),
            },
            there: true,
            open: true,
            joined: vec![joined],
            now,
        }
    }

    fn by_the_hub(case: &mut Case, tenant: &str) {
        case.asked.signer = CLIENT.to_owned();
        let organizations = words(&[tenant, "openyurt:yurthub", "system:nodes"]);
        case.asked.subject.as_mut().unwrap().organizations = organizations;
    }

    type Row = (&'static str, fn(&mut Case), Result<Program, Denial>);

    #[rustfmt::skip]
    const ROWS: &[Row] = &[
        ("as it should be", |_| {}, Ok(Program::Kubelet)),
        ("with key encipherment", |c| c.asked.usages.push("key encipherment".to_owned()), Ok(Program::Kubelet)),
        ("the hub's", |c| by_the_hub(c, "openyurt:tenant:uaaaaaaaaaa"), Ok(Program::Hub)),
        ("almost an hour old", |c| c.now = c.asked.created + WITHIN, Ok(Program::Kubelet)),

        ("no account", |c| c.there = false, Err(AccountClosed)),
        ("a closed account", |c| c.open = false, Err(AccountClosed)),
        ("for a day", |c| c.asked.seconds = Some(86_400), Ok(Program::Kubelet)),
        ("for more than a day", |c| c.asked.seconds = Some(86_401), Err(TooLong)),
        ("for servers too", |c| c.asked.usages.push("server auth".to_owned()), Err(WrongUsages)),
        ("another node", |c| c.asked.subject.as_mut().unwrap().name = "system:node:edge-2".to_owned(), Err(WrongSubject)),
        ("a person", |c| c.asked.subject.as_mut().unwrap().name = "longshore:user:uaaaaaaaaaa".to_owned(), Err(WrongSubject)),
        ("administrators", |c| c.asked.subject.as_mut().unwrap().organizations = words(&["system:masters"]), Err(WrongSubject)),
        ("more than a name", |c| c.asked.subject.as_mut().unwrap().more = true, Err(WrongSubject)),
        ("nothing to read", |c| c.asked.subject = None, Err(WrongSubject)),
        ("a kubelet at the clients' signer", |c| c.asked.signer = CLIENT.to_owned(), Err(WrongSubject)),
        ("the hub of another", |c| by_the_hub(c, "openyurt:tenant:ubbbbbbbbbb"), Err(WrongSubject)),
        ("a node that was deleted", |c| c.joined.clear(), Err(NodeGone)),
        ("another of the account's", |c| c.joined[0].name = "edge-2".to_owned(), Err(NodeGone)),
        ("older than an hour", |c| c.now = c.asked.created + WITHIN + SignedDuration::from_secs(1), Err(TooOld)),
    ];

    #[test]
    fn a_node_gets_what_it_has_again_and_nothing_else() {
        let id: UserId = "uaaaaaaaaaa".parse().unwrap();
        for (what, spoil, expected) in ROWS {
            let mut case = right();
            spoil(&mut case);
            let account =
                Account { id: &id, namespace: "uaaaaaaaaaa", open: case.open, most: 0, joined: &case.joined };
            let ruling = rule(&case.asked, "edge-1", case.there.then_some(&account), case.now);
            let ruled = match ruling {
                Ruling::Grant { node, program } => {
                    assert_eq!(node, "edge-1");
                    Ok(program)
                }
                Ruling::Deny(denial) => Err(denial),
            };
            assert_eq!(ruled, *expected, "{what}");
        }
    }
}
