package engine

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/keyed"
)

// This file is the registry of state. What an operator remembers is made by the constructors
// of package state, and what ports remember by those or by themselves; each registers how it
// is saved, loaded and described, or that it is cleared.

// A State is what an operator remembers from one step to the next.
type State interface {
	Save(dst []byte, c codec.Codec) ([]byte, error)
	Load(d *codec.Decoder, c codec.Codec)
	Kind() string // with the types in it
	Describe(w *codec.Describer)

	// Size returns how many keys or elements there are, and the memory that they are in,
	// without what they point to. It does not go through them.
	Size() (n int, bytes uint64)
}

// A Numbered is a [State] that has numbered entries, each of which is saved by itself, when it
// has changed. Save and Load are about what there is besides them; Load is called when all
// entries have been loaded, and puts everything in place.
type Numbered interface {
	State

	// Mark has what changes from now on be noted: all entries count as changed at first. An
	// entry of a cut that changes before it was taken is given to early before.
	Mark(early func(i uint32)) *keyed.Marks
	// Freeze begins a cut, and Thaw ends it when all of it is written.
	Freeze()
	Thaw()
	// Count returns how many numbers there are, and how many of these have an entry.
	Count() (numbers uint32, live int)
	// SaveEntry appends what number i had at the cut under way, or has if there is none.
	SaveEntry(dst []byte, c codec.Codec, i uint32) ([]byte, error)
	// EntryKey returns the key that number i has or belongs to. It reports false if it has none.
	EntryKey(i uint32) (key any, ok bool)
	// LoadEntry is the inverse of SaveEntry. It is called at most once for each number.
	LoadEntry(d *codec.Decoder, c codec.Codec, i uint32)
}

// A Keyed is a [State] with entries that are found by their key. What it gives is of the moment of the call.
type Keyed interface {
	State
	KeyType() reflect.Type   // nil if another state of the operator has the entries
	ValueType() reflect.Type // of what Entry.Value points to; nil if it is a list, or nothing
	// Find returns what there is of a key, which may be of any type.
	Find(key any) (Entry, bool)
	// Entries calls do with the entries from number from on, in order of their numbers, until it
	// returns false. Where a State is Numbered an entry keeps its number.
	Entries(from uint32, do func(i uint32, e Entry) bool)
}

// An Entry is what a state has of a key.
type Entry struct {
	Key   any
	Value any   // a pointer to it, a list of values, or nil if there is only the key
	Due   int64 // when its timer fires, if it is Timed
	Timed bool
}

// States calls do with each state of the location by key, between two steps: with its operator and its
// number there. What readers of an output change at any time is locked meanwhile.
func (s *Location) States(do func(op *Op, state int, of Keyed)) {
	for _, op := range s.Ops {
		each := func() {
			for i, x := range op.States {
				if k, ok := x.(Keyed); ok && k.KeyType() != nil {
					do(op, i, k)
				}
			}
		}
		switch port := s.port(op).(type) {
		case nil:
			each()
		case interface{ Locked(f func()) }:
			port.Locked(each)
		}
	}
}

// A Memory is where an operator keeps what it remembers, and how long that lasts.
type Memory struct {
	Op      *Op
	Region  *Region // at the end of whose runs it is cleared; nil if it stays
	derived bool    // it comes of constants, with which each life of a flow begins anew
}

// Remember returns the memory of op at the place of h: one run of a slice, or the life
// of the flow, in which case it is saved.
func Remember(op *Op, h *Head) Memory { return Memory{Op: op, Region: h.Region} }

// Lasting returns a memory of op that is saved wherever op is: ports have one, and
// operators that carry state from one run of a slice to the next.
func Lasting(op *Op) Memory { return Memory{Op: op} }

// OfConstants is [Remember] for what comes of constants outside of slices: they run
// before saved state is loaded, so that it is there and not saved.
func OfConstants(op *Op, h *Head) Memory {
	return Memory{Op: op, Region: h.Region, derived: true}
}

