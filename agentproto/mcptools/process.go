package mcptools

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// inherited are the environment variables of this process that a program inherits.
var inherited = []string{"HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER"}

// environment returns the environment of a server's program.
func environment(s *Server) []string {
	var env []string
	for _, name := range inherited {
		if v, ok := os.LookupEnv(name); ok && s.Env[name] == "" {
			env = append(env, name+"="+v)
		}
	}
	for name, v := range s.Env {
		env = append(env, name+"="+v)
	}
	slices.Sort(env)
	return env
}

// How long a program may take to end after its standard input is closed, and then after it is asked to terminate; and how long
// a program that has not completed the handshake may take after it is asked to terminate.
const (
	closeGrace  = 2 * time.Second
	termGrace   = 3 * time.Second
	silentGrace = time.Second / 2
)

// A process is a running program.
type process struct {
	pid             int
	terminate, kill func() // terminate and kill its group
	in              io.WriteCloser
	out             io.ReadCloser
	errors          *tail
	ended           chan struct{} // closed when the program has ended
	why             error         // how it ended; set before ended is closed
	once            sync.Once
	silent          atomic.Bool // it has not greeted yet
}

// start starts the program of a server in a group of its own.
func start(s *Server, path, dir string) (*process, error) {
	p := &process{errors: new(tail), ended: make(chan struct{})}
	cmd := &exec.Cmd{Path: path, Args: s.Command, Env: environment(s), Dir: dir, Stderr: p.errors, WaitDelay: time.Second}
	ownGroup(cmd)
	// The pipes are made here: Wait closes those of exec, possibly before everything is read.
	childIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, childIn.Close(), in.Close())
	}
	cmd.Stdin, cmd.Stdout, p.in, p.out = childIn, childOut, in, out
	err = cmd.Start()
	childIn.Close()
	childOut.Close()
	if err != nil {
		in.Close()
		out.Close()
		return nil, err
	}
	p.pid, p.terminate, p.kill = cmd.Process.Pid, func() { terminateGroup(cmd) }, func() { killGroup(cmd) }
	go func() {
		err := waitGroup(cmd)
		p.why = fmt.Errorf("the program has ended: %s", how(err))
		if last := p.errors.last(); last != "" {
			p.why = fmt.Errorf("%w: %s", p.why, last)
		}
		close(p.ended)
	}()
	return p, nil
}

func how(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// stop ends the program and its group: it closes the standard input, then asks the group to terminate, and then kills it.
func (p *process) stop() {
	p.once.Do(func() { go p.tell() })
	<-p.ended
	p.out.Close()
}

// tell makes the program end.
func (p *process) tell() {
	p.in.Close()
	grace := silentGrace
	if !p.silent.Load() {
		if p.endsWithin(closeGrace) {
			return
		}
		grace = termGrace
	}
	p.terminate()
	if !p.endsWithin(grace) {
		p.kill()
	}
}

func (p *process) endsWithin(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.ended:
		return true
	case <-t.C:
		return false
	}
}

// tailBytes is how much of a program's standard error is kept.
const tailBytes = 64 << 10

// A tail keeps the end of a program's standard error.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write implements [io.Writer].
func (r *tail) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text = append(r.text, b[max(0, len(b)-tailBytes):]...)
	if n := len(r.text) - tailBytes; n > 0 {
		r.text = append(r.text[:0], r.text[n:]...)
	}
	return len(b), nil
}

// last returns the last non-empty line.
func (r *tail) last() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := bytes.TrimSpace(r.text)
	return strings.TrimSpace(line(string(all[bytes.LastIndexByte(all, '\n')+1:]), 256))
}
