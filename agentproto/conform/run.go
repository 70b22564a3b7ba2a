package conform

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
)

// A trial is the implementation of a case.
type trial struct {
	run   func(*probe)
	limit time.Duration // zero means defaultTimeout
	alone bool          // needs the whole target: nothing else runs at the same time
}

// A probe is passed to the function of a trial. Its methods that end the trial may be called only
// from the trial's own goroutine.
type probe struct {
	ctx   context.Context
	Case  Case
	undo  []func()
	limit *limit        // nil if the limit is fixed
	spare time.Duration // how much longer the limit may get
	notes []string
}

// A verdict ends a trial. It is thrown as a panic, which keeps the functions of cases as short as
// the table's rows.
type verdict struct{ err error }

// fail ends the trial because the answer is not what the protocol requires. Sent and expected
// describe what was sent and expected; got is the answer, which is cut if it is long.
func (p *probe) fail(sent string, got any, expected string) {
	panic(verdict{&Failure{Sent: sent, Got: clip(fmt.Sprint(got), 600), Expected: expected, Section: p.Case.Section}})
}

// lacks ends the trial because the target lacks a role or setting.
func (p *probe) lacks(what string) { panic(verdict{&NotApplicable{Missing: what}}) }

// must ends the trial with an error if err is not nil. That is no verdict on the target.
func (p *probe) must(err error, doing string) {
	if err != nil {
		panic(verdict{fmt.Errorf("%s: %w", doing, err)})
	}
}

// tell notes something that the target should do differently but that fails no case. Repeated notes
// are dropped.
func (p *probe) tell(note string) {
	if !slices.Contains(p.notes, note) && len(p.notes) < 10 {
		p.notes = append(p.notes, note)
	}
}

// waiting starts a wait for something that may take the target d, and returns the function that
// ends the wait. The time, up to d, does not count towards the limit of the case, so that a target
// whose profile has long limits is not stopped by it. The sum of all such times is bounded, for a
// target that never finishes.
func (p *probe) waiting(d time.Duration) (over func()) {
	d = min(d, p.spare)
	if p.limit == nil || d <= 0 {
		return func() {}
	}
	begun := time.Now()
	p.limit.move(d)
	return func() {
		took := min(time.Since(begun), d)
		p.limit.move(took - d)
		p.spare -= took
	}
}

// A limit ends a trial at a time that can be moved.
type limit struct {
	mu    sync.Mutex
	end   time.Time
	timer *time.Timer
}

// newLimit returns a limit that calls f after d.
func newLimit(d time.Duration, f func()) *limit {
	return &limit{end: time.Now().Add(d), timer: time.AfterFunc(d, f)}
}

func (l *limit) move(by time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end = l.end.Add(by)
	l.timer.Reset(time.Until(l.end))
}

// after registers f to be called at the end of the trial, in reverse order of registration.
func (p *probe) after(f func()) { p.undo = append(p.undo, f) }

// A Failure says why a case failed.
type Failure struct {
	Sent     string `json:"sent"`     // what was done to the target
	Got      string `json:"got"`      // the outcome
	Expected string `json:"expected"` // the required outcome
	Section  string `json:"section"`  // of doc/protocol.md, which contains the rule
}

func (f *Failure) Error() string {
	return fmt.Sprintf("sent %s; got %s; expected %s (doc/protocol.md §%s)", f.Sent, f.Got, f.Expected, f.Section)
}

// NotApplicable says that the target lacks what a case needs.
type NotApplicable struct {
	Missing string // the role or setting, and how to provide it
}

func (n *NotApplicable) Error() string { return n.Missing }

// perform runs the selected cases of a side: first those that can run in parallel, then the others.
func (o Options) perform(ctx context.Context, side Side, target string, trials map[string]trial) (*Report, error) {
	cases, err := o.chosen(side)
	if err != nil {
		return nil, err
	}
	report := &Report{Side: side, Target: target, Started: time.Now(), Results: make([]Result, len(cases))}
	var told sync.Mutex
	one := func(i int) {
		c := cases[i]
		t, ok := trials[c.ID]
		var r Result
		if ok {
			r = t.judge(ctx, c, o.Timeout)
		} else {
			r = Result{Case: c, Status: Errored, Reason: "this case is not implemented"}
		}
		r = o.Baseline.apply(r)
		report.Results[i] = r
		if o.Progress != nil {
			told.Lock()
			defer told.Unlock()
			o.Progress(r)
		}
	}
	width := o.Parallel
	if width <= 0 {
		width = defaultParallel
	}
	var beside sync.WaitGroup
	room := make(chan struct{}, width)
	for i, c := range cases {
		if trials[c.ID].alone || width == 1 {
			continue
		}
		room <- struct{}{}
		beside.Go(func() {
			defer func() { <-room }()
			one(i)
		})
	}
	beside.Wait()
	for i, c := range cases {
		if trials[c.ID].alone || width == 1 {
			one(i)
		}
	}
	report.Took = time.Since(report.Started)
	return report, context.Cause(ctx)
}

// judge runs the trial and returns its result. A trial that does not end with its context is
// abandoned, and is an error.
func (t trial) judge(ctx context.Context, c Case, limit time.Duration) Result {
	fixed := limit != 0
	if limit == 0 {
		limit = cmp.Or(t.limit, defaultTimeout)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	end := newLimit(limit, func() { cancel(fmt.Errorf("the case did not end within %v", limit)) })
	defer end.timer.Stop()
	p := &probe{ctx: ctx, Case: c}
	if !fixed {
		p.limit = end
	}
	r, begun := Result{Case: c, Status: Passed}, time.Now()
	ended := make(chan error, 1)
	go func() { ended <- guarded(t.run, p) }()
	var err error
	over := true
	select {
	case err = <-ended:
	case <-ctx.Done():
		grace := time.NewTimer(5 * time.Second)
		defer grace.Stop()
		select {
		case err = <-ended:
		case <-grace.C:
			err, over = context.Cause(ctx), false
		}
	}
	if r.Took = time.Since(begun); over {
		r.Notes = p.notes
	}
	var failure *Failure
	var missing *NotApplicable
	switch {
	case err == nil:
	case errors.As(err, &failure):
		r.Status, r.Failure, r.Reason = Failed, failure, failure.Error()
	case errors.As(err, &missing):
		r.Status, r.Reason = Inapplicable, missing.Missing
	default:
		r.Status, r.Reason = Errored, err.Error()
	}
	return r
}

// guarded calls the function of a trial and then the functions registered with after, and returns
// the verdict. Any other panic is an error: a mistake in one case must not end the others.
func guarded(run func(*probe), p *probe) (err error) {
	defer func() {
		for i := len(p.undo) - 1; i >= 0; i-- {
			p.undo[i]()
		}
	}()
	defer func() {
		switch x := recover().(type) {
		case nil:
		case verdict:
			err = x.err
		default:
			err = fmt.Errorf("the case panicked: %v\n%s", x, debug.Stack())
		}
	}()
	run(p)
	return nil
}

// clip cuts a text that is too long to read.
func clip(s string, n int) string {
	if s = strings.ToValidUTF8(s, "\uFFFD"); len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + fmt.Sprintf("… (%d bytes)", len(s))
}
