package model

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
)

// A Record is something that is sent to an input of a program.
type Record struct {
	input int // node
	key   int
	value int
}

// A History is what is sent to a program, in order.
type History []Record

// String returns the history on one line.
func (h History) String() string {
	words := make([]string, len(h))
	for i, r := range h {
		words[i] = fmt.Sprintf("n%d<-%d:%d", r.input, r.key, r.value)
	}
	return strings.Join(words, " ")
}

// A maker makes random programs.
type maker struct {
	rng   *rand.Rand
	table []operator
	want  *operator // used where possible, so that rare operators occur as well
	p     *Program
}

// Make returns a random program of about size operators, and a history for it.
func Make(rng *rand.Rand, size int) (*Program, History) { return MakeWith(rng, size, "") }

// MakeWith is Make for a program in which the named operator is likely, if name is not
// empty.
func MakeWith(rng *rand.Rand, size int, name string) (*Program, History) {
	table := operators()
	return makeOf(table, rng, size, slices.IndexFunc(table, func(op operator) bool { return op.name == name }))
}

// makeOf makes a program of the operators in table. Operator number want is likely if want
// is not negative.
func makeOf(table []operator, rng *rand.Rand, size int, want int) (*Program, History) {
	m := &maker{rng: rng, table: table, p: new(Program)}
	m.want = &m.table[rng.IntN(len(m.table))]
	if want >= 0 {
		m.want = &m.table[want]
	}
	for i := range m.table {
		op := &m.table[i]
		if op.edge != input {
			continue
		}
		likely := rng.IntN(3) > 0
		if op.rare { // otherwise each input would receive less
			likely = op == m.want || rng.IntN(8) == 0
		}
		if len(m.p.nodes) == 0 || likely {
			m.add(node{op: op, rank: -1, slice: -1})
		}
	}
	m.p.ranks = rng.Perm(rng.IntN(3))
	for s := range m.p.ranks {
		for !m.enter(s, batch) {
		}
	}
	for range size {
		switch k := rng.IntN(10); {
		case k < 2 && len(m.p.ranks) > 0:
			m.enter(rng.IntN(len(m.p.ranks)), []edge{batch, batch, snapshot, snapshot, state, state}[rng.IntN(6)])
		case k < 4 && len(m.p.ranks) > 0:
			m.leave([]edge{emit, emit, latest}[rng.IntN(3)])
		default:
			m.grow()
		}
	}
	for i := range m.p.nodes {
		x := &m.p.nodes[i]
		if x.op.edge == looped {
			x.keep = m.pick(func(j int) bool { return m.p.nodes[j].op.out == x.op.out && m.p.lives(j) < 0 && !m.p.follows(j, i) })
		}
		if x.op.edge == state {
			next := func(j int) bool { return m.p.nodes[j].op.out == x.op.out && m.p.lives(j) == x.slice }
			another := func(j int) bool { return next(j) && j != i && m.p.nodes[j].op.edge == state }
			if x.keep = m.pick(another); x.keep < 0 || rng.IntN(2) == 0 {
				x.keep = m.pick(next)
			}
		}
	}
	return m.p, m.history()
}

func (m *maker) add(x node) {
	x.n, x.keep, x.timed = m.rng.IntN(10), -1, x.op.edge == timed || x.op.edge == looped || x.op.edge == arranged
	for _, a := range x.args {
		x.timed = x.timed || m.p.nodes[a].timed
		x.growth = max(x.growth, m.p.nodes[a].growth)
		if x.op.edge != emit && x.op.edge != latest && (x.op.edge != timed || x.op.shows) && x.op.edge != looped { // a firing is a record of its own
			x.rank = max(x.rank, m.p.nodes[a].rank)
		}
	}
	m.p.nodes = append(m.p.nodes, x)
}

// pick returns a node for which ok holds, or -1. It prefers recent ones.
func (m *maker) pick(ok func(i int) bool) int {
	var all []int
	for i := range m.p.nodes {
		if ok(i) {
			all = append(all, i)
		}
	}
	if len(all) == 0 {
		return -1
	}
	return all[max(m.rng.IntN(len(all)), m.rng.IntN(len(all)))]
}

