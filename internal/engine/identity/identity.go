// Package identity determines which operators of a location a history depends on, and how it identifies each of them when the
// program changes: by a name, by the name of a port, or by a text made of the operator's function, of what it keeps, and of the
// nearest operators above it that have an identity. Operators that keep nothing, take no records and give nothing have no
// identity, so they can be added and removed.
//
// A [Shape] lists the operators of a location. A history keeps the shape of the program that made it, with a number for each
// operator that is never reused for another one. A user keeps the shapes of all locations in a file. [Next] compares a shape with
// a changed program. Start reading at [Of].
package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/engine"
)

// FirstNumber is the number of the first operator of a history. Lower numbers are reserved for what does not belong to an
// operator.
const FirstNumber = 16

// A Shape is what a history depends on in one location.
type Shape struct {
	Location  string
	Operators []Operator // in the order of construction; in a history, operators that are gone stay listed

	// Programs are the digests of the programs that have continued a history, in the order in which each last did so; the last
	// one is that of the current program. A shape that does not belong to a history has none.
	Programs []string
}

// mostPrograms is how many programs a history remembers, which is more than run at one time.
const mostPrograms = 32

// Digest returns a short digest of the program of a shape that [Of] made.
func (s *Shape) Digest() string {
	sum := sha256.Sum256([]byte(s.String()))
	return hex.EncodeToString(sum[:6])
}

// Overtaken reports whether the history knows the program and has been continued by a later one.
func (s *Shape) Overtaken(program string) bool {
	i := slices.Index(s.Programs, program)
	return i >= 0 && i < len(s.Programs)-1
}

// An Operator is an operator that a history depends on.
type Operator struct {
	Number   int32    // its number in a history; 0 in a program
	Identity string   // unique in its location
	Takes    []string // types of its records, or of what it gives
	Keeps    []string // kinds of what it remembers, with the types in them
	Types    []string // struct types in those types, with their fields, sorted
	Former   []string // identities that it had before
	Affine   bool     // its keys are placed by their affinity
	Gone     bool     // the program no longer has it
	Discards bool     // records for it are forgotten, because it is gone
	Divided  bool     // its keys are divided between several partitions; not in a history

	Index  int32    // in the program; -1 if the program does not have it
	Pos    string   // file:line
	placed *placing // how it places keys; nil if by their affinity, or if it does not
	base   string   // the identity without the number that distinguishes twins
	was    string   // its identity in the history, if an operator above it was renamed
}

// maxAbove is the longest total length of the identities above an operator; a longer list is replaced by a digest.
const maxAbove = 200

// renamed maps the current names of functions of this module to the names that identities in a history use, so that an operator
// keeps its identity when the library renames it.
var renamed = map[string]string{}

// Of returns the shape of a location of a started graph.
func Of(s *engine.Location) *Shape { return of(s, nil) }

// of is Of for a program in which some operators had another identity before; was maps their current identities to those.
func of(s *engine.Location, was map[string]string) *Shape {
	b := builder{
		was: was, is: make(map[*engine.Op]string), before: make(map[*engine.Op]string),
		bases: make(map[*engine.Op]string), twins: make(map[twin]int), next: make(map[*engine.Location]int32),
	}
	texts := make(map[reflect.Type]string)
	shape := &Shape{Location: s.Name}
	for _, op := range s.Ops {
		if !has(op) {
			continue
		}
		o := Operator{Index: op.Index, Pos: op.Pos, Affine: op.Place != nil, Divided: s.Partitions() > 1}
		o.Identity, o.was = b.of(op)
		if !strings.HasPrefix(o.Identity, "output ") { // an output has what was given to it in any partition
			o.placed = newPlacing(op.Placed)
		}
		o.base = b.bases[op]
		for _, t := range op.Types {
			o.Takes = append(o.Takes, t.String())
		}
		for _, x := range op.States {
			o.Keeps = append(o.Keeps, x.Kind())
		}
		o.Types = structs(op.Types, texts)
		shape.Operators = append(shape.Operators, o)
	}
	return shape
}

// has reports whether an operator has an identity.
func has(op *engine.Op) bool {
	return op.Label != "" || len(op.States) > 0 || op.Loc.Input(op.Index) != nil || op.Loc.HasOutput(op.Index)
}

// A builder makes the identities of the operators of a graph, in the order of construction in each location.
type builder struct {
	was        map[string]string // the earlier identity, by the current one
	is, before map[*engine.Op]string
	bases      map[*engine.Op]string
	twins      map[twin]int
	next       map[*engine.Location]int32 // the first operator that has not been visited
}

