// Command devcluster is a real Kubernetes on this machine: etcd, the API server, the controllers and the scheduler of
// Kubernetes, linked into one program, on nodes that kwok simulates.
//
//	devcluster up [--bare] [--dir D] --kwok K   start it and return when it can be used
//	devcluster hold ...                         the same, and stop it when standard input ends
//	devcluster down [--dir D]                   stop it and remove what it kept
//	devcluster kubeconfig [--dir D]             print the administrator's kubeconfig
//
// Under the name of one of its parts, as what it is called or as its first word, it is that part; so a link named
// `kubectl` is kubectl. `up` starts its parts as processes of their own, which is this program again.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	etcd "go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// parts are the programs inside, by name. Each takes os.Args as if it had been started itself, and ends the process.
var parts = map[string]func(){
	"etcd":                    func() { etcd.Main(os.Args) },
	"kube-apiserver":          func() { os.Exit(cli.Run(apiserver.NewAPIServerCommand())) },
	"kube-controller-manager": func() { os.Exit(cli.Run(controllers.NewControllerManagerCommand())) },
	"kube-scheduler":          func() { os.Exit(cli.Run(scheduler.NewSchedulerCommand())) },
	"kubectl":                 kubectl,
	"volumes":                 volumes,
}

const usage = "usage: devcluster up|hold|down|kubeconfig [--dir D] [--bare] [--kwok K], or the name of a part"

func main() {
	if part, found := parts[filepath.Base(os.Args[0])]; found {
		part()
		return
	}
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	os.Args = os.Args[1:]
	if part, found := parts[os.Args[0]]; found {
		part()
		return
	}
	if err := command(os.Args[0], os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "devcluster:", err)
		os.Exit(1)
	}
}

func command(verb string, arguments []string) error {
	flags := flag.NewFlagSet(verb, flag.ExitOnError)
	dir := flags.String("dir", defaultDir(), "folder for everything that the cluster keeps")
	bare := flags.Bool("bare", false, "no ServiceAccount admission, node addresses, storage class or bootstrap tokens")
	kwok := flags.String("kwok", "", "the kwok program that simulates the nodes")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%s takes no `%s`", verb, flags.Arg(0))
	}
	if *dir == "" {
		return errors.New("neither XDG_CACHE_HOME nor HOME is set: say --dir")
	}
	absolute, err := filepath.Abs(*dir)
	if err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	folder := folder(absolute)
	switch verb {
	case "up", "hold":
		kwok, err := program(*kwok)
		if err != nil {
			return err
		}
		if verb == "hold" {
			return hold(ctx, folder, kwok, *bare)
		}
		return up(ctx, folder, kwok, *bare)
	case "down":
		return down(folder)
	case "kubeconfig":
		text, err := os.ReadFile(folder.path(adminConfig))
		if errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("no cluster in %s: start one with `up`", folder)
		}
		fmt.Print(string(text))
		return err
	}
	return fmt.Errorf("there is no `%s`\n%s", verb, usage)
}

// program finds kwok once and for all: parts of the cluster run in its folder, not in ours.
func program(kwok string) (string, error) {
	if kwok == "" {
		return "", errors.New("nobody simulates the nodes: say --kwok (`cargo xtask devcluster up` does)")
	}
	path, err := exec.LookPath(kwok)
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// hold is for whoever must not leave a cluster behind: however the holder of our input ends, its end closes it.
func hold(ctx context.Context, folder folder, kwok string, bare bool) error {
	if err := up(ctx, folder, kwok, bare); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		ended <- err
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	return down(folder)
}

func kubectl() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}

// defaultDir is empty where nobody says where caches go.
func defaultDir() string {
	cache := os.Getenv("XDG_CACHE_HOME")
	if !filepath.IsAbs(cache) {
		home := os.Getenv("HOME")
		if home == "" {
			return ""
		}
		cache = filepath.Join(home, ".cache")
	}
	return filepath.Join(cache, "longshore", "devcluster-state")
}
