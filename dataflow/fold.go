package dataflow

import (
	"cmp"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/picture"
)

// A folded is a box of a drawing: operators in order of flow, or those that one call built.
type folded struct {
	ops  []int
	call string // name of the call; empty if the box is not a call
}

// Boxes returns the number of boxes in a drawing of the graph.
func (g Graph) Boxes(by Folding) int {
	boxes, _ := g.boxes(by)
	return len(boxes)
}

// Folding returns the folding that makes the graph easiest to read. That is [FoldCalls] if it gives at
// most three quarters of the boxes of [FoldStretches], and FoldStretches otherwise.
func (g Graph) Folding() Folding {
	if 4*g.Boxes(FoldCalls) <= 3*g.Boxes(FoldStretches) {
		return FoldCalls
	}
	return FoldStretches
}

// mostOfCall is the number of operators up to which a call is one box.
const mostOfCall = 24

// boxes returns the boxes of a folding, and the box of each operator.
func (g Graph) boxes(by Folding) (boxes []folded, of []int) {
	of = make([]int, len(g.Operators))
	for i := range of {
		of[i] = -1
	}
	if by == FoldCalls {
		all := make([]int, len(g.Operators))
		for i := range all {
			all[i] = i
		}
		boxes = g.calls(all, g.shared(), nil)
		for i, b := range boxes {
			for _, o := range b.ops {
				of[o] = i
			}
		}
	}
	boxes = g.stretches(by != FoldNothing, boxes, of)
	// Boxes of calls and of the remaining operators are in order of construction.
	slices.SortStableFunc(boxes, func(a, b folded) int { return cmp.Compare(a.ops[0], b.ops[0]) })
	for i, b := range boxes {
		for _, o := range b.ops {
			of[o] = i
		}
	}
	return boxes, of
}

// shared returns how many outer calls all operators have in common, without the calls that made an
// operator.
func (g Graph) shared() (deep int) {
	for ; len(g.Operators) > 0; deep++ {
		for _, o := range g.Operators {
			if len(o.Stack) <= deep+1 || o.Stack[deep] != g.Operators[0].Stack[deep] {
				return deep
			}
		}
	}
	return 0
}

// calls appends the boxes of the calls that built ops, whose outermost deep calls are the same.
func (g Graph) calls(ops []int, deep int, boxes []folded) []folded {
	type call struct {
		from, in        string // the position of the call, and the called function
		location, slice int
	}
	built := make(map[call][]int)
	var order []call
	for _, i := range ops {
		o := g.Operators[i]
		if o.Port != "" || o.Label != "" || len(o.Stack) < deep+2 {
			continue
		}
		c := call{o.Stack[deep].Func + " " + o.Stack[deep].Pos, o.Stack[deep+1].Func, o.Location, o.Slice}
		if built[c] == nil {
			order = append(order, c)
		}
		built[c] = append(built[c], i)
	}
	for _, c := range order {
		ops, before := built[c], len(boxes)
		if len(ops) > mostOfCall {
			boxes = g.calls(ops, deep+1, boxes)
		}
		if len(ops) > 1 && len(boxes) == before {
			boxes = append(boxes, folded{ops, called(g.Operators[ops[0]].Stack[deep+1])})
		}
	}
	return boxes
}

// called returns the short name of the function that contains a call, without its package and type
// parameters. For a function without a name it returns the position of the call.
func called(c GraphFrame) string {
	name := c.Func[strings.LastIndexByte(c.Func, '/')+1:]
	name, _, _ = strings.Cut(name, "[")
	parts := strings.Split(name, ".")
	if last := parts[len(parts)-1]; strings.HasPrefix(last, "func") && strings.Trim(last[4:], "0123456789") == "" || strings.Trim(last, "0123456789") == "" {
		return c.Pos
	}
	return parts[len(parts)-1]
}

// stretches appends boxes for the operators that have none. If fold is set, a chain without branches
// shares one box.
func (g Graph) stretches(fold bool, boxes []folded, of []int) []folded {
	ins, outs := make([][]GraphEdge, len(g.Operators)), make([][]GraphEdge, len(g.Operators))
	for _, e := range g.Edges {
		ins[e.To], outs[e.From] = append(ins[e.To], e), append(outs[e.From], e)
	}
	plain := func(o GraphOperator) bool { return o.Port == "" && o.Label == "" && o.Why == "" && o.Proof == "" }
	for i := range g.Operators {
		if of[i] >= 0 {
			continue
		}
		ops := []int{i}
		of[i] = len(boxes)
		for at := i; fold && plain(g.Operators[at]) && len(outs[at]) == 1 && !outs[at][0].Back; {
			next := outs[at][0].To
			o := g.Operators[next]
			if of[next] >= 0 || len(ins[next]) != 1 || !plain(o) || o.Slice != g.Operators[at].Slice || o.Location != g.Operators[at].Location {
				break
			}
			ops, of[next], at = append(ops, next), of[i], next
		}
		boxes = append(boxes, folded{ops: ops})
	}
	return boxes
}

// lines returns the lines between boxes, each once. A line leads back if it closes a cycle, even one
// that exists only because operators share a box.
func (g Graph) lines(boxes int, of []int) (lines []picture.Line) {
	type line struct{ from, to int }
	at := make(map[line]int)
	from := make([][]int, boxes) // by box, the outgoing lines
	for _, e := range g.Edges {
		l := line{of[e.From], of[e.To]}
		if l.from == l.to {
			continue
		}
		if i, drawn := at[l]; drawn {
			lines[i].Back = lines[i].Back && e.Back
			continue
		}
		at[l] = len(lines)
		from[l.from] = append(from[l.from], len(lines))
		lines = append(lines, picture.Line{From: l.from, To: l.to, Back: e.Back})
	}
	const above, passed = 1, 2
	state := make([]int, boxes)
	var visit func(box int)
	visit = func(box int) {
		state[box] = above
		for _, i := range from[box] {
			switch to := lines[i].To; {
			case lines[i].Back:
			case state[to] == above:
				lines[i].Back = true
			case state[to] == 0:
				visit(to)
			}
		}
		state[box] = passed
	}
	for box := range boxes {
		if state[box] == 0 {
			visit(box)
		}
	}
	return lines
}
