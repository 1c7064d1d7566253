//! Decides on certificate renewals of nodes. Pure: no I/O, no clock.
//!
//! The requester authenticates with its current certificate, so Kubernetes vouches for the node's identity. It gets another
//! certificate for that node only, while the node that joined is its account's and the account is open.

use jiff::Timestamp;
use kube_types::user::JoinedNode;

use super::csr_decision::{CsrDecision, Denial, MAX_REQUEST_AGE, NodeAccount, ensure};
use super::node_csr::{NodeCsr, NodeProgram};

/// Decides on a request of the node `node`. `owner` is the account that the node's name belongs to, if it still exists.
pub(crate) fn decide(
    asked: &NodeCsr,
    node: &str,
    owner: Option<&NodeAccount<'_>>,
    now: Timestamp,
) -> CsrDecision {
    match check_rules(asked, node, owner, now) {
        Ok(program) => CsrDecision::Approve { node: node.to_owned(), program },
        Err(denial) => CsrDecision::Deny(denial),
    }
}

/// Checks the rules in order. Returns the first violation.
fn check_rules(
    asked: &NodeCsr,
    node: &str,
    owner: Option<&NodeAccount<'_>>,
    now: Timestamp,
) -> Result<NodeProgram, Denial> {
    let owner = owner.filter(|owner| owner.is_open).ok_or(Denial::AccountClosed)?;
    ensure(asked.has_client_usages(), Denial::WrongUsages)?;
    ensure(asked.has_allowed_lifetime(), Denial::TooLong)?;
    let (name, program) = asked.node_and_program(owner.namespace).ok_or(Denial::WrongSubject)?;
    ensure(name == node, Denial::WrongSubject)?;
    // A machine that returned after its removal has a record without a granted request.
    let has_joined = |joined: &JoinedNode| joined.name == node && !joined.requests.is_empty();
    ensure(owner.joined.iter().any(has_joined), Denial::NodeGone)?;
    ensure(now.duration_since(asked.created) <= MAX_REQUEST_AGE, Denial::TooOld)?;
    Ok(program)
}

#[cfg(test)]
mod tests {
    use domain::ids::UserId;
    use jiff::SignedDuration;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::super::node_csr::{CLIENT_SIGNER, CsrSubject, KUBELET_SIGNER};
    use super::Denial::*;
    use super::*;

    /// A valid case, of which a row changes one thing.
    struct RenewalCase {
        csr: NodeCsr,
        account_exists: bool,
        is_account_open: bool,
        joined: Vec<JoinedNode>,
        now: Timestamp,
    }

    fn strings(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    fn valid_case() -> RenewalCase {
        let now = "2026-01-02T03:04:05Z".parse().unwrap();
        let joined = JoinedNode {
            name: "edge-1".to_owned(),
            since: Time(now),
            token: String::new(),
            pool: String::new(),
            requests: strings(&["kubelet/1"]),
            uid: String::new(),
        };
        RenewalCase {
            csr: NodeCsr {
                uid: "request-2".to_owned(),
                user: "system:node:edge-1".to_owned(),
                groups: strings(&["system:nodes", "system:authenticated"]),
                signer: KUBELET_SIGNER.to_owned(),
                usages: strings(&["client auth", "digital signature"]),
                created: now,
                expiration_seconds: None,
                subject: Some(CsrSubject {
                    name: "system:node:edge-1".to_owned(),
                    organizations: strings(&["system:nodes"]),
                    has_other_names: false,
                }),
            },
            account_exists: true,
            is_account_open: true,
            joined: vec![joined],
            now,
        }
    }

    fn set_yurthub_request(case: &mut RenewalCase, tenant: &str) {
        case.csr.signer = CLIENT_SIGNER.to_owned();
        let organizations = strings(&[tenant, "openyurt:yurthub", "system:nodes"]);
        case.csr.subject.as_mut().unwrap().organizations = organizations;
    }

    type RenewalRow = (&'static str, fn(&mut RenewalCase), Result<NodeProgram, Denial>);

    #[rustfmt::skip]
    const ROWS: &[RenewalRow] = &[
        ("as it should be", |_| {}, Ok(NodeProgram::Kubelet)),
        ("with key encipherment", |c| c.csr.usages.push("key encipherment".to_owned()), Ok(NodeProgram::Kubelet)),
        ("the hub's", |c| set_yurthub_request(c, "openyurt:tenant:uaaaaaaaaaa"), Ok(NodeProgram::Yurthub)),
        ("almost an hour old", |c| c.now = c.csr.created + MAX_REQUEST_AGE, Ok(NodeProgram::Kubelet)),

        ("no account", |c| c.account_exists = false, Err(AccountClosed)),
        ("a closed account", |c| c.is_account_open = false, Err(AccountClosed)),
        ("for a day", |c| c.csr.expiration_seconds = Some(86_400), Ok(NodeProgram::Kubelet)),
        ("for more than a day", |c| c.csr.expiration_seconds = Some(86_401), Err(TooLong)),
        ("for servers too", |c| c.csr.usages.push("server auth".to_owned()), Err(WrongUsages)),
        ("another node", |c| c.csr.subject.as_mut().unwrap().name = "system:node:edge-2".to_owned(), Err(WrongSubject)),
        ("a person", |c| c.csr.subject.as_mut().unwrap().name = "longshore:user:uaaaaaaaaaa".to_owned(), Err(WrongSubject)),
        ("administrators", |c| c.csr.subject.as_mut().unwrap().organizations = strings(&["system:masters"]), Err(WrongSubject)),
        ("more than a name", |c| c.csr.subject.as_mut().unwrap().has_other_names = true, Err(WrongSubject)),
        ("nothing to read", |c| c.csr.subject = None, Err(WrongSubject)),
        ("a kubelet at the clients' signer", |c| c.csr.signer = CLIENT_SIGNER.to_owned(), Err(WrongSubject)),
        ("the hub of another", |c| set_yurthub_request(c, "openyurt:tenant:ubbbbbbbbbb"), Err(WrongSubject)),
        ("a node that was deleted", |c| c.joined.clear(), Err(NodeGone)),
        ("a node that returned after its removal", |c| c.joined[0].requests.clear(), Err(NodeGone)),
        ("another of the account's", |c| c.joined[0].name = "edge-2".to_owned(), Err(NodeGone)),
        ("older than an hour", |c| c.now = c.csr.created + MAX_REQUEST_AGE + SignedDuration::from_secs(1), Err(TooOld)),
    ];

    #[test]
    fn renewal_is_granted_only_for_the_node_of_the_current_certificate() {
        let id: UserId = "uaaaaaaaaaa".parse().unwrap();
        for (what, spoil, expected) in ROWS {
            let mut case = valid_case();
            spoil(&mut case);
            let account = NodeAccount {
                id: &id,
                namespace: "uaaaaaaaaaa",
                is_open: case.is_account_open,
                max_nodes: 0,
                joined: &case.joined,
            };
            let ruling = decide(&case.csr, "edge-1", case.account_exists.then_some(&account), case.now);
            let ruled = match ruling {
                CsrDecision::Approve { node, program } => {
                    assert_eq!(node, "edge-1");
                    Ok(program)
                }
                CsrDecision::Deny(denial) => Err(denial),
            };
            assert_eq!(ruled, *expected, "{what}");
        }
    }
}
