//! Configuration of the server: flags over environment over file over defaults.
//!
//! [`Flags`] holds the raw arguments, [`Config`] the validated configuration: unknown keys, invalid values and
//! contradictory combinations are rejected here with the name of the key, before anything starts. Each key `[a] b` of
//! the TOML file is `LONGSHORE_A_B` in the environment.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use chart_store::packages::PackageLimits;
use fleet::ManagePools;
use kube_embedded::quantity::Quantity;
use kube_embedded::sim::Simulation;
use outbound::policy::IpNetwork;
use tenancy::node_join::{JoinTool, ToolError};

use crate::budgets;

/// Command line flags; `None` if not given.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    pub config: Option<PathBuf>,
    pub data: Option<PathBuf>,
    pub listen: Option<String>,
    pub kube_listen: Option<String>,
    pub kubeconfig: Option<PathBuf>,
    pub context: Option<String>,
}

/// Validated configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Address of the platform's port.
    pub listen: SocketAddr,
    /// A proxy in front of the server terminates TLS.
    pub trusted_proxy: bool,
    /// Host names by which clients reach the platform's port.
    pub hosts: Vec<String>,
    pub data: PathBuf,
    pub tls: Option<TlsConfig>,
    pub kube: ClusterConfig,
    pub accounts: AccountsConfig,
    /// Clients of the OpenYurt console may send their token as a query parameter.
    pub token_parameter: bool,
    /// Tool that joins machines to the cluster.
    pub join_tool: JoinTool,
    /// Where node pools are managed.
    pub manage_pools: ManagePools,
    /// Private networks that the server may reach to fetch charts.
    pub outbound_allow: Vec<IpNetwork>,
    /// Connection limits of each of the two ports.
    pub connections: ConnectionsConfig,
    pub store: StoreConfig,
    pub logs: LogFormat,
    /// File of the audit log; standard error without one.
    pub audit_file: Option<PathBuf>,
}

/// Connection limits of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionsConfig {
    pub total: u32,
    pub per_address: u32,
}

/// Storage limits of chart packages, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// Per account.
    pub quota: u64,
    /// In total.
    pub capacity: u64,
}

/// Defaults of new accounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountsConfig {
    /// Whether users may register themselves.
    pub registration_open: bool,
    pub valid_days: u32,
    pub max_nodes: u32,
    /// How long an expired account can be restored.
    pub grace_hours: u32,
    /// Quota of all workspaces of one account together; overrides the default per resource.
    pub quota: BTreeMap<String, String>,
    /// Quota of a new workspace; overrides the default per resource.
    pub workspace_quota: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// Cluster that the platform runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterConfig {
    Embedded {
        listen: SocketAddr,
        external_url: Option<String>,
        /// Bytes of all objects of one account.
        storage_budget: u64,
        /// Bytes of all objects of all tenants.
        storage_capacity: u64,
        /// Simulated nodes and workloads; without it workloads are stored and nothing runs.
        simulation: Option<Simulation>,
    },
    Real {
        kubeconfig: PathBuf,
        context: Option<String>,
        external_url: Option<String>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read the configuration file `{}`", file.display())]
    Read {
        file: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the configuration file `{}` is not valid TOML: {}", file.display(), source.message())]
    Parse {
        file: PathBuf,
        #[source]
        source: Box<toml::de::Error>,
    },
    #[error("unknown key `{key}` in the configuration file `{}`", file.display())]
    UnknownKey { key: String, file: PathBuf },
    #[error("`{key}` must be {expected}, not `{value}`")]
    Invalid { key: String, value: String, expected: &'static str },
    #[error("`{key}` makes no sense here: {why}")]
    Contradiction { key: &'static str, why: &'static str },
    #[error(
        "`server.listen` is {0}, which others can reach, and plain HTTP is for this machine only: set [tls] cert and key, or trusted_proxy = true behind a proxy that speaks TLS"
    )]
    PlainHttp(SocketAddr),
    #[error("no data folder is known: set `data.dir`, or XDG_DATA_HOME, or HOME")]
    NoDataFolder,
}

