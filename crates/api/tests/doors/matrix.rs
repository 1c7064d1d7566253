//! Every route with every kind of caller: the response must follow the table of routes and the table of roles.
//!
//! The handlers are replaced, so that admitted requests change nothing; guards, layers and rows are the real ones. No
//! route can be missing here, because the router is built from the same rows. The last test searches the sources for
//! routes that are added in any other way.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use api::requirement::Requirement;
use api::route::Route;
use api::routes;
use axum::Router;
use axum::http::{Method, StatusCode};
use domain::roles::{Capability, PlatformRole, WorkspaceRole};
use domain::scopes::Scopes;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::PostParams;
use tower::ServiceExt;

use crate::test_server::{TestCredential, TestServer, TestUser, request, root_actor};

/// A caller with its credentials and rights.
struct Caller {
    name: &'static str,
    /// Equivalent credentials of the caller.
    keys: Vec<TestCredential>,
    platform: Option<PlatformRole>,
    /// Role in the workspace `acme`.
    role: Option<WorkspaceRole>,
    id: Option<String>,
    scopes: Option<Scopes>,
    /// Whether the credentials are valid.
    known: bool,
}

/// Result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Through,
    Refused(u16),
}

/// Status of the replaced handlers, so that an admitted request can be recognised.
const THROUGH: StatusCode = StatusCode::IM_A_TEAPOT;

fn hollow(table: Vec<Route>) -> Vec<Route> {
    let handler = |method: &Method| {
        let filter = axum::routing::MethodFilter::try_from(method.clone()).unwrap();
        axum::routing::on(filter, || async { THROUGH })
    };
    table.into_iter().map(|row| Route { handler: handler(&row.method), ..row }).collect()
}

impl Caller {
    fn may(&self, what: Capability, in_workspace: bool) -> bool {
        self.platform.is_some_and(|role| role.allows(what))
            || (in_workspace && self.role.is_some_and(|role| role.allows(what)))
    }

    fn covers(&self, what: Capability, in_workspace: bool) -> bool {
        let acme = "acme".parse().unwrap();
        self.scopes.as_ref().is_none_or(|scopes| scopes.allows(what, in_workspace.then_some(&acme)))
    }

    /// Expected result, computed independently of the route guard.
    fn verdict(&self, needs: Requirement, path: &str, own: bool) -> Verdict {
        use Verdict::{Refused, Through};
        let in_workspace = path.contains("{workspace}");
        let whole = self.id.is_some() && self.scopes.as_ref().is_none_or(Scopes::is_unrestricted);
        let by = |what: Capability, in_workspace: bool, unseen: u16| {
            if !self.may(what, in_workspace) {
                Refused(unseen)
            } else if self.covers(what, in_workspace) {
                Through
            } else {
                Refused(403)
            }
        };
        let in_place = |what: Capability| {
            let sees =
                self.may(Capability::ReadWorkspace, true) && self.covers(Capability::ReadWorkspace, true);
            let unseen = if sees { 403 } else { 404 };
            by(what, true, unseen)
        };
        match needs {
            // An invalid cookie is ignored; an invalid token is not.
            Requirement::OptionalUser
                if !self.known && self.keys.iter().any(|key| matches!(key, TestCredential::Bearer(_))) =>
            {
                Refused(401)
            }
            Requirement::Public | Requirement::OptionalUser => Through,
            _ if !self.known => Refused(401),
            Requirement::Authenticated => Through,
            Requirement::UnrestrictedUser if whole => Through,
            Requirement::UnrestrictedUser => Refused(403),
            Requirement::LocalOr(what) | Requirement::Platform(what) => by(what, false, 403),
            // The path has a namespace of `acme`, or a repository.
            Requirement::Workspace(what) | Requirement::Release(what) | Requirement::Repo(what) => {
                in_place(what)
            }
            Requirement::SelfOr(_) if own && in_workspace && !whole => Refused(403),
            Requirement::SelfOr(what) if own && !whole => by(what, false, 403),
            Requirement::SelfOr(_) if own && in_workspace => in_place(Capability::ReadWorkspace),
            Requirement::SelfOr(_) if own => Through,
            Requirement::SelfOr(what) if in_workspace => in_place(what),
            Requirement::SelfOr(what) => by(what, false, 404),
        }
    }
}

async fn verdict(router: &Router, method: &Method, path: &str, key: &TestCredential) -> Verdict {
    let response = router.clone().oneshot(request(method.clone(), path, key, None)).await.unwrap();
    match response.status() {
        THROUGH => Verdict::Through,
        status => Verdict::Refused(status.as_u16()),
    }
}

