package engine

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/keyed"
)

// This file is the registry of state. The constructors of package state make what an operator remembers; what ports remember is
// made by those or by the ports themselves. Each part registers how it is saved, loaded and described, or that it is cleared.

// A State is what an operator remembers from one step to the next.
type State interface {
	Save(dst []byte, c codec.Codec) ([]byte, error)
	Load(d *codec.Decoder, c codec.Codec)
	Kind() string // with the types in it
	Describe(w *codec.Describer)

	// Size returns the number of keys or elements and the memory they occupy, without what they point to. It does not iterate
	// over them.
	Size() (n int, bytes uint64)
}

// A Numbered is a [State] with numbered entries, each of which is saved by itself when it has changed. Save and Load handle
// everything besides the entries. Load is called after all entries have been loaded, and puts everything in place.
type Numbered interface {
	State

	// Mark starts recording changes; at first all entries count as changed. early is called with the number of an entry that is
	// about to change before the cut under way has saved it.
	Mark(early func(i uint32)) *keyed.Marks
	// Freeze begins a cut, and Thaw ends it when all of it is written.
	Freeze()
	Thaw()
	// Count returns how many numbers exist, and how many of them have an entry.
	Count() (numbers uint32, live int)
	// SaveEntry appends the entry that number i had at the cut under way, or has now if there is no cut.
	SaveEntry(dst []byte, c codec.Codec, i uint32) ([]byte, error)
	// EntryKey returns the key of number i, its own or the one it belongs to. It reports false if there is none.
	EntryKey(i uint32) (key any, ok bool)
	// LoadEntry is the inverse of SaveEntry. It is called at most once for each number.
	LoadEntry(d *codec.Decoder, c codec.Codec, i uint32)
}

// A Keyed is a [State] with entries that are found by their key. Its results describe the moment of the call.
type Keyed interface {
	State
	KeyType() reflect.Type   // nil if another state of the operator holds the entries
	ValueType() reflect.Type // of what Entry.Value points to; nil if that is a list, or nothing
	// Find returns the entry of a key, which may be of any type.
	Find(key any) (Entry, bool)
	// Entries calls do with the entries from number from on, in order of their numbers, until do returns false. If the State is
	// Numbered, an entry keeps its number.
	Entries(from uint32, do func(i uint32, e Entry) bool)
}

// An Entry is what a state holds for a key.
type Entry struct {
	Key   any
	Value any   // a pointer to the value, a list of values, or nil if there is only the key
	Due   int64 // when its timer fires, if it is Timed
	Timed bool
}

// States calls do, between two steps, with each keyed state of the location, its operator and its number there. An output whose
// readers change its state at any time is locked during the call.
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

// A Memory is where an operator keeps what it remembers, and determines how long that lasts.
type Memory struct {
	Op      *Op
	Region  *Region // the slice at the end of whose runs it is cleared; nil if it stays
	derived bool    // it is derived from constants, with which each life of a flow begins anew
}

// Remember returns the memory of op at the place of h. It lasts for one run of a slice, or for the life of the flow; in the
// latter case it is saved.
func Remember(op *Op, h *Head) Memory { return Memory{Op: op, Region: h.Region} }

// Lasting returns a memory of op that is saved wherever op is. Ports have one, and so do operators that carry state from one run
// of a slice to the next.
func Lasting(op *Op) Memory { return Memory{Op: op} }

// OfConstants is [Remember] for what is derived from constants outside of slices. Constants run before saved state is loaded, so
// such a memory is rebuilt and not saved.
func OfConstants(op *Op, h *Head) Memory {
	return Memory{Op: op, Region: h.Region, derived: true}
}

// Add registers a part of m: clear empties it, and saved returns the state to save.
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

// AfterStart returns a variable that becomes true when everything that depends on constants has run; begun is called then. The
// variable is not saved, since each life of a flow begins with its constants.
func AfterStart(s *Location, begun func()) *bool {
	over := new(bool)
	s.Starts.AtEnd(func() {
		*over = true
		begun()
	})
	return over
}

// Scratch declares variables of op, by their addresses, whose values are read only in the batch in which they were written. They
// outlive a step only so that their memory is reused, so they are not state.
func (op *Op) Scratch(variables ...any) {
	if op.Loc.Graph.Settings.Check != nil {
		op.unread = append(op.unread, variables...)
	}
}

// Holds is Scratch for variables that collect elements during a step and are empty when it ends.
func (op *Op) Holds(variables ...any) {
	if op.Loc.Graph.Settings.Check != nil {
		op.empty = append(op.empty, variables...)
	}
}

// A Forget chooses parts of operators' memories that are not registered, so that it can be seen whether a test notices: parts
// that are saved, or parts that are cleared at the end of each run of a slice. The parts of each operator are numbered from 0.
type Forget func(operator string, part int, saved bool) bool

// A check is what only a graph under test has.
type check struct {
	forget Forget
	parts  map[*Op]int // number of parts of each operator so far
}

// Check makes an empty graph a graph under test; see [Graph.Scrub]. forget chooses what is not registered; it may be nil.
func (g *Graph) Check(forget Forget) {
	g.Settings.Check = &check{forget, make(map[*Op]int)}
}

// forgets reports whether the next part of m is to be left unregistered.
func (c *check) forgets(m Memory) bool {
	part := c.parts[m.Op]
	c.parts[m.Op]++
	return c.forget != nil && c.forget(m.Op.Name, part, m.Region == nil)
}

// Scrub overwrites with zero values what operators have declared to be of no use between steps, so that an operator that reads it
// nevertheless deviates from the model. If cut says that no slice has yet to be cut, Scrub returns an error if something is left
// where an operator declared that nothing is. No step may be made meanwhile.
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

// length returns the number of elements of a slice, or of the slices of columns.
func length(v reflect.Value) (n int) {
	if v.Kind() == reflect.Slice {
		return v.Len()
	}
	for i := range v.NumField() {
		n += length(v.Field(i))
	}
	return n
}

// CheckType records that values of T have to be encoded, and checks at once that they can be.
func CheckType[T any](op *Op) { op.checkType(new(T)) }

// checkType is CheckType for the type that p points to.
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

// CheckKey checks that what a value of K is decoded as is equal to it, so that a key is found again after a restart.
func CheckKey[K comparable](op *Op) { op.checkKey(reflect.TypeFor[K]()) }

// checkKey is CheckKey for the type t.
func (op *Op) checkKey(t reflect.Type) {
	c, ok := op.Loc.Graph.Settings.Codec.(codec.KeyCodec)
	if !ok {
		return
	}
	if err := c.CheckKey(t); err != nil {
		Misuse(op.Name, "%v cannot be a key of a durable flow: %v", t, err)
	}
}

// Encodable returns why values of T cannot be encoded and decoded without loss, or nil.
func Encodable[T any](c codec.Codec) error { return encodable(c, new(T)) }

// encodable is Encodable for the type that p points to.
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