/// All keys with default and description, as listed in the documentation.
#[rustfmt::skip]
pub const KEYS: &[(&str, &str, &str)] = &[
    ("server.listen",        "127.0.0.1:8080",           "address of the platform's port; port 0 picks a free one"),
    ("server.trusted_proxy", "false",                    "a proxy in front speaks TLS"),
    ("server.hosts",         "",                         "names by which clients reach the server, with commas between"),
    ("data.dir",             "$XDG_DATA_HOME/longshore", "data folder of the embedded cluster"),
    ("tls.cert",             "",                         "PEM file with the platform's certificate chain"),
    ("tls.key",              "",                         "PEM file with its private key"),
    ("kube.listen",          "127.0.0.1:6443",           "address of the embedded Kubernetes API"),
    ("kube.kubeconfig",      "",                         "run on the cluster that this kubeconfig names"),
    ("kube.context",         "",                         "which of the kubeconfig's contexts"),
    ("kube.external_url",    "",                         "how others reach the Kubernetes API"),
    ("kube.storage_budget",  "128Mi",                    "bytes of all objects of one account's workspaces on the embedded cluster"),
    ("kube.storage_capacity", "512Mi",                   "bytes of all objects of all tenants together on the embedded cluster"),
    ("sim.enabled",          "true",                     "simulate nodes and workloads on the embedded cluster"),
    ("sim.nodes",            "3",                        "how many nodes there are from the first start"),
    ("sim.cpu",              "32",                       "CPUs of each"),
    ("sim.memory",           "256Gi",                    "memory of each"),
    ("sim.pods",             "110",                      "how many pods each can take"),
    ("sim.addresses",        "false",                    "Services of type LoadBalancer and Ingresses get an address"),
    ("accounts.registration", "open on loopback",        "open or closed: whether people may register themselves"),
    ("accounts.valid_days",  "7",                        "for how long a new account is valid; 0: without end"),
    ("accounts.max_nodes",   "3",                        "how many nodes a new account may join"),
    ("accounts.grace_hours", "24",                       "how long an expired account can be brought back before it is removed"),
    ("accounts.quota",       "",                         "what all workspaces of one account may use together, such as pods=200,requests.cpu=16; what is not named keeps its default"),
    ("accounts.workspace_quota", "",                     "the same for each new workspace"),
    ("edge.join_url",        "",                         "where machines fetch yurtadm, {arch} for their architecture; empty: it is installed"),
    ("edge.join_sha256",     "",                         "its SHA-256, or one for each architecture: amd64=...,arm64=..."),
    ("edge.manage_pools",    "own",                      "look after pools of nodes: own (where their definition is ours), always or never"),
    ("console.token_parameter", "true",                  "the OpenYurt console's old clients may send their token as a parameter"),
    ("outbound.allow",       "",                         "private networks that charts may be fetched from, with commas between"),
    ("store.quota",          "32Mi",                     "bytes of all packages of charts that one account's workspaces uploaded or fetched"),
    ("store.capacity",       "512Mi",                    "bytes of all packages of charts together"),
    ("limits.connections",   "10000",                    "connections that each port keeps open, as far as the limit of open files allows"),
    ("limits.connections_per_address", "1000",           "of them from one address (IPv6: /64); not counted on the platform's port behind a trusted proxy"),
    ("logs.format",          "text",                     "text or json"),
    ("logs.audit",           "",                         "file to which audit lines are appended; empty: standard error"),
];

/// Raw values by key; later sources override earlier ones.
type RawValues = BTreeMap<String, String>;

