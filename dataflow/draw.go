package dataflow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/picture"
)

// A Folding says which operators of a drawn graph share a box.
type Folding int

// The foldings. Where operators share a box, ports and operators with a name have boxes of their own, and
// no box has operators of two slices or locations.
const (
	// FoldNothing draws a box for each operator.
	FoldNothing Folding = iota
	// FoldStretches draws one box for a chain of operators without branches. Operators with a reason or
	// a proof keep a box of their own.
	FoldStretches
	// FoldCalls draws one box for the operators built inside one call of a function of the program,
	// labeled with the function, and folds chains of the remaining operators. A call that builds more
	// than 24 operators is drawn as the calls in it.
	FoldCalls
)

// A Drawing says how [Graph.Draw] draws a graph. The zero Drawing draws a box for each operator.
type Drawing struct {
	Fold Folding
	// Box, if not nil, is called for each box with its operators, as indices in [Graph].Operators, in
	// order of flow. It returns the second line of the box, the target of a click on it, and whether
	// the box is marked as stopping the flow.
	Box func(ops []int) (line, link string, stopped bool)
}

// SVG returns the graph as an SVG file, folded as [Graph.Folding] says, with a style sheet for light
// and dark backgrounds. It takes O(n²) for the n boxes of a layer; some milliseconds for a hundred
// operators.
func (g Graph) SVG() string {
	p := g.layout(Drawing{Fold: g.Folding()})
	return p.Document()
}

// Draw returns the graph as an SVG element for a page. Inputs are at the top, locations side by side,
// slices shaded, and lines that lead back dashed. Text of the program is escaped, and its characters
// that are not printable are shown by their codes. The element has classes and no style:
//
//	port   an input or an output     why     depends on timing       shade  a slice
//	state  it remembers something    proof   a proof was given       back   a line that leads back
//	bad    it stops the flow         many    several operators       sub    the second line of a box
//
// The attribute data-of of a box holds the indices of its operators. The same graph always gives the
// same drawing.
func (g Graph) Draw(d Drawing) string {
	p := g.layout(d)
	return p.SVG()
}

func (g Graph) layout(d Drawing) *picture.Picture {
	p := &picture.Picture{}
	for _, name := range g.Locations {
		if len(g.Locations) == 1 {
			name = ""
		}
		p.Columns = append(p.Columns, picture.Column{Title: name})
	}
	boxes, of := g.boxes(d.Fold)
	for i := range boxes {
		p.Boxes = append(p.Boxes, g.box(i, &boxes[i], d))
	}
	p.Lines = g.lines(len(boxes), of)
	p.Layout()
	return p
}

// box returns a box without its position.
func (g Graph) box(i int, f *folded, d Drawing) picture.Box {
	ops := f.ops
	first, last := g.Operators[ops[0]], g.Operators[ops[len(ops)-1]]
	b := picture.Box{
		Column: first.Location, Group: first.Slice, ID: fmt.Sprint("box", i), Label: first.text(),
		Sub: first.Pos, Title: g.title(ops), Class: first.class(),
	}
	if len(ops) > 1 {
		b.Label += " → " + last.text()
		if f.call != "" {
			b.Label = f.call
		}
		b.Sub = fmt.Sprintf("%d operators", len(ops))
		b.Class = g.classOf(ops) + " many"
	}
	if d.Box != nil {
		line, link, stopped := d.Box(ops)
		b.Sub, b.Link = line, link
		if stopped {
			b.Class += " bad"
		}
	}
	for n, o := range ops {
		if n > 0 {
			b.Data += " "
		}
		b.Data += fmt.Sprint(o)
	}
	narrowest, widest := 104, 190
	if d.Box != nil {
		narrowest = 150 // room for a line of figures that grows
	}
	b.W = float64(min(max(20+7*len([]rune(b.Label)), 20+6*len([]rune(b.Sub)), narrowest), widest) / 2 * 2)
	return b
}

// title returns the tooltip of a box.
func (g Graph) title(ops []int) string {
	var lines []string
	for _, i := range ops {
		o := g.Operators[i]
		line := o.Name + " at " + o.Pos
		if why := oneLine(string(o.Why) + string(o.Proof)); why != "" {
			line += ": “" + why + "”"
		}
		if o.Slice >= 0 {
			line += ", in the slice at " + g.Slices[o.Slice].Pos
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}

// text returns the label of an operator in a box: the name that the user gave it, or its function
// without the package.
func (o GraphOperator) text() string {
	if name := o.Label; name != "" {
		return name
	}
	if o.Port != "" {
		return oneLine(o.Port)
	}
	_, function, _ := strings.Cut(o.Name, ".")
	return function
}

// classOf returns the class of a box with several operators: the most important class that one of them
// has.
func (g Graph) classOf(ops []int) string {
	for _, class := range [...]string{"why", "proof", "state"} {
		if slices.ContainsFunc(ops, func(o int) bool { return g.Operators[o].class() == class }) {
			return class
		}
	}
	return "op"
}

func (o GraphOperator) class() string {
	switch {
	case o.Why != "":
		return "why"
	case o.Proof != "":
		return "proof"
	case o.Port != "":
		return "port"
	case o.Keeps:
		return "state"
	}
	return "op"
}
