//! Users of the platform: administrators and users who register.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use http::{Method, Request};
use kube::Api;
use kube::api::PostParams;
use kube_types::User;
use serde_json::{Value, json};

use crate::program::{Server, longshore, output};
use crate::request::{HttpResponse, send};
use crate::target::Cluster;

const API_BASE: &str = "/api/longshore/v1";

/// A user with a token.
pub struct PlatformUser {
    pub id: String,
    pub account: String,
    pub token: String,
    pub email: String,
    platform: kube::Client,
}

/// A phone number that no other test of this or another run uses.
pub fn unused_phone() -> String {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let moment = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_micros();
    let made = MADE.fetch_add(1, Ordering::Relaxed) % 100;
    format!("1{:011}{made:02}", (moment + u128::from(std::process::id())) % 100_000_000_000)
}

impl PlatformUser {
    /// Registers, and waits until the account is ready.
    pub async fn register(server: &Server, cluster: &Cluster) -> Self {
        let phone = unused_phone();
        let email = format!("p{phone}@example.com");
        let body = json!({"email": email, "phone": phone, "organization": "Acme"});
        cluster.remove_at_end(format!("/apis/user.openyurt.io/v1alpha1/users/user-{phone}"));
        let platform = server.platform();
        let answer = call(&platform, None, Method::POST, "users", Some(&body)).await;
        assert_eq!(answer.code, 201, "{}\n{}", answer.text, server.log());
        let told = answer.json();
        let text = |name: &str| told[name].as_str().unwrap_or_else(|| panic!("{name} in {told}")).to_owned();
        let person = Self { id: text("id"), account: text("name"), token: text("token"), email, platform };
        person.wait_until("users/{me}", |user| user["ready"] == true).await;
        person
    }

    /// A platform administrator, created by a cluster administrator, so that it works on every target.
    pub async fn administrator(server: &Server, cluster: &Cluster) -> Self {
        let phone = unused_phone();
        let account = format!("user-{phone}");
        let email = format!("a{phone}@example.com");
        cluster.remove_at_end(format!("/apis/user.openyurt.io/v1alpha1/users/{account}"));
        let spec =
            json!({"email": email, "mobilephone": phone, "organization": "Acme", "platformRoles": ["admin"]});
        let user: User = serde_json::from_value(json!({
            "apiVersion": "user.openyurt.io/v1alpha1", "kind": "User", "metadata": {"name": account}, "spec": spec,
        }))
        .unwrap();
        let users: Api<User> = Api::all(cluster.client().await);
        users.create(&PostParams::default(), &user).await.unwrap();
        let id = until("the account is ready", async || {
            let status = users.get_status(&account).await.unwrap().status.unwrap_or_default();
            (!status.tenant_id.is_empty() && status.effective_time.is_some()).then_some(status.tenant_id)
        })
        .await;
        let mut reset = longshore(["admin", "reset-password", &account, "--kubeconfig"]);
        let said = output(reset.arg(cluster.kubeconfig()));
        let password = said.split_whitespace().last().unwrap().to_owned();
        let platform = server.platform();
        let body = json!({"login": account, "secret": password});
        let session = until("the password is good", async || {
            let answer = call(&platform, None, Method::POST, "session", Some(&body)).await;
            (answer.code == 200).then_some(answer)
        })
        .await;
        let cookie = session.header("set-cookie").split(';').next().unwrap().to_owned();
        let csrf = session.json()["csrf"].as_str().unwrap().to_owned();
        let request = Request::post(format!("{API_BASE}/tokens"))
            .header("cookie", cookie)
            .header("x-csrf-token", csrf)
            .header("content-type", "application/json")
            .body(json!({"name": "test", "scopes": ["all"]}).to_string().into_bytes())
            .unwrap();
        let token = send(&platform, request).await;
        assert_eq!(token.code, 201, "{}", token.text);
        let token = token.json()["token"].as_str().unwrap().to_owned();
        Self { id, account, token, email, platform }
    }

