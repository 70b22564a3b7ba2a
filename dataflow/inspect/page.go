package inspect

import (
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"slices"

	"github.com/millrace/millrace/dataflow"
)

// The sources of the pages, as browsers get them.
var (
	//go:embed page/head.html
	headHTML string
	//go:embed page/page.html
	pageHTML string
	//go:embed page/page.css
	ownCSS string
	//go:embed page/page.js
	pageJS string
)

var pages = template.Must(template.Must(template.Must(template.Must(template.Must(template.New("head").Funcs(Funcs()).Parse(headHTML)).New("page").Parse(pageHTML)).New("keys").Parse(keysHTML)).New("history").Parse(historyHTML)).New("members").Parse(membersHTML))

// longestText is how many characters of a name or a reason are shown.
const longestText = 1000

// most is how many boxes are drawn. A picture with more is unreadable.
const most = 400

// A shown is the data of the page.
type shown struct {
	Snapshot
	Frame  frame
	Fold   dataflow.Folding
	Graph  dataflow.Graph
	SVG    template.HTML
	TooBig bool
	Rows   []row
}

// A row is an operator in the table.
type row struct {
	Operator
	dataflow.GraphOperator
	N     int
	Place string // location
	Text  string // reason or proof
	Stops bool
}

func (v *view) servePage(w http.ResponseWriter, r *http.Request) {
	if !known(w, r, "fold") {
		return
	}
	fold := v.fold
	if q := r.URL.Query(); q.Has("fold") {
		n := slices.Index([]string{"0", "1", "2"}, q.Get("fold"))
		if n < 0 {
			refuse(w, http.StatusBadRequest, "fold is 0, 1 or 2")
			return
		}
		fold = dataflow.Folding(n)
	}
	s := shown{Snapshot: Take(v.app), Frame: v.frame(flowTab, pageJS), Graph: v.graph, Fold: fold}
	stops := make(map[int]bool)
	for _, stopped := range s.Stopped {
		stops[stopped.Operator] = true
	}
	for i, o := range v.graph.Operators {
		s.Rows = append(s.Rows, row{s.Operators[i], o, i, v.graph.Locations[o.Location], string(o.Why) + string(o.Proof), stops[i]})
	}
	if s.TooBig = v.graph.Boxes(s.Fold) > most; !s.TooBig {
		s.SVG = template.HTML(v.graph.Draw(dataflow.Drawing{Fold: s.Fold, Box: func(ops []int) (line, link string, stopped bool) {
			for _, o := range ops {
				stopped = stopped || stops[o]
			}
			return s.line(v.graph, ops, stopped), fmt.Sprint("#op", ops[0]), stopped
		}})) // Draw escapes what it draws
	}
	v.write(w, http.StatusOK, "page", s)
}

// line returns the second line of a box: what came to its last operator,
// and what its operators keep.
func (s *shown) line(g dataflow.Graph, ops []int, stopped bool) string {
	o := s.Operators[ops[len(ops)-1]]
	kept := 0
	for _, i := range ops {
		kept += s.Operators[i].Kept
	}
	switch {
	case stopped:
		return "FULL"
	case s.Counted && kept > 0:
		return fmt.Sprintf("%s in · %s kept", count(o.Entered), count(uint64(kept)))
	case s.Counted:
		return count(o.Entered) + " in"
	case kept > 0:
		return count(uint64(kept)) + " kept"
	case len(ops) > 1:
		return fmt.Sprintf("%d operators", len(ops))
	}
	return g.Operators[ops[0]].Pos
}
