package sim_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/singleton"
)

type counted struct {
	in    *dataflow.EntryInputPort[int, int]
	count *dataflow.SingletonOutputPort[int]
	other *dataflow.SingletonOutputPort[int]
	sent  *dataflow.InputPort[int]
	out   *dataflow.OutputPort[int]
}

// buildCounted counts the records of each of two inputs.
func buildCounted(f *dataflow.Flow) counted {
	at := dataflow.At[Server](f)
	in, es := keyedsingleton.Input[int, int](at, "entries")
	sent, s := dataflow.Input[int](at, "sent")
	return counted{
		in, singleton.Output(keyedsingleton.KeyCount(es), "count"),
		singleton.Output(dataflow.Count(s), "other"), sent, dataflow.Output(s, "out"),
	}
}

func puts(name string, keys ...int) sim.Client[counted] {
	return sim.Client[counted]{Name: name, Do: func(c *sim.Ctx, p counted) error {
		for _, k := range keys {
			if err := p.in.Put(c, k, k); err != nil {
				return err
			}
		}
		return nil
	}}
}

func sends(name string, xs ...int) sim.Client[counted] {
	return sim.Client[counted]{Name: name, Do: func(c *sim.Ctx, p counted) error {
		for _, x := range xs {
			if err := p.sent.Send(c, x); err != nil {
				return err
			}
		}
		return nil
	}}
}

// TestCheck explores clients that race: one counts what it sees, before and after the other. It
// catches clients whose uses of ports are not moves of the search.
func TestCheck(t *testing.T) {
	var seen []int
	report, err := sim.Check(t.Context(), sim.Spec[counted]{
		Build: buildCounted,
		Clients: []sim.Client[counted]{
			puts("writer", 1),
			{Name: "reader", Do: func(c *sim.Ctx, p counted) error {
				n, _ := p.count.Latest()
				seen = append(seen, n)
				return nil
			}},
		},
		Always: map[string]func(*sim.View, counted) error{"at most one": func(_ *sim.View, p counted) error {
			if n, _ := p.count.Latest(); n > 1 {
				return fmt.Errorf("%d", n)
			}
			return nil
		}},
		Eventually: map[string]func(*sim.View, counted) error{"one": func(_ *sim.View, p counted) error {
			if n, _ := p.count.Latest(); n != 1 {
				return fmt.Errorf("%d", n)
			}
			return nil
		}},
	})
	slices.Sort(seen)
	if err != nil || !report.Complete || report.Schedules != 2 || !slices.Equal(slices.Compact(seen), []int{0, 1}) {
		t.Errorf("%v: %v, the reader has seen %v", err, report, seen)
	}
}

// TestAlwaysSeesStatesBetween has two counts differ between independent moves, in an order that the
// reduction would not try for the clients alone. It catches a property whose reads are not recorded.
func TestAlwaysSeesStatesBetween(t *testing.T) {
	for _, want := range [][2]int{{0, 1}, {1, 0}, {2, 0}, {0, 2}, {1, 2}} {
		_, err := sim.Check(t.Context(), sim.Spec[counted]{
			Build:   buildCounted,
			Clients: []sim.Client[counted]{puts("a", 1, 2), sends("b", 1, 2)},
			Always: map[string]func(*sim.View, counted) error{"never so": func(_ *sim.View, p counted) error {
				n, _ := p.count.Latest()
				m, _ := p.other.Latest()
				if n == want[0] && m == want[1] {
					return errors.New("it is")
				}
				return nil
			}},
		})
		var failure *sim.Failure
		if !errors.As(err, &failure) || failure.Property != "never so" || failure.Counterexample.Trace() == "" {
			t.Errorf("%v: %v", want, err)
		}
	}
}
