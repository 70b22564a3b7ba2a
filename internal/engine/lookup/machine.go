package lookup

import (
	"fmt"
	"reflect"

	"github.com/millrace/millrace/internal/engine"
)

// A Machine is where a graph has a state for each key of a type.
type Machine struct {
	Location int
	op       int32
	state    int
}

// wrapped is what a machine keeps of a key, around the state that its functions have.
type wrapped interface{ State() any }

// within returns a pointer to the state in a pointer to what an operator keeps of a key.
func within(value any) any {
	for {
		w, ok := value.(wrapped)
		if !ok {
			return value
		}
		value = w.State()
	}
}

// MachinesOf returns where a graph remembers values of type state under keys of type key. The error says that there is no
// such operator.
func MachinesOf(g *engine.Graph, key, state reflect.Type) (all []Machine, err error) {
	for l, s := range g.Locations {
		for _, op := range s.Ops {
			for i, x := range op.States {
				k, ok := x.(engine.Keyed)
				if !ok || k.KeyType() != key || k.ValueType() == nil {
					continue
				}
				if reflect.TypeOf(within(reflect.New(k.ValueType()).Interface())).Elem() == state {
					all = append(all, Machine{l, op.Index, i})
				}
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: no operator remembers values of type %s under keys of type %s", ErrNoState, state, key)
	}
	return all, nil
}

// MachineOf is MachinesOf where there has to be one.
func MachineOf(g *engine.Graph, key, state reflect.Type) (Machine, error) {
	all, err := MachinesOf(g, key, state)
	if err != nil {
		return Machine{}, err
	}
	if len(all) > 1 {
		return Machine{}, fmt.Errorf("%w: %d operators remember values of type %s under keys of type %s, and one has to", ErrNoState, len(all), state, key)
	}
	return all[0], nil
}

// at calls do with the state of the machine at a location of its graph, or of another one that is like it.
func (m Machine) at(s *engine.Location, do func(engine.Keyed)) {
	s.States(func(op *engine.Op, state int, of engine.Keyed) {
		if op.Index == m.op && state == m.state {
			do(of)
		}
	})
}

// FindAll calls do with pointers to the states of n keys, of those that have one. It is called between two steps, with the location of
// the machine.
func (m Machine) FindAll(s *engine.Location, n int, key func(i int) any, do func(i int, state any)) {
	m.at(s, func(of engine.Keyed) {
		for i := range n {
			if e, ok := of.Find(key(i)); ok {
				do(i, within(e.Value))
			}
		}
	})
}

// Page calls do with keys and pointers to their states from number from on, so many at most, and returns the number to go
// on with. It is called between two steps, with the location of the machine.
func (m Machine) Page(s *engine.Location, from uint32, most int, do func(key, state any)) (next uint32, more bool) {
	m.at(s, func(of engine.Keyed) {
		n := 0
		of.Entries(from, func(i uint32, e engine.Entry) bool {
			if n == most {
				next, more = i, true
				return false
			}
			n++
			do(e.Key, within(e.Value))
			return true
		})
	})
	return next, more
}
