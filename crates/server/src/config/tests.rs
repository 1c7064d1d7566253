//! Configuration files, environment and flags: values that are read, refused and printed.

use super::*;

fn read_config(file: &str, environment: &[(&str, &str)], flags: Flags) -> Result<Config, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("longshore.toml");
    std::fs::write(&path, file).unwrap();
    let mut environment: Vec<_> =
        environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    environment.push(("HOME".to_owned(), "/home/me".to_owned()));
    Config::read(&Flags { config: Some(path), ..flags }, environment)
        .map_err(|error| error.to_string().replace(&*folder.path().to_string_lossy(), ""))
}

#[test]
fn flags_override_environment_file_and_defaults() {
    let file =
        "[server]\nlisten = \"127.0.0.1:1\"\n[kube]\nlisten = \"127.0.0.1:2\"\n[data]\ndir = \"/file\"\n";
    let environment =
        [("LONGSHORE_KUBE_LISTEN", "127.0.0.1:3"), ("LONGSHORE_DATA_DIR", "/env"), ("LONGSHORE_TARGET", "x")];
    let flags = Flags { data: Some("/flag".into()), ..Flags::default() };
    let config = read_config(file, &environment, flags).unwrap();
    assert_eq!(config.listen.port(), 1);
    assert_eq!(config.data, Path::new("/flag"));
    let simulation = Some(Simulation::default());
    assert_eq!(
        config.kube,
        ClusterConfig::Embedded {
            listen: "127.0.0.1:3".parse().unwrap(),
            external_url: None,
            storage_budget: 128 << 20,
            storage_capacity: 512 << 20,
            simulation
        }
    );
    let defaults = read_config("", &[], Flags::default()).unwrap();
    assert_eq!(defaults.data, Path::new("/home/me/.local/share/longshore"));
    assert_eq!(defaults.listen.to_string(), "127.0.0.1:8080");
}

#[test]
fn invalid_config_is_rejected_with_key_and_value() {
    let table = [
        ("[sim]\nnodes = 1.5\n", "`sim.nodes` must be a string, an integer or a boolean, not `1.5`"),
        ("[sim]\nnodes = -1\n", "`sim.nodes` must be a whole number up to 5000, not `-1`"),
        ("[sim]\nmemory = \"much\"\n", "`sim.memory` must be an amount, such as 4 or 16Gi, not `much`"),
        (
            "[sim]\nnodes = 1\n[kube]\nkubeconfig = \"/a\"\n",
            "`sim.nodes` cannot be used here: it applies to the embedded cluster, but kube.kubeconfig selects an existing one",
        ),
        (
            "[server]\nlisten = 8080\n",
            "`server.listen` must be an address with a port, such as 127.0.0.1:8080, not `8080`",
        ),
        (
            "[server]\nlisten = \"here\"\n",
            "`server.listen` must be an address with a port, such as 127.0.0.1:8080, not `here`",
        ),
        ("[server]\nport = \"1\"\n", "unknown key `server.port` in the configuration file `/longshore.toml`"),
        ("oops = 1\n", "unknown key `oops` in the configuration file `/longshore.toml`"),
        ("[tls]\ncert = \"a\"\n", "`tls.cert` cannot be used here: tls.key is missing"),
        ("[kube]\ncontext = \"a\"\n", "`kube.context` cannot be used here: kube.kubeconfig is missing"),
        (
            "[accounts]\nquota = \"pods\"\n",
            "`accounts.quota` must be resources of a ResourceQuota with their amounts, such as pods=200,requests.cpu=16, not `pods`",
        ),
        (
            "[accounts]\nregistration = \"maybe\"\n",
            "`accounts.registration` must be open or closed, not `maybe`",
        ),
        (
            "[outbound]\nallow = \"10.0.0.0/8, 10.0.0.0/40\"\n",
            "`outbound.allow` must be networks such as 10.0.0.0/8, comma-separated, not `10.0.0.0/40`",
        ),
        (
            "[edge]\njoin_url = \"https://example.com/yurtadm\"\n",
            "`edge.join_url` cannot be used here: edge.join_sha256 is missing",
        ),
        (
            "[edge]\njoin_url = \"http://example.com/yurtadm\"\njoin_sha256 = \"a\"\n",
            "`edge.join_url` must be a URL that begins with https://, without query or credentials, not `http://example.com/yurtadm`",
        ),
        ("[edge]\njoin_sha256 = \"a\"\n", "`edge.join_sha256` cannot be used here: edge.join_url is missing"),
        ("[edge]\nmanage_pools = true\n", "`edge.manage_pools` must be own, always or never, not `true`"),
        (
            "[limits]\nconnections = 0\n",
            "`limits.connections` must be a whole number from 1 to 1000000, not `0`",
        ),
        (
            "[store]\nquota = \"0\"\n",
            "`store.quota` must be a number of bytes from 1 up, such as 32Mi, not `0`",
        ),
        (
            "[store]\ncapacity = \"99999999999Gi\"\n",
            "`store.capacity` must be a number of bytes from 1 up, such as 32Mi, not `99999999999Gi`",
        ),
        (
            "[kube]\nstorage_budget = \"much\"\n",
            "`kube.storage_budget` must be a number of bytes from 1 up, such as 32Mi, not `much`",
        ),
        (
            "[kube]\nstorage_capacity = \"-1\"\n",
            "`kube.storage_capacity` must be a number of bytes from 1 up, such as 32Mi, not `-1`",
        ),
        (
            "[kube]\nstorage_capacity = \"1Gi\"\nkubeconfig = \"/a\"\n",
            "`kube.storage_capacity` cannot be used here: it applies to the embedded cluster, but kube.kubeconfig selects an existing one",
        ),
        (
            "[kube]\nstorage_budget = \"1Gi\"\nkubeconfig = \"/a\"\n",
            "`kube.storage_budget` cannot be used here: it applies to the embedded cluster, but kube.kubeconfig selects an existing one",
        ),
        ("[logs]\nformat = \"xml\"\n", "`logs.format` must be text or json, not `xml`"),
        (
            "[kube]\nexternal_url = \"http://a\"\n",
            "`kube.external_url` must be a URL that begins with https://, not `http://a`",
        ),
    ];
    for (file, message) in table {
        assert_eq!(read_config(file, &[], Flags::default()).unwrap_err(), message);
    }
    let open = read_config("[server]\nlisten = \"0.0.0.0:80\"\n", &[], Flags::default()).unwrap_err();
    assert!(open.contains("plain HTTP is for this machine only"), "{open}");
}

