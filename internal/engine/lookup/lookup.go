// Package lookup finds what a running location remembers of a key, for people who inspect it.
//
// Its results are text, since a value belongs to the location, and they are made between two steps. No function of the program is
// called meanwhile, because it could wait for the location.
package lookup

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
)

// longest is the most bytes of a key or a value that are returned.
const longest = 4 << 10

// ErrNoState says that the flow has no such state.
var ErrNoState = errors.New("dataflow: no such state")

// A Found is what an operator remembers of a key.
type Found struct {
	Operator   int // index among the operators of all locations
	State      int // index among the states of the operator
	Key, Value string
	Due        time.Time
}

func found(op *engine.Op, state int, e engine.Entry) Found {
	f := Found{Operator: Number(op), State: state, Key: codec.Show(e.Key, longest)}
	if e.Value != nil {
		f.Value = strings.TrimPrefix(codec.Show(e.Value, longest), "&")
	}
	if e.Timed {
		f.Due = time.Unix(0, op.Loc.Origin()).Add(time.Duration(e.Due))
	}
	return f
}

// Number returns the index of an operator among those of all locations.
func Number(op *engine.Op) int {
	n := int(op.Index)
	for _, s := range op.Loc.Graph.Locations {
		if s == op.Loc {
			break
		}
		n += len(s.Ops)
	}
	return n
}

// KeyType returns the type of the keys of a state, or nil if it has none.
func KeyType(x engine.State) reflect.Type {
	if k, ok := x.(engine.Keyed); ok {
		return k.KeyType()
	}
	return nil
}

// Check returns an error unless some state of the graph has keys of the type of key.
func Check(g *engine.Graph, key any) error {
	var known []string
	for _, s := range g.Locations {
		for _, op := range s.Ops {
			for _, x := range op.States {
				switch t := KeyType(x); {
				case t == nil:
				case t == reflect.TypeOf(key):
					return nil
				default:
					known = append(known, t.String())
				}
			}
		}
	}
	if len(known) == 0 {
		return fmt.Errorf("%w: the flow remembers nothing by key", ErrNoState)
	}
	slices.Sort(known)
	return fmt.Errorf("%w: nothing has keys of type %T; the types are %s", ErrNoState, key, strings.Join(slices.Compact(known), ", "))
}

// Find returns what the location remembers of a key. It is called between two steps.
func Find(s *engine.Location, key any) (all []Found) {
	s.States(func(op *engine.Op, state int, of engine.Keyed) {
		if of.KeyType() != reflect.TypeOf(key) {
			return
		}
		if e, ok := of.Find(key); ok {
			all = append(all, found(op, state, e))
		}
	})
	return all
}

// Has returns the location of an operator, given its index among those of all locations, and its index there. It returns an error
// unless the operator has a keyed state with the given number.
func Has(g *engine.Graph, operator, state int) (location int, op int32, err error) {
	i := operator
	for l, s := range g.Locations {
		if i >= len(s.Ops) {
			i -= len(s.Ops)
			continue
		}
		if i >= 0 && state >= 0 && state < len(s.Ops[i].States) && KeyType(s.Ops[i].States[state]) != nil {
			return l, int32(i), nil
		}
		break
	}
	return 0, 0, fmt.Errorf("%w: operator %d has no state %d with keys", ErrNoState, operator, state)
}

// Page returns up to most entries of a state of an operator, from number from on, and the number at which to continue. It is
// called between two steps.
func Page(s *engine.Location, op int32, state int, from uint32, most int) (all []Found, next uint32, more bool) {
	all, _, next, more = Numbered(s, op, state, from, most)
	return all, next, more
}

// Numbered is [Page] that also returns the numbers of the entries, which increase.
func Numbered(s *engine.Location, op int32, state int, from uint32, most int) (all []Found, numbers []uint32, next uint32, more bool) {
	s.States(func(at *engine.Op, n int, of engine.Keyed) {
		if at.Index != op || n != state {
			return
		}
		of.Entries(from, func(i uint32, e engine.Entry) bool {
			if len(all) == most {
				next, more = i, true
				return false
			}
			all, numbers = append(all, found(at, n, e)), append(numbers, i)
			return true
		})
	})
	return all, numbers, next, more
}
