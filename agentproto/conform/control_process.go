package conform

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// A RuntimeCommand starts a runtime under test: a program and its arguments, to which the
// path of a [RuntimeConfig] is appended.
type RuntimeCommand struct {
	Args []string
	Env  []string // added to the environment
}

// A runtimeProcess is a running runtime under test.
type runtimeProcess struct {
	*Control
	hello Hello
	cmd   *exec.Cmd
	log   *logTail
	ended chan struct{} // closed when the process is gone
}

// startPatience is how long a runtime may take to print its [Hello].
const startPatience = 20 * time.Second

// start starts a runtime with a configuration, which it writes to a folder.
func (c RuntimeCommand) start(ctx context.Context, folder string, config RuntimeConfig) (*runtimeProcess, error) {
	if len(c.Args) == 0 {
		return nil, errors.New("conform: there is no command that starts the runtime")
	}
	data, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(folder, "config.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return nil, err
	}
	args := append(append([]string(nil), c.Args[1:]...), file)
	cmd := exec.Command(c.Args[0], args...)
	cmd.Env = append(os.Environ(), c.Env...)
	p := &runtimeProcess{cmd: cmd, log: &logTail{}, ended: make(chan struct{})}
	cmd.Stderr = p.log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("conform: %s does not start: %w", c.Args[0], err)
	}
	first := make(chan []byte, 1)
	go func() {
		defer close(p.ended)
		lines := bufio.NewScanner(out)
		lines.Scan()
		first <- bytes.Clone(lines.Bytes())
		for lines.Scan() { // so that a runtime which prints more does not block
		}
		_ = cmd.Wait() // the exit status does not matter: the process was killed, or a case fails
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, startPatience, fmt.Errorf("it printed no line within %v", startPatience))
	defer cancel()
	select {
	case line := <-first:
		if err := json.Unmarshal(line, &p.hello); err != nil || p.hello.Control == "" {
			p.kill()
			return nil, fmt.Errorf("conform: the runtime did not say where its control interface is, but %.100q\n%s", line, p.log)
		}
	case <-ctx.Done():
		p.kill()
		return nil, fmt.Errorf("conform: the runtime did not start: %w\n%s", context.Cause(ctx), p.log)
	}
	p.Control = NewControl(p.hello.Control, p.hello.Token)
	return p, nil
}

// kill ends the process as a crash would, and waits for its end.
func (p *runtimeProcess) kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.ended
	if p.Control != nil {
		p.Control.http.CloseIdle()
	}
}

// alive reports whether the process is running.
func (p *runtimeProcess) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// A logTail keeps the end of a process's standard error.
type logTail struct {
	mu   sync.Mutex
	data []byte
}

const maxLogTail = 1 << 20

// Write appends p.
func (l *logTail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.data = append(l.data, p...)
	if extra := len(l.data) - maxLogTail; extra > 0 {
		l.data = append(l.data[:0], l.data[extra:]...)
	}
	return len(p), nil
}

// String returns the kept text.
func (l *logTail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.data)
}

// memory returns the peak memory use of the process in bytes, or 0 where the operating system does
// not report it.
func (p *runtimeProcess) memory() int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(text, []byte("VmHWM:"))
	var kilobytes int64
	if _, err := fmt.Sscan(string(rest), &kilobytes); err != nil {
		return 0
	}
	return kilobytes << 10
}
