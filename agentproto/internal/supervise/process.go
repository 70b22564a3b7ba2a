// Package supervise keeps a program running as long as this process runs: it starts the program,
// restarts it when it ends, and ends it with this process.
//
// A [Process] is one program. Its life:
//
//	starting ──ready──► up
//	   ▲                 │
//	   └──── pause ◄─────┴── the program ended
//
// # The end of this process
//
// [Process.Stop] ends the program in an orderly way. A process that is killed cannot do that, so
// there are two other ways. The program's standard input is a pipe that only this process can write
// to; when this process is gone, the program reads the end of the file. This works on every system,
// and also for programs that the program starts, but they have to check. On Linux, the program is
// also killed by its parent-death signal, SIGKILL; the programs that it has started are not.
package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/edge"
	"github.com/millrace/millrace/internal/plain"
)

// A Command is a program with its arguments and environment.
type Command struct {
	Args   []string  // the program, found by [exec.LookPath], and its arguments
	Env    []string  // its environment as NAME=VALUE; nil means that of this process
	Dir    string    // its working directory; empty means that of this process
	Output io.Writer // receives both outputs of the program; nil discards them
}

// String returns the command in one line, for error messages.
func (c Command) String() string { return plain.Line(strings.Join(c.Args, " ")) }

// Options say how a program is kept running. Ready is required.
type Options struct {
	// Ready tries whether the program can be used. It is called repeatedly after each start of the
	// program until it returns nil.
	Ready func(context.Context) error
	// Pauses are the pauses between the end of the program and its next start. The zero value means
	// 0.1, 0.5, 1 and 2 s, and then twice the one before, up to 30 s. Each is shortened or
	// lengthened at random by up to half.
	Pauses edge.Curve
	// Settled is how long a program must run so that its end is not counted with earlier ends. The
	// count determines the pause. Zero means 10 s.
	Settled time.Duration
	// Grace is how long the program may take to end after it is interrupted. Zero means 5 s.
	Grace time.Duration
	// Ended, if not nil, is called at each end of the program except the one caused by Stop.
	Ended func(error)
}

// leastPause is the minimum time between two starts of a program that is requested.
const leastPause = time.Second

// A Process is a program that is kept running. Its methods may be used concurrently.
type Process struct {
	command Command
	path    string
	opts    Options
	tail    *tail

	stop context.CancelFunc
	kill context.CancelFunc
	done chan struct{} // closed when the program has ended for good
	wake chan struct{} // holds an element when a pause should end

	mu      sync.Mutex
	up      bool
	ends    int   // how often the program has ended, or could not be started
	failure error // why it is not up; nil if it was never started, or is up
	changed chan struct{}
}

// Start starts a program. It returns an error if there is no such program; [Process.Up] returns
// later errors.
func Start(c Command, o Options) (*Process, error) {
	if len(c.Args) == 0 {
		return nil, errors.New("supervise: a command without a program")
	}
	path, err := exec.LookPath(c.Args[0])
	if err != nil {
		return nil, fmt.Errorf("%s cannot be started: %w", plain.Line(c.Args[0]), err)
	}
	if o.Pauses.First == nil {
		o.Pauses = edge.Curve{First: []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second}, Most: 30 * time.Second}
	}
	if o.Settled == 0 {
		o.Settled = 10 * time.Second
	}
	if o.Grace == 0 {
		o.Grace = 5 * time.Second
	}
	p := &Process{
		command: c, path: path, opts: o, tail: &tail{to: c.Output},
		done: make(chan struct{}), wake: make(chan struct{}, 1), changed: make(chan struct{}),
	}
	ctx, stop := context.WithCancel(context.Background())
	killed, kill := context.WithCancel(context.Background())
	p.stop, p.kill = stop, kill
	go p.run(ctx, killed)
	return p, nil
}

// run keeps the program running until ctx ends. It locks its OS thread, because on Linux the
// program is killed when the thread that started it ends.
func (p *Process) run(ctx, killed context.Context) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.done)
	for failed := 0; ctx.Err() == nil; {
		began := time.Now()
		err := p.live(ctx, killed)
		if ctx.Err() != nil {
			break
		}
		if time.Since(began) >= p.opts.Settled {
			failed = 0
		}
		failed++
		p.note(false, err)
		if p.opts.Ended != nil {
			p.opts.Ended(err)
		}
		p.pause(ctx, began, failed)
	}
	p.note(false, fmt.Errorf("%s was stopped", p.command))
}

