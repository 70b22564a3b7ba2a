package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/millrace/millrace/dataflow/sim/linear"
)

// A Monitor is a state machine that reads what clients do. A Spec makes one for each schedule. It
// needs no lock, and must have no side effects outside its own state.
type Monitor interface {
	// On is called after the move in which a client has used a port, or in which a [Call] has
	// returned. An error fails the schedule.
	On(op Op) error
	// Hot reports whether something still has to happen. It must be false when the flow is at
	// rest.
	Hot() bool
}

// A Linear asserts that some operations of clients are linearizable: each operation can be given
// one moment between its beginning and its end so that all of them, executed in the order of
// these moments, behave as the model says. A use of a port is one move, and therefore one
// operation. Several uses of ports form one operation if they are made in a [Call]. The history
// is checked at the end of each schedule.
type Linear struct {
	Name string

	// Of translates an operation of a client for the model; ok is false if it is not an operation
	// of the model. The result must depend on op alone. The output is ignored if op has no
	// answer.
	Of func(op Op) (key, input, output any, ok bool)

	Model linear.Model
}

// Answered reports whether the client knows the result of the operation. It does not if the
// operation is a [Call] that has not returned, or if its error was [ErrQuiet] or [ErrHalted].
func (op Op) Answered() bool {
	return op.Return != 0 && !errors.Is(op.Err, ErrQuiet) && !errors.Is(op.Err, ErrHalted)
}

// A judge is a Linear with the histories that it has seen.
type judge struct {
	Linear
	checker *linear.Checker
}

// judges returns the judges for all, or an error if one is invalid.
func judges(all []Linear) (js []judge, err error) {
	for i, l := range all {
		switch {
		case l.Name == "":
			return nil, fmt.Errorf("sim: Linear number %d of the specification has no name", i)
		case l.Of == nil:
			return nil, fmt.Errorf("sim: Linear %q of the specification has no Of", l.Name)
		case l.Model.Init == nil || l.Model.Step == nil:
			return nil, fmt.Errorf("sim: the model of Linear %q of the specification has no Init or no Step", l.Name)
		}
		js = append(js, judge{l, linear.NewChecker(l.Model)})
	}
	return js, nil
}

// check decides whether the operations of a schedule are linearizable.
func (j judge) check(v *View) error {
	var all []linear.Operation
	for _, op := range v.spec.ops() {
		key, in, out, ok := j.Of(op)
		if !ok {
			continue
		}
		who := slices.Index(v.spec.plan.clients, op.Client)
		v.spec.looks(v.number, clientOp(who, op.Port))
		if !op.Answered() {
			out = linear.Unknown
		}
		call := op.Call
		if call == 0 {
			continue // the call has not used a port yet
		}
		all = append(all, linear.Operation{Client: who, Key: key, Input: in, Output: out, Call: call, Return: max(op.Return, call)})
	}
	return j.checker.Check(all)
}

// A monitor is a named Monitor of one schedule.
type monitor struct {
	name string
	Monitor
}

// monitors makes the monitors of one schedule, in order of their names.
func monitors(all map[string]func() Monitor) (ms []monitor) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		ms = append(ms, monitor{name, all[name]()})
	}
	return ms
}

// watch passes the operations of the last move to the monitors.
func (x *specRun) watch() {
	for _, op := range x.events {
		for _, m := range x.inst.monitors {
			if err := x.guard(func() error { return m.On(*op) }); err != nil {
				x.fail(m.name, err)
			}
		}
	}
	x.events = x.events[:0]
}

// cold fails the schedule if a monitor still waits for something.
func (x *specRun) cold() {
	for _, m := range x.inst.monitors {
		err := x.guard(func() error {
			if m.Hot() {
				return errors.New("the flow is at rest, and it waits for something")
			}
			return nil
		})
		if err != nil {
			x.fail(m.name, err)
			return
		}
	}
}
