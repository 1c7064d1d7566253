package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	// marker is in every folder that we made, so that no other is ever removed.
	marker = "devcluster"
	// processesFile has a line for each process that was started, in that order.
	processesFile = "processes"
	adminConfig   = "kubeconfig"
)

// folder holds everything that one cluster keeps: keys, data, logs, and which processes it is made of.
type folder string

func (f folder) path(name string) string { return filepath.Join(string(f), name) }

// lock keeps two commands from working on one folder at a time. Its file stands beside the folder, which comes and goes.
func (f folder) lock() (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(string(f)), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(string(f)+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		file.Close()
		return nil, err
	}
	return func() { file.Close() }, nil
}

// create makes the folder anew for a cluster of this kind.
func (f folder) create(kind string) error {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return err
	}
	return os.WriteFile(f.path(marker), []byte(kind+"\n"), 0o600)
}

// kind is what create was told, or nothing where there is no folder. A folder that is not ours is an error.
func (f folder) kind() (string, error) {
	said, err := os.ReadFile(f.path(marker))
	if err == nil {
		return strings.TrimSpace(string(said)), nil
	}
	entries, err := os.ReadDir(string(f))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("%s holds other things: say another --dir", f)
	}
	return "", err
}

func (f folder) remove() error { return os.RemoveAll(string(f)) }

// add notes a started process before anything else happens, so that it can be stopped whatever becomes of us.
func (f folder) add(p process) error {
	file, err := os.OpenFile(f.path(processesFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = fmt.Fprintln(file, p.name, p.pid, p.started)
	return err
}

// processes are those that were started, dead or alive.
func (f folder) processes() ([]process, error) {
	file, err := os.Open(f.path(processesFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var all []process
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var p process
		// A line that was cut off belongs to a process that had not been started for anybody yet.
		if _, err := fmt.Sscan(lines.Text(), &p.name, &p.pid, &p.started); err == nil {
			all = append(all, p)
		}
	}
	return all, nil
}
