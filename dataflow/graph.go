package dataflow

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/lookup"
)

// A Graph describes a flow: its operators, their locations, and which operator reads which.
// It is a copy, and contains nothing about a running flow.
type Graph struct {
	Locations []string // names, in order of construction
	Slices    []GraphSlice
	Operators []GraphOperator // by location, and there in order of construction
	Edges     []GraphEdge     // by To, and there in the order of its arguments
}

// A GraphSlice is a slice of a [Graph].
type GraphSlice struct {
	Location int    // index in Graph.Locations
	Pos      string // file:line of the call of slice.At
}

// A GraphOperator is an operator of a [Graph].
type GraphOperator struct {
	Name     string // package and function, such as "keyedstream.Fold"
	Port     string // name of an input, an output or a cycle
	Label    string // the name given by [Named], or empty
	Pos      string // file:line of the call that made it
	Keeps    bool   // it keeps state from one step to the next
	Why      NonDet // the reason, if the operator takes one
	Proof    Proof  // the proof, if the operator takes one
	Location int    // index in Graph.Locations
	Slice    int    // index in Graph.Slices, or -1 outside of slices

	// States are the parts of the operator's state.
	States []GraphState

	// Stack holds the calls through which the operator was made, outermost first. It
	// contains only functions of the program, not of this library. It is empty in a
	// simulation.
	Stack []GraphFrame
}

// A GraphState is a part of the state of an operator.
type GraphState struct {
	Kind string       // kind and its types, such as "table(string,int)"
	Key  reflect.Type // type of the keys under which [App.Lookup] finds entries; nil if there are none
}

// A GraphFrame is a call in a program that builds a flow.
type GraphFrame struct {
	Func string // function that contains the call, with its package
	Pos  string // file:line
}

// A GraphEdge says that one operator reads what another makes.
type GraphEdge struct {
	From, To int  // indices in Graph.Operators
	Back     bool // feedback: the state of a slice, or a [Cycle]
}

// Graph returns a description of f as built so far. It can be called before and after the
// start.
//
// Every call of an operator is one operator, whether or not anything reads its result. A
// function that only changes a type, such as [WeakenOrder], is none. The operators that let
// elements into a slice and out of it belong to the slice.
func (f *Flow) Graph() Graph {
	graphOf(f) // panics if New did not make f
	var g Graph
	ops := make(map[*engine.Op]int)
	cuts := make(map[*engine.Region]int)
	for l, s := range f.locations {
		g.Locations = append(g.Locations, s.Name)
		for _, r := range s.Slices() {
			cuts[r] = len(g.Slices)
			g.Slices = append(g.Slices, GraphSlice{l, r.Pos()})
		}
		for _, op := range s.Ops {
			if op.Loosens() { // added by a simulation
				continue
			}
			ops[op] = len(g.Operators)
			name, port, _ := strings.Cut(op.Name, " ")
			cut, ok := cuts[op.Slice()]
			if !ok {
				cut = -1
			}
			o := GraphOperator{
				Name: name, Port: port, Label: op.GivenName(), Pos: op.Pos, Keeps: len(op.States) > 0,
				Why: NonDet(op.Why), Proof: Proof(op.Proof), Location: l, Slice: cut,
			}
			for _, x := range op.States {
				o.States = append(o.States, GraphState{Kind: x.Kind(), Key: lookup.KeyType(x)})
			}
			for _, call := range op.Stack() {
				o.Stack = append(o.Stack, GraphFrame(call))
			}
			g.Operators = append(g.Operators, o)
		}
	}
	for _, s := range f.locations {
		for _, op := range s.Ops {
			if op.Loosens() {
				continue
			}
			for _, in := range op.Inputs() {
				g.Edges = append(g.Edges, GraphEdge{ops[in], ops[op], ops[in] > ops[op] && g.Operators[ops[in]].Location == g.Operators[ops[op]].Location})
			}
		}
	}
	return g
}

