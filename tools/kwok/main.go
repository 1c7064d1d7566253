// Command kwok simulates nodes and pods: kwok's own program, built from its Go module, with one word more.
// `kwok stages` prints the stages that it does not run by itself: nodes that are ready and send heartbeats, pods that
// are ready, complete and go at once.
//
// It is a module of its own: in one with the control plane it would raise the versions that Kubernetes is built with.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	nodes "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	heartbeats "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	pods "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	"sigs.k8s.io/kwok/pkg/config"
	"sigs.k8s.io/kwok/pkg/kwok/cmd"
	"sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/signals"
)

var stages = []string{
	nodes.DefaultNodeInit,
	heartbeats.DefaultNodeHeartbeatWithLease,
	pods.DefaultPodReady,
	pods.DefaultPodComplete,
	pods.DefaultPodDelete,
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "stages" {
		fmt.Println(strings.Join(stages, "\n---\n"))
		return
	}
	if err := kwok(); err != nil {
		fmt.Fprintln(os.Stderr, "kwok:", err)
		os.Exit(1)
	}
}

// kwok runs until it is told to end. Flags for logs and configuration are read first, and unknown ones left alone.
func kwok() error {
	flags := pflag.NewFlagSet("global", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}
	ctx, _ := log.InitFlags(signals.SetupSignalContext(), flags)
	ctx, err := config.InitFlags(ctx, flags)
	if err != nil {
		return err
	}
	command := cmd.NewCommand(ctx)
	command.PersistentFlags().AddFlagSet(flags)
	return command.ExecuteContext(ctx)
}
