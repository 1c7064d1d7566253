//! One case for every rule: a valid request with one change.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::super::request::{CLIENT, KUBELET, Subject};
use super::super::token::JOINERS;
use super::Denial::*;
use super::*;

const ID: &str = "uaaaaaaaaaa";
const NODE: &str = "uaaaaaaaaaa-edge-1";

/// A valid case, of which a row changes one thing.
struct Case {
    asked: Asked,
    token: Option<JoinToken>,
    id: UserId,
    there: bool,
    open: bool,
    most: i64,
    joined: Vec<JoinedNode>,
    named: Option<UserId>,
    exists: bool,
    now: Timestamp,
}

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn right() -> Case {
    let id: UserId = ID.parse().unwrap();
    let token = JoinToken::mint(&id, None, None, now());
    Case {
        asked: Asked {
            uid: "request-1".to_owned(),
            user: format!("system:bootstrap:{}", token.id),
            groups: words(&["system:bootstrappers", JOINERS, &group(&id)]),
            signer: KUBELET.to_owned(),
            usages: words(&["client auth", "digital signature"]),
            created: now(),
            seconds: None,
            subject: Some(subject(NODE, &["system:nodes"])),
        },
        token: Some(token),
        id,
        there: true,
        open: true,
        most: 3,
        joined: Vec::new(),
        named: None,
        exists: false,
        now: now(),
    }
}

fn subject(node: &str, organizations: &[&str]) -> Subject {
    Subject { name: format!("system:node:{node}"), organizations: words(organizations), more: false }
}

fn joined(name: &str, requests: &[&str]) -> JoinedNode {
    JoinedNode {
        name: name.to_owned(),
        since: Time(now()),
        token: String::new(),
        pool: String::new(),
        requests: words(requests),
        uid: String::new(),
    }
}

fn judged(case: &Case) -> Result<Program, Denial> {
    let account = ruling_account(case);
    let known =
        Known { token: case.token.as_ref(), account, named: case.named.as_ref(), exists: case.exists };
    match rule(&case.asked, &known, case.now) {
        Ruling::Grant { node, program } => {
            assert_eq!(node, NODE);
            Ok(program)
        }
        Ruling::Deny(denial) => Err(denial),
    }
}

fn ruling_account(case: &Case) -> Option<Account<'_>> {
    case.there.then_some(Account {
        id: &case.id,
        namespace: ID,
        open: case.open,
        most: case.most,
        joined: &case.joined,
    })
}

/// Changes the request to the hub's.
fn by_the_hub(case: &mut Case) {
    case.asked.signer = CLIENT.to_owned();
    let organizations = ["openyurt:tenant:uaaaaaaaaaa", "openyurt:yurthub", "system:nodes"];
    case.asked.subject = Some(subject(NODE, &organizations));
}

/// The account has admitted this node with this token.
fn let_in(case: &mut Case, requests: &[&str]) {
    let token = case.token.as_mut().unwrap();
    token.let_in.push(NODE.to_owned());
    case.joined = vec![JoinedNode { token: token.id.clone(), ..joined(NODE, requests) }];
    case.named = Some(case.id.clone());
}

#[test]
fn node_that_joined_before_names_had_a_prefix_keeps_its_name() {
    let mut case = right();
    case.asked.subject = Some(subject("edge-1", &["system:nodes"]));
    let older = JoinedNode {
        token: case.token.as_ref().unwrap().id.clone(),
        ..joined("edge-1", &["kubelet/request-1"])
    };
    case.joined = vec![older];
    let known = Known {
        token: case.token.as_ref(),
        account: ruling_account(&case),
        named: Some(&case.id),
        exists: true,
    };
    assert!(matches!(rule(&case.asked, &known, case.now), Ruling::Grant { node, .. } if node == "edge-1"));
}

