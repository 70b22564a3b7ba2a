package model

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// An operator is one way to make a collection from others: built from the public
// functions, and evaluated from whole contents.
type operator struct {
	name  string
	in    []reflect.Type
	out   reflect.Type
	edge  edge // whether it crosses the border of a slice
	fresh bool // keys that come from a batch of entries still do

	verdict verdict  // of what is taken, if it is not that of a timer
	isApart bool     // works while others do; see apart
	shows   bool     // what it has is noted whenever that changes, and not what comes
	also    []string // other operators that it draws
	rare    bool     // of an input: few programs have it
	loosens bool     // gives up an order; see frees

	build func(b *builder, x *node, in []any) any
	eval  func(n int, in []Content) Content
}

// An edge is how an operator crosses the border of a slice or of the flow.
type edge int

const (
	pure     edge = iota
	input         // what is sent
	timed         // what comes later: of a timer, another location, a call
	looped        // what is fed back
	arranged      // what the runtime puts in order
	batch         // into a slice, what is new
	snapshot      // into a slice, what is there
	state         // into a slice, what its last run kept
	emit          // out of a slice, what all runs gave
	latest        // out of a slice, what the last run had
)

// A node is an operator in a program.
type node struct {
	op      *operator
	args    []int
	n       int // a parameter of the operator, between 0 and 9
	slice   int // the slice it lives in, or crosses; -1 outside
	keep    int // of state: the node that gives the next one, or -1; of a cycle: what is fed back
	passive bool
	fresh   bool // every key comes from a batch of entries of the slice
	timed   bool // what it has depends on which timers have fired
	growth  int  // how often its size may have doubled since the inputs
	rank    int  // the highest rank of a slice from which it derives, or -1
}

// A Program is a flow as a list of nodes, each of which reads earlier ones.
type Program struct {
	nodes []node
	// ranks says, for each slice in order of construction, when it runs: what one
	// slice emits reaches only those of higher rank.
	ranks []int
}

// lives reports in which slice the collection made by node i is, or -1.
func (p *Program) lives(i int) int {
	x := &p.nodes[i]
	switch x.op.edge {
	case emit, latest, input, timed, looped, arranged:
		return -1
	}
	return x.slice
}

// follows reports whether node j is made from node i without a step in between.
func (p *Program) follows(j, i int) bool {
	x := &p.nodes[j]
	if j == i {
		return true
	}
	switch {
	case x.op.edge == emit, x.op.edge == latest, x.op.edge == looped, x.op.edge == timed && !x.op.shows:
		return false
	}
	return slices.ContainsFunc(x.args, func(a int) bool { return p.follows(a, i) })
}

// String returns the program, a line for each node.
func (p *Program) String() string {
	var b strings.Builder
	for i := range p.nodes {
		fmt.Fprintf(&b, "  %-4s %s\n", fmt.Sprint("n", i), p.describe(i))
	}
	return b.String()
}

func (p *Program) describe(i int) string {
	x := &p.nodes[i]
	words := make([]string, 0, len(x.args)+2)
	for _, a := range x.args {
		words = append(words, fmt.Sprint("n", a))
	}
	words = append(words, fmt.Sprint(x.n))
	s := fmt.Sprintf("%s(%s)", x.op.name, strings.Join(words, ", "))
	if x.slice >= 0 {
		s += fmt.Sprintf(" in slice %d, which is number %d to run", x.slice, p.ranks[x.slice])
	}
	if x.passive {
		s += ", passive"
	}
	if x.op.edge == state || x.op.edge == looped {
		s += fmt.Sprintf(", next is n%d", x.keep)
	}
	return s + "   " + kinds[x.op.out].word
}

// without returns the program without node i, or nil if something reads it or a slice
// would be left without an input.
func (p *Program) without(i int) *Program {
	for j, x := range p.nodes {
		if j != i && (slices.Contains(x.args, i) || x.keep == i) {
			return nil
		}
	}
	q := &Program{ranks: p.ranks}
	fed := make([]bool, len(p.ranks))
	for j, x := range p.nodes {
		if j == i {
			continue
		}
		x.args = slices.Clone(x.args)
		for a, arg := range x.args {
			if arg > i {
				x.args[a]--
			}
		}
		if x.keep > i {
			x.keep--
		}
		if x.op.edge == batch {
			fed[x.slice] = true
		}
		q.nodes = append(q.nodes, x)
	}
	if slices.Contains(fed, false) {
		return nil
	}
	return q
}

// inputs returns the nodes that are inputs.
func (p *Program) inputs() (all []int) {
	for i := range p.nodes {
		if p.nodes[i].op.edge == input {
			all = append(all, i)
		}
	}
	return all
}
