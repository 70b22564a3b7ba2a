package model

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// An operator is one way to make a collection from others. It can be built from the
// public functions, and evaluated on whole contents.
type operator struct {
	name  string
	in    []reflect.Type
	out   reflect.Type
	edge  edge // whether it crosses the border of a slice
	fresh bool // keeps the property that every key comes from a batch of entries

	judgment   judgment // for what is taken as given, unless a timer emits it
	concurrent bool     // works concurrently with others; see concurrently
	shows      bool     // its content is recorded whenever that changes, and not what arrives
	also       []string // other operators that it includes
	rare       bool     // for an input: few programs contain it
	loosens    bool     // gives up an order; see frees

	build func(b *builder, x *node, in []any) any
	eval  func(n int, in []Content) Content
}

// An edge says how an operator crosses the border of a slice or of the flow.
type edge int

const (
	pure     edge = iota
	input         // what is sent
	timed         // what comes later: from a timer, another location, or a call
	looped        // what is fed back
	arranged      // what the runtime puts in order
	batch         // into a slice: what is new
	snapshot      // into a slice: the current content
	state         // into a slice: what its last run kept
	emit          // out of a slice: what all runs emitted
	latest        // out of a slice: the result of the last run
)

// A node is an operator in a program.
type node struct {
	op      *operator
	args    []int
	n       int // a parameter of the operator, between 0 and 9
	slice   int // the slice in which it is, or whose border it crosses; -1 outside
	keep    int // for state: the node that makes the next one, or -1; for a cycle: what is fed back
	passive bool
	fresh   bool // every key comes from a batch of entries of the slice
	timed   bool // its content depends on which timers have fired
	growth  int  // how often its size may have doubled since the inputs
	rank    int  // the highest rank of a slice from which it derives, or -1
}

// A Program is a flow as a list of nodes, each of which reads earlier ones.
type Program struct {
	nodes []node
	// ranks holds, for each slice in order of construction, its place in the order of
	// runs: what a slice emits reaches only slices with a higher rank.
	ranks []int
}

// lives returns the slice that contains the collection of node i, or -1.
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

// String formats the program with one line for each node.
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
