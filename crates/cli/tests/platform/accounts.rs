//! Scenarios with accounts, workspaces and tokens, with the complete output of every command.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use regex::Regex;

use crate::cli_user::CliUser;
use crate::test_platform::TestPlatform;

const PASSWORD: &str = "canary password";

/// Output with values that differ between runs replaced: addresses, ids, times, and column widths that depend on them.
fn steady(screen: &str, url: &str) -> String {
    let mut text = screen.replace(url, "URL").replace(url.trim_start_matches("http://"), "HOST");
    for (pattern, with) in [
        (r"lsh_[a-z2-7]{10}_[A-Za-z0-9_-]{43}", "TOKEN"),
        (r"\bu[a-z2-7]{10}\b", "USER"),
        (r"(?m)^[a-z2-7]{10} {2}", "ID  "),
        (r"(token/|revoke |.id.: .)[a-z2-7]{10}\b", "${1}ID"),
        (r"shown again: [a-z2-9]{26}\b", "shown again: CODE"),
        (r"\b[0-9a-f]{64}\b", "DIGEST"),
        (r"\bin [0-9][0-9dhms]*", "in TIME"),
        (r"\b([0-9]+m)?[0-9]{1,3}s\b|\b[0-9]{1,3}m\b", "AGE"),
        (r"(on desk +all +)(-|AGE)", "${1}USED"),
        (r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z", "TIME"),
        (r"\b[0-9a-f]{8}-[0-9a-f-]{27}\b", "REQUEST"),
        (r" {2,}", "  "),
    ] {
        text = Regex::new(pattern).unwrap().replace_all(&text, with).into_owned();
    }
    text
}

/// Environments of an administrator and of two registered users.
struct TestUsers {
    house: TestPlatform,
    admin: CliUser,
    ana: CliUser,
    bob: CliUser,
    /// One-time secrets printed to the two users.
    one_time_secrets: Vec<String>,
}

impl TestUsers {
    async fn new() -> Self {
        let house = TestPlatform::new().await;
        let (admin, ana, bob) = (CliUser::new(), CliUser::new(), CliUser::new());
        let url = house.url.clone();
        admin
            .run_with_stdin(&format!("login {url} --account admin --password-stdin"), &house.password)
            .await
            .unwrap();
        let mut told = Vec::new();
        let register = |name: &str, phone: &str| {
            format!("register --server {url} --email {name}@example.com --phone {phone} --organization Acme")
        };
        let ana_says = format!("{} --password-stdin", register("ana", "18300000001"));
        told.push(ana.run_with_stdin(&ana_says, &format!("{PASSWORD}\n")).await.unwrap());
        let login = format!("login {url} --account ana@example.com --password-stdin");
        ana.run_with_stdin(&login, &format!("{PASSWORD}\n")).await.unwrap();
        told.push(bob.run(&register("bob", "18300000002")).await.unwrap());
        let login = format!("login {url} --account bob@example.com --token-stdin");
        bob.run_with_stdin(&login, &told[1]).await.unwrap();
        Self { house, admin, ana, bob, one_time_secrets: told }
    }

    fn transcripts(&self) -> String {
        let [admin, ana, bob] = [&self.admin, &self.ana, &self.bob].map(CliUser::transcript);
        format!("== admin\n{admin}\n== ana\n{ana}\n== bob\n{bob}")
    }
}

/// User id of this environment's user.
async fn user_id(desk: &CliUser) -> String {
    desk.run("whoami -o name").await.unwrap().trim().strip_prefix("user/").unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_share_a_workspace() {
    let people = TestUsers::new().await;
    let TestUsers { house, admin, ana, bob, .. } = &people;
    let bobs_id = user_id(bob).await;
    ana.run("workspace create acme --display-name Acme").await.unwrap();
    house.wait_until_ready_is(true, "acme").await;
    ana.run("workspace list").await.unwrap();
    ana.run(&format!("workspace invite acme {bobs_id} --role viewer")).await.unwrap();
    ana.run("workspace invite acme nobody@example.com").await.unwrap();
    ana.run("workspace invitations acme").await.unwrap();
    let ids = ana.run("workspace invitations acme -o name").await.unwrap();
    let id = ids.lines().last().unwrap().strip_prefix("invitation/").unwrap();
    ana.run(&format!("workspace withdraw acme {id}")).await.unwrap();
    assert!(bob.run("workspace get acme").await.is_err());
    bob.run("workspace invitations").await.unwrap();
    bob.run("workspace accept acme").await.unwrap();
    bob.run("ws get acme").await.unwrap();
    bob.run("whoami").await.unwrap();
    assert!(bob.run("workspace invite acme carl@example.com").await.unwrap_err().contains("request"));
    ana.run(&format!("workspace role acme {bobs_id} developer")).await.unwrap();
    ana.run("workspace members acme").await.unwrap();
    ana.run("workspace add-namespace acme test --share pods=5").await.unwrap();
    ana.run("workspace namespaces acme -o name").await.unwrap();
    assert!(ana.run("workspace quota acme --set pods=1000").await.is_err());
    admin.run("workspace quota acme --set pods=20 --set requests.cpu=2").await.unwrap();
    ana.run("workspace quota acme --share acme-test:pods=6").await.unwrap();
    ana.run("workspace rename acme Company").await.unwrap();
    ana.run("workspace remove-namespace acme acme-test --yes").await.unwrap();
    ana.run("workspace delete acme").await.unwrap();
    house.wait_until_ready_is(false, "acme").await;
    ana.run("workspace list -o wide").await.unwrap();
    ana.run("workspace restore acme").await.unwrap();
    bob.run("workspace leave acme").await.unwrap();
    assert!(bob.run("workspace get acme").await.is_err());
    ana.run("workspace delete acme --now --yes").await.unwrap();
    insta::assert_snapshot!(steady(&people.transcripts(), &house.url));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_administrator_looks_after_accounts() {
    let people = TestUsers::new().await;
    let TestUsers { house, admin, ana, bob, .. } = &people;
    let (ana_id, bob_id) = (user_id(ana).await, user_id(bob).await);
    admin.run("user list -o name").await.unwrap();
    admin.run(&format!("user get {ana_id}")).await.unwrap();
    admin.run("user create --email carl@example.com --phone 18300000003 --organization Acme").await.unwrap();
    assert!(ana.run("user list").await.is_err());
    assert!(ana.run(&format!("user get {bob_id}")).await.is_err());
    ana.run("user update me --organization Elsewhere").await.unwrap();
    ana.run("user get me -o wide").await.unwrap();
    assert!(ana.run("user update me --platform-role admin").await.is_err());
    admin
        .run(&format!("user update {ana_id} --platform-role reviewer-business --valid-days 0"))
        .await
        .unwrap();
    admin.run(&format!("user disable {bob_id}")).await.unwrap();
    assert!(bob.run("whoami").await.is_err());
    admin.run(&format!("user enable {bob_id}")).await.unwrap();
    bob.run("whoami").await.unwrap();
    admin.run_with_stdin(&format!("user password {bob_id} --password-stdin"), "canary of bob").await.unwrap();
    let login = format!("login {} --account bob@example.com --password-stdin", house.url);
    bob.run_with_stdin(&login, "canary of bob").await.unwrap();
    ana.run_with_stdin("user password --password-stdin", &format!("{PASSWORD}\ncanary of ana\n"))
        .await
        .unwrap();
    assert!(
        ana.run_with_stdin("user password --password-stdin", "wrong one\ncanary of ana\n").await.is_err()
    );
    admin.run(&format!("user revoke {ana_id}")).await.unwrap();
    admin.run(&format!("user delete {bob_id} --yes")).await.unwrap();
    assert!(bob.run("whoami").await.is_err());
    insta::assert_snapshot!(steady(&people.transcripts(), &house.url));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_contexts_and_a_kubeconfig() {
    let people = TestUsers::new().await;
    let TestUsers { house, ana, bob, .. } = &people;
    let made =
        ana.run("token create --name ci --scope read --scope workspace:acme --expires 7d").await.unwrap();
    assert!(made.starts_with("lsh_") && made.lines().count() == 1, "a token and nothing else");
    ana.run("token list").await.unwrap();

    // A read-only token can be used to sign in, but grants only read access.
    let reader = CliUser::new();
    let login = format!("login {} --context reader --token-stdin", house.url);
    reader.run_with_stdin(&login, &made).await.unwrap();
    assert_eq!(reader.tokens(), [made.trim()]);
    reader.run("workspace list -o name").await.unwrap();
    assert!(reader.run("workspace create other").await.is_err());
    reader.run("context list").await.unwrap();
    ana.run(&format!("token revoke {}", made.trim())).await.unwrap();
    assert!(reader.run("workspace list").await.unwrap_err().contains("longshore login"));
    reader.run("context delete reader").await.unwrap();

    let file = ana.folder().join("kubeconfig");
    ana.run(&format!("kubeconfig --user -o {}", file.display())).await.unwrap();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let kubeconfig = fs::read_to_string(&file).unwrap();
    assert!(kubeconfig.contains("https://kube.example.com"));
    assert!(
        !ana.transcript().contains(kubeconfig.lines().find(|line| line.contains("token: ")).unwrap().trim())
    );

    // Signing in again revokes the previous token.
    let before = ana.tokens();
    let login = "login --account ana@example.com --password-stdin";
    ana.run_with_stdin(login, PASSWORD).await.unwrap();
    assert_ne!(ana.tokens(), before);
    let list = ana.run("token list -o json").await.unwrap();
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    let kinds: Vec<_> =
        list["items"].as_array().unwrap().iter().map(|token| token["name"].as_str().unwrap()).collect();
    assert_eq!(kinds.iter().filter(|name| **name == "longshore on desk").count(), 1, "{list}");

    bob.run("logout").await.unwrap();
    assert_eq!(bob.tokens(), [""; 0]);
    assert!(bob.run("whoami").await.unwrap_err().contains("not signed in"));
    assert!(bob.run("logout").await.is_err());
    let wrong =
        bob.run_with_stdin("login --account bob@example.com --password-stdin", "wrong").await.unwrap_err();
    assert!(wrong.contains("unknown account or wrong password or token"), "{wrong}");
    let screens = format!("{}\n== reader\n{}", people.transcripts(), reader.transcript());
    let screens = screens.replace(&ana.folder().to_string_lossy().into_owned(), "HOME");
    insta::assert_snapshot!(steady(&screens, &house.url));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_are_in_contexts_file_only() {
    let people = TestUsers::new().await;
    let TestUsers { house, admin, ana, bob, one_time_secrets } = &people;
    let mut kept = Vec::new();
    for desk in [admin, ana, bob] {
        kept.extend(desk.tokens());
        for line in [
            "whoami -o json",
            "context list -o yaml",
            "token list -o json",
            "user get me -o yaml",
            "workspace list -o json",
        ] {
            desk.run(line).await.unwrap();
        }
        assert_eq!(fs::metadata(desk.contexts_file()).unwrap().permissions().mode() & 0o777, 0o600);
        desk.run("logout").await.unwrap();
    }
    assert_eq!(kept.len(), 3);
    let (screens, trail) = (people.transcripts(), house.audit_log());
    // The sessions used for signing in have ended too.
    assert_eq!(trail.matches("session.delete").count(), 3, "{trail}");
    for token in &kept {
        assert!(token.starts_with("lsh_"));
        assert!(!screens.contains(token.as_str()) && !trail.contains(token.as_str()));
    }
    for once in one_time_secrets.iter().map(|secret| secret.trim()) {
        assert_eq!(screens.matches(once).count(), 1);
        assert!(!trail.contains(once));
    }
    for secret in [PASSWORD, house.password.as_str(), "longshore_session="] {
        assert!(!screens.contains(secret) && !trail.contains(secret));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_revokes_token_that_cannot_be_stored() {
    let house = TestPlatform::new().await;
    let (admin, desk) = (CliUser::new(), CliUser::new());
    let login = format!("login {} --account admin --password-stdin", house.url);
    admin.run_with_stdin(&login, &house.password).await.unwrap();
    let count = async || admin.run("token list -o name").await.unwrap().lines().count();
    let before = count().await;
    // A folder in place of the lock file.
    fs::create_dir_all(desk.contexts_file().with_extension("lock")).unwrap();
    let said = desk.run_with_stdin(&login, &house.password).await.unwrap_err();
    assert!(said.contains("cannot write the contexts"), "{said}");
    assert_eq!(count().await, before);
    // A server on this machine needs no address.
    let mut local = CliUser::new();
    local.local_server = Some(house.url.clone());
    local.run_with_stdin("login --account admin --password-stdin", &house.password).await.unwrap();
    local.run("context list -o name").await.unwrap();
}
