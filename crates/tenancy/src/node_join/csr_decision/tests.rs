//! One case for every rule: a valid request with one change.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::super::node_csr::{CLIENT_SIGNER, CsrSubject, KUBELET_SIGNER};
use super::super::token::JOIN_TOKENS_GROUP;
use super::Denial::*;
use super::*;

const ID: &str = "uaaaaaaaaaa";
const NODE: &str = "uaaaaaaaaaa-edge-1";

/// A valid case, of which a row changes one thing.
struct DecisionCase {
    csr: NodeCsr,
    token: Option<JoinToken>,
    id: UserId,
    account_exists: bool,
    is_account_open: bool,
    max_nodes: i64,
    joined: Vec<JoinedNode>,
    name_owner: Option<UserId>,
    node_exists: bool,
    now: Timestamp,
}

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn valid_case() -> DecisionCase {
    let id: UserId = ID.parse().unwrap();
    let token = JoinToken::mint(&id, None, None, now());
    DecisionCase {
        csr: NodeCsr {
            uid: "request-1".to_owned(),
            user: format!("system:bootstrap:{}", token.id),
            groups: strings(&["system:bootstrappers", JOIN_TOKENS_GROUP, &token_group(&id)]),
            signer: KUBELET_SIGNER.to_owned(),
            usages: strings(&["client auth", "digital signature"]),
            created: now(),
            expiration_seconds: None,
            subject: Some(subject(NODE, &["system:nodes"])),
        },
        token: Some(token),
        id,
        account_exists: true,
        is_account_open: true,
        max_nodes: 3,
        joined: Vec::new(),
        name_owner: None,
        node_exists: false,
        now: now(),
    }
}

fn subject(node: &str, organizations: &[&str]) -> CsrSubject {
    CsrSubject {
        name: format!("system:node:{node}"),
        organizations: strings(organizations),
        has_other_names: false,
    }
}

fn joined_node(name: &str, requests: &[&str]) -> JoinedNode {
    JoinedNode {
        name: name.to_owned(),
        since: Time(now()),
        token: String::new(),
        pool: String::new(),
        requests: strings(requests),
        uid: String::new(),
    }
}

fn decide_case(case: &DecisionCase) -> Result<NodeProgram, Denial> {
    let account = account_of_case(case);
    let known = CsrContext {
        token: case.token.as_ref(),
        account,
        name_owner: case.name_owner.as_ref(),
        node_exists: case.node_exists,
    };
    match decide(&case.csr, &known, case.now) {
        CsrDecision::Approve { node, program } => {
            assert_eq!(node, NODE);
            Ok(program)
        }
        CsrDecision::Deny(denial) => Err(denial),
    }
}

fn account_of_case(case: &DecisionCase) -> Option<NodeAccount<'_>> {
    case.account_exists.then_some(NodeAccount {
        id: &case.id,
        namespace: ID,
        is_open: case.is_account_open,
        max_nodes: case.max_nodes,
        joined: &case.joined,
    })
}

/// Changes the request to yurthub's.
fn set_yurthub_request(case: &mut DecisionCase) {
    case.csr.signer = CLIENT_SIGNER.to_owned();
    let organizations = ["openyurt:tenant:uaaaaaaaaaa", "openyurt:yurthub", "system:nodes"];
    case.csr.subject = Some(subject(NODE, &organizations));
}

/// The account has admitted this node with this token.
fn set_admitted(case: &mut DecisionCase, requests: &[&str]) {
    let token = case.token.as_mut().unwrap();
    token.admitted_nodes.push(NODE.to_owned());
    case.joined = vec![JoinedNode { token: token.id.clone(), ..joined_node(NODE, requests) }];
    case.name_owner = Some(case.id.clone());
}

#[test]
fn legacy_node_keeps_its_name() {
    let mut case = valid_case();
    case.csr.subject = Some(subject("edge-1", &["system:nodes"]));
    let older = JoinedNode {
        token: case.token.as_ref().unwrap().id.clone(),
        ..joined_node("edge-1", &["kubelet/request-1"])
    };
    case.joined = vec![older];
    let known = CsrContext {
        token: case.token.as_ref(),
        account: account_of_case(&case),
        name_owner: Some(&case.id),
        node_exists: true,
    };
    assert!(
        matches!(decide(&case.csr, &known, case.now), CsrDecision::Approve { node, .. } if node == "edge-1")
    );
}