impl Config {
    /// Reads all sources; `environment` is usually [`env::vars`].
    pub fn read(
        flags: &Flags,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let environment: BTreeMap<String, String> = environment.into_iter().collect();
        let mut values = RawValues::new();
        if let Some(file) = &flags.config {
            read_file(file, &mut values)?;
        }
        for (key, ..) in KEYS {
            let name = format!("LONGSHORE_{}", key.replace('.', "_").to_uppercase());
            if let Some(value) = environment.get(&name) {
                values.insert((*key).to_owned(), value.clone());
            }
        }
        let path = |path: &PathBuf| path.to_string_lossy().into_owned();
        let typed = [
            ("data.dir", flags.data.as_ref().map(path)),
            ("server.listen", flags.listen.clone()),
            ("kube.listen", flags.kube_listen.clone()),
            ("kube.kubeconfig", flags.kubeconfig.as_ref().map(path)),
            ("kube.context", flags.context.clone()),
        ];
        for (key, value) in typed {
            if let Some(value) = value {
                values.insert(key.to_owned(), value);
            }
        }
        Self::from_values(&values, &environment)
    }

    /// [`Config::read`] with the environment of this process.
    pub fn load(flags: &Flags) -> Result<Self, ConfigError> {
        Self::read(
            flags,
            env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))),
        )
    }

    fn from_values(values: &RawValues, environment: &BTreeMap<String, String>) -> Result<Self, ConfigError> {
        let given = |key: &str| values.get(key).filter(|value| !value.is_empty());
        let data = match given("data.dir") {
            Some(dir) => PathBuf::from(dir),
            None => default_data_dir(environment).ok_or(ConfigError::NoDataFolder)?,
        };
        let tls = match (given("tls.cert"), given("tls.key")) {
            (Some(cert), Some(key)) => Some(TlsConfig { cert: cert.into(), key: key.into() }),
            (None, None) => None,
            (Some(_), None) => return Err(contradiction("tls.cert", "tls.key is missing")),
            (None, Some(_)) => return Err(contradiction("tls.key", "tls.cert is missing")),
        };
        let external_url =
            || given("kube.external_url").map(|url| parse_https_url("kube.external_url", url)).transpose();
        let kube = match given("kube.kubeconfig") {
            Some(file) => {
                let of_embedded = |key: &str| {
                    key.starts_with("sim.")
                        || matches!(key, "kube.listen" | "kube.storage_budget" | "kube.storage_capacity")
                };
                if let Some((key, ..)) =
                    KEYS.iter().find(|(key, ..)| of_embedded(key) && given(key).is_some())
                {
                    let why = "it is about the embedded cluster, and kube.kubeconfig names a real one";
                    return Err(contradiction(key, why));
                }
                ClusterConfig::Real {
                    kubeconfig: file.into(),
                    context: given("kube.context").cloned(),
                    external_url: external_url()?,
                }
            }
            None if given("kube.context").is_some() => {
                return Err(contradiction("kube.context", "there is no kube.kubeconfig to choose it from"));
            }
            None => ClusterConfig::Embedded {
                listen: parse_address(
                    "kube.listen",
                    given("kube.listen").map_or("127.0.0.1:6443", String::as_str),
                )?,
                external_url: external_url()?,
                storage_budget: given("kube.storage_budget")
                    .map_or(Ok(budgets::DEFAULT_STORAGE_BUDGET), |text| {
                        parse_bytes("kube.storage_budget", text)
                    })?,
                storage_capacity: given("kube.storage_capacity")
                    .map_or(Ok(budgets::DEFAULT_STORAGE_CAPACITY), |text| {
                        parse_bytes("kube.storage_capacity", text)
                    })?,
                simulation: parse_simulation(&given)?,
            },
        };
        let logs = match given("logs.format").map_or("text", String::as_str) {
            "text" => LogFormat::Text,
            "json" => LogFormat::Json,
            other => return Err(invalid("logs.format", other, "text or json")),
        };
        let listen =
            parse_address("server.listen", given("server.listen").map_or("127.0.0.1:8080", String::as_str))?;
        let config = Self {
            listen,
            trusted_proxy: parse_bool(
                "server.trusted_proxy",
                given("server.trusted_proxy").map_or("false", String::as_str),
            )?,
            hosts: parse_hosts(given("server.hosts").map_or("", String::as_str))?,
            data,
            tls,
            kube,
            accounts: parse_accounts(&given, is_loopback(listen.ip()))?,
            token_parameter: parse_bool(
                "console.token_parameter",
                given("console.token_parameter").map_or("true", String::as_str),
            )?,
            join_tool: parse_join_tool(&given)?,
            manage_pools: parse_manage_pools(given("edge.manage_pools").map_or("own", String::as_str))?,
            outbound_allow: parse_networks(
                "outbound.allow",
                given("outbound.allow").map_or("", String::as_str),
            )?,
            connections: parse_connections(&given)?,
            store: parse_store(&given)?,
            logs,
            audit_file: given("logs.audit").map(PathBuf::from),
        };
        if !is_loopback(config.listen.ip()) && config.tls.is_none() && !config.trusted_proxy {
            return Err(ConfigError::PlainHttp(config.listen));
        }
        Ok(config)
    }

    /// The effective configuration as TOML, without secrets (there are none yet: keys name files).
    pub fn to_toml(&self) -> String {
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let path = |path: &Path| quoted(&path.to_string_lossy());
        let mut out = format!(
            "[server]\nlisten = {}\ntrusted_proxy = {}\n",
            quoted(&self.listen.to_string()),
            self.trusted_proxy
        );
        if !self.hosts.is_empty() {
            writeln!(out, "hosts = {}", quoted(&self.hosts.join(",")))
                .expect("writing to a String cannot fail");
        }
        let mut section = |name: &str, lines: &[(&str, Option<String>)]| {
            let given: Vec<_> =
                lines.iter().filter_map(|(key, value)| Some((key, value.as_ref()?))).collect();
            if !given.is_empty() {
                write!(out, "\n[{name}]\n").expect("writing to a String cannot fail");
                for (key, value) in given {
                    writeln!(out, "{key} = {value}").expect("writing to a String cannot fail");
                }
            }
        };
        section("data", &[("dir", Some(path(&self.data)))]);
        let tls = self.tls.as_ref();
        section("tls", &[("cert", tls.map(|tls| path(&tls.cert))), ("key", tls.map(|tls| path(&tls.key)))]);
        match &self.kube {
            ClusterConfig::Embedded {
                listen,
                external_url,
                storage_budget,
                storage_capacity,
                simulation,
            } => {
                let listen = quoted(&listen.to_string());
                section(
                    "kube",
                    &[
                        ("listen", Some(listen)),
                        ("external_url", external_url.as_deref().map(quoted)),
                        ("storage_budget", Some(storage_budget.to_string())),
                        ("storage_capacity", Some(storage_capacity.to_string())),
                    ],
                );
                let simulation = simulation.as_ref();
                let amount = |of: fn(&Simulation) -> String| simulation.map(of);
                section(
                    "sim",
                    &[
                        ("enabled", Some(simulation.is_some().to_string())),
                        ("nodes", amount(|sim| sim.nodes.to_string())),
                        ("cpu", simulation.map(|sim| quoted(&sim.cpu))),
                        ("memory", simulation.map(|sim| quoted(&sim.memory))),
                        ("pods", amount(|sim| sim.pods.to_string())),
                        ("addresses", amount(|sim| sim.addresses.to_string())),
                    ],
                );
            }
            ClusterConfig::Real { kubeconfig, context, external_url } => {
                section(
                    "kube",
                    &[
                        ("kubeconfig", Some(path(kubeconfig))),
                        ("context", context.as_deref().map(quoted)),
                        ("external_url", external_url.as_deref().map(quoted)),
                    ],
                );
            }
        }
        let AccountsConfig { registration_open, valid_days, max_nodes, grace_hours, quota, workspace_quota } =
            &self.accounts;
        let registration = if *registration_open { "open" } else { "closed" };
        section(
            "accounts",
            &[
                ("registration", Some(quoted(registration))),
                ("valid_days", Some(valid_days.to_string())),
                ("max_nodes", Some(max_nodes.to_string())),
                ("grace_hours", Some(grace_hours.to_string())),
                ("quota", format_resource_limits(quota).as_deref().map(quoted)),
                ("workspace_quota", format_resource_limits(workspace_quota).as_deref().map(quoted)),
            ],
        );
        section("console", &[("token_parameter", Some(self.token_parameter.to_string()))]);
        let (url, sums) = self.join_tool.to_settings().unzip();
        let words = |words: Option<String>| words.as_deref().map(quoted);
        let pools = quoted(self.manage_pools.as_str());
        section(
            "edge",
            &[("join_url", words(url)), ("join_sha256", words(sums)), ("manage_pools", Some(pools))],
        );
        let networks: Vec<String> = self.outbound_allow.iter().map(ToString::to_string).collect();
        section("outbound", &[("allow", (!networks.is_empty()).then(|| quoted(&networks.join(","))))]);
        let StoreConfig { quota, capacity } = self.store;
        section("store", &[("quota", Some(quota.to_string())), ("capacity", Some(capacity.to_string()))]);
        let ConnectionsConfig { total, per_address } = self.connections;
        section(
            "limits",
            &[
                ("connections", Some(total.to_string())),
                ("connections_per_address", Some(per_address.to_string())),
            ],
        );
        let format = if self.logs == LogFormat::Json { "json" } else { "text" };
        let audit = self.audit_file.as_deref().map(path);
        section("logs", &[("format", Some(quoted(format))), ("audit", audit)]);
        out
    }
}

