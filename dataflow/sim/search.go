package sim

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/engine/simulate"
)

// A search goes through all schedules. Of moves that touch nothing in common it tries
// one order only. When an execution is over, it looks for pairs of moves whose other order could
// be seen, and notes where that order begins (dynamic partial order reduction with source sets,
// Abdulla, Aronis, Jonsson and Sagonas, POPL 2014). Moves that were tried at an earlier place
// sleep, there and behind it, until something that they depend on has happened (sleep sets,
// Godefroid 1996). The method assumes that no move disables another one; here some do, and what
// is disabled is tried before what disables it.
//
// Several workers make executions at the same time. The executions are the same ones with any
// number of workers, and so is the first that fails in depth-first order; see [branch].
type search struct {
	x       subject
	options searchOptions

	mu    sync.Mutex
	wake  sync.Cond // an execution is over
	known simulate.Known
	first *branch
	begun int // executions, with those that were made before the checkpoint
	busy  int // of these, those under way
	over  bool
	fatal *fatal

	own     checkpoint // without what was found
	saved   time.Time
	resumed int // executions before the checkpoint

	distinct map[uint64]bool
	found    exploration
}

// searchOptions say how a search is made.
type searchOptions struct {
	whole   bool // nothing is reduced
	limit   int  // of executions
	workers int

	checkpoint string // file from which the search goes on, and to which it is saved
}

// A verdict is what ends an exploration, or has it begin anew.
type verdict struct {
	failed   *execution
	unsteady string
	trace    string
	missed   simulate.Known // what turned out that was not known
	none     bool           // the schedule may be none, because clocks were apart that are one
}

// fatal is how the function under test has ended the goroutine of a worker.
type fatal struct {
	panicked any
	exited   bool
}

// search goes through all schedules until one fails, as many executions were made as may be, or
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
		all.Go(s.workApart)
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

// workApart works on a goroutine of its own, and passes on how the function under test ends it.
func (s *search) workApart() {
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

// work makes executions until there are none left to make.
func (s *search) work() {
	for {
		d := s.begin()
		if d == nil {
			return
		}
		run := s.x.execute(d, nil)
		v := d.verdict(run)
		if v == nil && d.again {
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
		full := s.begun-s.resumed >= s.options.limit || s.x.ctx.Err() != nil
		switch {
		case b != nil && b.stop == nil && !full:
			s.begun++
			s.busy++
			b.state = running
			return s.descend(b)
		case s.busy > 0 && (passed || b == nil || b.stop == nil):
			s.wake.Wait()
		case b == nil:
			s.conclude(exploration{complete: true, err: s.forget()})
		case b.stop == nil:
			s.conclude(exploration{err: s.save(true)})
		case !b.stop.missed.None():
			s.first, s.known = new(branch), s.known.Clone()
			s.known.Add(b.stop.missed)
		default:
			s.conclude(exploration{failed: b.stop.failed, unsteady: b.stop.unsteady, trace: b.stop.trace})
		}
	}
	return nil
}

// conclude ends the search.
func (s *search) conclude(e exploration) {
	e.executions, e.schedules, e.outs = s.begun, len(s.distinct), s.found.outs
	s.found, s.over = e, true
	s.wake.Broadcast()
}

// end notes what came of an execution.
func (s *search) end(d *descent, run execution, v *verdict, found []addition) {
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
	if d.task.stop = v; v == nil {
		d.publish(found)
	}
	if err := s.save(false); err != nil && !s.over {
		s.conclude(exploration{err: err})
	}
}

// compare returns a verdict if a schedule comes out differently when it is run again.
func (x subject) compare(run execution) *verdict {
	if run.blocked {
		return nil
	}
	c, err := scriptOf(run.trace)
	if err != nil {
		return &verdict{unsteady: err.Error(), trace: run.trace}
	}
	c.known = &run.known
	if again := x.execute(c, nil); run.shown != again.shown || run.failed != again.failed || len(run.made) != len(again.made) {
		return &verdict{unsteady: fmt.Sprintf("a schedule of %d choices came out differently when it was run again", len(run.made)), trace: run.trace}
	}
	return nil
}