async fn service_account(house: &TestServer, namespace: &str, name: &str) -> TestCredential {
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            audiences: Some(vec!["longshore".to_owned()]),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let accounts: Api<ServiceAccount> = Api::namespaced(house.world.admin_client(), namespace);
    let answer = accounts.create_token_request(name, &PostParams::default(), &request).await.unwrap();
    TestCredential::Bearer(answer.status.unwrap().token.unwrap())
}

/// A token with fewer rights than its owner.
async fn narrow(house: &TestServer, person: &TestUser, scopes: &[&str]) -> TestCredential {
    let body = serde_json::json!({"name": "narrow", "scopes": scopes});
    let answer = house.post("tokens", &person.credential(), body).await;
    assert_eq!(answer.code(), 201, "{}", answer.text);
    TestCredential::Bearer(answer.json()["token"].as_str().unwrap().to_owned())
}

async fn callers(house: &TestServer) -> (Vec<Caller>, String) {
    let mut people = BTreeMap::new();
    let platform = PlatformRole::ALL.iter().map(|role| (role.as_str(), Some(*role), None));
    let workspace = WorkspaceRole::ALL.iter().map(|role| (role.as_str(), None, Some(*role)));
    let others = ["maker", "stranger", "disabled"].map(|name| (name, None, None));
    let all: Vec<_> = platform
        .map(|(name, platform, role)| (format!("platform {name}"), platform, role))
        .chain(workspace.map(|(name, platform, role)| (format!("workspace {name}"), platform, role)))
        .chain(others.map(|(name, platform, role)| (name.to_owned(), platform, role)))
        .collect();
    for (number, (name, platform, _)) in (1u32..).zip(&all) {
        let person = house.create_user(number, &platform.iter().copied().collect::<Vec<_>>()).await;
        people.insert(name.clone(), person);
    }
    let maker = people.remove("maker").unwrap();
    let with_role = all.iter().filter_map(|(name, _, role)| Some((name, (*role)?)));
    let members: Vec<_> = with_role.map(|(name, role)| (&people[name], role)).collect();
    house.create_workspace("acme", &maker, &members).await;
    house.create_workspace("other", &people["stranger"], &[]).await;

    let mut callers = vec![Caller {
        name: "nobody",
        keys: vec![TestCredential::Anonymous],
        platform: None,
        role: None,
        id: None,
        scopes: None,
        known: false,
    }];
    for (name, platform, role) in all.iter().filter(|(name, ..)| name != "maker") {
        let person = &people[name];
        let session = house.sign_in(person.id.as_str(), &person.token).await;
        callers.push(Caller {
            name: name.clone().leak(),
            keys: vec![person.credential(), session],
            platform: *platform,
            role: *role,
            id: Some(person.id.to_string()),
            scopes: None,
            known: name != "disabled",
        });
    }
    let root = root_actor();
    let change = tenancy::users::UserPatch { disabled: Some(true), ..Default::default() };
    house.api.tenancy.patch_user(&root, &people["disabled"].id, change, None).await.unwrap();
    let narrowed = [
        ("platform admin, to read", "platform admin", &["read"][..]),
        ("workspace admin, for nodes", "workspace admin", &["nodes"][..]),
    ];
    for (name, of, words) in narrowed {
        let (_, platform, role) = all.iter().find(|(name, ..)| name == of).unwrap();
        callers.push(Caller {
            name,
            keys: vec![narrow(house, &people[of], words).await],
            platform: *platform,
            role: *role,
            id: Some(people[of].id.to_string()),
            scopes: Some(Scopes::parse(words.iter().copied()).unwrap()),
            known: true,
        });
    }
    let programs = [
        ("deployer of acme", "acme", "longshore-deployer", Some(WorkspaceRole::Developer)),
        ("program elsewhere", "default", "default", None),
    ];
    for (name, namespace, account, role) in programs {
        let keys = vec![service_account(house, namespace, account).await];
        callers.push(Caller { name, keys, platform: None, role, id: None, scopes: None, known: true });
    }
    // The id of a user that is none of the callers.
    (callers, maker.id.to_string())
}

