package lookup

import (
	"fmt"
	"reflect"

	"github.com/millrace/millrace/internal/engine"
)

// A Machine is a place where a graph holds a state for each key of a type.
type Machine struct {
	Location int
	op       int32
	state    int
}

// wrapped is implemented by what a machine holds for a key, around the state that its functions use.
type wrapped interface{ State() any }

// within returns a pointer to the state inside what value, held by an operator for a key, points to.
func within(value any) any {
	for {
		w, ok := value.(wrapped)
		if !ok {
			return value
		}
		value = w.State()
	}
}

// MachinesOf returns the places where a graph holds values of type state under keys of type key. It returns an error if there is
// none.
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

// MachineOf is MachinesOf for a graph that must have exactly one such place.
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

// at calls do with the machine's state at a location of its graph, or of another graph of the same shape.
func (m Machine) at(s *engine.Location, do func(engine.Keyed)) {
	s.States(func(op *engine.Op, state int, of engine.Keyed) {
		if op.Index == m.op && state == m.state {
			do(of)
		}
	})
}

// FindAll looks up n keys and calls do with pointers to the states of those that have one. It is called between two steps, with
// the location of the machine.
func (m Machine) FindAll(s *engine.Location, n int, key func(i int) any, do func(i int, state any)) {
	m.at(s, func(of engine.Keyed) {
		for i := range n {
			if e, ok := of.Find(key(i)); ok {
				do(i, within(e.Value))
			}
		}
	})
}

// Page calls do with up to most keys and pointers to their states, from number from on, and returns the number at which to
// continue. It is called between two steps, with the location of the machine.
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
