package conform

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// A process is a target that the runner starts and kills.
type process struct {
	argv []string
	out  io.Writer // for its standard output; nil means that it is kept with the errors
	noted

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{} // closed when cmd has ended
	err   error         // of cmd; set before ended is closed
}

// noted keeps the output of a process, up to 64 MiB, for the search for tokens.
type noted struct {
	lock sync.Mutex
	text strings.Builder
}

func (n *noted) Write(b []byte) (int, error) {
	n.lock.Lock()
	defer n.lock.Unlock()
	if n.text.Len() < 64<<20 {
		n.text.Write(b)
	}
	return len(b), nil
}

func (n *noted) String() string {
	n.lock.Lock()
	defer n.lock.Unlock()
	return n.text.String()
}

// start starts the process. Its standard input is a pipe that closes with the runner, so that a
// target that watches it does not outlive a runner that was killed.
func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	cmd.Env = os.Environ()
	cmd.Stdout, cmd.Stderr = io.Writer(&p.noted), &p.noted
	if p.out != nil {
		cmd.Stdout = p.out
	}
	cmd.WaitDelay = time.Second
	if _, err := cmd.StdinPipe(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %q: %w", p.argv[0], err)
	}
	ended := make(chan struct{})
	p.cmd, p.ended = cmd, ended
	go func() {
		err := cmd.Wait()
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		close(ended)
	}()
	return nil
}

// kill ends the process without warning, like kill -9, and waits for its end. It does nothing if
// the process was not started.
func (p *process) kill() {
	p.mu.Lock()
	cmd, ended := p.cmd, p.ended
	p.mu.Unlock()
	if cmd == nil {
		return
	}
	// An error means that it has ended already.
	_ = cmd.Process.Kill()
	<-ended
}

// exited returns a channel that is closed when the process has ended.
func (p *process) exited() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// ready polls ok until it reports true. It returns an error if the process ends or d passes first.
func (p *process) ready(ctx context.Context, d time.Duration, ok func(context.Context) bool) error {
	ctx, stop := context.WithTimeout(ctx, d)
	defer stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok(ctx) {
		select {
		case <-tick.C:
		case <-p.exited():
			return fmt.Errorf("%q ended: %s", p.argv[0], clip(p.String(), 2000))
		case <-ctx.Done():
			return fmt.Errorf("%q was not ready within %v: %s", p.argv[0], d, clip(p.String(), 2000))
		}
	}
	return nil
}