// Add registers a part of m: clear empties it, and saved says what is saved of it.
func (m Memory) Add(clear func(), saved func(op *Op) State) {
	if m.derived && m.Region == nil {
		return
	}
	if check := m.Op.Loc.Graph.Settings.Check; check != nil && check.forgets(m) {
		return
	}
	if m.Region != nil {
		m.Region.AtEnd(clear)
	} else {
		m.Op.States = append(m.Op.States, saved(m.Op))
	}
}

// AfterStart returns whether all that hangs on constants has begun. Then calls begun. It
// is not saved, since each life of a flow begins with its constants.
func AfterStart(s *Location, begun func()) *bool {
	over := new(bool)
	s.Starts.AtEnd(func() {
		*over = true
		begun()
	})
	return over
}

// Scratch declares variables of op, by their addresses, whose values nobody reads in
// another batch than the one in which they were written. So they are no state, although
// they outlive a step: their memory is used again.
func (op *Op) Scratch(variables ...any) {
	if op.Loc.Graph.Settings.Check != nil {
		op.unread = append(op.unread, variables...)
	}
}

// Holds is scratch for what gathers elements in a step, and is empty when it ends.
func (op *Op) Holds(variables ...any) {
	if op.Loc.Graph.Settings.Check != nil {
		op.empty = append(op.empty, variables...)
	}
}

// A Forget says which parts of operators' memories are not registered, so that it can be
// seen whether a test notices: those that are saved, or those that are cleared at the end
// of each run of a slice. Each operator counts its parts from 0.
type Forget func(operator string, part int, saved bool) bool

// A check is what a graph that is tested has.
type check struct {
	forget Forget
	parts  map[*Op]int // so many each operator has
}

// Check makes an empty graph one that is tested: see [Graph.Scrub]. What forget says is
// forgotten; it may be nil.
func (g *Graph) Check(forget Forget) {
	g.Settings.Check = &check{forget, make(map[*Op]int)}
}

// forgets reports whether the next part of m is not to be registered.
func (c *check) forgets(m Memory) bool {
	part := c.parts[m.Op]
	c.parts[m.Op]++
	return c.forget != nil && c.forget(m.Op.Name, part, m.Region == nil)
}

// Scrub overwrites with zero values what operators have declared to be of no use between
// steps, so that an operator which reads it nevertheless does something else than the
// model. If no slice has yet to be cut, it returns an error if there is something left
// where an operator declared that there is not. Nobody may make a step meanwhile.
func (g *Graph) Scrub(cut bool) error {
	for _, s := range g.Locations {
		for _, op := range s.Ops {
			for _, p := range op.empty {
				v := reflect.ValueOf(p).Elem()
				if n := length(v); n > 0 && cut {
					return fmt.Errorf("%s: %d elements of a %v are left after a step", op, n, v.Type())
				}
			}
			for _, p := range op.unread {
				reflect.ValueOf(p).Elem().SetZero()
			}
		}
	}
	return nil
}

// length returns how many elements there are in a slice, or in the slices of columns.
func length(v reflect.Value) (n int) {
	if v.Kind() == reflect.Slice {
		return v.Len()
	}
	for i := range v.NumField() {
		n += length(v.Field(i))
	}
	return n
}

// CheckType notes that values of T have to be encoded, for the check at the start.
func CheckType[T any](op *Op) { op.checkType(new(T)) }

// checkType is CheckType of what p points to.
func (op *Op) checkType(p any) {
	c := op.Loc.Graph.Settings.Codec
	if c == nil {
		return
	}
	t := reflect.TypeOf(p).Elem()
	if !slices.Contains(op.Types, t) {
		op.Types = append(op.Types, t)
	}
	if err := encodable(c, p); err != nil {
		Misuse(op.Name, "%v cannot be kept: %v", t, err)
	}
}

// Encodable says why values of T cannot be encoded and decoded without loss, or returns nil.
func Encodable[T any](c codec.Codec) error { return encodable(c, new(T)) }

// encodable is Encodable of what p points to.
func encodable(c codec.Codec, p any) error {
	types := []reflect.Type{reflect.TypeOf(p).Elem()}
	if codec.IsView(p) {
		k, v := codec.PartsOf(p).Types()
		types = []reflect.Type{k, v}
	}
	for _, t := range types {
		if err := c.Check(t); err != nil {
			return err
		}
	}
	return nil
}
