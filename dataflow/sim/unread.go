package sim

import (
	"maps"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/engine"
)

// An output is an output of elements at the end of a schedule.
type output struct {
	op      *engine.Op
	read    bool // an element was read
	unread  int
	blocked error // the error in production; nil if no more elements wait than allowed
}

// outputsOf returns the outputs of elements of a flow.
func outputsOf(g *engine.Graph) (all []output) {
	g.Outputs(func(out engine.OutputStatus) {
		if out.Kind != engine.Elements {
			return
		}
		o := output{op: out.Op, read: out.Given > uint64(out.Unread), unread: out.Unread}
		if out.Unread > out.Bound {
			o.blocked = g.BlockedError(&engine.Blocked{Op: out.Op, Waiting: out.Unread, Bound: out.Bound}, nil)
		}
		all = append(all, o)
	})
	return all
}

// outputs are the outputs of all schedules of an exploration. Each schedule builds the same
// flow again, so an output is identified by its number and its place.
type outputs struct {
	all       map[outputID]output
	unchecked unchecked // claims
}

type outputID struct {
	number    int
	name, pos string
}

// add adds the outputs of a schedule.
func (o *outputs) add(run execution) {
	if o.all == nil {
		o.all, o.unchecked = make(map[outputID]output), make(unchecked)
	}
	maps.Copy(o.unchecked, run.unchecked)
	for i, out := range run.outputs {
		k := outputID{i, out.op.Name, out.op.Pos}
		before := o.all[k]
		if out.blocked == nil || before.unread > out.unread {
			out.unread, out.blocked = before.unread, before.blocked
		}
		out.read = out.read || before.read
		o.all[k] = out
	}
}

// check fails t if an output was not read in any schedule and more elements wait there than
// production allows: in production the location would stop, while a simulated one
// continues. It logs which claims were not checked.
func (o *outputs) check(t testing.TB) {
	t.Helper()
	for _, line := range o.unchecked.lines() {
		t.Log(line)
	}
	for _, err := range o.hang() {
		t.Errorf("sim: nobody reads an output in any schedule, and in production the flow would hang: %v", err)
	}
}

// hang returns the errors that production would report, in the order in which the outputs
// were constructed.
func (o *outputs) hang() (all []error) {
	ports := slices.SortedFunc(maps.Keys(o.all), func(a, b outputID) int { return a.number - b.number })
	for _, p := range ports {
		if out := o.all[p]; !out.read && out.blocked != nil {
			all = append(all, out.blocked)
		}
	}
	return all
}
