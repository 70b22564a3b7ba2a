package durabletest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

type server struct{ dataflow.Process }

type members struct{ dataflow.Cluster }

type ports struct {
	votes  *dataflow.KeyedInputPort[string, int]
	passed *dataflow.EntryOutputPort[string, int]
	claims *dataflow.EntryInputPort[string, int]
	called *dataflow.EntryOutputPort[string, int]
	late   *dataflow.EntryOutputPort[string, int]
}

// build sums the first three votes of a key. Claims are passed on by a call and by a timer.
func build[L dataflow.Location](at L) (p ports) {
	votes, in := keyedstream.Input[string, int](at, "votes")
	p.votes = votes
	type sum struct{ N, Sum int }
	three := keyedstream.FoldEarlyStop(in, func() sum { return sum{} }, func(s *sum, v int) bool {
		s.N++
		s.Sum += v
		return s.N == 3
	})
	p.passed = keyedsingleton.Output(keyedsingleton.Map(three, func(s sum) int { return s.Sum }), "passed")
	claims, claimed := keyedsingleton.Input[string, int](at, "claims")
	p.claims = claims
	p.called = keyedsingleton.Output(keyedsingleton.MapAsync(claimed, func(_ context.Context, x int) int { return 2 * x }, keyedsingleton.AsyncOptions{}), "called")
	p.late = keyedsingleton.Output(keyedsingleton.After(claimed, time.Minute, "the check waits for it"), "late")
	return p
}

var keys = []string{"a", "b"}

// drive sends three numbered votes for each key and claims it.
func drive(ctx context.Context, p ports) error {
	for _, k := range keys {
		for n := range 3 {
			if err := p.votes.SendNumbered(ctx, k, uint64(n), n+1); err != nil {
				return err
			}
		}
		if err := p.claims.Put(ctx, k, 21); err != nil && !errors.Is(err, dataflow.ErrDuplicateKey) {
			return err
		}
	}
	return nil
}

func check(ctx context.Context, p ports) error {
	for _, k := range keys {
		for _, out := range []struct {
			name string
			port *dataflow.EntryOutputPort[string, int]
			want int
		}{{"passed", p.passed, 6}, {"called", p.called, 42}, {"late", p.late, 21}} {
			got, err := out.port.Await(ctx, k)
			if err != nil {
				return err
			}
			if got != out.want {
				return fmt.Errorf("%s %s with %d, want %d", k, out.name, got, out.want)
			}
		}
	}
	return nil
}

// TestRight checks that a correct program passes. With one partition, the number of runs is the same every
// time.
func TestRight(t *testing.T) {
	builds := map[string]func(*dataflow.Flow) ports{
		"process": func(f *dataflow.Flow) ports { return build(dataflow.At[server](f)) },
		"cluster": func(f *dataflow.Flow) ports { return build(dataflow.At[members](f)) },
	}
	for _, test := range []struct {
		name, build string
		opts        Options
	}{
		{"crashes", "process", Options{}},
		{"lost answers", "process", Options{LostAnswers: true}},
		{"two crashes", "process", Options{Again: 1}},
		{"partitions", "cluster", Options{Durable: durable.Options{Partitions: 2}, LostAnswers: true}},
		{"read ahead", "process", Options{ReadAhead: true, LostAnswers: true, Again: 1}},
		{"large steps", "process", Options{Durable: durable.Options{StepBytes: 1 << 20, SnapshotBytes: 1 << 20}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := Program[ports]{Build: builds[test.build], Drive: drive, Check: check}
			runs := Crash(t, p, test.opts)
			if runs < 40 { // a step takes everything that arrived during the previous one
				t.Errorf("%d runs", runs)
			}
			if again := Crash(t, p, test.opts); again != runs && test.build == "process" {
				t.Errorf("%d runs, then %d", runs, again)
			}
		})
	}
}

