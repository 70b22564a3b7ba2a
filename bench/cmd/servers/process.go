package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	startWithin = 30 * time.Second
	stopWithin  = 20 * time.Second
)

// A process is a server that this program has started. It ends when its standard input is closed, so also when this program is
// killed.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	read  chan struct{} // closed at the end of its output

	mu   sync.Mutex
	last []string // lines that it has printed last
}

// start starts a program and waits until it has printed a line that matches. It returns the groups of the match.
func start(ctx context.Context, ready *regexp.Regexp, program string, args ...string) (*process, []string, error) {
	p := &process{cmd: exec.Command(program, args...), read: make(chan struct{})}
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	p.stdin = stdin
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	p.cmd.Stdout, p.cmd.Stderr = w, w
	err = p.cmd.Start()
	w.Close()
	if err != nil {
		r.Close()
		return nil, nil, err
	}
	found := make(chan []string, 1)
	go p.follow(r, ready, found)
	timeout := time.NewTimer(startWithin)
	defer timeout.Stop()
	select {
	case groups := <-found:
		return p, groups, nil
	case <-p.read:
		err = errors.New("it ended")
	case <-timeout.C:
		err = fmt.Errorf("it is not ready after %v", startWithin)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return nil, nil, fmt.Errorf("%s: %w%s", p.cmd, errors.Join(err, p.stop()), p.said())
}

// follow reads the output of the process.
func (p *process) follow(r io.ReadCloser, ready *regexp.Regexp, found chan<- []string) {
	defer close(p.read)
	defer r.Close()
	matched := false
	for in := bufio.NewScanner(r); in.Scan(); {
		p.mu.Lock()
		p.last = append(p.last[max(0, len(p.last)-9):], in.Text())
		p.mu.Unlock()
		if groups := ready.FindStringSubmatch(in.Text()); groups != nil && !matched {
			matched = true
			found <- groups
		}
	}
}

// said returns what the process has printed last, for an error.
func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.last) == 0 {
		return ""
	}
	return "\n" + strings.Join(p.last, "\n")
}

// stop ends the process. It is killed if it does not end by itself in time.
func (p *process) stop() error {
	p.stdin.Close()
	timeout := time.AfterFunc(stopWithin, func() { _ = p.cmd.Process.Kill() })
	defer timeout.Stop()
	err := p.cmd.Wait()
	<-p.read
	if err != nil {
		return fmt.Errorf("%s: %w%s", p.cmd, err, p.said())
	}
	return nil
}

// tick is the unit of times in /proc, which is the same on all usual Linux systems.
const tick = 10 * time.Millisecond

// used returns the processor time of the process until now.
func (p *process) used() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	return usedIn(string(text))
}

// usedIn returns the processor time that a /proc/PID/stat has.
func usedIn(stat string) (time.Duration, error) {
	// The second field is the name, in parentheses. The 14th and 15th are the time in user mode and in the system.
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("%q is no state of a process", stat)
	}
	user, err := strconv.Atoi(fields[11])
	if err != nil {
		return 0, err
	}
	system, err := strconv.Atoi(fields[12])
	return time.Duration(user+system) * tick, err
}

// usedHere returns the processor time of this process until now.
func usedHere() (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}
