package sim_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

// atEnd returns an Eventually that records the end of each schedule in all.
func atEnd[P any](all map[string]bool, what func(v *sim.View, p P) string) map[string]func(*sim.View, P) error {
	return map[string]func(*sim.View, P) error{"noted": func(v *sim.View, p P) error { all[what(v, p)] = true; return nil }}
}

type relayed struct {
	x, y    *dataflow.InputPort[int]
	batches *dataflow.OutputPort[[]int]
	out     *dataflow.OutputPort[int]
}

// TestSentOn has a client send to one location what it saw at another. The record joins the batch
// of the records sent before, or the next one, whichever location was built first. It catches
// locations that run one after the other.
func TestSentOn(t *testing.T) {
	for _, xFirst := range []bool{true, false} {
		all := make(map[string]bool)
		spec := sim.Spec[relayed]{
			Build: func(f *dataflow.Flow) (p relayed) {
				x := func() {
					in, s := dataflow.Input[int](dataflow.At[Server](f), "x")
					p.x, p.batches = in, emit(list(slice.Batch(slice.At(dataflow.At[Server](f)), s, tried)))
				}
				y := func() {
					in, s := dataflow.Input[int](dataflow.At[Away](f), "y")
					p.y, p.out = in, dataflow.Output(dataflow.Map(s, func(n int) int { return n + 1 }), "out")
				}
				if xFirst {
					x()
					y()
				} else {
					y()
					x()
				}
				return p
			},
			Clients: []sim.Client[relayed]{{Name: "ann", Do: func(c *sim.Ctx, p relayed) error {
				if err := errors.Join(p.x.Send(c, 1), p.y.Send(c, 2)); err != nil {
					return err
				}
				n, err := p.out.Next(c)
				if err != nil {
					return err
				}
				return p.x.Send(c, n)
			}}},
			Eventually: atEnd(all, func(v *sim.View, p relayed) string { return fmt.Sprint(sim.Elements(v, p.batches)) }),
		}
		report, err := sim.Check(t.Context(), spec)
		if got := slices.Sorted(maps.Keys(all)); err != nil || report.Schedules != 2 || !slices.Equal(got, []string{"[[1 3]]", "[[1] [3]]"}) {
			t.Errorf("%v: %v: %q", err, report, got)
		}
		if len(report.Reasons) != 1 || report.Reasons[0].Choices == 0 || report.Reasons[0].Text != tried || !strings.Contains(report.Reasons[0].Pos, ".go:") {
			t.Errorf("the reasons are %v", report.Reasons)
		}
	}
}

type bank struct {
	in       *dataflow.EntryInputPort[string, int]
	accepted *dataflow.EntryOutputPort[string, bool]
}

// TestAskedFirst checks that a withdrawal requested after a deposit may be made before it. It
// catches calls that are made in the order of their requests.
func TestAskedFirst(t *testing.T) {
	refused := func(v *sim.View, p bank) bool { ok, _ := p.accepted.Get("withdrawal"); return !ok }
	report, err := sim.Check(t.Context(), sim.Spec[bank]{
		Build: func(f *dataflow.Flow) bank {
			balance := 0
			in, es := keyedsingleton.Input[string, int](dataflow.At[Server](f), "moves")
			done := keyedsingleton.MapAsync(es, func(_ context.Context, n int) bool {
				if balance+n < 0 {
					return false
				}
				balance += n
				return true
			}, keyedsingleton.AsyncOptions{})
			return bank{in, keyedsingleton.Output(done, "accepted")}
		},
		Clients: []sim.Client[bank]{{Name: "ann", Do: func(c *sim.Ctx, p bank) error {
			return errors.Join(p.in.Put(c, "deposit", 10), p.in.Put(c, "withdrawal", -10))
		}}},
		Sometimes: map[string]func(*sim.View, bank) bool{
			"refused":  refused,
			"accepted": func(v *sim.View, p bank) bool { return !refused(v, p) },
		},
	})
	if err != nil || report.Sometimes["refused"] == 0 || report.Sometimes["accepted"] == 0 {
		t.Errorf("%v: %v", err, report)
	}
}