#[test]
fn registration_is_closed_by_default_beyond_loopback() {
    let open = |file| read_config(file, &[], Flags::default()).unwrap().accounts.registration_open;
    assert!(open(""));
    assert!(!open("[accounts]\nregistration = \"closed\"\n"));
    let elsewhere = "[server]\nlisten = \"0.0.0.0:80\"\ntrusted_proxy = true\n";
    assert!(!open(elsewhere));
    assert!(open(&format!("{elsewhere}[accounts]\nregistration = \"open\"\n")));
}

#[test]
fn manage_pools_defaults_to_own() {
    let pools = |file, environment| read_config(file, environment, Flags::default()).unwrap().manage_pools;
    assert_eq!(pools("", &[]), ManagePools::Own);
    assert_eq!(pools("[edge]\nmanage_pools = \"always\"\n", &[]), ManagePools::Always);
    assert_eq!(pools("", &[("LONGSHORE_EDGE_MANAGE_POOLS", "never")]), ManagePools::Never);
}

#[test]
fn printed_config_reads_back_unchanged() {
    let sum = "ab".repeat(32);
    let edge = format!(
        "[edge]\njoin_url = \"https://example.com/{{arch}}\"\njoin_sha256 = \"amd64={sum}\"\nmanage_pools = \"never\"\n[accounts]\ngrace_hours = 1\nquota = \"pods=200\"\nworkspace_quota = \"requests.cpu=2, pods=9\"\n[limits]\nconnections_per_address = 7\n[kube]\nstorage_budget = \"64Mi\"\nstorage_capacity = \"3Gi\"\n[store]\nquota = \"3Mi\"\ncapacity = 4096\n"
    );
    let config = read_config(&edge, &[], Flags::default()).unwrap();
    assert_eq!(config.accounts.grace_hours, 1);
    assert_eq!(config.accounts.quota, BTreeMap::from([("pods".to_owned(), "200".to_owned())]));
    assert_eq!(config.accounts.workspace_quota.len(), 2);
    assert_eq!(read_config(&config.to_toml(), &[], Flags::default()).unwrap(), config);
    let file = "[server]\nlisten = \"127.0.0.1:0\"\n[kube]\nkubeconfig = \"/a \\\"b\\\"\"\ncontext = \"c\"\n[logs]\nformat = \"json\"\n";
    let config = read_config(file, &[], Flags::default()).unwrap();
    assert_eq!(read_config(&config.to_toml(), &[], Flags::default()).unwrap(), config);
    for file in
        ["[sim]\nnodes = 0\ncpu = 8\nmemory = \"1Gi\"\naddresses = true\n", "[sim]\nenabled = false\n"]
    {
        let config = read_config(file, &[], Flags::default()).unwrap();
        assert_eq!(read_config(&config.to_toml(), &[], Flags::default()).unwrap(), config);
    }
}
