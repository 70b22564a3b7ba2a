package logdriven

import (
	"bytes"
	"maps"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/identity"
)

// Numbers maps the operators of a program to their numbers in the history of a location. Records, results of steps and saved
// state use these numbers. Within a graph an operator has an index, which changes with the program. A nil *Numbers means that the
// numbers are the indexes.
type Numbers struct {
	shape  *identity.Shape
	number map[int32]int32  // by index
	op     map[int32]int32  // by number
	named  map[string]int32 // numbers by identity, including earlier identities
	rows   map[int32]*identity.Operator
	sent   map[string]sent  // by the text with which senders name operators; used by the executor
	unfit  map[int32]string // why records of an operator, by index, would not fit; see Compare
}

// A sent is what the history knows about an operator that a sender has named.
type sent struct {
	identity string
	number   int32 // -1 if the history has none
	misfit   string
}

// maxSent is how many such texts are remembered.
const maxSent = 1000

// NewNumbers returns the numbers of a shape that [identity.Next] returned.
func NewNumbers(s *identity.Shape) *Numbers {
	n := &Numbers{
		shape: s, number: make(map[int32]int32), op: make(map[int32]int32), named: make(map[string]int32), rows: make(map[int32]*identity.Operator),
		sent: make(map[string]sent),
	}
	for i := range s.Operators {
		o := &s.Operators[i]
		n.rows[o.Number] = o
		if !o.Gone && o.Index >= 0 {
			n.number[o.Index], n.op[o.Number] = o.Number, o.Index
		}
		for _, name := range o.Former {
			if _, ok := n.named[name]; !ok {
				n.named[name] = o.Number
			}
		}
	}
	for _, o := range s.Operators {
		if !o.Gone || n.named[o.Identity] == 0 {
			n.named[o.Identity] = o.Number
		}
	}
	return n
}

// Shape returns the shape to which the numbers belong.
func (n *Numbers) Shape() *identity.Shape { return n.shape }

// Number returns the number of the operator with index op. It reports false if the history does not know the operator.
func (n *Numbers) Number(op int32) (int32, bool) {
	if n == nil {
		return op, true
	}
	number, ok := n.number[op]
	return number, ok
}

// Op returns the index of the operator with a number. It reports false if the program does not have it.
func (n *Numbers) Op(number int32) (int32, bool) {
	if n == nil {
		return number, true
	}
	op, ok := n.op[number]
	return op, ok
}

// resolve sets the operator's number in a record that names the operator, and adds the number to the record's source, since a
// sender numbers its records separately for each operator.
func (n *Numbers) resolve(r *codec.Record) {
	if r.Name != "" {
		r.Op = n.sentBy(r.Name).number
	}
	for _, prefix := range [...]string{codec.InputSource, codec.NamedSource} {
		if rest, ok := strings.CutPrefix(r.Source, prefix); ok {
			r.Source = prefix + strconv.Itoa(int(r.Op)) + " " + rest
			return
		}
	}
}

// sentBy returns what the history knows about the operator that a record names.
func (n *Numbers) sentBy(name string) sent {
	if n == nil {
		return sent{identity: name, number: -1}
	}
	if known, ok := n.sent[name]; ok {
		return known
	}
	is := sent{identity: name, number: -1}
	if op, err := identity.ParseSent(name); err == nil {
		is.identity = op.Identity
		if number, ok := n.named[op.Identity]; ok {
			is.number = number
			if row := n.rows[number]; !row.Gone {
				is.misfit = row.Misfit(op)
			}
		}
	}
	if len(n.sent) == maxSent {
		clear(n.sent)
	}
	n.sent[name] = is
	return is
}

// Compare determines which operators of a sender's program send what the history does not take. was is the history's shape, and
// is contains the operators of the program, by index.
func (n *Numbers) Compare(was *identity.Shape, is map[int32]identity.Operator) {
	n.unfit = make(map[int32]string)
	for i := range was.Operators {
		row := &was.Operators[i]
		if op, ok := n.op[row.Number]; ok {
			sender := is[op]
			if why := row.Misfit(&sender); why != "" {
				n.unfit[op] = why
			}
		}
	}
}

// Misfit returns why records of the operator with an index do not fit the history, or "".
func (n *Numbers) Misfit(op int32) string { return n.unfit[op] }

// gone reports whether the program no longer has an operator of the history, and whether records for it are forgotten.
func (n *Numbers) gone(number int32) (gone, discards bool) {
	if n == nil || n.rows[number] == nil {
		return false, false
	}
	return n.rows[number].Gone, n.rows[number].Discards
}

// SentTo returns the number of the operator that a record names; -1 if the history has none.
func (n *Numbers) SentTo(r *codec.Record) int32 { return n.sentBy(r.Name).number }

// SameOutputs reports whether the results of two steps agree for the operators for which counts returns true.
func SameOutputs(a, b []byte, counts func(number int32) bool) bool {
	if bytes.Equal(a, b) {
		return true
	}
	given := func(outputs []byte) map[int32]string {
		all := make(map[int32]string)
		for d := (codec.Decoder{Data: outputs}); len(d.Data) > 0; {
			number, part := int32(d.Uint()), d.Bytes()
			if counts(number) {
				all[number] += string(part)
			}
		}
		return all
	}
	return maps.Equal(given(a), given(b))
}

// name describes the operator of a record that the program does not have.
func (n *Numbers) name(r *codec.Record) string {
	switch {
	case r.Name != "":
		return strconv.Quote(n.sentBy(r.Name).identity)
	case n != nil && n.rows[r.Op] != nil:
		return strconv.Quote(n.rows[r.Op].Identity)
	}
	return "operator " + strconv.Itoa(int(r.Op))
}