// TestWinner checks that either key of one input may be first. It catches keys that are taken in the order sent.
func TestWinner(t *testing.T) {
	type race struct {
		in  *dataflow.KeyedInputPort[string, int]
		won *dataflow.OutputPort[string]
	}
	all := make(map[string]bool)
	report, err := sim.Check(t.Context(), sim.Spec[race]{
		Build: func(f *dataflow.Flow) race {
			in, s := keyedstream.Input[string, int](dataflow.At[Server](f), "bids")
			keys := dataflow.Map(keyedstream.Entries(s), func(e dataflow.Entry[string, int]) string { return e.Key })
			return race{in, dataflow.Output(dataflow.AssumeOrder(keys, "the first bid wins"), "won")}
		},
		Clients: []sim.Client[race]{{Name: "ann", Do: func(c *sim.Ctx, p race) error {
			if err := errors.Join(p.in.Send(c, "a", 1), p.in.Send(c, "b", 1)); err != nil {
				return err
			}
			won, err := p.won.Next(c)
			all[won] = true
			return err
		}}},
	})
	if got := slices.Sorted(maps.Keys(all)); err != nil || !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("%v: %v: %q", err, report, got)
	}
}

// TestUnreadSpec checks that a specification fails if no client reads an output, although no
// schedule fails. It catches a program that stops in production.
func TestUnreadSpec(t *testing.T) {
	type ports struct {
		in  *dataflow.InputPort[int]
		out *dataflow.OutputPort[int]
	}
	spec := sim.Spec[ports]{
		Build: func(f *dataflow.Flow) ports {
			in, s := dataflow.Input[int](dataflow.At[Server](f), "in")
			many := dataflow.FlatMap(s, func(n int, emit func(int)) {
				for i := range n {
					emit(i)
				}
			})
			return ports{in, dataflow.Output(many, "out")}
		},
		Clients: []sim.Client[ports]{{Name: "ann", Do: func(c *sim.Ctx, p ports) error { return p.in.Send(c, 4097) }}},
	}
	_, err := sim.Check(t.Context(), spec)
	var blocked *dataflow.BlockedError
	var failure *sim.Failure
	if !errors.As(err, &blocked) || blocked.Waiting != 4097 || !errors.As(err, &failure) || failure.Counterexample != nil {
		t.Error(err)
	}
	if said := fails(t, func(t testing.TB) { sim.Test(t, spec) }); !strings.Contains(said, "FAIL: sim: outputs are read: ") {
		t.Error(said)
	}
}

// TestClaimOfSpec checks that a false claim is the error of the specification. It catches a flow's
// failure that no client sees.
func TestClaimOfSpec(t *testing.T) {
	type ports struct {
		in  *dataflow.SharedInputPort[int]
		sum *dataflow.SingletonOutputPort[int]
	}
	_, err := sim.Check(t.Context(), sim.Spec[ports]{
		Build: func(f *dataflow.Flow) ports {
			in, s := dataflow.SharedInput[int](dataflow.At[Server](f), "in")
			sum := dataflow.FoldCommutative(s, func() int { return 0 }, func(acc *int, x int) { *acc = *acc*10 + x }, "digits have no order")
			return ports{in, singleton.Output(sum, "sum")}
		},
		Clients: []sim.Client[ports]{{Do: func(c *sim.Ctx, p ports) error { return errors.Join(p.in.Send(c, 1), p.in.Send(c, 2)) }}},
	})
	var claim *sim.ClaimError
	if !errors.As(err, &claim) {
		t.Error(err)
	}
}

// TestShortest checks that the counterexample of a function has the fewest non-default choices,
// however it is found. It catches one whose length depends on the search.
func TestShortest(t *testing.T) {
	f := func(s *sim.Sim) {
		b := bench{s, dataflow.At[Server](s.Flow())}
		out := emit(list(slice.Batch(slice.At(b.at), b.stream("xs", 1, 2, 3, 4), tried)))
		b.Start()
		for _, xs := range sim.Collect(s, out) {
			if len(xs) == 2 && xs[0] == 3 {
				s.Fatalf("%v", xs)
			}
		}
	}
	want := ""
	for _, run := range []func(t testing.TB){
		func(t testing.TB) { sim.Exhaustive(t, f) },
		func(t testing.TB) { sim.Random(t, 1000, f) },
	} {
		said := fails(t, run)
		_, trace, ok := strings.Cut(said, "-sim.replay ")
		if !ok || want != "" && trace != want || len(strings.Split(trace, ".")) > 6 || strings.Count(trace, "1") > 1 {
			t.Errorf("the schedule is %q, want %q:\n%s", trace, want, said)
		}
		want = trace
	}
}