type DecisionRow = (&'static str, fn(&mut DecisionCase), Result<NodeProgram, Denial>);

#[rustfmt::skip]
const ROWS: &[DecisionRow] = &[
    ("as it should be", |_| {}, Ok(NodeProgram::Kubelet)),
    ("with key encipherment", |c| c.csr.usages.push("key encipherment".to_owned()), Ok(NodeProgram::Kubelet)),
    ("the hub beside it", set_yurthub_request, Ok(NodeProgram::Yurthub)),
    ("almost an hour old", |c| c.now = now() + MAX_REQUEST_AGE, Ok(NodeProgram::Kubelet)),
    ("the second of three", |c| c.joined = vec![joined_node("a", &["kubelet/x"])], Ok(NodeProgram::Kubelet)),
    ("a name that was its own before", |c| c.name_owner = Some(c.id.clone()), Ok(NodeProgram::Kubelet)),
    ("granted before a crash", |c| { set_admitted(c, &["kubelet/request-1"]); c.max_nodes = 1; c.node_exists = true; }, Ok(NodeProgram::Kubelet)),
    ("the hub after the kubelet", |c| { set_yurthub_request(c); set_admitted(c, &["kubelet/other"]); c.max_nodes = 1; c.node_exists = true; }, Ok(NodeProgram::Yurthub)),

    ("no token", |c| c.token = None, Err(TokenGone)),
    ("an expired token", |c| c.token.as_mut().unwrap().expires = now(), Err(TokenGone)),
    ("another token's user", |c| c.csr.user = "system:bootstrap:abcdef".to_owned(), Err(WrongRequester)),
    ("no token's user", |c| c.csr.user = "longshore:user:uaaaaaaaaaa".to_owned(), Err(WrongRequester)),
    ("a node's user", |c| c.csr.user = "system:node:uaaaaaaaaaa-edge-1".to_owned(), Err(WrongRequester)),
    ("another's token", |c| c.token.as_mut().unwrap().owner = "ubbbbbbbbbb".parse().unwrap(), Err(WrongRequester)),
    ("not in the account's group", |c| { c.csr.groups.pop(); }, Err(WrongRequester)),
    ("no account", |c| c.account_exists = false, Err(AccountClosed)),
    ("a closed account", |c| c.is_account_open = false, Err(AccountClosed)),
    ("a closed account, granted before", |c| { set_admitted(c, &["kubelet/request-1"]); c.is_account_open = false; }, Err(AccountClosed)),
    ("older than an hour", |c| c.now = now() + MAX_REQUEST_AGE + SignedDuration::from_secs(1), Err(TooOld)),

    ("for servers", |c| c.csr.usages = strings(&["digital signature", "server auth"]), Err(WrongUsages)),
    ("for servers too", |c| c.csr.usages.push("server auth".to_owned()), Err(WrongUsages)),
    ("for signing certificates", |c| c.csr.usages = strings(&["cert sign", "client auth", "digital signature"]), Err(WrongUsages)),
    ("for nothing", |c| c.csr.usages.clear(), Err(WrongUsages)),
    ("for a day", |c| c.csr.expiration_seconds = Some(86_400), Ok(NodeProgram::Kubelet)),
    ("for more than a day", |c| c.csr.expiration_seconds = Some(86_401), Err(TooLong)),
    ("another signer", |c| c.csr.signer = "kubernetes.io/kubelet-serving".to_owned(), Err(WrongSubject)),
    ("a kubelet at the clients' signer", |c| c.csr.signer = CLIENT_SIGNER.to_owned(), Err(WrongSubject)),
    ("nothing to read", |c| c.csr.subject = None, Err(WrongSubject)),
    ("no organization", |c| c.csr.subject = Some(subject(NODE, &[])), Err(WrongSubject)),
    ("administrators", |c| c.csr.subject = Some(subject(NODE, &["system:masters"])), Err(WrongSubject)),
    ("administrators too", |c| c.csr.subject = Some(subject(NODE, &["system:masters", "system:nodes"])), Err(WrongSubject)),
    ("nodes twice", |c| c.csr.subject = Some(subject(NODE, &["system:nodes", "system:nodes"])), Err(WrongSubject)),
    ("OpenYurt's users", |c| c.csr.subject = Some(subject(NODE, &["openyurt:users"])), Err(WrongSubject)),
    ("the hub of another", |c| {
        set_yurthub_request(c);
        c.csr.subject.as_mut().unwrap().organizations[0] = "openyurt:tenant:ubbbbbbbbbb".to_owned();
    }, Err(WrongSubject)),
    ("the hub of nobody", |c| {
        set_yurthub_request(c);
        c.csr.subject.as_mut().unwrap().organizations.remove(0);
    }, Err(WrongSubject)),
    ("a person", |c| c.csr.subject.as_mut().unwrap().name = "longshore:user:ubbbbbbbbbb".to_owned(), Err(WrongSubject)),
    ("no name", |c| c.csr.subject.as_mut().unwrap().name = "system:node:".to_owned(), Err(WrongSubject)),
    ("a name that is none", |c| c.csr.subject.as_mut().unwrap().name = "system:node:Edge_1".to_owned(), Err(WrongSubject)),
    ("a name with a way out", |c| c.csr.subject.as_mut().unwrap().name = "system:node:../a".to_owned(), Err(WrongSubject)),
    ("more than a name", |c| c.csr.subject.as_mut().unwrap().has_other_names = true, Err(WrongSubject)),

    ("an operator's name", |c| c.csr.subject = Some(subject("control-plane-1", &["system:nodes"])), Err(WrongName)),
    ("another's prefix", |c| c.csr.subject = Some(subject("ubbbbbbbbbb-edge-1", &["system:nodes"])), Err(WrongName)),
    ("the prefix alone", |c| c.csr.subject = Some(subject("uaaaaaaaaaa", &["system:nodes"])), Err(WrongName)),
    ("more than 63 characters", |c| c.csr.subject = Some(subject(&format!("{NODE}{}", "x".repeat(46)), &["system:nodes"])), Err(WrongName)),
    ("another's name", |c| c.name_owner = Some("ubbbbbbbbbb".parse().unwrap()), Err(NameTaken)),
    ("a node that is there", |c| c.node_exists = true, Err(NameTaken)),
    ("a node that is there and was its own", |c| { c.node_exists = true; c.name_owner = Some(c.id.clone()); }, Err(NameTaken)),
    ("the kubelet again", |c| set_admitted(c, &["kubelet/other"]), Err(Replayed)),
    ("the hub again", |c| { set_yurthub_request(c); set_admitted(c, &["kubelet/a", "yurthub/b"]); }, Err(Replayed)),
    ("the hub by another token", |c| { set_yurthub_request(c); c.joined = vec![joined_node(NODE, &["kubelet/a"])]; }, Err(Replayed)),
    ("the hub after an hour", |c| {
        set_yurthub_request(c);
        set_admitted(c, &["kubelet/a"]);
        c.now = now() + MAX_REQUEST_AGE + SignedDuration::from_secs(1);
        c.csr.created = c.now;
    }, Err(Replayed)),
    ("again by the same token after it was gone", |c| { set_admitted(c, &[]); c.joined.clear(); }, Err(Replayed)),
    ("one too many", |c| c.joined = ["a", "b", "c"].map(|name| joined_node(name, &[])).into(), Err(TooManyNodes)),
    ("none allowed", |c| c.max_nodes = 0, Err(TooManyNodes)),
];

#[test]
fn each_violation_has_its_own_denial() {
    for (what, spoil, expected) in ROWS {
        let mut case = valid_case();
        spoil(&mut case);
        assert_eq!(decide_case(&case), *expected, "{what}");
    }
}

#[test]
fn every_denial_has_a_case() {
    let all = [
        TokenGone,
        WrongRequester,
        AccountClosed,
        TooOld,
        WrongUsages,
        TooLong,
        WrongSubject,
        WrongName,
        NameTaken,
        Replayed,
        TooManyNodes,
    ];
    // `NodeGone` is for renewals, `SignedTooLong` for requests that the rules granted.
    for denial in all {
        assert!(ROWS.iter().any(|(.., expected)| *expected == Err(denial)), "{denial:?}");
        assert!(!denial.to_string().is_empty() && denial.reason().chars().all(char::is_alphanumeric));
    }
}