/// The path with its placeholders replaced by `acme`, `user` and other fixed names.
fn filled(path: &str, user: &str) -> String {
    path.replace("{cluster}/{namespace}", "host/acme")
        .replace("{release}", "web")
        .replace("{operation}", "req-web.1")
        .replace("{repo}", "acme.charts")
        .replace("{chart}", "web")
        .replace("{workspace}", "acme")
        .replace("{user}", user)
        .replace("{token}", "aaaaaaaaaa")
        .replace("{namespace}", "acme-test")
        .replace("{invitation}", "0f0f")
        .replace("{pool}", "hangzhou")
        .replace("{node}", "edge-1")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_as_everybody() {
    let house = TestServer::new().await;
    let (callers, somebody) = callers(&house).await;
    let router = api::router_with_routes(&house.api, hollow(routes::table()));
    let mut picture = callers.iter().zip("abcdefghijklmnopqrstuvwxyz".chars()).fold(
        String::new(),
        |mut text, (caller, letter)| {
            writeln!(text, "{letter} {}", caller.name).unwrap();
            text
        },
    );
    picture.push('\n');
    let mut cells = 0;
    for Route { method, path, requirement, .. } in routes::table() {
        let ways: &[bool] = if path.contains("{user}") { &[false, true] } else { &[false] };
        for &own in ways {
            let mut line = String::new();
            for (caller, letter) in callers.iter().zip("abcdefghijklmnopqrstuvwxyz".chars()) {
                let own = own && caller.id.is_some();
                let user = if own { caller.id.as_deref().unwrap() } else { &somebody };
                let expected = caller.verdict(requirement, path, own);
                for key in &caller.keys {
                    let expected = match (requirement, key) {
                        (Requirement::OptionalUser, TestCredential::Session { .. }) => Verdict::Through,
                        _ => expected,
                    };
                    let found = verdict(&router, &method, &filled(path, user), key).await;
                    assert_eq!(found, expected, "{method} {path} as {}, own: {own}, {key:?}", caller.name);
                    cells += 1;
                }
                match expected {
                    Verdict::Through => write!(line, " {letter}  ").unwrap(),
                    Verdict::Refused(status) => write!(line, " {status}").unwrap(),
                }
            }
            let path = if own { path.replace("{user}", "{own}") } else { path.to_owned() };
            writeln!(picture, "{:6} {path}\n      {}", method.as_str(), line.trim_end()).unwrap();
        }
    }
    assert!(cells > 1000, "{cells}");
    insta::assert_snapshot!(picture);
}

#[test]
fn no_two_rows_have_one_word_and_every_name_has_a_meaning() {
    let (mut acts, mut places) = (BTreeSet::new(), BTreeSet::new());
    for Route { method, path, action: act, requirement: needs, .. } in routes::table() {
        assert!(acts.insert(act), "{act} twice");
        assert!(places.insert(format!("{method} {path}")), "{method} {path} twice");
        assert!(!filled(path, "me").contains('{'), "{path} has a name that nobody knows");
        assert!(!matches!(needs, Requirement::Workspace(_)) || path.contains("{workspace}"), "{path}");
        assert!(
            !matches!(needs, Requirement::Release(_)) || path.contains("{cluster}/{namespace}"),
            "{path}"
        );
        assert!(!matches!(needs, Requirement::SelfOr(_)) || path.contains("{user}"), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_row_is_not_there() {
    let house = TestServer::new().await;
    let table = routes::table();
    let router = api::router_with_routes(&house.api, hollow(routes::table()));
    let methods = [
        Method::GET,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
        Method::TRACE,
    ];
    for path in table.iter().map(|row| row.path).collect::<BTreeSet<_>>() {
        for method in &methods {
            if !table.iter().any(|row| row.path == path && row.method == *method) {
                let found = verdict(&router, method, &filled(path, "me"), &TestCredential::Anonymous).await;
                assert_eq!(found, Verdict::Refused(405), "{method} {path}");
            }
        }
    }
    for path in
        ["/api", "/api/longshore/v1", "/api/longshore/v1/secrets", "/apis", "/api/longshore/v1/users/me/x"]
    {
        assert_eq!(
            verdict(&router, &Method::GET, path, &TestCredential::Anonymous).await,
            Verdict::Refused(404),
            "{path}"
        );
    }
}

/// Routes come from the table only: calls that register routes with axum appear once in the sources, where the rows
/// are read.
#[test]
fn no_route_goes_round_the_table() {
    let words = [".route(", ".nest(", ".merge(", "route_service", "nest_service", "fallback_service"];
    let mut found = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let lines = text.lines().filter(|line| words.iter().any(|word| line.contains(word)));
            found.extend(
                lines.map(|line| format!("{}: {}", path.file_name().unwrap().display(), line.trim())),
            );
        }
    }
    let expected =
        "lib.rs: router = router.route(path, handler.layer(from_fn_with_state(guard, route_guard::run)));";
    assert_eq!(found, [expected]);
}
