// Package lookup finds what a location that runs remembers of a key, for people who look at it.
//
// What it gives is text, since a value belongs to the location, and is made between two steps. No
// function of the program is called meanwhile: it could wait for the location.
package lookup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
)

// longest is how many bytes of a key or a value are given.
const longest = 4 << 10

// Errors of who asks for what operators remember.
var (
	ErrNoState = errors.New("dataflow: no such state")
	ErrKey     = errors.New("dataflow: no such key")
)

// A Found is what an operator remembers of a key.
type Found struct {
	Operator   int // number among those of all locations
	State      int // number among the states of the operator
	Key, Value string
	Due        time.Time
}

func found(op *engine.Op, state int, e engine.Entry) Found {
	f := Found{Operator: int(op.Index), State: state, Key: codec.Show(e.Key, longest)}
	for _, s := range op.Loc.Graph.Locations {
		if s == op.Loc {
			break
		}
		f.Operator += len(s.Ops)
	}
	if e.Value != nil {
		f.Value = strings.TrimPrefix(codec.Show(e.Value, longest), "&")
	}
	if e.Timed {
		f.Due = time.Unix(0, op.Loc.Origin()).Add(time.Duration(e.Due))
	}
	return f
}

// KeyType returns the type of the keys of a state, or nil if it has none.
func KeyType(x engine.State) reflect.Type {
	if k, ok := x.(engine.Keyed); ok {
		return k.KeyType()
	}
	return nil
}

// Keys returns the keys that a text may mean in a graph: types of several packages may have one name.
func Keys(g *engine.Graph, keyType, text string) (keys []any, err error) {
	var known []string
	seen := make(map[reflect.Type]bool)
	for _, s := range g.Locations {
		for _, op := range s.Ops {
			for _, x := range op.States {
				t := KeyType(x)
				if t == nil || seen[t] {
					continue
				}
				seen[t] = true
				known = append(known, t.String())
				if t.String() != keyType {
					continue
				}
				key, bad := parse(t, text)
				if bad != nil {
					err = fmt.Errorf("%w: %w", ErrKey, bad)
					continue
				}
				keys = append(keys, key)
			}
		}
	}
	switch {
	case len(keys) > 0:
		return keys, nil
	case err != nil:
		return nil, err
	case len(known) == 0:
		return nil, fmt.Errorf("%w: the flow remembers nothing by key", ErrNoState)
	}
	slices.Sort(known)
	return nil, fmt.Errorf("%w: nothing has keys of type %q; the types are %s", ErrNoState, keyType, strings.Join(slices.Compact(known), ", "))
}

// parse reads a key of a type from JSON. A text that is no JSON is a key of kind string.
func parse(t reflect.Type, text string) (any, error) {
	v := reflect.New(t)
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(v.Interface())
	if err == nil && len(bytes.TrimSpace([]byte(text[d.InputOffset():]))) > 0 {
		err = fmt.Errorf("there is more behind it")
	}
	if err != nil && t.Kind() == reflect.String {
		v.Elem().SetString(text)
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("%q is no key of type %s in JSON: %w", text, t, err)
	}
	return v.Elem().Interface(), nil
}

// Find returns what the location remembers of some keys, which may be of several types. It is called between
// two steps.
func Find(s *engine.Location, keys []any) (all []Found) {
	s.States(func(op *engine.Op, state int, of engine.Keyed) {
		for _, key := range keys {
			if of.KeyType() != reflect.TypeOf(key) {
				continue
			}
			if e, ok := of.Find(key); ok {
				all = append(all, found(op, state, e))
			}
		}
	})
	return all
}

// Has returns of which location an operator is, by its number among those of all, and its number there. It
// returns an error unless it has a state with keys of that number.
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

// Page returns entries of a state of an operator from number from on, so many at most, and the number
// to go on with. It is called between two steps.
func Page(s *engine.Location, op int32, state int, from uint32, most int) (all []Found, next uint32, more bool) {
	s.States(func(at *engine.Op, n int, of engine.Keyed) {
		if at.Index != op || n != state {
			return
		}
		of.Entries(from, func(i uint32, e engine.Entry) bool {
			if len(all) == most {
				next, more = i, true
				return false
			}
			all = append(all, found(at, n, e))
			return true
		})
	})
	return all, next, more
}
