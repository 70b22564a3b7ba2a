package inspect

import (
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/keytext"
)

//go:embed page/keys.html
var keysHTML string

// A keysShown is the data of the page of keys.
type keysShown struct {
	Frame   frame
	At      time.Time
	Graph   dataflow.Graph
	Durable bool
	Types   []string // of keys
	Keyed   []int    // operators that remember something by key

	Type, Key string
	Asked     bool
	Wrong     string
	Found     []entry
	Absent    []int  // operators that have keys of the type, but not this one
	Next      string // link to more entries
}

// serveKeysPage shows what is remembered of a key, or entries of an operator, if a request asks for one.
func (v *view) serveKeysPage(w http.ResponseWriter, r *http.Request) {
	if !known(w, r, "type", "key", "operator", "state", "partition", "from", "most") || !v.shows(w) {
		return
	}
	q := r.URL.Query()
	_, durable := v.app.(kept)
	s := keysShown{Frame: v.frame(keysTab, ""), At: time.Now(), Graph: v.graph, Durable: durable, Type: q.Get("type"), Key: q.Get("key")}
	for i, o := range v.graph.Operators {
		for _, state := range o.States {
			if state.Key != nil {
				s.Keyed = append(s.Keyed, i)
			}
		}
	}
	s.Keyed = slices.Compact(s.Keyed)
	for _, t := range v.keyTypes() {
		s.Types = append(s.Types, t.String())
	}
	s.Types = slices.Compact(s.Types)
	status := http.StatusOK
	if err := v.look(r, &s); err != nil {
		s.Wrong = err.Error()
		status = http.StatusServiceUnavailable
		switch {
		case errors.Is(err, dataflow.ErrNoState):
			status = http.StatusNotFound
		case errors.Is(err, keytext.Err), errors.Is(err, errQuery):
			status = http.StatusBadRequest
		}
	}
	v.write(w, status, "keys", s)
}

// errQuery says that the parameters of a request are invalid.
var errQuery = errors.New("the parameters cannot be read")

// look fills in what a request asks for.
func (v *view) look(r *http.Request, s *keysShown) (err error) {
	q := r.URL.Query()
	switch {
	case q.Has("key"):
		s.Asked = true
		if s.Found, err = v.find(r.Context(), s.Type, s.Key); err != nil {
			return err
		}
		for i, o := range v.graph.Operators {
			has := slices.ContainsFunc(o.States, func(state dataflow.GraphState) bool { return state.Key != nil && state.Key.String() == s.Type })
			if has && !slices.ContainsFunc(s.Found, func(e entry) bool { return e.Operator == i }) {
				s.Absent = append(s.Absent, i)
			}
		}
	case q.Has("operator"):
		s.Asked = true
		of, err := v.pageOf(r)
		if err != nil {
			return fmt.Errorf("%w: %w", errQuery, err)
		}
		found, next, err := v.entries(r.Context(), of)
		if s.Found = found; err != nil {
			return err
		}
		more := fmt.Sprintf("keys?operator=%d&state=%d&most=%d", of.operator, of.state, of.most)
		if s.Durable {
			more += fmt.Sprintf("&partition=%d", of.partition)
		}
		if next != nil {
			s.Next = fmt.Sprintf("%s&from=%d", more, *next)
		} else if p := v.nextPartition(of); p >= 0 {
			s.Next = fmt.Sprintf("%s&partition=%d", strings.Split(more, "&partition")[0], p)
		}
	}
	return nil
}

// nextPartition returns the partition after that of a page, or -1 if that is
// the last one of its location.
func (v *view) nextPartition(of pageOf) int {
	app, ok := v.app.(kept)
	if !ok {
		return -1
	}
	all := app.Status()
	if next := of.partition + 1; next < len(all) && all[next].Location == all[of.partition].Location {
		return next
	}
	return -1
}
