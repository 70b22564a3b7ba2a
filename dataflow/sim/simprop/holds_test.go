package simprop_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/gen"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/dataflow/sim/simprop"
	"github.com/millrace/millrace/optional"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

type server struct{ dataflow.Process }

// sums holds the ports of a flow that adds up batches of numbers.
type sums struct {
	xs      *dataflow.InputPort[int]
	largest *dataflow.OptionalOutputPort[int] // of the sums of the batches
}

func buildSums(flow *dataflow.Flow) sums {
	at := dataflow.At[server](flow)
	port, xs := dataflow.Input[int](at, "xs")
	tick := slice.At(at)
	batch := slice.Batch(tick, xs, "each batch is added up")
	sum := dataflow.Fold(batch, func() int { return 0 }, func(sum *int, x int) { *sum += x })
	all := slice.Emit(singleton.IntoStream(sum))
	return sums{port, optional.Output(dataflow.Max(all), "largest")}
}

func under100(c simprop.Case[sums]) sim.Spec[sums] {
	return sim.Spec[sums]{Build: buildSums, Clients: c.Clients(), Eventually: map[string]func(*sim.View, sums) error{
		"no batch is over 100": func(_ *sim.View, p sums) error {
			if n, ok := p.largest.Latest(); ok && n > 100 {
				return fmt.Errorf("a batch has the sum %d", n)
			}
			return nil
		},
	}}
}

func xs(p sums) *dataflow.InputPort[int] { return p.xs }

// batches is the property that no batch of numbers has a sum over 100.
func batches(numbers gopter.Gen) gopter.Prop {
	return simprop.Holds(under100, simprop.Traffic(simprop.Values("xs", xs, numbers), simprop.Close("xs", xs)))
}

// TestShrinksJointly checks that every failing case shrinks to two inputs with the sum 101. The
// failing schedule depends on which batch is too large. The test catches a shrinker that tries
// smaller inputs only with the schedule that failed.
func TestShrinksJointly(t *testing.T) {
	failed := 0
	for seed := range int64(25) {
		result := batches(gen.IntRange(0, 60))(gopter.DefaultGenParameters().WithSize(100).CloneWithSeed(seed))
		if result.Success() {
			continue
		}
		failed++
		c := result.Args[0].Arg.(simprop.Case[sums])
		if sent := simprop.Sent[int](c, "xs"); len(sent) != 2 || sent[0]+sent[1] != 101 || c.Len() != 2 {
			t.Errorf("seed %d: shrunk to\n%v\nfrom\n%v", seed, c, result.Args[0].OrigArg)
		}
	}
	if failed < 8 {
		t.Errorf("only %d of 25 cases fail", failed)
	}
}

// TestHoldsDecides checks that a case that cannot be decided, and an error in the specification
// itself, are distinguished from a property that does not hold. It catches a partly explored case
// that counts as one that holds.
func TestHoldsDecides(t *testing.T) {
	spec := func(change func(*sim.Spec[sums])) func(int) sim.Spec[sums] {
		return func(n int) sim.Spec[sums] {
			s := sim.Spec[sums]{Build: buildSums, Clients: []sim.Client[sums]{{Do: func(c *sim.Ctx, p sums) error {
				for range n {
					if err := p.xs.Send(c, 1); err != nil {
						return err
					}
				}
				return nil
			}}}}
			change(&s)
			return s
		}
	}
	always := func(f func() error) func(*sim.Spec[sums]) {
		return func(s *sim.Spec[sums]) {
			s.Eventually = map[string]func(*sim.View, sums) error{"it is so": func(*sim.View, sums) error { return f() }}
		}
	}
	calls := 0
	tests := []struct {
		name string
		spec func(int) sim.Spec[sums]
		opts []sim.Option
		want gopter.PropResult
		err  error
		says string
	}{
		{"it holds", spec(always(func() error { return nil })), nil, gopter.PropResult{Status: gopter.PropTrue}, nil, ""},
		{"it holds of some schedules", spec(always(func() error { return nil })), []sim.Option{sim.AtRandom(3, 1)}, gopter.PropResult{Status: gopter.PropTrue}, nil, ""},
		{"a limit", spec(always(func() error { return nil })), []sim.Option{sim.Limit(3)}, gopter.PropResult{Status: gopter.PropUndecided}, nil, "not all schedules"},
		{"it never happens", spec(func(s *sim.Spec[sums]) {
			s.Sometimes = map[string]func(*sim.View, sums) bool{"never": func(*sim.View, sums) bool { return false }}
		}), nil, gopter.PropResult{Status: gopter.PropUndecided}, nil, "never"},
		{"unsteady", spec(func(s *sim.Spec[sums]) {
			s.Clients[0].Do = func(c *sim.Ctx, p sums) error {
				calls++
				return p.xs.Send(c, calls)
			}
		}), nil, gopter.PropResult{Status: gopter.PropError}, sim.ErrUnsteady, ""},
		{"no specification", spec(func(s *sim.Spec[sums]) { s.Build = nil }), nil, gopter.PropResult{Status: gopter.PropError}, nil, "has no Build"},
		{"no option", spec(func(*sim.Spec[sums]) {}), []sim.Option{sim.Limit(0)}, gopter.PropResult{Status: gopter.PropError}, nil, "Limit(0)"},
		{"a property", spec(always(func() error { return errors.New("it is not") })), nil, gopter.PropResult{Status: gopter.PropFalse}, nil, "it is so: it is not"},
		{"a client", spec(func(s *sim.Spec[sums]) {
			s.Clients[0].Do = func(*sim.Ctx, sums) error { return errors.New("it cannot") }
		}), nil, gopter.PropResult{Status: gopter.PropFalse}, nil, `client "client 1": it cannot`},
		{"a panic", spec(func(s *sim.Spec[sums]) { s.Clients[0].Do = func(*sim.Ctx, sums) error { panic("oh") } }), nil, gopter.PropResult{Status: gopter.PropFalse}, nil, "oh"},
	}
	for _, test := range tests {
		result := simprop.Holds(test.spec, gen.Const(6), test.opts...)(gopter.DefaultGenParameters())
		said := strings.Join(result.Labels, "\n") + fmt.Sprint(result.Error)
		if result.Status != test.want.Status || test.err != nil && !errors.Is(result.Error, test.err) || !strings.Contains(said, test.says) {
			t.Errorf("%s: %v: %s", test.name, result.Status, said)
		}
	}
	panics(t, "simprop: Holds: the generator gives string, and the specification is for int", func() { simprop.Holds(tests[0].spec, keys) })
	panics(t, "simprop: Holds: the function given at", func() { simprop.Holds[int, sums](nil, values) })
}

// TestHoldsAnything shrinks values of any gopter generator together with the schedule.
func TestHoldsAnything(t *testing.T) {
	prop := simprop.Holds(func(xs []int) sim.Spec[sums] {
		spec := under100(simprop.Case[sums]{})
		spec.Clients = []sim.Client[sums]{{Do: func(c *sim.Ctx, p sums) error {
			_, err := p.xs.SendBatch(c, xs)
			return err
		}}}
		return spec
	}, gen.SliceOf(gen.IntRange(0, 60)))
	result := prop(gopter.DefaultGenParameters().WithSize(9).CloneWithSeed(3))
	got, ok := result.Args[0].Arg.([]int)
	if result.Status != gopter.PropFalse || !ok || result.Args[0].Shrinks == 0 {
		t.Fatalf("%v %v: %v", result.Status, result.Error, result.Args)
	}
	sum := 0
	for _, x := range got {
		sum += x
	}
	if sum != 101 {
		t.Errorf("shrunk to %v", got)
	}
}
