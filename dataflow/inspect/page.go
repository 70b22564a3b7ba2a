package inspect

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/picture"
)

// The sources of the page are what browsers get.
var (
	//go:embed page/page.html
	pageHTML string
	//go:embed page/page.css
	ownCSS string
	//go:embed page/page.js
	pageJS string
)

// pageCSS is the style sheet of the page and of the picture in it.
var pageCSS = picture.Style + ownCSS

// policy is the content security policy of the page: its own style sheet and script by their
// digests, answers of this handler, and nothing else.
var policy = "default-src 'none'; connect-src 'self'; img-src data:; style-src " + digest(pageCSS) + "; script-src " + digest(pageJS) +
	"; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

func digest(source string) string {
	d := sha256.Sum256([]byte(source))
	return "'sha256-" + base64.StdEncoding.EncodeToString(d[:]) + "'"
}

var pages = template.Must(template.Must(template.New("page").Funcs(template.FuncMap{
	"css":   func() template.CSS { return template.CSS(pageCSS) },
	"js":    func() template.JS { return template.JS(pageJS) },
	"plain": func(s string) string { return picture.Text(s, longestText) },
	"ago":   ago,
	"size":  size,
}).Parse(pageHTML)).New("keys").Parse(keysHTML))

// longestText is how many characters of a name or a reason are shown.
const longestText = 1000

// most is how many boxes are drawn: the lines of more are no picture.
const most = 400

// A shown is what the page shows.
type shown struct {
	Snapshot
	Name   string
	Fold   dataflow.Folding
	Graph  dataflow.Graph
	SVG    template.HTML
	TooBig bool
	Values bool
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
	s := shown{Snapshot: Take(v.app), Name: v.options.Name, Graph: v.graph, Fold: fold, Values: v.options.Values}
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
		}})) // which escapes what it draws
	}
	v.write(w, http.StatusOK, "page", s)
}

// write answers with a page.
func (v *view) write(w http.ResponseWriter, status int, page string, shown any) {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, page, shown); err != nil {
		v.options.Logger.Error("inspect: the page cannot be made", "error", err)
		refuse(w, http.StatusInternalServerError, "the page cannot be made")
		return
	}
	w.Header().Set("Content-Security-Policy", policy)
	answer(w, status, "text/html; charset=utf-8", b.Bytes())
}

// line is the second line of a box: what came to its last operator, and what it keeps.
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

// count returns a number as people read it.
func count(n uint64) string {
	switch {
	case n < 10_000:
		return strconv.FormatUint(n, 10)
	case n < 1_000_000:
		return strconv.FormatFloat(float64(n)/1e3, 'f', 1, 64) + "K"
	case n < 1_000_000_000:
		return strconv.FormatFloat(float64(n)/1e6, 'f', 1, 64) + "M"
	default:
		return strconv.FormatFloat(float64(n)/1e9, 'f', 1, 64) + "G"
	}
}

func size(n uint64) string {
	switch {
	case n < 1<<10:
		return strconv.FormatUint(n, 10) + " B"
	case n < 1<<20:
		return strconv.FormatFloat(float64(n)/(1<<10), 'f', 1, 64) + " KiB"
	case n < 1<<30:
		return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MiB"
	default:
		return strconv.FormatFloat(float64(n)/(1<<30), 'f', 1, 64) + " GiB"
	}
}

// ago returns how long before now a time was.
func ago(now, t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	d := now.Sub(t)
	if d < 0 {
		return "in " + (-d).Round(time.Second).String()
	}
	if d < time.Second {
		return "now"
	}
	return d.Round(time.Second).String() + " ago"
}
