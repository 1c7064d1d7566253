package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is one that we started, perhaps in an earlier life. A pid is used again by the system after a while; with
// the moment at which it was started it is not.
type process struct {
	name    string
	pid     int
	started uint64
}

// patience is how long a process may take to end by itself.
const patience = 20 * time.Second

// start runs a program in a session of its own, so that neither our end nor a terminal's Ctrl-C is its end.
func start(folder folder, name, program string, arguments ...string) (process, error) {
	log, err := os.OpenFile(folder.path(name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return process{}, err
	}
	defer log.Close()
	running := exec.Command(program, arguments...)
	running.Dir, running.Stdout, running.Stderr = string(folder), log, log
	running.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := running.Start(); err != nil {
		return process{}, err
	}
	p := process{name: name, pid: running.Process.Pid}
	// While we live, it is our child and must be waited for to be gone.
	go func() { _ = running.Wait() }()
	p.started, _ = startOf(p.pid)
	return p, folder.add(p)
}

func (p process) alive() bool {
	started, running := startOf(p.pid)
	return running && started == p.started
}

// stop asks it to end and returns when it has; after a while it is no longer asked.
func (p process) stop() {
	for _, sign := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		for deadline := time.Now().Add(patience); p.alive() && time.Now().Before(deadline); {
			_ = syscall.Kill(p.pid, sign)
			for i := 0; i < 50 && p.alive(); i++ {
				time.Sleep(20 * time.Millisecond)
			}
		}
	}
}

// startOf is when a process was started, in ticks since boot, and whether it still runs.
func startOf(pid int) (uint64, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	// `pid (name) state ...`, where the name may contain anything; the start is the twentieth field after it.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 {
		return 0, false
	}
	started, err := strconv.ParseUint(fields[19], 10, 64)
	return started, err == nil && fields[0] != "Z" && fields[0] != "X"
}

// lastWords are the end of a process's log, for whoever asks why it ended.
func (p process) lastWords(folder folder) string {
	text, _ := os.ReadFile(folder.path(p.name + ".log"))
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "\n")
}
