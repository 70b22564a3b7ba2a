package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// The ways in which [Check] can find nothing wrong and yet show nothing. Each is wrapped in an
// error that says more.
var (
	// ErrIncomplete is the error of an exploration that ended before all schedules were covered.
	ErrIncomplete = errors.New("sim: not all schedules were covered")
	// ErrVacuous is the error of an exploration in which a Sometimes of the specification never
	// held.
	ErrVacuous = errors.New("sim: what should hold sometimes never holds")
	// ErrUnsteady is the error of an exploration in which the same choices gave something else
	// when they were made again.
	ErrUnsteady = errors.New("sim: the specification depends on something besides its choices, such as the order of a map, the time, or state that outlives a schedule")
)

// A Failure is the error of a schedule in which a property does not hold.
type Failure struct {
	// Property is the name of the property in the specification. For a client that returned an
	// error it is `client "name"`.
	Property string
	// Err is what the property or the client returned, or why the flow failed.
	Err error
	// Counterexample is the schedule, as short as it was found; nil if the failure is none of a
	// single schedule.
	Counterexample *Counterexample
}

// Error says which property does not hold, and why.
func (f *Failure) Error() string { return fmt.Sprintf("sim: %s: %v", f.Property, f.Err) }

// Unwrap returns Err.
func (f *Failure) Unwrap() error { return f.Err }

// An Option changes what [Check] and [Test] explore. By default they cover all schedules.
type Option func(*options)

type options struct {
	limit   int
	workers int
	runs    int // at random; 0 for all schedules
	seed    uint64
	depth   int     // of the bugs that random schedules are good for; 0 if all moves are equally likely
	script  *script // one schedule
	wrong   error
	whole   bool   // nothing is reduced
	file    string // checkpoint
}

// Limit ends an exploration after n executions, with [ErrIncomplete] unless all schedules were
// covered. The default is that of the flag -sim.limit.
func Limit(n int) Option {
	return func(o *options) {
		if n < 1 {
			o.wrong = fmt.Errorf("sim: Limit(%d): there is at least one execution", n)
		}
		o.limit = n
	}
}

// Workers makes n executions at the same time. The schedules are the same ones with any number, and
// so is the one that fails. Several goroutines call the functions of the
// specification then, so what they share needs a lock. Schedules that are chosen at random are run
// one after the other. The default is that of the flag -sim.workers, or 1.
func Workers(n int) Option {
	return func(o *options) {
		if n < 1 {
			o.wrong = fmt.Errorf("sim: Workers(%d): there is at least one worker", n)
		}
		o.workers = n
	}
}

// Checkpoint has an exploration of all schedules saved to a file every 10 s and where it ends at a limit or with its
// context, and go on from there the next time. The file is removed when all schedules were covered, and belongs to one
// exploration: two that use it at the same time, or one after the other before the first is complete, need one each. The
// executable has to be the same one, and the specification has to begin as it did; otherwise the error says
// what is different. The report counts what was done before as well. The default is that of the flag
// -sim.checkpoint, or none.
func Checkpoint(file string) Option { return func(o *options) { o.file = file } }

// AtRandom explores n schedules that are chosen at random, the same ones for the same seed,
// instead of all. It shows the more the larger n is, and the report is never complete.
func AtRandom(n int, seed uint64) Option {
	return func(o *options) {
		if n < 1 {
			o.wrong = fmt.Errorf("sim: AtRandom(%d, %d): there is at least one schedule", n, seed)
		}
		o.runs, o.seed = n, seed
	}
}

// ByPriority has the schedules of [AtRandom] chosen so that each bug has a known chance that shows
// whenever depth orderings of moves are as they have to be: depth is at least 1, and 2 or 3 for most bugs.
// Whoever makes moves has a random priority, and what has the highest is made;
// at depth-1 random moments one falls behind all others. So something is kept waiting for long, as it hardly
// ever is if all moves are equally likely. The report says how likely it is that such a bug was missed; see
// [Report.Missed]. Source: Burckhardt, Kothari, Musuvathi and Nagarakatti, ASPLOS 2010.
func ByPriority(depth int) Option {
	return func(o *options) {
		if depth < 1 {
			o.wrong = fmt.Errorf("sim: ByPriority(%d): there is at least one ordering", depth)
		}
		o.depth = depth
	}
}

// Trace runs one schedule, whose choices a counterexample has; see [Counterexample.Trace]. The
// report is never complete.
func Trace(choices string) Option {
	return func(o *options) {
		var err error
		if o.script, err = scriptOf(choices); err != nil {
			o.wrong = fmt.Errorf("sim: %w", err)
		}
	}
}

