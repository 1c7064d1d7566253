// Command kube-schema writes the tables that kube-embedded is built on: what shape the objects of the
// built-in kinds have, what is served under which name, how `kubectl explain` describes it, and the
// default RBAC objects.
//
//	go run . --out ../../crates/kube-embedded/data
//
// Nothing in them is written by hand. Shapes come from the Go types (JSON and protobuf tags) joined with
// the OpenAPI documents that Kubernetes publishes; the rest is asked of a kube-apiserver which this
// program starts by itself, from the same module, on free ports. The same sources give the same bytes.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	etcdmain "go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	// The program is its own control plane: it starts itself again under these names.
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "etcd":
			etcdmain.Main(os.Args[1:])
			return
		case "kube-apiserver":
			os.Args = os.Args[1:]
			os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
		}
	}
	out := flag.String("out", "", "directory that the tables are written to")
	flag.Parse()
	if *out == "" {
		fmt.Fprintln(os.Stderr, "kube-schema: --out is required")
		os.Exit(2)
	}
	if err := generate(*out); err != nil {
		fmt.Fprintln(os.Stderr, "kube-schema:", err)
		os.Exit(1)
	}
}

func generate(out string) error {
	server, err := startServer()
	if err != nil {
		return err
	}
	defer server.stop()

	published, err := readPublished(server)
	if err != nil {
		return err
	}
	types, err := collectTypes(published)
	if err != nil {
		return err
	}
	resources, err := writeResources(server, types)
	if err != nil {
		return err
	}
	rbac, err := writeRBAC(server)
	if err != nil {
		return err
	}
	samples, err := writeSamples()
	if err != nil {
		return err
	}
	files := map[string]string{
		"schema.txt":         writeTypes(types),
		"descriptions.txt":   writeDescriptions(types),
		"resources.txt":      resources,
		"rbac-defaults.json": rbac,
		"protobuf.txt":       samples,
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(out, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// stable says whether a version is neither alpha nor beta.
func stable(version string) bool {
	return !strings.Contains(version, "alpha") && !strings.Contains(version, "beta")
}