// some returns an operator for which ok holds.
func (m *maker) some(ok func(op *operator) bool) *operator {
	if ok(m.want) && m.rng.IntN(2) == 0 {
		return m.want
	}
	var all []*operator
	for i := range m.table {
		if ok(&m.table[i]) {
			all = append(all, &m.table[i])
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[m.rng.IntN(len(all))]
}

// readable returns a function that reports whether node i has type t and is in slice s.
func (m *maker) readable(t reflect.Type, s int) func(i int) bool {
	return func(i int) bool { return m.p.nodes[i].op.out == t && m.p.lives(i) == s }
}

func (m *maker) exists(t reflect.Type, ok func(reflect.Type) func(int) bool) bool {
	return slices.ContainsFunc(m.indices(), ok(t))
}

func (m *maker) indices() []int {
	all := make([]int, len(m.p.nodes))
	for i := range all {
		all[i] = i
	}
	return all
}

// enter adds a way into slice s, and reports whether there is one.
func (m *maker) enter(s int, how edge) bool {
	outside := func(t reflect.Type) func(int) bool {
		return func(i int) bool {
			return m.p.nodes[i].op.out == t && m.p.lives(i) < 0 && m.p.nodes[i].rank < m.p.ranks[s]
		}
	}
	op := m.some(func(op *operator) bool {
		return op.edge == how && !slices.ContainsFunc(op.in, func(t reflect.Type) bool { return !m.exists(t, outside) })
	})
	if op == nil {
		return false
	}
	x := node{op: op, slice: s, rank: -1, fresh: op.name == "slice.BatchEntries"}
	for _, t := range op.in {
		x.args = append(x.args, m.pick(outside(t)))
	}
	x.passive = how == snapshot && m.rng.IntN(3) == 0
	m.add(x)
	return true
}

// leave adds a way out of a slice.
func (m *maker) leave(how edge) {
	s := m.rng.IntN(len(m.p.ranks))
	may := func(op *operator) func(reflect.Type) func(int) bool {
		return func(t reflect.Type) func(int) bool {
			return func(i int) bool {
				return m.readable(t, s)(i) && (op.name != "slice.EmitEntries" || m.p.nodes[i].fresh)
			}
		}
	}
	op := m.some(func(op *operator) bool { return op.edge == how && m.exists(op.in[0], may(op)) })
	if op != nil {
		m.add(node{op: op, slice: s, rank: m.p.ranks[s], args: []int{m.pick(may(op)(op.in[0]))}})
	}
}

// grow adds an operator that does not cross the border of a slice.
func (m *maker) grow() {
	s := m.rng.IntN(len(m.p.ranks)+1) - 1
	here := func(t reflect.Type) func(int) bool { return m.readable(t, s) }
	several := m.rng.IntN(3) == 0 // few operators read two collections
	op := m.some(func(op *operator) bool {
		outside := s < 0 && (op.edge == timed || op.edge == arranged || op.edge == looped && !m.loops())
		return (op.edge == pure || outside) && (len(op.in) > 1 || !several) && !slices.ContainsFunc(op.in, func(t reflect.Type) bool { return !m.exists(t, here) })
	})
	if op == nil {
		return
	}
	x := node{op: op, slice: s, rank: -1}
	for _, t := range op.in {
		x.args = append(x.args, m.pick(here(t)))
	}
	x.fresh = op.fresh && m.p.nodes[x.args[0]].fresh
	if x.growth = m.growth(x); x.growth <= maxGrowth {
		m.add(x)
	}
}

// loops reports whether the program has a cycle. It has at most one.
func (m *maker) loops() bool {
	return slices.ContainsFunc(m.p.nodes, func(x node) bool { return x.op.edge == looped })
}

// maxGrowth limits the size of collections, since joins of joins multiply.
const maxGrowth = 6

// growth returns how often the size of a node may have doubled since the inputs.
func (m *maker) growth(x node) (doubled int) {
	join := strings.HasSuffix(x.op.name, "Join")
	for _, a := range x.args {
		if g := m.p.nodes[a].growth; join {
			doubled += g + 1
		} else {
			doubled = max(doubled, g)
		}
	}
	if !join && (len(x.args) > 1 || strings.HasSuffix(x.op.name, "FlatMap")) {
		doubled++
	}
	return doubled
}

// history makes records for the inputs of the program.
func (m *maker) history() (h History) {
	put := make(map[[2]int]bool)
	inputs := m.p.inputs()
	for range 1 + m.rng.IntN(10) {
		r := Record{inputs[m.rng.IntN(len(inputs))], m.rng.IntN(4), m.rng.IntN(12)}
		if kinds[m.p.nodes[r.input].op.out].shape == entered {
			r.key = m.rng.IntN(8)
			if put[[2]int{r.input, r.key}] {
				continue
			}
			put[[2]int{r.input, r.key}] = true
		}
		h = append(h, r)
	}
	return h
}
