package durabletest

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A run is one run of a program, through all its processes. One goroutine calls the functions of the program;
// goroutines of the flow call its hook.
type run[P any] struct {
	program Program[P]
	opts    Options
	plan    plan

	phase string // what is being done
	err   error  // what went wrong

	log *journal.Memory // of the current process
	app *durable.App[P] // nil if there is none

	mu       sync.Mutex
	actions  []journal.Action // all moments so far
	happened []string         // the faults, in words
}

// run executes the whole run, inside the bubble.
func (r *run[P]) run() {
	defer r.kill() // even if the program ends the goroutine, so that no goroutine is left in the bubble
	defer func() {
		if v := recover(); v != nil {
			r.err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	r.phase = "Build"
	r.log = journal.NewMemory(journal.MemoryOptions{Partitions: partitions(r.program.Build, r.opts.Durable), Ahead: r.opts.ReadAhead})
	if r.err = r.through("Drive", r.program.Drive); r.err != nil {
		return
	}
	if r.err = r.stop(); r.err != nil {
		return
	}
	if r.err = r.through("Check", r.program.Check); r.err != nil {
		return
	}
	r.err = r.stop()
}

// through calls a function of the program until it succeeds, again each time it fails because of a fault.
func (r *run[P]) through(name string, do func(context.Context, P) error) error {
	for {
		r.phase = name
		before := r.faults()
		if err := r.start(); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), r.opts.Within)
		err := do(ctx, r.app.Ports)
		late := ctx.Err() != nil
		cancel()
		switch {
		case err == nil:
			return nil
		case late:
			return fmt.Errorf("it is not done after %v: %w", r.opts.Within, err)
		case r.faults() == before:
			if e := r.app.Err(); e != nil {
				err = fmt.Errorf("%w; the flow has ended: %w", err, e)
			}
			return err
		}
		if err := r.buried(); err != nil {
			return err
		}
	}
}

// start starts a process if none runs. A fault may end the process before it runs; then start tries again.
func (r *run[P]) start() error {
	for {
		if r.app != nil {
			select {
			case <-r.app.Done():
				if err := r.buried(); err != nil {
					return err
				}
			default:
				return nil
			}
		}
		r.log = r.log.Reopen()
		r.log.SetHook(r.hook(r.log))
		before := r.faults()
		app, err := durable.Start(context.Background(), r.program.Build, withLog(r.opts.Durable, r.log))
		if err == nil {
			r.app = app
			return nil
		}
		r.log.Crash()
		if r.faults() == before || !injected(err) {
			r.phase = "the start of a process"
			return err
		}
	}
}

// stop stops the process as a program would.
func (r *run[P]) stop() error {
	if r.app == nil {
		return nil
	}
	r.phase = "Stop"
	ctx, cancel := context.WithTimeout(context.Background(), r.opts.Within)
	defer cancel()
	err := r.app.Stop(ctx)
	r.app = nil
	if err != nil && !injected(err) {
		return err
	}
	return nil
}

// buried discards a process if a fault has ended it. It returns an error if something else ended it.
func (r *run[P]) buried() error {
	if !r.crashed() {
		return nil // only an answer was lost, and the process goes on
	}
	<-r.app.Done()
	err := r.app.Err()
	r.app = nil
	if err != nil && !injected(err) {
		return fmt.Errorf("the flow has ended: %w", err)
	}
	return nil
}

// crashed reports whether the process is ending or has ended.
func (r *run[P]) crashed() bool {
	select {
	case <-r.app.Done():
		return true
	default:
		_, err := r.log.Usage(context.Background(), 0)
		return err != nil
	}
}

// kill ends everything that runs.
func (r *run[P]) kill() {
	if r.log != nil {
		r.log.Crash()
	}
	if r.app != nil {
		<-r.app.Done()
		r.app.Stop(context.Background())
		r.app = nil
	}
	<-time.After(time.Second) // for asynchronous calls that are in the middle of an action
}

// injected reports whether an error results from a fault.
func injected(err error) bool {
	return errors.Is(err, journal.ErrCrashed) || errors.Is(err, journal.ErrUnknown) || errors.Is(err, journal.ErrClosed)
}

func (r *run[P]) faults() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.happened)
}

// hook injects the faults of the plan into a process. Each kind of action takes a different time, so that
// actions that begin at the same moment come in the same order in every run.
func (r *run[P]) hook(log *journal.Memory) journal.Hook {
	return func(a journal.Action) journal.Fault {
		<-time.After(latency[a.Op] + time.Duration(a.Partition)*time.Nanosecond)
		r.mu.Lock()
		defer r.mu.Unlock()
		if _, err := log.Usage(context.Background(), 0); err != nil {
			return journal.Fault{} // the process is dead: faults no longer make a difference
		}
		r.actions = append(r.actions, a)
		fault, words := r.plan.fault(len(r.actions), len(r.happened), a)
		if words != "" {
			r.happened = append(r.happened, words)
		}
		return fault
	}
}

// latency is how long half of an action takes.
var latency = map[journal.Op]time.Duration{
	journal.OpAppend:   3 * time.Microsecond,
	journal.OpCommit:   50 * time.Microsecond,
	journal.OpPiece:    397 * time.Microsecond,
	journal.OpSnapshot: 701 * time.Microsecond,
	journal.OpPurge:    1009 * time.Microsecond,
}