// Mermaid returns the graph as a Mermaid flowchart: locations and slices as subgraphs,
// feedback dotted, and the place of each operator as a comment.
func (g Graph) Mermaid() string {
	p := chart{graph: g, open: `subgraph %s["%s"]`, close: "end", newline: "<br/>", escape: strings.NewReplacer(
		"#", "#35;", `"`, "#quot;", "&", "#amp;", "<", "#lt;", ">", "#gt;", "`", "#96;", `\`, "#92;")}
	p.line("flowchart LR")
	p.locations("", func(i int, label string) {
		p.line("%%%% %s", oneLine(g.Operators[i].Pos))
		p.line(p.shape(i, `n%d(["%s"])`, `n%d{{"%s"}}`, `n%d["%s"]`), i, label)
	})
	for _, e := range g.Edges {
		arrow := "-->"
		if e.Back {
			arrow = "-.->"
		}
		p.line("n%d %s n%d", e.From, arrow, e.To)
	}
	return p.String()
}

// DOT returns the graph in the language of Graphviz: locations and slices as clusters,
// feedback dashed, and the place of each operator as its tooltip.
func (g Graph) DOT() string {
	p := chart{graph: g, open: `subgraph %s { label="%s"`, close: "}", newline: `\n`, escape: strings.NewReplacer(
		`\`, `\\`, `"`, `\"`, "&", "&amp;")}
	p.line("digraph flow {")
	p.indent++
	p.line("rankdir=LR")
	p.line("node [shape=box, fontname=\"sans-serif\"]")
	p.locations("cluster_", func(i int, label string) {
		p.line(p.shape(i, `n%d [label="%s", tooltip="%s", shape=oval]`, `n%d [label="%s", tooltip="%s", shape=hexagon]`, `n%d [label="%s", tooltip="%s"]`),
			i, label, p.escape.Replace(g.Operators[i].Pos))
	})
	for _, e := range g.Edges {
		style := ""
		if e.Back {
			style = " [style=dashed, constraint=false]"
		}
		p.line("n%d -> n%d%s", e.From, e.To, style)
	}
	p.indent--
	p.line("}")
	return p.String()
}

// A chart is a graph being written as text.
type chart struct {
	strings.Builder
	graph                Graph
	open, close, newline string // of the output language
	escape               *strings.Replacer
	indent               int
}

// line writes one line, or several, at the current indentation.
func (p *chart) line(format string, args ...any) {
	for l := range strings.SplitSeq(fmt.Sprintf(format, args...), "\n") {
		p.WriteString(strings.Repeat("  ", p.indent) + l + "\n")
	}
}

// locations writes every operator once, in its slice and its location.
func (p *chart) locations(prefix string, operator func(i int, label string)) {
	for l, name := range p.graph.Locations {
		p.begin(fmt.Sprintf("%slocation%d", prefix, l), name)
		p.operators(l, -1, operator)
		for s, cut := range p.graph.Slices {
			if cut.Location == l {
				p.begin(fmt.Sprintf("%sslice%d", prefix, s), "slice at "+cut.Pos)
				p.operators(l, s, operator)
				p.end()
			}
		}
		p.end()
	}
}

func (p *chart) begin(id, label string) {
	p.line(p.open, id, p.escape.Replace(oneLine(label)))
	p.indent++
}

func (p *chart) end() {
	p.indent--
	p.line("%s", p.close)
}

func (p *chart) operators(location, slice int, operator func(i int, label string)) {
	for i, op := range p.graph.Operators {
		if op.Location == location && op.Slice == slice {
			operator(i, p.label(op))
		}
	}
}

// label returns the name of an operator, its port, and its reason or proof.
func (p *chart) label(op GraphOperator) string {
	lines := []string{op.Name}
	if op.Port != "" {
		lines = append(lines, oneLine(op.Port))
	}
	if why := oneLine(string(op.Why) + string(op.Proof)); why != "" {
		lines = append(lines, wrap("“"+why+"”", 40)...)
	}
	for i, l := range lines {
		lines[i] = p.escape.Replace(l)
	}
	return strings.Join(lines, p.newline)
}

// shape returns the format for an operator: end for a port, timing for an operator whose
// result depends on timing, and other for the rest.
func (p *chart) shape(i int, end, timing, other string) string {
	switch op := p.graph.Operators[i]; {
	case op.Why != "":
		return timing
	case op.Port != "":
		return end
	}
	return other
}

// oneLine returns s with each run of white space replaced by one blank.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// wrap divides s at blanks into lines of about n bytes.
func wrap(s string, n int) []string {
	var lines []string
	for word := range strings.SplitSeq(s, " ") {
		if last := len(lines) - 1; last >= 0 && len(lines[last])+len(word) < n {
			lines[last] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}
