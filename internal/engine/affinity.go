package engine

import (
	"fmt"
	"hash/fnv"
	"reflect"

	"github.com/millrace/millrace/internal/engine/codec"
)

// A key of a divided location belongs to the partition that its encoding determines. If its type has a method Affinity, the key
// belongs to the partition that its affinity determines, so that keys of several types can be placed together. A key in a span of
// time belongs to the partition of the key.

// affine is implemented by keys that are placed by something other than themselves.
type affine interface{ Affinity() string }

// partOf returns the part of a key that the key is placed by: the field of a struct with the tag millrace:"place".
func partOf(k any) (part any, ok bool) {
	v := reflect.ValueOf(k)
	if v.Kind() != reflect.Struct {
		return nil, false
	}
	for f, field := range v.Fields() {
		if f.IsExported() && f.Tag.Get("millrace") == "place" {
			return field.Interface(), true
		}
	}
	return nil, false
}

// PartitionOf returns the partition of a key: the FNV-1a hash of what the key is placed by, modulo the number of partitions.
func PartitionOf(by []byte, n int) int {
	if n == 1 {
		return 0
	}
	h := fnv.New64a()
	h.Write(by)
	return int(h.Sum64() % uint64(n))
}

// AffinityOf returns a function from the keys of an operator to what they are placed by, or nil if that is the keys themselves.
// It panics for a type whose Affinity cannot be meant for that.
func AffinityOf[K comparable](op *Op) func(K) string {
	t := reflect.TypeFor[K]()
	if !op.Loc.divided {
		return nil
	}
	zero := reflect.Zero(t).Interface()
	if op.Loc.Graph.hasAffinity(t, zero) {
		return func(k K) string { return op.Loc.Graph.affinity(k) }
	}
	if _, ok := partOf(zero); ok && op.Loc.Graph.Kept() { // only there are encodings compared
		return func(k K) string { return op.Loc.Graph.encodedPart(k) }
	}
	if _, has := t.MethodByName("Affinity"); has {
		Misuse(op.Name, "the keys of a dataflow.Cluster are placed by their method Affinity, and that of %v is not a func() string: give it another name", t)
	}
	if _, has := reflect.PointerTo(t).MethodByName("Affinity"); has {
		Misuse(op.Name, "the keys of a dataflow.Cluster are placed by their method Affinity, and that of %v has a pointer receiver: keys are values, declare it for the value", t)
	}
	return nil
}

// hasAffinity reports whether keys of a type have an affinity, their own or that of a part. zero is the zero value of the type.
func (g *Graph) hasAffinity(t reflect.Type, zero any) bool {
	if t.Implements(reflect.TypeFor[affine]()) {
		return true
	}
	if first, second, ok := g.pair(zero); ok {
		return g.hasAffinity(reflect.TypeOf(second), second) || g.hasAffinity(reflect.TypeOf(first), first)
	}
	part, ok := partOf(zero)
	return ok && part != nil && g.hasAffinity(reflect.TypeOf(part), part)
}

// affinity returns what a key is placed by, if its type has an affinity.
func (g *Graph) affinity(k any) string {
	if by, ok := k.(affine); ok {
		return by.Affinity()
	}
	first, second, ok := g.pair(k)
	switch {
	case !ok:
		if part, _ := partOf(k); part != nil {
			return g.affinity(part)
		}
		return "" // a nil interface
	case g.hasAffinity(reflect.TypeOf(second), second):
		return g.affinity(second)
	}
	return g.affinity(first)
}

// encodedPart returns the encoding of the part that a key is placed by, and that is placed by itself.
func (g *Graph) encodedPart(k any) string {
	for part, ok := partOf(k); ok; part, ok = partOf(part) {
		k = part
	}
	encoded, err := g.Settings.Codec.Append(nil, k)
	if err != nil {
		return "" // that is reported when the key is encoded
	}
	return string(encoded)
}

// pair returns the parts of a key that is a pair, if neither is nil.
func (g *Graph) pair(k any) (first, second any, ok bool) {
	if g.Settings.Pair != nil {
		first, second, ok = g.Settings.Pair(k)
	}
	return first, second, ok && first != nil && second != nil
}

// placedAs returns the type by whose encoding keys of a type are placed, or nil if they are placed by their affinity.
func (g *Graph) placedAs(t reflect.Type) reflect.Type {
	zero := reflect.Zero(t).Interface()
	if g.hasAffinity(t, zero) {
		return nil
	}
	for part, ok := partOf(zero); ok && part != nil; part, ok = partOf(part) {
		t = reflect.TypeOf(part)
	}
	return t
}