/// Default data folder.
pub fn default_data_dir(environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    let folder = |name: &str| environment.get(name).filter(|value| value.starts_with('/')).map(PathBuf::from);
    let base = folder("XDG_DATA_HOME").or_else(|| folder("HOME").map(|home| home.join(".local/share")))?;
    Some(base.join("longshore"))
}

fn read_file(file: &Path, values: &mut RawValues) -> Result<(), ConfigError> {
    let text =
        std::fs::read_to_string(file).map_err(|source| ConfigError::Read { file: file.into(), source })?;
    let table: toml::Table =
        text.parse().map_err(|source| ConfigError::Parse { file: file.into(), source: Box::new(source) })?;
    for (section, body) in table {
        let unknown = |key: String| ConfigError::UnknownKey { key, file: file.into() };
        let toml::Value::Table(body) = body else { return Err(unknown(section)) };
        for (key, value) in body {
            let key = format!("{section}.{key}");
            if !KEYS.iter().any(|(known, ..)| *known == key) {
                return Err(unknown(key));
            }
            let value = match value {
                toml::Value::String(text) => text,
                toml::Value::Boolean(truth) => truth.to_string(),
                toml::Value::Integer(number) => number.to_string(),
                other => {
                    return Err(invalid(&key, &other.to_string(), "a text, a whole number or a boolean"));
                }
            };
            values.insert(key, value);
        }
    }
    Ok(())
}