// TestWrong checks that wrong programs are found, at the moment that matters, and again by the printed plan.
func TestWrong(t *testing.T) {
	right := func(f *dataflow.Flow) ports { return build(dataflow.At[server](f)) }
	for _, test := range []struct {
		name    string
		program func() Program[ports]
		opts    Options
		want    []string // in the story
	}{
		{"counts in a variable", func() Program[ports] {
			var calls int
			return Program[ports]{func(f *dataflow.Flow) (p ports) {
				votes, in := keyedstream.Input[string, int](dataflow.At[server](f), "votes")
				numbered := keyedstream.Map(in, func(int) int { calls++; return calls })
				return ports{votes: votes, passed: keyedsingleton.Output(keyedstream.First(numbered), "passed")}
			}, func(ctx context.Context, p ports) error {
				return p.votes.SendNumbered(ctx, "a", 0, 1)
			}, func(ctx context.Context, p ports) error {
				_, err := p.passed.Await(ctx, "a")
				return err
			}}
		}, Options{}, []string{"a crash at moment", "after committing a step, partition 0", "a step made again gives something else"}},

		{"does not look at errors", func() Program[ports] {
			return Program[ports]{right, func(ctx context.Context, p ports) error {
				if err := drive(ctx, p); ctx.Err() != nil {
					return err
				}
				return nil
			}, check}
		}, Options{}, []string{"a crash at moment", "before appending records", "Check: it is not done after 1h0m0s"}},

		{"sends again without a number", func() Program[ports] {
			return Program[ports]{right, func(ctx context.Context, p ports) error {
				for _, k := range keys {
					for n := range 3 {
						if err := p.votes.Send(ctx, k, n+1); err != nil {
							return err
						}
					}
					if err := p.claims.Put(ctx, k, 21); err != nil && !errors.Is(err, dataflow.ErrDuplicateKey) {
						return err
					}
				}
				return nil
			}, check}
		}, Options{}, []string{"a crash at moment", "after appending records", "Check: a passed with 4, want 6"}},

		{"wrong without a crash", func() Program[ports] {
			return Program[ports]{right, drive, func(context.Context, ports) error { return errors.New("no") }}
		}, Options{}, []string{"without a crash: Check: no"}},

		{"panics", func() Program[ports] {
			return Program[ports]{right, drive, func(context.Context, ports) error { panic("no") }}
		}, Options{}, []string{"without a crash: Check: panic: no"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, wrong := explore(t, test.program(), test.opts, "")
			if wrong == nil {
				t.Fatal("nothing was found")
			}
			t.Log(wrong.story())
			for _, want := range test.want {
				if !strings.Contains(wrong.story(), want) {
					t.Errorf("found %q, want %q in it", wrong.story(), want)
				}
			}
			runs, again := explore(t, test.program(), test.opts, wrong.plan.String())
			if runs != 1 || again == nil || again.story() != wrong.story() && wrong.phase != "Check" {
				t.Errorf("once more: %d runs, %v", runs, again)
			}
		})
	}
}

// TestLostAnswersOnly plans a lost answer at a moment at which no action was done. The answer of the next
// action that is done is lost in its place, so no run fails an action that was not done.
func TestLostAnswersOnly(t *testing.T) {
	p := plan{lost: true, at: []int{2, 3}}
	got, happened := "", 0
	for at, done := range []bool{true, false, false, true, true, true} {
		f, words := p.fault(at+1, happened, journal.Action{Done: done})
		if (words != "") != f.Fail || f.Crash {
			t.Errorf("moment %d: %+v, %q", at+1, f, words)
		}
		if f.Fail {
			happened++
			got += fmt.Sprint(" ", at+1)
		}
	}
	if got != " 4 5" {
		t.Errorf("answers are lost at%s, want 4 5", got)
	}
}

func TestPlan(t *testing.T) {
	for _, s := range []string{"crash", "crash.17", "crash.17.19", "lost.18"} {
		if p, err := parsePlan(s); err != nil || p.String() != s {
			t.Errorf("%s became %s: %v", s, p, err)
		}
	}
	for _, s := range []string{"", "17", "crash.0", "crash.x", "found.1"} {
		if p, err := parsePlan(s); err == nil {
			t.Errorf("%q is taken for %s", s, p)
		}
	}
}