// optionsOf returns the options, or what is wrong with them.
func optionsOf(all []Option) (options, error) {
	o := options{limit: *limitFlag, workers: 1, file: *fileFlag}
	for _, set := range all {
		set(&o)
	}
	if o.depth > 0 && o.runs == 0 && o.wrong == nil {
		o.wrong = fmt.Errorf("sim: ByPriority(%d) is about schedules that are chosen at random: use it with AtRandom", o.depth)
	}
	return o, o.wrong
}

// Check goes through the schedules of a specification and looks for one in which a property does
// not hold, a client returns an error, or the flow fails.
//
// The error is nil if there is none and all of the exploration was done that the options ask
// for. It is a [*Failure] with the shortest schedule that was found, which wraps what the
// property returned, such as a [*ClaimError]. It is [ErrUnsteady], [ErrIncomplete] or
// [ErrVacuous] if nothing is shown, and the cause of the end of ctx. A specification that
// cannot be run is another error. The report is there in each case, unless the specification
// or an option is wrong.
//
// Check may be called by several goroutines, if the functions of the specification may.
func Check[P any](ctx context.Context, s Spec[P], opts ...Option) (*Report, error) {
	o, err := optionsOf(opts)
	if err != nil {
		return nil, err
	}
	p, err := planOf(s)
	if err != nil {
		return nil, err
	}
	return check(ctx, p, o)
}

// check is Check.
func check(ctx context.Context, p *plan, o options) (*Report, error) {
	if ctx == nil {
		return nil, errors.New("sim: the context is nil")
	}
	begun := time.Now()
	x := p.subject(ctx)
	x.tally = newTally()
	var found exploration
	var missed float64
	switch {
	case o.script != nil:
		found = x.explored(x.execute(o.script, nil))
	case o.runs > 0 && o.depth > 0:
		var b bound
		found, b = x.prioritized(o.runs, o.depth, o.seed)
		missed = b.missed()
	case o.runs > 0:
		found = x.sample(o.runs, o.seed)
	default:
		found = x.search(searchOptions{whole: o.whole, limit: o.limit, workers: workersOr(max(o.workers, 1)), checkpoint: o.file})
	}
	report := x.report(found, o, missed)
	err := x.result(found, o, report)
	report.Elapsed = time.Since(begun)
	return report, err
}

// explored is an exploration of one schedule.
func (x subject) explored(run execution) (found exploration) {
	found.executions, found.schedules = 1, 1
	if run.failed {
		found.failed = &run
	}
	return found
}

// sample goes through schedules chosen at random.
func (x subject) sample(n int, seed uint64) (found exploration) {
	distinct := make(map[uint64]bool)
	for i := range n {
		if x.ctx.Err() != nil {
			break
		}
		run := x.execute(&random{rng: rand.New(rand.NewPCG(seed, uint64(i)))}, nil)
		found.executions++
		x.tally.add(run)
		if run.failed {
			found.failed = &run
			break
		}
		if !run.discarded {
			distinct[run.shown] = true
		}
		found.outs.add(run)
	}
	found.schedules = len(distinct)
	return found
}

// result returns the error of an exploration.
func (x subject) result(found exploration, o options, r *Report) error {
	switch {
	case found.err != nil:
		return fmt.Errorf("sim: %w", found.err)
	case found.failed != nil:
		return x.failure(*found.failed, o)
	case x.ctx.Err() != nil:
		return context.Cause(x.ctx)
	case found.unsteady != "":
		return fmt.Errorf("%w: %s: choices so far: %s", ErrUnsteady, found.unsteady, found.trace)
	}
	if all := found.outs.hang(); len(all) > 0 && o.script == nil {
		return &Failure{Property: "outputs are read", Err: fmt.Errorf("nobody reads an output in any schedule, and in production the flow would hang: %w", errors.Join(all...))}
	}
	if !found.complete && o.runs == 0 && o.script == nil {
		return fmt.Errorf("%w: %s", ErrIncomplete, r.Why)
	}
	if o.script == nil {
		for _, name := range x.tally.names() {
			if r.Sometimes[name] == 0 {
				return fmt.Errorf("%w: %q holds in none of %d executions", ErrVacuous, name, r.Executions)
			}
		}
	}
	return nil
}

// failure returns the failure of a schedule.
func (x subject) failure(run execution, o options) error {
	if o.script == nil {
		run = x.shortest(run)
	}
	return &Failure{Property: run.property, Err: run.err, Counterexample: x.counterexample(run)}
}