fn invalid(key: &str, value: &str, expected: &'static str) -> ConfigError {
    ConfigError::Invalid { key: key.to_owned(), value: value.to_owned(), expected }
}

fn contradiction(key: &'static str, why: &'static str) -> ConfigError {
    ConfigError::Contradiction { key, why }
}

fn parse_address(key: &str, value: &str) -> Result<SocketAddr, ConfigError> {
    let value = value.replace("localhost:", "127.0.0.1:");
    value.parse().map_err(|_| invalid(key, &value, "an address with a port, such as 127.0.0.1:8080"))
}

/// Parses host names without ports.
fn parse_hosts(text: &str) -> Result<Vec<String>, ConfigError> {
    let is_name = |name: &str| {
        name.len() <= 253 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
    };
    let named = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    let checked = |name: &str| {
        if is_name(name) {
            return Ok(name.to_ascii_lowercase());
        }
        Err(invalid("server.hosts", name, "names such as longshore.example.com, with commas between"))
    };
    named.map(checked).collect()
}

fn parse_networks(key: &str, value: &str) -> Result<Vec<IpNetwork>, ConfigError> {
    let named = value.split(',').map(str::trim).filter(|network| !network.is_empty());
    named
        .map(|network| {
            let expected = "networks such as 10.0.0.0/8, with commas between";
            network.parse().map_err(|_| invalid(key, network, expected))
        })
        .collect()
}