    /// The same user with another token.
    pub fn with_token(&self, token: String) -> Self {
        let Self { id, account, token: _, email, platform } = self;
        Self {
            id: id.clone(),
            account: account.clone(),
            token,
            email: email.clone(),
            platform: platform.clone(),
        }
    }

    /// Sends further requests to a restarted server.
    pub fn set_server(&mut self, server: &Server) {
        self.platform = server.platform();
    }

    /// Sends a request below `/api/longshore/v1`. `{me}` in the path is replaced by this user's id.
    pub async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> HttpResponse {
        call(&self.platform, Some(&self.token), method, &path.replace("{me}", &self.id), body).await
    }

    pub async fn get(&self, path: &str) -> Value {
        let answer = self.call(Method::GET, path, None).await;
        assert_eq!(answer.code, 200, "{path}: {}", answer.text);
        answer.json()
    }

    /// Polls until the response matches.
    pub async fn wait_until(&self, path: &str, matches: impl Fn(&Value) -> bool) -> Value {
        until(path, async || Some(self.get(path).await).filter(|value| matches(value))).await
    }

    /// Creates a shared workspace of this user and waits until it is ready.
    pub async fn workspace(&self, cluster: &Cluster, name: &str) {
        cluster.remove_at_end(format!("/apis/longshore.dev/v1alpha1/workspaces/{name}"));
        let made = self.call(Method::POST, "workspaces", Some(&json!({"name": name}))).await;
        assert_eq!(made.code, 201, "{}", made.text);
        self.wait_until(&format!("workspaces/{name}"), |workspace| workspace["ready"] == true).await;
    }

    /// Adds another user to a workspace that this user administers.
    pub async fn add_member(&self, workspace: &str, other: &PlatformUser, role: &str) {
        let body = json!({"to": other.id, "role": role});
        let path = format!("workspaces/{workspace}/invitations");
        let asked = self.call(Method::POST, &path, Some(&body)).await;
        assert_eq!(asked.code, 201, "{}", asked.text);
        other.wait_until("invitations", |list| list["items"].to_string().contains(workspace)).await;
        let accepted = other.call(Method::POST, &format!("invitations/{workspace}"), None).await;
        assert_eq!(accepted.code, 200, "{}", accepted.text);
        other.wait_until("session", |session| session["workspaces"].to_string().contains(workspace)).await;
    }

    /// Writes this user's kubeconfig into the test's folder and returns its path.
    pub async fn kubeconfig(&self, cluster: &Cluster) -> std::path::PathBuf {
        let answer = self.call(Method::POST, "kubeconfig", None).await;
        assert_eq!(answer.code, 200, "{}", answer.text);
        let file = cluster.folder.path().join(format!("kubeconfig-{}", self.id));
        std::fs::write(&file, answer.json()["kubeconfig"].as_str().unwrap()).unwrap();
        file
    }
}

/// Runs kubectl with a kubeconfig. Returns whether it succeeded, and its output; `None` without a kubectl.
pub fn kubectl(kubeconfig: &std::path::Path, args: &[&str], stdin: &str) -> Option<(bool, String)> {
    let program = std::env::var_os("LONGSHORE_KUBECTL")?;
    let mut command = Command::new(program);
    command.args(args).env("KUBECONFIG", kubeconfig).env("HOME", kubeconfig.parent().unwrap());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    Some((output.status.success(), said))
}

/// Sends a request below `/api/longshore/v1`, with a token or anonymously.
pub async fn call(
    platform: &kube::Client,
    token: Option<&str>,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> HttpResponse {
    let mut request = Request::builder().method(method).uri(format!("{API_BASE}/{path}"));
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    if body.is_some() {
        request = request.header("content-type", "application/json");
    }
    let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
    send(platform, request.body(body).unwrap()).await
}

/// Polls until `poll` returns a value.
pub async fn until<T>(what: &str, mut poll: impl AsyncFnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = poll().await {
            return found;
        }
        assert!(began.elapsed() < Duration::from_mins(1), "not within a minute: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
