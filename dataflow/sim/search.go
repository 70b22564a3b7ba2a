package sim

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/engine/simulate"
)

// A search explores all schedules. Of moves that touch nothing in common it tries only one
// order. When an execution is over, it looks for pairs of moves whose other order could be
// observed, and notes where that order begins (dynamic partial order reduction with source sets,
// Abdulla, Aronis, Jonsson and Sagonas, POPL 2014). Moves that were tried at an earlier place
// sleep, there and after it, until something on which they depend has happened (sleep sets,
// Godefroid 1996). The method assumes that no move disables another one. Here some do, and what
// is disabled is tried before what disables it.
//
// Several workers make executions at the same time. The executions are the same with any number
// of workers, and so is the first that fails in depth-first order; see [branch].
type search struct {
	x       subject
	options searchOptions

	mu      sync.Mutex
	wake    sync.Cond // signaled when an execution is over
	known   simulate.Known
	first   *branch
	started int // executions, including those before the checkpoint
	busy    int // of these, those that are running
	over    bool
	fatal   *fatal

	own     checkpoint // the checkpoint without the results
	saved   time.Time
	resumed int // executions before the checkpoint

	distinct map[uint64]bool
	found    exploration
}

// searchOptions are the options of a search.
type searchOptions struct {
	whole   bool // no reduction
	limit   int  // the most executions
	workers int

	checkpoint string // file from which the search continues, and to which it is saved
}

// A conclusion is the reason why an exploration ends or begins anew.
type conclusion struct {
	failed   *execution
	unsteady string
	trace    string
	missed   simulate.Known // what the search did not know
	none     bool           // the schedule may be impossible, because clocks were separate that are one
}

// fatal records how the function under test has ended the goroutine of a worker.
type fatal struct {
	panicked any
	exited   bool
}

// search runs schedules until all are covered, one fails, the limit of executions is reached, or
// the context has ended.
func (x subject) search(o searchOptions) exploration {
	s := &search{x: x, options: o, first: new(branch), distinct: make(map[uint64]bool)}
	s.wake.L = &s.mu
	if err := s.resume(); err != nil {
		return exploration{err: fmt.Errorf("the search cannot go on: %w", err)}
	}
	if o.workers <= 1 {
		s.work()
		return s.found
	}
	var all sync.WaitGroup
	for range o.workers {
		all.Go(s.workInGoroutine)
	}
	all.Wait()
	switch f := s.fatal; {
	case f == nil:
	case f.exited:
		runtime.Goexit()
	default:
		panic(f.panicked)
	}
	return s.found
}

// workInGoroutine works on a goroutine of its own, and records how the function under test ends it.
func (s *search) workInGoroutine() {
	ended := false
	defer func() {
		if ended {
			return
		}
		p := recover()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.over = true; s.fatal == nil {
			s.fatal = &fatal{p, p == nil}
		}
		s.wake.Broadcast()
	}()
	s.work()
	ended = true
}

// work makes executions until there are none left.
func (s *search) work() {
	for {
		d := s.begin()
		if d == nil {
			return
		}
		run := s.x.execute(d, nil)
		v := d.conclusion(run)
		if v == nil && d.rerun {
			v = s.x.compare(run)
		}
		var found []addition
		if v == nil {
			found = d.ended()
		}
		s.end(d, run, v, found)
	}
}

// begin returns the next execution to make, or nil if there is none.
func (s *search) begin() *descent {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.over {
		passed := false
		b := s.first.open(&passed)
		full := s.started-s.resumed >= s.options.limit || s.x.ctx.Err() != nil
		switch {
		case b != nil && b.conclusion == nil && !full:
			s.started++
			s.busy++
			b.state = running
			return s.descend(b)
		case s.busy > 0 && (passed || b == nil || b.conclusion == nil):
			s.wake.Wait()
		case b == nil:
			s.conclude(exploration{complete: true, err: s.forget()})
		case b.conclusion == nil:
			s.conclude(exploration{err: s.save(true)})
		case !b.conclusion.missed.None():
			s.first, s.known = new(branch), s.known.Clone()
			s.known.Add(b.conclusion.missed)
		default:
			s.conclude(exploration{failed: b.conclusion.failed, unsteady: b.conclusion.unsteady, trace: b.conclusion.trace})
		}
	}
	return nil
}

// conclude ends the search.
func (s *search) conclude(e exploration) {
	e.executions, e.schedules, e.outs = s.started, len(s.distinct), s.found.outs
	s.found, s.over = e, true
	s.wake.Broadcast()
}

// end records the result of an execution.
func (s *search) end(d *descent, run execution, v *conclusion, found []addition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	s.wake.Broadcast()
	s.x.tally.add(run)
	if !run.failed && (v == nil || !v.none) {
		if !run.discarded && !run.blocked {
			s.distinct[run.shown] = true
		}
		s.found.outs.add(run)
	}
	if d.first != s.first {
		return // the search has begun anew
	}
	if d.task.conclusion = v; v == nil {
		d.publish(found)
	}
	if err := s.save(false); err != nil && !s.over {
		s.conclude(exploration{err: err})
	}
}

// compare runs a schedule again and returns a conclusion if the result is different.
func (x subject) compare(run execution) *conclusion {
	if run.blocked {
		return nil
	}
	c, err := scriptOf(run.trace)
	if err != nil {
		return &conclusion{unsteady: err.Error(), trace: run.trace}
	}
	c.known = &run.known
	if again := x.execute(c, nil); run.shown != again.shown || run.failed != again.failed || len(run.made) != len(again.made) {
		return &conclusion{unsteady: fmt.Sprintf("a schedule of %d choices came out differently when it was run again", len(run.made)), trace: run.trace}
	}
	return nil
}
