// Command kubectl is Kubernetes' own command line, built from its Go modules: what a packaged kubectl is, without a
// download from anywhere but the module proxy. `cargo xtask test --real` builds it, with the version set by -ldflags.
package main

import (
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}
