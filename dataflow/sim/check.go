package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// These errors of [Check] mean that it found nothing wrong but has not shown anything either. Each is
// wrapped in an error that says more.
var (
	// ErrIncomplete is the error of an exploration that ended before all schedules were covered.
	ErrIncomplete = errors.New("sim: not all schedules were covered")
	// ErrVacuous is the error of an exploration in which a Sometimes of the specification never held.
	ErrVacuous = errors.New("sim: what should hold sometimes never holds")
	// ErrUnsteady is the error of an exploration in which the same choices had a different result when they
	// were made again.
	ErrUnsteady = errors.New("sim: the specification depends on something besides its choices, such as the order of a map, the time, or state that outlives a schedule")
)

// A Failure is the error of a schedule in which a property does not hold.
type Failure struct {
	// Property is the name of the property in the specification. For a client that returned an
	// error it is `client "name"`.
	Property string
	// Err is what the property or the client returned, or why the flow failed.
	Err error
	// Counterexample is the shortest failing schedule that was found. It is nil if the failure does not
	// belong to a single schedule.
	Counterexample *Counterexample
}

// Error says which property does not hold, and why.
func (f *Failure) Error() string { return fmt.Sprintf("sim: %s: %v", f.Property, f.Err) }

// Unwrap returns Err.
func (f *Failure) Unwrap() error { return f.Err }

// An Option changes what [Check] and [Test] explore. By default they cover all schedules. The
// zero Option changes nothing.
type Option struct{ set func(*options) }

type options struct {
	limit   int
	workers int
	runs    int // at random; 0 for all schedules
	seed    uint64
	depth   int     // of the bugs that random schedules look for; 0 if all moves are equally likely
	script  *script // one schedule
	wrong   error
	whole   bool   // no reduction
	file    string // checkpoint
}

// Limit ends an exploration after n executions, with [ErrIncomplete] unless all schedules were covered. The
// default is the value of the flag -sim.limit.
func Limit(n int) Option {
	return Option{func(o *options) {
		if n < 1 {
			o.wrong = fmt.Errorf("sim: Limit(%d): there is at least one execution", n)
		}
		o.limit = n
	}}
}

// Workers runs n executions at the same time. The schedules, and the one that fails, are the same for any n.
// With n > 1 several goroutines call the functions of the specification, so state that these share needs a
// lock. Randomly chosen schedules always run one after the other. The default is the value of the flag
// -sim.workers, or 1.
func Workers(n int) Option {
	return Option{func(o *options) {
		if n < 1 {
			o.wrong = fmt.Errorf("sim: Workers(%d): there is at least one worker", n)
		}
		o.workers = n
	}}
}

// Checkpoint saves an exploration of all schedules to a file, and continues from that file the next time.
// The file is saved every 10 s, and when the exploration ends at its limit or with its context. It is
// removed when all schedules are covered. The report includes the executions before the checkpoint.
//
// A file belongs to one exploration: two explorations that run at the same time need a file each, and so do
// two that run one after the other before the first is complete. The executable must be the same, and the
// specification must begin as it did before; otherwise the error says what is different. The default is the
// value of the flag -sim.checkpoint, or no file.
func Checkpoint(file string) Option { return Option{func(o *options) { o.file = file }} }

// AtRandom explores n randomly chosen schedules instead of all of them. The same seed chooses the same
// schedules. A larger n shows more, but the report is never complete.
func AtRandom(n int, seed uint64) Option {
	return Option{func(o *options) {
		if n < 1 {
			o.wrong = fmt.Errorf("sim: AtRandom(%d, %d): there is at least one schedule", n, seed)
		}
		o.runs, o.seed = n, seed
	}}
}

// ByPriority chooses the schedules of [AtRandom] so that each bug of the given depth has a known chance of
// being found. The depth of a bug is the number of orderings between moves that suffice to show it: at least
// 1, and 2 or 3 for most bugs.
//
// Each client, key or other source of moves has a random priority, and the move with the highest priority is
// made. At depth-1 random moments the source whose turn it is falls behind all others. So some sources wait
// for a long time, which hardly ever happens if all moves are equally likely. [Report.Missed] says how
// likely it is that such a bug was missed. Source: Burckhardt, Kothari, Musuvathi and Nagarakatti, ASPLOS
// 2010.
func ByPriority(depth int) Option {
	return Option{func(o *options) {
		if depth < 1 {
			o.wrong = fmt.Errorf("sim: ByPriority(%d): there is at least one ordering", depth)
		}
		o.depth = depth
	}}
}

// Trace runs the one schedule with the given choices; see [Counterexample.Trace]. The report is never
// complete. If the program has changed, the schedule may end before all choices are made, or have too few
// possibilities for one; it makes the last one then, and Why of the report says so.
func Trace(choices string) Option {
	return Option{func(o *options) {
		var err error
		if o.script, err = scriptOf(choices); err != nil {
			o.wrong = fmt.Errorf("sim: %w", err)
		}
	}}
}

// optionsOf returns the options, or an error if they are invalid.
func optionsOf(all []Option) (options, error) {
	o := options{limit: *limitFlag, workers: 1, file: *fileFlag}
	for _, option := range all {
		if option.set != nil {
			option.set(&o)
		}
	}
	if o.depth > 0 && o.runs == 0 && o.wrong == nil {
		o.wrong = fmt.Errorf("sim: ByPriority(%d) is about schedules that are chosen at random: use it with AtRandom", o.depth)
	}
	return o, o.wrong
}

// Check explores the schedules of a specification and looks for one in which a property does not hold, a
// client returns an error, or the flow fails.
//
// The error is nil if no schedule failed and the exploration did everything that the options ask for.
// Otherwise it is:
//
//   - a [*Failure] with the shortest failing schedule that was found. It wraps what the property returned,
//     such as a [*ClaimError].
//   - [ErrUnsteady], [ErrIncomplete] or [ErrVacuous], if nothing was shown.
//   - the cause of the end of ctx.
//   - another error, if the specification cannot be run.
//
// The report is nil only if the context is nil, or if the specification or an option is invalid.
//
// Check may be called by several goroutines if the functions of the specification may be.
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

// check does the work of Check.
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
		run := x.execute(o.script, nil)
		found = x.explored(run)
		found.misfit = !o.script.fits(run)
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

// explored returns the exploration that consists of one schedule.
func (x subject) explored(run execution) (found exploration) {
	found.executions, found.schedules = 1, 1
	if run.failed {
		found.failed = &run
	}
	return found
}

// sample explores n schedules chosen at random.
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

// result returns the error of an exploration, or nil.
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

// failure returns the Failure of a schedule. The schedule is shortened first, unless it was given as a
// script.
func (x subject) failure(run execution, o options) error {
	if o.script == nil {
		run = x.shortest(run)
	}
	return &Failure{Property: run.property, Err: run.err, Counterexample: x.counterexample(run)}
}