// pause waits before the next start of the program, or until Wake ends the pause.
func (p *Process) pause(ctx context.Context, began time.Time, failed int) {
	waiting, awake := context.WithCancel(ctx)
	defer awake()
	go func() {
		select {
		case <-p.wake:
			early := time.NewTimer(leastPause - time.Since(began))
			defer early.Stop()
			select {
			case <-early.C:
				awake()
			case <-waiting.Done():
			}
		case <-waiting.Done():
		}
	}()
	p.opts.Pauses.Wait(waiting, failed, 0, nil)
}

// live runs the program once, and returns why it has ended.
func (p *Process) live(ctx, killed context.Context) error {
	cmd := &exec.Cmd{Path: p.path, Args: p.command.Args, Env: p.command.Env, Dir: p.command.Dir, WaitDelay: time.Second}
	p.tail.reset()
	select {
	case <-p.wake: // the program is being started now
	default:
	}
	cmd.Stdout, cmd.Stderr = p.tail, p.tail // one pipe for both, so that lines stay whole
	own(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("%s cannot be started: %w", p.command, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s cannot be started: %w", p.command, err)
	}
	began := time.Now()
	ended := make(chan error, 1)
	go func() { ended <- wait(cmd) }()
	trying, enough := context.WithCancel(ctx)
	tried := make(chan struct{})
	go func() {
		defer close(tried)
		p.try(trying)
	}()
	defer func() { enough(); <-tried }() // so that try does not overwrite the next note
	select {
	case err = <-ended:
		return p.why(err, time.Since(began))
	case <-ctx.Done():
	}
	in.Close()
	interrupt(cmd)
	grace := time.NewTimer(p.opts.Grace)
	defer grace.Stop()
	select {
	case err = <-ended:
		return err
	case <-grace.C:
	case <-killed.Done():
	}
	kill(cmd)
	return <-ended
}

// try calls Ready until it returns nil, and then notes that the program is up.
func (p *Process) try(ctx context.Context) {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := p.opts.Ready(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			p.note(true, nil)
			return
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// why returns an error that says how the program has ended, with the last line of its output.
func (p *Process) why(err error, after time.Duration) error {
	how := "has ended"
	if err != nil {
		how = "has ended: " + err.Error()
	}
	text := fmt.Sprintf("%s %s, after %v", p.command, how, after.Round(time.Millisecond))
	if last := p.tail.last(); last != "" {
		text += ": " + last
	}
	return errors.New(text)
}

// note sets whether the program is up, and wakes waiting goroutines.
func (p *Process) note(up bool, failure error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.up, p.failure = up, failure
	if failure != nil {
		p.ends++
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// Up returns nil when the program is up. If it is not, Up starts it at once, but not within a
// second of its last start. If that fails, or ctx ends first, Up returns the reason.
func (p *Process) Up(ctx context.Context) error {
	p.Wake()
	p.mu.Lock()
	before := p.ends
	p.mu.Unlock()
	for {
		p.mu.Lock()
		up, ends, failure, changed := p.up, p.ends, p.failure, p.changed
		p.mu.Unlock()
		if up {
			return nil
		}
		if ends > before {
			return failure
		}
		select {
		case <-changed:
		case <-p.done:
			return p.Err()
		case <-ctx.Done():
			if failure == nil {
				failure = fmt.Errorf("%s is not ready", p.command)
			}
			return fmt.Errorf("%w: %w", failure, context.Cause(ctx))
		}
	}
}

// Wake ends a pause early, but not within a second of the last start.
func (p *Process) Wake() {
	p.mu.Lock()
	pausing := !p.up && p.failure != nil
	p.mu.Unlock()
	if !pausing {
		return
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Err returns why the program is not up, or nil if it is up or has not ended yet.
func (p *Process) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failure
}

// Stop ends the program and waits for its end. It closes the program's standard input and
// interrupts its process group. What is left after [Options].Grace, or when ctx ends, is killed.
func (p *Process) Stop(ctx context.Context) {
	p.stop()
	select {
	case <-p.done:
	case <-ctx.Done():
		p.kill()
		<-p.done
	}
	p.kill()
}
