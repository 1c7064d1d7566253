package main

import (
	"fmt"
	"os"
)

const (
	controllersConfig = "controllers.kubeconfig"
	schedulerConfig   = "scheduler.kubeconfig"
	stagesFile        = "stages.yaml"
	tokensFile        = "tokens.csv"

	services = "10.96.0.0/16"
	pods     = "10.244.0.0/16"

	// played are the nodes that somebody acts for: all but those whose statuses are written by hand, as on the embedded cluster.
	played = "sim.longshore.dev/node!=false"
)

// part is a process of the cluster. Arguments name files of the folder, in which it runs.
type part struct {
	name      string
	program   string
	arguments []string
}

// unhurried are the limits that controllers and the scheduler set themselves: far above what a small machine can do, so
// that it is not they who are measured.
var unhurried = []string{"--kube-api-qps", "500", "--kube-api-burst", "1000"}

// store is what must answer before anything else is of use.
func (c *cluster) store() []part {
	apiserver := []string{
		"--etcd-servers", c.etcd, "--secure-port", fmt.Sprint(c.port), "--bind-address", "127.0.0.1",
		"--tls-cert-file", "apiserver.crt", "--tls-private-key-file", "apiserver.key", "--client-ca-file", "ca.crt", "--token-auth-file", tokensFile,
		"--service-account-key-file", "accounts.key", "--service-account-signing-key-file", "accounts.key",
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-cluster-ip-range", services,
	}
	if c.bare {
		apiserver = append(apiserver, "--authorization-mode", "RBAC", "--disable-admission-plugins", "ServiceAccount")
	} else {
		apiserver = append(apiserver, "--authorization-mode", "Node,RBAC", "--enable-admission-plugins", "NodeRestriction",
			"--enable-bootstrap-token-auth", "--allow-privileged")
	}
	return []part{
		c.own("etcd", "--data-dir", "etcd", "--listen-client-urls", c.etcd, "--advertise-client-urls", c.etcd,
			"--listen-peer-urls", c.etcdPeers, "--initial-advertise-peer-urls", c.etcdPeers,
			"--initial-cluster", "default="+c.etcdPeers),
		c.own("kube-apiserver", apiserver...),
	}
}

// workers are what keeps the cluster moving. kwok is the last, see running.
func (c *cluster) workers() []part {
	alone := func(kubeconfig string) []string {
		return append([]string{"--kubeconfig", kubeconfig, "--leader-elect=false", "--secure-port", "0"}, unhurried...)
	}
	controllers := append(alone(controllersConfig), "--use-service-account-credentials",
		"--service-account-private-key-file", "accounts.key", "--root-ca-file", "ca.crt")
	parts := []part{}
	if !c.bare {
		controllers = append(controllers, "--controllers", "*,bootstrapsigner,tokencleaner",
			"--cluster-signing-cert-file", "ca.crt", "--cluster-signing-key-file", "ca.key",
			"--allocate-node-cidrs", "--cluster-cidr", pods, "--service-cluster-ip-range", services)
		parts = append(parts, c.own("volumes", "--kubeconfig", adminConfig))
	}
	return append(parts,
		c.own("kube-controller-manager", controllers...),
		c.own("kube-scheduler", alone(schedulerConfig)...),
		part{name: "kwok", program: c.kwok, arguments: []string{
			"--kubeconfig", adminConfig, "--config", stagesFile, "--manage-nodes-with-label-selector", played,
			"--node-lease-duration-seconds", "40",
		}},
	)
}

// own is one of the programs inside this one.
func (c *cluster) own(name string, arguments ...string) part {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	return part{name: name, program: self, arguments: append([]string{name}, arguments...)}
}