// A twin is what operators have in common that only their order distinguishes.
type twin struct {
	at     *engine.Location
	before bool
	text   string
}

// of returns the identity of an operator, and its identity in the history.
func (b *builder) of(op *engine.Op) (is, before string) {
	if is, ok := b.is[op]; ok {
		return is, b.before[op]
	}
	for b.next[op.Loc] < op.Index {
		other := op.Loc.Ops[b.next[op.Loc]]
		b.next[op.Loc]++
		if has(other) {
			b.of(other)
		}
	}
	is, before = op.Label, op.Label
	if b.bases[op] = op.Label; op.Label == "" {
		is, before = b.text(op, b.is), b.text(op, b.before)
		b.bases[op] = is
		is, before = b.numbered(twin{op.Loc, false, is}), b.numbered(twin{op.Loc, true, before})
	}
	if old, ok := b.was[op.Loc.Name+"/"+is]; ok {
		before = old
	} else if old, ok := b.was[is]; ok {
		before = old
	}
	b.is[op], b.before[op] = is, before
	return is, before
}

// numbered returns the text of a twin with a suffix that distinguishes it from earlier ones.
func (b *builder) numbered(t twin) string {
	b.twins[t]++
	if n := b.twins[t]; n > 1 {
		return fmt.Sprintf("%s#%d", t.text, n)
	}
	return t.text
}

// text returns the default identity of an operator without the suffix that distinguishes twins.
func (b *builder) text(op *engine.Op, known map[*engine.Op]string) string {
	name := op.Name
	if was, ok := renamed[name]; ok {
		name = was
	}
	var kinds []string
	for _, x := range op.States {
		kinds = append(kinds, x.Kind())
	}
	if kinds == nil {
		for _, t := range op.Types {
			kinds = append(kinds, t.String())
		}
	}
	var above []string
	seen := map[*engine.Op]bool{op: true}
	var climb func(op *engine.Op)
	climb = func(at *engine.Op) {
		for _, in := range at.Ins {
			switch {
			case seen[in] || in.Loc == op.Loc && in.Index >= op.Index: // feedback
			case has(in):
				seen[in] = true
				b.of(in)
				text := known[in]
				if in.Loc != op.Loc {
					text = in.Loc.Name + "/" + text
				}
				above = append(above, text)
			default:
				seen[in] = true
				climb(in)
			}
		}
	}
	climb(op)
	list := strings.Join(above, ", ")
	if len(list) > maxAbove {
		list = fmt.Sprintf("~%x", sha256.Sum256([]byte(list)))[:13]
	}
	return fmt.Sprintf("%s[%s]@{%s}", name, strings.Join(kinds, " "), list)
}

// structs returns the struct types that occur in types, with their fields, sorted. Texts has those that were
// described before.
func structs(types []reflect.Type, texts map[reflect.Type]string) []string {
	found := make(map[reflect.Type]bool)
	for _, t := range types {
		find(t, found, texts)
	}
	var all []string
	for t := range found {
		if text := texts[t]; text != "" {
			all = append(all, text)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// find adds the types that occur in t to found, and to texts those that have no text there.
func find(t reflect.Type, found map[reflect.Type]bool, texts map[reflect.Type]string) {
	if found[t] {
		return
	}
	found[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		find(t.Elem(), found, texts)
	case reflect.Map:
		find(t.Key(), found, texts)
		find(t.Elem(), found, texts)
	case reflect.Struct:
		var fields []string
		_, described := texts[t]
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() || f.Anonymous {
				if !described {
					fields = append(fields, f.Name+" "+f.Type.String())
				}
				find(f.Type, found, texts)
			}
		}
		switch {
		case described:
		case len(fields) > 0:
			texts[t] = t.String() + " {" + strings.Join(fields, "; ") + "}"
		default:
			texts[t] = ""
		}
	}
}

// Twins returns the groups of operators that only their order distinguishes.
func (s *Shape) Twins() (all [][]Operator) {
	by := make(map[string][]Operator)
	var order []string
	for _, o := range s.Operators {
		if o.base == "" || o.Gone {
			continue
		}
		if by[o.base] == nil {
			order = append(order, o.base)
		}
		by[o.base] = append(by[o.base], o)
	}
	for _, base := range order {
		if len(by[base]) > 1 {
			all = append(all, by[base])
		}
	}
	return all
}
