package chaos

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/natslog"
)

// A workerConfig configures a worker process.
type workerConfig struct {
	Name, Member string
	Servers      []string
	Partitions   int
	Lease        time.Duration
	Slow         bool // steps are slow
	Bank         bool // the flow is the bank
}

func onServers(urls []string) journal.Opener {
	return natslog.Servers(natslog.Options{URLs: urls, AssumeDurable: true})
}

func (c workerConfig) options() durable.Options {
	return durable.Options{
		Name: c.Name, Member: c.Member, Log: onServers(c.Servers), Partitions: c.Partitions, Lease: c.Lease,
		KeepFor: durable.Forever, SnapshotBytes: 64 << 10, SnapshotAge: 2 * time.Second, LeaveWithin: 5 * time.Second,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
}

// runWorker runs a worker process until its standard input ends.
func runWorker(config string) error {
	var c workerConfig
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	over := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin) // returns when the parent exits, even if the parent is killed
		close(over)
		if pass(ctx, 20*time.Second) {
			os.Exit(3) // otherwise it would outlive its test when the servers are down
		}
	}()
	o := c.options()
	if c.Slow { // replaying slow steps is slow too
		o.SnapshotAge /= 4
	}
	switch {
	case c.Bank:
		return work(ctx, func(f *dataflow.Flow) bankPorts { return buildBank(f, c.Slow) }, o, over)
	case c.Slow:
		return work(ctx, buildSlow, o, over)
	}
	return work(ctx, build, o, over)
}

// work runs a flow until over is closed, and reports its events on standard output.
func work[P any](ctx context.Context, build func(*dataflow.Flow) P, o durable.Options, over <-chan struct{}) error {
	app, err := durable.Start(ctx, build, o)
	if err != nil {
		return err
	}
	fmt.Println("started")
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for last := (durable.Metrics{}); ; {
		select {
		case <-tick.C:
			m := app.Metrics()
			if m.LastRestore != last.LastRestore {
				fmt.Println("restored", int64(m.LastRestore))
			}
			if m.Restores != last.Restores {
				fmt.Println("refused", m.Restores-last.Restores)
			}
			last = m
		case <-app.Done():
			return fmt.Errorf("by itself: %w", app.Err())
		case <-over:
			return app.Stop(ctx)
		}
	}
}

// A worker is a worker process as the test sees it.
type worker struct {
	t      testing.TB
	config workerConfig
	proxy  *proxy // nil if it is connected directly

	cmd   *exec.Cmd // nil while it is down
	in    io.Closer
	ended chan struct{} // closed when the process has ended and its output was read
	said  *tail

	started  chan struct{}
	since    atomic.Int64 // when it started, in Unix nanoseconds
	restores *durations
	refused  *atomic.Int64 // commits that were fenced or whose answer was lost
}

func (w *worker) start() {
	config, err := json.Marshal(w.config)
	if err != nil {
		w.t.Error(err)
		return
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerKey+"="+string(config))
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	w.said = &tail{}
	cmd.Stderr = w.said
	if err := cmd.Start(); err != nil {
		w.t.Error(err)
		return
	}
	w.cmd, w.in, w.ended, w.started = cmd, in, make(chan struct{}), make(chan struct{})
	w.since.Store(math.MaxInt64)
	go w.listen(out, w.ended, w.started)
}

func (w *worker) listen(out io.Reader, ended, started chan struct{}) {
	defer close(ended)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		what, rest, _ := strings.Cut(lines.Text(), " ")
		switch what {
		case "started":
			w.since.Store(time.Now().UnixNano())
			close(started)
		case "restored":
			var ns int64
			fmt.Sscan(rest, &ns)
			w.restores.add(time.Duration(ns))
		case "refused":
			var n int64
			fmt.Sscan(rest, &n)
			w.refused.Add(n)
		}
	}
}

// kill ends the process with SIGKILL.
func (w *worker) kill() {
	if w.cmd == nil {
		return
	}
	w.cmd.Process.Kill()
	<-w.ended
	w.cmd.Wait()
	w.in.Close()
	w.cmd = nil
}

// alive reports whether the process runs. A process that ended by itself fails the test.
func (w *worker) alive() bool {
	if w.cmd == nil {
		return false
	}
	select {
	case <-w.ended:
		err := w.cmd.Wait()
		w.t.Errorf("the worker %s ended by itself: %v\n%s", w.config.Member, err, w.said)
		w.in.Close()
		w.cmd = nil
		return false
	default:
		return true
	}
}

// stop shuts the process down cleanly.
func (w *worker) stop() {
	if !w.alive() {
		return
	}
	w.in.Close()
	<-w.ended
	if err := w.cmd.Wait(); err != nil {
		w.t.Errorf("the worker %s was stopped: %v\n%s", w.config.Member, err, w.said)
	}
	w.cmd = nil
}

func (w *worker) signal(s syscall.Signal) {
	if err := w.cmd.Process.Signal(s); err != nil {
		w.t.Error(err)
	}
}

// A tail keeps the end of the data written to it.
type tail struct {
	mu   sync.Mutex
	data []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.data = append(t.data, b...); len(t.data) > 64<<10 {
		t.data = bytes.Clone(t.data[len(t.data)-8<<10:])
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.data[max(0, len(t.data)-8<<10):])
}