fn parse_manage_pools(value: &str) -> Result<ManagePools, ConfigError> {
    let named = ManagePools::ALL.into_iter().find(|way| way.as_str() == value);
    named.ok_or_else(|| invalid("edge.manage_pools", value, "own, always or never"))
}

fn parse_bool(key: &str, value: &str) -> Result<bool, ConfigError> {
    value.parse().map_err(|_| invalid(key, value, "true or false"))
}

fn parse_number(key: &str, value: &str, most: u32, expected: &'static str) -> Result<u32, ConfigError> {
    value.parse().ok().filter(|number| *number <= most).ok_or_else(|| invalid(key, value, expected))
}

fn parse_quantity(key: &str, value: &str) -> Result<String, ConfigError> {
    let is_amount = Quantity::parse(value).is_ok_and(|amount| amount.sign() >= 0);
    if is_amount { Ok(value.to_owned()) } else { Err(invalid(key, value, "an amount, such as 4 or 16Gi")) }
}

/// Parses a number of bytes, plain or with a binary suffix of Kubernetes.
fn parse_bytes(key: &str, value: &str) -> Result<u64, ConfigError> {
    const MOST: u64 = 1 << 50;
    let (digits, factor) = match value.split_at_checked(value.len().saturating_sub(2)) {
        Some((digits, "Ki")) => (digits, 1 << 10),
        Some((digits, "Mi")) => (digits, 1 << 20),
        Some((digits, "Gi")) => (digits, 1 << 30),
        _ => (value, 1),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    let number = number.filter(|number| (1..=MOST).contains(number));
    number.ok_or_else(|| invalid(key, value, "a number of bytes from 1 up, such as 32Mi"))
}

fn parse_store<'v>(given: &impl Fn(&str) -> Option<&'v String>) -> Result<StoreConfig, ConfigError> {
    let size = |key, default| given(key).map_or(Ok(default), |value| parse_bytes(key, value));
    let PackageLimits { quota, capacity, .. } = PackageLimits::default();
    Ok(StoreConfig { quota: size("store.quota", quota)?, capacity: size("store.capacity", capacity)? })
}

/// Parses the account settings. Registration is closed by default if the server is reachable from other machines.
fn parse_accounts<'v>(
    given: &impl Fn(&str) -> Option<&'v String>,
    only_this_machine: bool,
) -> Result<AccountsConfig, ConfigError> {
    let registration_open = match given("accounts.registration").map(String::as_str) {
        None => only_this_machine,
        Some("open") => true,
        Some("closed") => false,
        Some(other) => return Err(invalid("accounts.registration", other, "open or closed")),
    };
    let amount = |key, default, most, expected| {
        given(key).map_or(Ok(default), |value| parse_number(key, value, most, expected))
    };
    Ok(AccountsConfig {
        registration_open,
        valid_days: amount("accounts.valid_days", 7, 36_500, "a whole number up to 36500")?,
        max_nodes: amount("accounts.max_nodes", 3, 10_000, "a whole number up to 10000")?,
        grace_hours: amount("accounts.grace_hours", 24, 87_600, "a whole number up to 87600")?,
        quota: parse_resource_limits("accounts.quota", given("accounts.quota").map_or("", String::as_str))?,
        workspace_quota: parse_resource_limits(
            "accounts.workspace_quota",
            given("accounts.workspace_quota").map_or("", String::as_str),
        )?,
    })
}