// PlacedBy is AffinityOf for an operator to which others send keys, or which they ask for keys. They have the encoded key.
func PlacedBy[K comparable](op *Op) func(K) string {
	by := AffinityOf[K](op)
	if op.Loc.divided {
		op.Placed = op.Loc.Graph.placedAs(reflect.TypeFor[K]())
	}
	if by != nil {
		op.Place = func(c codec.Codec, key []byte) (string, error) {
			var k K
			if err := c.Decode(key, &k); err != nil {
				return "", err
			}
			return by(k), nil
		}
	}
	return by
}

// A Misplaced says that an entry cannot be found by its key, because it is in another partition than the key determines.
type Misplaced struct {
	Op  *Op
	Key any
	why string // where it belongs and where it is, and what to do
}

func (m *Misplaced) Error() string {
	return fmt.Sprintf("%s: the key %v belongs %s", m.Op, m.Key, m.why)
}

// PlaceChecked returns a function that panics for a key that belongs to another partition than the one that holds it. It returns
// nil if there can be no such key, or if it is not detected.
//
// With a kept history the number of the partition is known. A simulation has one partition; there, whatever is made in the step
// of a record has to be placed like the record, if keys have an affinity.
func PlaceChecked[K comparable](op *Op, by func(K) string) func(K) {
	s := op.Loc
	var misplaced func(k K) (why string) // empty if it is where it belongs
	switch {
	case s.Graph.Settings.Remote != nil:
		return nil
	case s.Simulated() && by != nil:
		misplaced = elsewhereBy(s.Graph, by, s.source.differs)
	case s.Partitions() == 1:
		return nil
	case by != nil:
		misplaced = elsewhereBy(s.Graph, by, s.elsewhere)
	default:
		var encoded []byte
		misplaced = func(k K) string {
			key, err := codec.AppendPointed(encoded[:0], s.Graph.Settings.Codec, &k)
			if err != nil {
				return "" // that is reported when the entry is encoded
			}
			encoded = key
			if is := s.elsewhere(key); is != "" {
				return fmt.Sprintf("where its encoding is placed, and %s: nobody would find it; move it with keyedstream.Send, or give its type a method Affinity that returns the affinity of the key that it is made of", is)
			}
			return ""
		}
	}
	return func(k K) {
		if why := misplaced(k); why != "" {
			op.Enter()
			panic(&Misplaced{op, k, why})
		}
	}
}

// elsewhereBy returns a function that says why a key which is placed by something else is misplaced, or returns "". The key becomes an
// interface, which is an allocation, only if it is.
func elsewhereBy[K comparable](g *Graph, by func(K) string, elsewhere func(by []byte) string) func(K) string {
	return func(k K) string {
		if is := elsewhere([]byte(by(k))); is != "" {
			return g.misplaced(k, is)
		}
		return ""
	}
}

// misplaced says why a key that is not placed by itself is misplaced, given where it is.
func (g *Graph) misplaced(k any, is string) string {
	if part, ok := partOf(k); ok && !g.hasAffinity(reflect.TypeOf(k), k) {
		return fmt.Sprintf("where %v is placed, and %s: nobody would find it; move it with keyedstream.Send", part, is)
	}
	return fmt.Sprintf("where the affinity %q is placed, and %s: nobody would find it; give it the affinity of the key that it is made of, or move it with keyedstream.Send", g.affinity(k), is)
}

// elsewhere says that what is placed by some bytes belongs to another partition than the one of this location. Otherwise it
// returns "".
func (s *Location) elsewhere(by []byte) string {
	if p := PartitionOf(by, s.Partitions()); p != s.Partition() {
		return fmt.Sprintf("that is partition %d, and it is in partition %d", p, s.Partition())
	}
	return ""
}

// A source is what the records taken in a step of a simulated location were placed by.
type source struct {
	state sourceState
	by    string
}

type sourceState uint8

const (
	noSource sourceState = iota
	oneSource
	itself  // records that are placed by themselves
	unknown // several, or something that is not a record
)

// TookPlaced records that the step took a record placed by an affinity.
func (s *Location) TookPlaced(by string) {
	if s.source.state == noSource || s.source.state == oneSource && s.source.by == by {
		s.source = source{oneSource, by}
	} else {
		s.source.state = unknown
	}
}

// TookOther records that the step took another record. If alone, it is placed by itself.
func (s *Location) TookOther(alone bool) {
	if alone && (s.source.state == noSource || s.source.state == itself) {
		s.source.state = itself
	} else {
		s.source.state = unknown
	}
}

// differs describes how the source is placed, if that is not certainly where the affinity is. Otherwise it returns "".
func (s *source) differs(affinity []byte) string {
	switch {
	case s.state == itself:
		return "it is made of a record that is placed by itself"
	case s.state == oneSource && s.by != string(affinity):
		return fmt.Sprintf("it is made of a record that is placed by %q", s.by)
	}
	return ""
}
