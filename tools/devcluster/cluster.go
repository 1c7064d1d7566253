package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"time"
)

// readyWithin is for a machine on which others work hard, too.
const readyWithin = 3 * time.Minute

// cluster is one that is being started.
type cluster struct {
	folder folder
	bare   bool
	server string
	// etcd and etcdPeers are its addresses, port is the API server's.
	etcd, etcdPeers string
	port            int
	kwok            string
	authority       *authority
	processes       []process
}

func kindOf(bare bool) string {
	if bare {
		return "bare"
	}
	return "full"
}

// up starts a cluster, unless it runs already, and returns when it can be used.
func up(ctx context.Context, folder folder, kwok string, bare bool) error {
	if _, running := startOf(os.Getpid()); !running {
		return errors.New("this system has no /proc: devcluster runs on Linux only")
	}
	unlock, err := folder.lock()
	if err != nil {
		return err
	}
	defer unlock()
	kind, err := folder.kind()
	if err != nil {
		return err
	}
	if runs, err := running(folder); err != nil {
		return err
	} else if runs && kind != kindOf(bare) {
		return fmt.Errorf("a %s cluster runs in %s: `down` first", kind, folder)
	} else if runs {
		fmt.Println("already running", folder.path(adminConfig))
		return nil
	}
	if err := clear(folder); err != nil {
		return err
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	c := &cluster{folder: folder, bare: bare, kwok: kwok}
	if err := c.start(ctx); err != nil {
		stopAll(c.processes)
		return fmt.Errorf("%w\nlogs are in %s", err, folder)
	}
	fmt.Printf("ready %s after %.1f s\n", folder.path(adminConfig), time.Since(began).Seconds())
	return nil
}

// down stops whatever is left of a cluster, and is content where there is none.
func down(folder folder) error {
	unlock, err := folder.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := folder.kind(); err != nil {
		return err
	}
	return clear(folder)
}

// running tells whether all of the cluster runs; a part of it does not count.
func running(folder folder) (bool, error) {
	processes, err := folder.processes()
	dead := func(p process) bool { return !p.alive() }
	// The one that is started last tells whether everything was started at all.
	whole := len(processes) > 0 && processes[len(processes)-1].name == "kwok"
	return whole && !slices.ContainsFunc(processes, dead), err
}

// clear stops the processes that a folder names and removes it.
func clear(folder folder) error {
	processes, err := folder.processes()
	if err != nil {
		return err
	}
	stopAll(processes)
	return folder.remove()
}

// stopAll ends what was started last first, and each before the one that it needs.
func stopAll(processes []process) {
	for _, p := range slices.Backward(processes) {
		p.stop()
	}
}

func (c *cluster) start(ctx context.Context) error {
	if err := c.prepare(); err != nil {
		return err
	}
	for _, part := range c.store() {
		if err := c.launch(part); err != nil {
			return err
		}
	}
	clients, err := newClients(c.folder)
	if err != nil {
		return err
	}
	if err := c.await(ctx, "the API server answers", clients.answers); err != nil {
		return err
	}
	if err := c.await(ctx, "its first objects are written", func(ctx context.Context) error {
		return clients.create(ctx, c.objects())
	}); err != nil {
		return err
	}
	for _, part := range c.workers() {
		if err := c.launch(part); err != nil {
			return err
		}
	}
	return c.await(ctx, "its nodes are ready", func(ctx context.Context) error {
		return clients.settled(ctx, c.bare)
	})
}

// prepare chooses ports and writes keys and configuration.
func (c *cluster) prepare() (err error) {
	if err := c.folder.create(kindOf(c.bare)); err != nil {
		return err
	}
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	c.etcd, c.etcdPeers = fmt.Sprintf("http://127.0.0.1:%d", ports[0]), fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	c.port, c.server = ports[2], fmt.Sprintf("https://127.0.0.1:%d", ports[2])
	if c.authority, err = newAuthority(c.folder); err != nil {
		return err
	}
	stages, err := exec.Command(c.kwok, "stages").Output()
	if err != nil {
		return fmt.Errorf("%s does not print its stages: %w", c.kwok, err)
	}
	if !c.bare {
		stages = append(stages, "\n---\n"+hookStage...)
	}
	return errors.Join(
		c.authority.serve(),
		accountKey(c.folder),
		c.authority.administrator(c.server),
		c.authority.member(controllersConfig, c.server, "system:kube-controller-manager"),
		c.authority.member(schedulerConfig, c.server, "system:kube-scheduler"),
		writeFiles(c.folder, map[string][]byte{stagesFile: stages}),
	)
}

func (c *cluster) launch(part part) error {
	p, err := start(c.folder, part.name, part.program, part.arguments...)
	if err == nil {
		c.processes = append(c.processes, p)
	}
	return err
}

// await repeats until it holds. A process that ends meanwhile will not come back, so nothing is to be waited for.
func (c *cluster) await(ctx context.Context, what string, holds func(context.Context) error) error {
	for {
		err := holds(ctx)
		if err == nil {
			return nil
		}
		for _, p := range c.processes {
			if !p.alive() {
				return fmt.Errorf("%s has ended:\n%s", p.name, p.lastWords(c.folder))
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not until %s: %w: %w", what, context.Cause(ctx), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// freePorts asks the system for ports of the loopback address. All are held until the last is known.
func freePorts(count int) ([]int, error) {
	ports := make([]int, count)
	for i := range ports {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close()
		ports[i] = listener.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}
