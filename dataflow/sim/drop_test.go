package sim_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/port"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// TestDropped has a client look twice while an entry arrives and is dropped. Neither look sees the
// entry, or the first, the second or both do. It catches a search that treats the step that drops an
// entry as independent of looks at the entry.
func TestDropped(t *testing.T) {
	type ports struct {
		in  *dataflow.EntryInputPort[int, string]
		old *dataflow.KeyedInputPort[int, bool]
		out *port.EntryOutput[int, string]
	}
	forgets := false // an output whose entries may be forgotten drops them in another way
	spec := sim.Spec[ports]{
		Build: func(flow *dataflow.Flow) (p ports) {
			here := dataflow.At[Server](flow)
			in, entries := keyedsingleton.Input[int, string](here, "in")
			old, keys := keyedstream.Input[int, bool](here, "old")
			n, op := engine.Read(engine.KeyedNodeOf(entries), "out")
			n.Forgets = forgets
			p.in, p.old, p.out = in, old, port.NewEntryOutput(n, op)
			dropped, _ := engine.Read(engine.KeyedNodeOf(keys), "drop")
			port.DropOn(p.out, dropped)
			return p
		},
		Clients: []sim.Client[ports]{
			{Name: "a", Do: func(c *sim.Ctx, p ports) error {
				if err := p.in.Put(c, 1, "x"); err != nil {
					return err
				}
				return p.old.Send(c, 1, true)
			}},
			{Name: "b", Do: func(c *sim.Ctx, p ports) error {
				_, before := p.out.Get(1)
				_, after := p.out.Get(1)
				c.Observe([]bool{before, after})
				return nil
			}},
		},
	}
	for _, forgets = range []bool{false, true} {
		for _, opts := range [][]sim.Option{nil, {sim.Unreduced()}} {
			if report, err := sim.Check(t.Context(), spec, opts...); err != nil || report.Schedules != 4 {
				t.Errorf("forgets %v: %v\n%v", forgets, err, report)
			}
		}
		// An entry that is dropped before it arrives stays.
		for _, whole := range []bool{false, true} {
			n := sim.ExploreAs(t, sim.Exploring{Whole: whole}, func(s *sim.Sim) {
				p := spec.Build(s.Flow())
				s.Start()
				s.Check(p.in.Put(s.Context(), 1, "x"))
				s.Check(p.old.Send(s.Context(), 1, true))
				s.Quiesce()
				_, there := p.out.Get(1)
				s.Observe(there)
			})
			if n.Schedules != 2 || n.Failed != "" {
				t.Errorf("whole %v, forgets %v: %d schedules, %s", whole, forgets, n.Schedules, n.Failed)
			}
		}
	}
}

// TestForgottenKey has a key forgotten while a client puts it again. The put is refused before the key
// is forgotten, and accepted after. It catches a search that treats the step that forgets a key as
// independent of the key.
func TestForgottenKey(t *testing.T) {
	type ports struct {
		in  *port.KeyedInput[int, string]
		old *dataflow.KeyedInputPort[int, bool]
	}
	spec := sim.Spec[ports]{
		Build: func(flow *dataflow.Flow) (p ports) {
			here := dataflow.At[Server](flow)
			old, keys := keyedstream.Input[int, bool](here, "old")
			_, op := engine.Read(engine.KeyedNodeOf(keys), "in")
			p.in, _ = port.NewEntryInput[int, string](op.Loc, op, nil)
			p.old = old
			forgets, _ := engine.Read(engine.KeyedNodeOf(keys), "forget")
			port.ForgetOn(p.in, forgets, func(int) bool { return true })
			return p
		},
		Clients: []sim.Client[ports]{
			{Name: "a", Do: func(c *sim.Ctx, p ports) error {
				first := p.in.Send(c, 1, "x")
				if err := p.old.Send(c, 1, true); err != nil {
					return err
				}
				c.Observe(first != nil)
				return nil
			}},
			{Name: "b", Do: func(c *sim.Ctx, p ports) error {
				c.Observe(p.in.Send(c, 1, "y") != nil)
				return nil
			}},
		},
	}
	for _, opts := range [][]sim.Option{nil, {sim.Unreduced()}} {
		if report, err := sim.Check(t.Context(), spec, opts...); err != nil || report.Schedules != 3 {
			t.Errorf("%v\n%v", err, report)
		}
	}
}

// TestHistoryOfBatches checks that a property sees the result of a batch. It catches a history that
// includes the batch before its result is known.
func TestHistoryOfBatches(t *testing.T) {
	type ports struct {
		in *dataflow.EntryInputPort[int, string]
	}
	var seen []string
	spec := sim.Spec[ports]{
		Build: func(flow *dataflow.Flow) ports {
			in, _ := keyedsingleton.Input[int, string](dataflow.At[Server](flow), "in")
			return ports{in}
		},
		Clients: []sim.Client[ports]{{Name: "a", Do: func(c *sim.Ctx, p ports) error {
			if _, err := p.in.PutBatch(c, []int{1, 2}, []string{"x", "y"}); err != nil {
				return err
			}
			p.in.Close()
			if _, err := p.in.PutBatch(c, []int{3}, []string{"z"}); !errors.Is(err, dataflow.ErrClosed) {
				return errors.New("it is still open")
			}
			return nil
		}}},
		Eventually: map[string]func(*sim.View, ports) error{"a history": func(v *sim.View, _ ports) error {
			for _, op := range v.Ops("a") {
				what := op.Do
				if op.OK {
					what += " well"
				}
				if errors.Is(op.Err, dataflow.ErrClosed) {
					what += " refused"
				}
				seen = append(seen, what)
			}
			return nil
		}},
	}
	if _, err := sim.Check(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if slices.Sort(seen); strings.Join(slices.Compact(seen), ", ") != "close well, put refused, put well" {
		t.Errorf("the history is %q", seen)
	}
}
