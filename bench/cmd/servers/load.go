package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// callWithin is how long a call may take before the measurement fails.
const callWithin = 30 * time.Second

// A sample is one measurement.
type sample struct {
	rate        float64       // calls a second
	server, all time.Duration // processor time a call: of the measured process, and of all processes, this one included
	p50, p99    time.Duration
}

func (s sample) String() string {
	return fmt.Sprintf("%.0f calls/s, processor %v of %v, p50 %v, p99 %v", s.rate, s.server, s.all, s.p50, s.p99)
}

// A setup is a form that runs.
type setup struct {
	processes []*process // the first one is measured
	call      func(ctx context.Context, thread, id, text string) (string, error)
	end       []func() error // in reverse order
}

// close stops everything. It returns the first error.
func (s *setup) close() error {
	var all error
	for _, end := range slices.Backward(s.end) {
		all = errors.Join(all, end())
	}
	return all
}

// measure starts the processes of a form, makes calls, and stops the processes.
func measure(ctx context.Context, c config, f form, callers int) (s sample, err error) {
	up := &setup{}
	defer func() { err = errors.Join(err, up.close()) }()
	if err := f.open(ctx, up); err != nil {
		return s, err
	}
	return up.load(ctx, c, callers)
}

// A made is a call that got its answer.
type made struct {
	at   time.Time // when it got it
	took time.Duration
}

// load makes calls, and measures after they have been made for a while. Each caller waits for its answer before its next call.
func (up *setup) load(ctx context.Context, c config, callers int) (s sample, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stopping := make(chan struct{})
	calls := make([][]made, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			if err := up.caller(ctx, i, stopping, &calls[i]); err != nil {
				cancel(err)
			}
		})
	}
	wait := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	wait(c.warm)
	server0, all0, err0 := up.used()
	begin := time.Now()
	wait(c.lasts)
	server1, all1, err1 := up.used()
	end := time.Now()
	close(stopping)
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return s, err
	}
	if err := errors.Join(err0, err1); err != nil {
		return s, err
	}
	var took []time.Duration
	for _, m := range slices.Concat(calls...) {
		if !m.at.Before(begin) && m.at.Before(end) {
			took = append(took, m.took)
		}
	}
	if len(took) == 0 {
		return s, errors.New("no call got its answer meanwhile")
	}
	slices.Sort(took)
	n := time.Duration(len(took))
	return sample{
		rate: float64(len(took)) / end.Sub(begin).Seconds(), server: (server1 - server0) / n, all: (all1 - all0) / n,
		p50: took[len(took)/2], p99: took[len(took)*99/100],
	}, nil
}

// caller makes one call after another, in a thread of its own, until stopping is closed.
func (up *setup) caller(ctx context.Context, i int, stopping <-chan struct{}, calls *[]made) error {
	thread := fmt.Sprint("thread-", i)
	for n := 0; ; n++ {
		select {
		case <-stopping:
			return nil
		case <-ctx.Done():
			return nil
		default:
		}
		id, text := fmt.Sprint("call-", n), fmt.Sprintf("hello %d of %d", n, i)
		begin := time.Now()
		got, err := up.one(ctx, thread, id, text)
		if err != nil {
			return fmt.Errorf("%s of %s: %w", id, thread, err)
		}
		if got != text {
			return fmt.Errorf("%s of %s is answered %q, want %q", id, thread, got, text)
		}
		end := time.Now()
		*calls = append(*calls, made{end, end.Sub(begin)})
	}
}

func (up *setup) one(ctx context.Context, thread, id, text string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	return up.call(ctx, thread, id, text)
}

// used returns the processor time of the measured process and of all.
func (up *setup) used() (server, all time.Duration, err error) {
	all, err = usedHere()
	for i, p := range up.processes {
		used, wrong := p.used()
		if i == 0 {
			server = used
		}
		all += used
		err = errors.Join(err, wrong)
	}
	return server, all, err
}
