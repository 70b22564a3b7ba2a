package sim

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine/simulate"
)

// A Sim is one schedule of a flow, made for one call of the function under test.
type Sim struct {
	ctx        context.Context
	choices    *choices
	observed   *observations
	flow       *dataflow.Flow
	steps      stepper
	simulation *simulate.Simulation // makes the steps; nil for a recording
	app        *dataflow.App
	spec       *specRun // nil if a function is under test
	failed     bool
	log        []string // messages of the function
}

// A stepper makes the steps of a flow: a simulation, or the replay of a recording.
type stepper interface{ Quiesce() error }

// ErrQuiet is returned to a client that waits for something that will never come: the flow is at
// rest although an input is open.
var ErrQuiet = simulate.ErrQuiet

// The ways in which a schedule can end before the function returns.
var (
	errDiscarded = errors.New("discarded")
	errEnded     = errors.New("ended by a check of absence")
	errFatal     = errors.New("failed")
)

// Flow returns the flow of this schedule, on which the function builds. It is the same flow each
// time.
func (s *Sim) Flow() *dataflow.Flow { return s.flow }

// Start starts the flow. It makes no difference whether something is sent before or after Start:
// nothing runs until the function waits.
func (s *Sim) Start() *dataflow.App {
	app, err := dataflow.Start(s.Context(), s.flow)
	if err != nil {
		s.Fatalf("starting the flow: %v", err)
	}
	s.app = app
	return app
}

// simKey is the key under which a context holds its Sim.
type simKey struct{}

// Context returns the context of the schedule.
func (s *Sim) Context() context.Context { return s.ctx }

// Quiesce runs the flow until it is at rest: every input record has been taken, every slice has
// run with the final version of what it reads, and every timer has fired.
func (s *Sim) Quiesce() {
	if err := s.steps.Quiesce(); err != nil {
		s.Fatalf("%v", err)
	}
}

// Assume discards this schedule if ok is false, as if the schedule did not exist.
func (s *Sim) Assume(ok bool) {
	if !ok {
		panic(errDiscarded)
	}
}

// Never asserts that something has not happened even when the flow is quiet. Two kinds of
// schedules are explored: those that run the flow until it is quiet, run the check and end there,
// and those that continue without the check.
func (s *Sim) Never(check func()) {
	if s.choices.Choose(2) == 1 {
		return
	}
	s.observed.Note(func() string { return "check for absence, and end" })
	s.Quiesce()
	check()
	panic(errEnded)
}

// Check fails the schedule at once if err is not nil.
func (s *Sim) Check(err error) {
	if err != nil {
		s.Fatalf("%v", err)
	}
}

// Errorf marks the schedule as failed and continues.
func (s *Sim) Errorf(format string, args ...any) {
	s.failed = true
	s.Logf(format, args...)
}

// Fatalf marks the schedule as failed and ends it.
func (s *Sim) Fatalf(format string, args ...any) {
	s.Errorf(format, args...)
	panic(errFatal)
}

// Logf logs a message, which is printed if the schedule fails.
func (s *Sim) Logf(format string, args ...any) { s.log = append(s.log, fmt.Sprintf(format, args...)) }

// Observe makes what part of the schedule: two schedules that differ in it count as two. What
// slices emit and what operators put in order is always observed.
func (s *Sim) Observe(what any) { s.observed.received(what) }

// An Output is what [Collect] reads: an output of a stream, such as a [dataflow.OutputPort], or something that reads one.
type Output[T any] interface {
	Next(ctx context.Context) (T, error)
}

// Collect runs the flow until it is quiet and returns everything that the output has emitted by
// then.
func Collect[T any](s *Sim, out Output[T]) []T {
	s.Quiesce()
	var all []T
	var err error
	s.inline(func() {
		for err == nil {
			var x T
			if x, err = out.Next(s.Context()); err == nil {
				all = append(all, x)
			}
		}
	})
	s.ended(err)
	return all
}

// inline calls read, which reads what is available when the flow is at rest. Only the order in
// which it arrived is tried.
func (s *Sim) inline(read func()) {
	if s.simulation == nil {
		read()
		return
	}
	s.simulation.Inline(read)
}

// ended fails the schedule unless err only says that nothing more comes.
func (s *Sim) ended(err error) {
	if !errors.Is(err, ErrQuiet) && !errors.Is(err, ErrHalted) && !ends(err) {
		s.Fatalf("%v", err)
	}
}