/// Parses resources with quantities, named as in a ResourceQuota.
fn parse_resource_limits(key: &str, value: &str) -> Result<BTreeMap<String, String>, ConfigError> {
    let expected = "resources of a ResourceQuota with their amounts, such as pods=200,requests.cpu=16";
    let named = value.split(',').map(str::trim).filter(|limit| !limit.is_empty());
    let pair = |limit: &str| {
        let (resource, amount) = limit.split_once('=').ok_or_else(|| invalid(key, value, expected))?;
        Ok((resource.trim().to_owned(), amount.trim().to_owned()))
    };
    let limits = named.map(pair).collect::<Result<BTreeMap<_, _>, ConfigError>>()?;
    tenancy::quota::split_quota(&limits, &[]).map_err(|_| invalid(key, value, expected))?;
    Ok(limits)
}

fn format_resource_limits(limits: &BTreeMap<String, String>) -> Option<String> {
    let pairs: Vec<String> = limits.iter().map(|(resource, amount)| format!("{resource}={amount}")).collect();
    (!pairs.is_empty()).then(|| pairs.join(","))
}

fn parse_connections<'v>(
    given: &impl Fn(&str) -> Option<&'v String>,
) -> Result<ConnectionsConfig, ConfigError> {
    const MOST: u32 = 1_000_000;
    let expected = "a whole number from 1 to 1000000";
    let limit = |key, default| match given(key) {
        None => Ok(default),
        Some(value) => match parse_number(key, value, MOST, expected)? {
            0 => Err(invalid(key, value, expected)),
            limit => Ok(limit),
        },
    };
    Ok(ConnectionsConfig {
        total: limit("limits.connections", 10_000)?,
        per_address: limit("limits.connections_per_address", 1_000)?,
    })
}

fn parse_join_tool<'v>(given: &impl Fn(&str) -> Option<&'v String>) -> Result<JoinTool, ConfigError> {
    let value = |key: &str| given(key).map_or("", String::as_str);
    let (url, sums) = (value("edge.join_url"), value("edge.join_sha256"));
    JoinTool::parse(url, sums).map_err(|error| match error {
        ToolError::Url if url.is_empty() => contradiction("edge.join_sha256", "edge.join_url is missing"),
        ToolError::Url => invalid("edge.join_url", url, "a plain address that begins with https://"),
        ToolError::Checksums if sums.is_empty() => contradiction("edge.join_url", "edge.join_sha256 is missing"),
        ToolError::Checksums => {
            let expected = "a SHA-256 in hexadecimal, or one for each architecture, such as amd64=...,arm64=..., where edge.join_url has {arch}";
            invalid("edge.join_sha256", sums, expected)
        }
    })
}

/// Parses the simulation settings; `None` if the simulation is off.
fn parse_simulation<'v>(
    given: &impl Fn(&str) -> Option<&'v String>,
) -> Result<Option<Simulation>, ConfigError> {
    let mut simulation = Simulation::default();
    if let Some(nodes) = given("sim.nodes") {
        simulation.nodes = parse_number("sim.nodes", nodes, 5000, "a whole number up to 5000")?;
    }
    if let Some(pods) = given("sim.pods") {
        simulation.pods = parse_number("sim.pods", pods, 1000, "a whole number up to 1000")?;
    }
    for (key, place) in [("sim.cpu", &mut simulation.cpu), ("sim.memory", &mut simulation.memory)] {
        if let Some(value) = given(key) {
            *place = parse_quantity(key, value)?;
        }
    }
    if let Some(addresses) = given("sim.addresses") {
        simulation.addresses = parse_bool("sim.addresses", addresses)?;
    }
    let is_enabled = parse_bool("sim.enabled", given("sim.enabled").map_or("true", String::as_str))?;
    Ok(is_enabled.then_some(simulation))
}

fn parse_https_url(key: &str, value: &str) -> Result<String, ConfigError> {
    let host = value.strip_prefix("https://").unwrap_or_default();
    if host.is_empty() || host.contains([' ', '"', '\n']) {
        return Err(invalid(key, value, "an address that begins with https://"));
    }
    Ok(value.trim_end_matches('/').to_owned())
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests;