type Row = (&'static str, fn(&mut Case), Result<Program, Denial>);

#[rustfmt::skip]
const ROWS: &[Row] = &[
    ("as it should be", |_| {}, Ok(Program::Kubelet)),
    ("with key encipherment", |c| c.asked.usages.push("key encipherment".to_owned()), Ok(Program::Kubelet)),
    ("the hub beside it", by_the_hub, Ok(Program::Hub)),
    ("almost an hour old", |c| c.now = now() + WITHIN, Ok(Program::Kubelet)),
    ("the second of three", |c| c.joined = vec![joined("a", &["kubelet/x"])], Ok(Program::Kubelet)),
    ("a name that was its own before", |c| c.named = Some(c.id.clone()), Ok(Program::Kubelet)),
    ("granted before a crash", |c| { let_in(c, &["kubelet/request-1"]); c.most = 1; c.exists = true; }, Ok(Program::Kubelet)),
    ("the hub after the kubelet", |c| { by_the_hub(c); let_in(c, &["kubelet/other"]); c.most = 1; c.exists = true; }, Ok(Program::Hub)),

    ("no token", |c| c.token = None, Err(TokenGone)),
    ("an expired token", |c| c.token.as_mut().unwrap().expires = now(), Err(TokenGone)),
    ("another token's user", |c| c.asked.user = "system:bootstrap:abcdef".to_owned(), Err(WrongRequester)),
    ("no token's user", |c| c.asked.user = "longshore:user:uaaaaaaaaaa".to_owned(), Err(WrongRequester)),
    ("a node's user", |c| c.asked.user = "system:node:uaaaaaaaaaa-edge-1".to_owned(), Err(WrongRequester)),
    ("another's token", |c| c.token.as_mut().unwrap().owner = "ubbbbbbbbbb".parse().unwrap(), Err(WrongRequester)),
    ("not in the account's group", |c| { c.asked.groups.pop(); }, Err(WrongRequester)),
    ("no account", |c| c.there = false, Err(AccountClosed)),
    ("a closed account", |c| c.open = false, Err(AccountClosed)),
    ("a closed account, granted before", |c| { let_in(c, &["kubelet/request-1"]); c.open = false; }, Err(AccountClosed)),
    ("older than an hour", |c| c.now = now() + WITHIN + SignedDuration::from_secs(1), Err(TooOld)),

    ("for servers", |c| c.asked.usages = words(&["digital signature", "server auth"]), Err(WrongUsages)),
    ("for servers too", |c| c.asked.usages.push("server auth".to_owned()), Err(WrongUsages)),
    ("for signing certificates", |c| c.asked.usages = words(&["cert sign", "client auth", "digital signature"]), Err(WrongUsages)),
    ("for nothing", |c| c.asked.usages.clear(), Err(WrongUsages)),
    ("for a day", |c| c.asked.seconds = Some(86_400), Ok(Program::Kubelet)),
    ("for more than a day", |c| c.asked.seconds = Some(86_401), Err(TooLong)),
    ("another signer", |c| c.asked.signer = "kubernetes.io/kubelet-serving".to_owned(), Err(WrongSubject)),
    ("a kubelet at the clients' signer", |c| c.asked.signer = CLIENT.to_owned(), Err(WrongSubject)),
    ("nothing to read", |c| c.asked.subject = None, Err(WrongSubject)),
    ("no organization", |c| c.asked.subject = Some(subject(NODE, &[])), Err(WrongSubject)),
    ("administrators", |c| c.asked.subject = Some(subject(NODE, &["system:masters"])), Err(WrongSubject)),
    ("administrators too", |c| c.asked.subject = Some(subject(NODE, &["system:masters", "system:nodes"])), Err(WrongSubject)),
    ("nodes twice", |c| c.asked.subject = Some(subject(NODE, &["system:nodes", "system:nodes"])), Err(WrongSubject)),
    ("OpenYurt's users", |c| c.asked.subject = Some(subject(NODE, &["openyurt:users"])), Err(WrongSubject)),
    ("the hub of another", |c| {
        by_the_hub(c);
        c.asked.subject.as_mut().unwrap().organizations[0] = "openyurt:tenant:ubbbbbbbbbb".to_owned();
    }, Err(WrongSubject)),
    ("the hub of nobody", |c| {
        by_the_hub(c);
        c.asked.subject.as_mut().unwrap().organizations.remove(0);
    }, Err(WrongSubject)),
    ("a person", |c| c.asked.subject.as_mut().unwrap().name = "longshore:user:ubbbbbbbbbb".to_owned(), Err(WrongSubject)),
    ("no name", |c| c.asked.subject.as_mut().unwrap().name = "system:node:".to_owned(), Err(WrongSubject)),
    ("a name that is none", |c| c.asked.subject.as_mut().unwrap().name = "system:node:Edge_1".to_owned(), Err(WrongSubject)),
    ("a name with a way out", |c| c.asked.subject.as_mut().unwrap().name = "system:node:../a".to_owned(), Err(WrongSubject)),
    ("more than a name", |c| c.asked.subject.as_mut().unwrap().more = true, Err(WrongSubject)),

    ("an operator's name", |c| c.asked.subject = Some(subject("control-plane-1", &["system:nodes"])), Err(WrongName)),
    ("another's prefix", |c| c.asked.subject = Some(subject("ubbbbbbbbbb-edge-1", &["system:nodes"])), Err(WrongName)),
    ("the prefix alone", |c| c.asked.subject = Some(subject("uaaaaaaaaaa", &["system:nodes"])), Err(WrongName)),
    ("more than 63 characters", |c| c.asked.subject = Some(subject(&format!("{NODE}{}", "x".repeat(46)), &["system:nodes"])), Err(WrongName)),
    ("another's name", |c| c.named = Some("ubbbbbbbbbb".parse().unwrap()), Err(NameTaken)),
    ("a node that is there", |c| c.exists = true, Err(NameTaken)),
    ("a node that is there and was its own", |c| { c.exists = true; c.named = Some(c.id.clone()); }, Err(NameTaken)),
    ("the kubelet again", |c| let_in(c, &["kubelet/other"]), Err(Replayed)),
    ("the hub again", |c| { by_the_hub(c); let_in(c, &["kubelet/a", "yurthub/b"]); }, Err(Replayed)),
    ("the hub by another token", |c| { by_the_hub(c); c.joined = vec![joined(NODE, &["kubelet/a"])]; }, Err(Replayed)),
    ("the hub after an hour", |c| {
        by_the_hub(c);
        let_in(c, &["kubelet/a"]);
        c.now = now() + WITHIN + SignedDuration::from_secs(1);
        c.asked.created = c.now;
    }, Err(Replayed)),
    ("again by the same token after it was gone", |c| { let_in(c, &[]); c.joined.clear(); }, Err(Replayed)),
    ("one too many", |c| c.joined = ["a", "b", "c"].map(|name| joined(name, &[])).into(), Err(TooManyNodes)),
    ("none allowed", |c| c.most = 0, Err(TooManyNodes)),
];

#[test]
fn each_thing_that_is_wrong_is_a_reason_of_its_own() {
    for (what, spoil, expected) in ROWS {
        let mut case = right();
        spoil(&mut case);
        assert_eq!(judged(&case), *expected, "{what}");
    }
}

#[test]
fn every_reason_has_a_row() {
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
