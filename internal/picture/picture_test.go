package picture

import (
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the pictures of testdata")

// drawn returns a random picture.
func drawn(seed uint64) *Picture {
	r := rand.New(rand.NewPCG(seed, 0))
	p := &Picture{}
	for c := range 1 + r.IntN(3) {
		p.Columns = append(p.Columns, Column{Title: fmt.Sprint("Location ", c)})
	}
	n := r.IntN(120)
	for i := range n {
		column, group := r.IntN(len(p.Columns)), -1
		if r.IntN(3) == 0 {
			group = 10*column + r.IntN(3)
		}
		p.Boxes = append(p.Boxes, Box{Column: column, Group: group, W: float64(60 + 2*r.IntN(60)), Label: fmt.Sprint("box ", i)})
	}
	for range n + n/3 {
		from, to := r.IntN(n), r.IntN(n)
		p.Lines = append(p.Lines, Line{From: from, To: to, Back: from >= to || r.IntN(20) == 0})
	}
	return p
}

// TestLayout lays out random graphs. It catches boxes that overlap, boxes and lines outside of the
// picture, a line that goes up without going round, a group that another box interrupts, and a
// layout that differs from one time to the next.
func TestLayout(t *testing.T) {
	for seed := range uint64(500) {
		p, again := drawn(seed), drawn(seed)
		p.Layout()
		again.Layout()
		if p.SVG() != again.SVG() {
			t.Errorf("seed %d: two pictures of one graph differ", seed)
		}
		rows := make(map[float64][]Box)
		for _, b := range p.Boxes {
			rows[b.Y] = append(rows[b.Y], b)
			if b.X-b.W/2 < 0 || b.X+b.W/2 > p.W || b.Y < boxHeight/2 || b.Y+boxHeight/2 > p.H {
				t.Errorf("seed %d: %s at %v, %v is outside of %v, %v", seed, b.Label, b.X, b.Y, p.W, p.H)
			}
		}
		for _, row := range rows {
			slices.SortFunc(row, func(a, b Box) int { return int(a.X - b.X) })
			var order []int
			for i, b := range row {
				if i > 0 && row[i-1].X+row[i-1].W/2+4 > b.X-b.W/2 {
					t.Errorf("seed %d: %s and %s overlap", seed, row[i-1].Label, b.Label)
				}
				order = append(order, b.Group)
			}
			order = slices.DeleteFunc(slices.Compact(order), func(g int) bool { return g < 0 })
			if slices.Sort(order); len(slices.Compact(slices.Clone(order))) < len(order) {
				t.Errorf("seed %d: a group is not together in a layer: %v", seed, order)
			}
		}
		for i, l := range p.Lines {
			if len(l.Points) < 2 || len(l.Points)%2 != 0 {
				t.Errorf("seed %d: line %d has %d points", seed, i, len(l.Points))
				continue
			}
			outside := slices.ContainsFunc(l.Points, func(q [2]float64) bool { return q[0] < 0 || q[0] > p.W || q[1] < 0 || q[1] > p.H })
			for k := 1; k < len(l.Points); k += 2 {
				if from, to := l.Points[k-1], l.Points[k]; to[1] <= from[1] || outside {
					t.Errorf("seed %d: line %d goes from %v to %v", seed, i, from, to)
				}
			}
		}
		if t.Failed() {
			return
		}
	}
}

// TestLineBesideBoxes checks that no vertical part of a line goes through a box.
func TestLineBesideBoxes(t *testing.T) {
	for seed := range uint64(200) {
		p := drawn(seed)
		p.Layout()
		for i, l := range p.Lines {
			for k := 2; k < len(l.Points); k += 2 { // the straight parts
				x, from, to := l.Points[k][0], l.Points[k-1][1], l.Points[k][1]
				for _, b := range p.Boxes {
					if x > b.X-b.W/2 && x < b.X+b.W/2 && max(from, to) > b.Y-boxHeight/2 && min(from, to) < b.Y+boxHeight/2 {
						t.Fatalf("seed %d: line %d goes through %s", seed, i, b.Label)
					}
				}
			}
		}
	}
}

// TestGolden compares a picture of each kind of box with the reviewed one in testdata.
func TestGolden(t *testing.T) {
	p := &Picture{
		Columns: []Column{{Title: "Edge"}, {Title: "Archive"}},
		Boxes: []Box{
			{Group: -1, W: 120, Class: "port", Label: "votes", Sub: "main.go:10", ID: "n0", Link: "#op0", Title: "dataflow.Input at main.go:10"},
			{Group: 0, W: 140, Class: "op many", Label: "Map → Filter", Sub: "2 operators"},
			{Group: 0, W: 110, Class: "state", Label: "Fold", Sub: "main.go:14"},
			{Group: -1, W: 150, Class: "why", Label: "AssumeOrder", Sub: "main.go:12", Title: "“arrival decides”"},
			{Group: -1, W: 104, Class: "bad", Label: "tally", Sub: "FULL"},
			{Column: 1, Group: -1, W: 120, Class: "proof", Label: "UnorderedProof", Sub: "main.go:20"},
			{Column: 1, Group: -1, W: 104, Class: "port", Label: "kept", Sub: "main.go:21"},
		},
		Lines: []Line{{From: 0, To: 1}, {From: 0, To: 3}, {From: 1, To: 2}, {From: 2, To: 4}, {From: 3, To: 4}, {From: 0, To: 4}, {From: 2, To: 1, Back: true}, {From: 2, To: 5}, {From: 5, To: 6}, {From: 6, To: 0}},
	}
	p.Layout()
	compare(t, "kinds.svg", p.Document())
	empty := &Picture{}
	empty.Layout()
	compare(t, "empty.svg", empty.Document())
}

func compare(t *testing.T, name, is string) {
	t.Helper()
	wellFormed(t, is)
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(is), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != is {
		t.Errorf("%s is another one, %v; look at it, and run the test with -update:\n%s", name, err, is)
	}
}

// TestHostileText draws names that contain elements, change the direction of text, or are very
// long.
func TestHostileText(t *testing.T) {
	for _, name := range []string{`</title><script>alert(1)</script>`, `"]]>`, "a\u202eb", strings.Repeat("x", 10<<20), "\xff\xfe", "a\x00b", `" onload="alert(1)`} {
		p := &Picture{Columns: []Column{{Title: name}}, Boxes: []Box{{Group: -1, W: 120, ID: "n", Class: name, Label: name, Sub: name, Title: name, Link: "#" + name[:min(len(name), 20)]}}}
		p.Boxes[0].Class = "op"
		p.Layout()
		svg := p.Document()
		wellFormed(t, svg)
		if strings.Contains(svg, "<script") || strings.Contains(svg, ` onload="`) || strings.Contains(svg, "\u202e") || len(svg) > 16<<10 {
			t.Errorf("the picture of %.20q is %.2000s", name, svg)
		}
	}
}

// wellFormed fails the test if a picture is not well-formed XML.
func wellFormed(t *testing.T, svg string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%v: %.2000s", err, svg)
		}
	}
}

// BenchmarkLayout measures the layout of a flow of 500 operators.
func BenchmarkLayout(b *testing.B) {
	for b.Loop() {
		p := &Picture{}
		r := rand.New(rand.NewPCG(1, 0))
		for i := range 500 {
			p.Boxes = append(p.Boxes, Box{Group: -1, W: 120})
			if i > 0 {
				p.Lines = append(p.Lines, Line{From: max(0, i-1-r.IntN(12)), To: i})
			}
		}
		p.Layout()
	}
}
