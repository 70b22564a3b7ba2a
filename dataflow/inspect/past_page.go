package inspect

import (
	"context"
	_ "embed"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
)

//go:embed page/history.html
var historyHTML string

// Limits of the page of a step.
const (
	pageTook    = 20
	pageGave    = 50
	pageChanges = 60 // changes of state, and entries of an operator
	pageChanged = 50 // steps that changed a key
)

// A pastShown is the data of the page of a step.
type pastShown struct {
	Frame      frame
	Graph      dataflow.Graph
	Values     bool
	Partitions []string // names of their locations
	Partition  int
	Types      []string
	Type, Key  string
	Before     string // number of the step to compare with, as requested
	Operator   int    // whose entries are shown, or -1

	Wrong    string
	Place    durable.StepPlace
	Moment   momentJSON
	Gave     []string
	MoreGave int
	Asked    bool // a key was requested
	Found    []entry
	Changes  changesJSON
	Diff     *diffJSON
}

func (v *view) serveHistoryPage(w http.ResponseWriter, r *http.Request) {
	if !known(w, r, "partition", "step", "before", "type", "key", "operator") {
		return
	}
	q := r.URL.Query()
	s := pastShown{Frame: v.frame(historyTab, ""), Graph: v.graph, Values: v.options.Values, Type: q.Get("type"), Key: q.Get("key"), Before: q.Get("before"), Operator: -1}
	for _, t := range v.keyTypes() {
		s.Types = append(s.Types, t.String())
	}
	s.Types = slices.Compact(s.Types)
	status := http.StatusOK
	if err := v.past.replay(r.Context(), replayTime, func(ctx context.Context, h *durable.History) error { return v.lookBack(ctx, h, r, &s) }); err != nil {
		status, s.Wrong = pastStatus(err)
		retryLater(w, status)
	}
	v.write(w, status, "history", s)
}

// lookBack fills in what a request asks for.
func (v *view) lookBack(ctx context.Context, h *durable.History, r *http.Request, s *pastShown) (err error) {
	for p := range h.Partitions() {
		s.Partitions = append(s.Partitions, h.Location(p))
	}
	q := r.URL.Query()
	if !v.options.Values && (s.Key != "" || q.Has("operator")) {
		return errHidden
	}
	if s.Partition, err = partitionIn(r); err != nil {
		return err
	}
	step, err := numberIn(r, "step", 0, largest)
	if err != nil {
		return err
	}
	key, err := v.keyIn(r)
	if err != nil {
		return err
	}
	if q.Get("operator") != "" {
		n, err := numberIn(r, "operator", 0, uint64(len(v.graph.Operators)-1))
		if err != nil {
			return err
		}
		s.Operator = int(n)
	}
	if s.Place, err = h.Place(ctx, s.Partition, step); err != nil {
		return err
	}
	before, err := numberIn(r, "before", s.Place.Previous, largest)
	if err != nil {
		return err
	}
	var was *durable.Moment
	if v.options.Values && before > 0 {
		switch was, err = h.At(ctx, s.Partition, before); {
		case err == nil:
			defer was.Close()
		case !errors.Is(err, durable.ErrNoStep) || s.Before != "": // otherwise no step before this one is kept
			return err
		}
	}
	m, err := h.At(ctx, s.Partition, s.Place.Number)
	if err != nil {
		return err
	}
	defer m.Close()
	info := m.Step()
	s.Moment = momentJSON{Partition: s.Partition, Made: m.Made(), Took: v.took(m, pageTook)}
	s.Moment.stepJSON = stepJSON{Number: info.Number, At: info.At.UTC(), Taken: info.Taken, Refused: info.Refused}
	for _, c := range m.Cut() {
		s.Moment.Cut = append(s.Moment.Cut, cutJSON(c))
	}
	if !v.options.Values {
		return nil
	}
	if s.Gave, s.MoreGave, err = gave(h, s.Partition, info.Outputs, pageGave); err != nil {
		return err
	}
	if was != nil {
		d, err := was.Diff(ctx, m, durable.DiffOptions{Key: key, Most: pageChanges})
		if err != nil {
			return err
		}
		s.Diff = v.diff(d, s.Partition)
	}
	if s.Operator >= 0 {
		states, err := m.State(s.Operator, pageChanges)
		if err != nil {
			return err
		}
		s.Moment.State = v.states(states, s.Partition)
	}
	if key != nil {
		s.Asked = true
		found, err := m.Lookup(key)
		if err != nil {
			return err
		}
		s.Found = v.entriesOf(found, s.Partition)
		if s.Changes, err = v.changes(ctx, h, s.Partition, key, 0, 0, pageChanged); err != nil {
			return err
		}
	}
	return nil
}

// To returns a link to a step, with all other parameters of the request.
func (s pastShown) To(step uint64) string {
	q := url.Values{"partition": {strconv.Itoa(s.Partition)}, "step": {strconv.FormatUint(step, 10)}}
	if s.Key != "" {
		q.Set("type", s.Type)
		q.Set("key", s.Key)
	}
	if s.Operator >= 0 {
		q.Set("operator", strconv.Itoa(s.Operator))
	}
	return "history?" + q.Encode()
}

// Of returns a link to the entries of an operator at the same step.
func (s pastShown) Of(operator int) string {
	s.Operator = operator
	return s.To(s.Place.Number)
}

// Keeps returns the operators of the location that remember something.
func (s pastShown) Keeps() (all []int) {
	for i, o := range s.Graph.Operators {
		if len(o.States) > 0 && s.Partition < len(s.Partitions) && s.Graph.Locations[o.Location] == s.Partitions[s.Partition] {
			all = append(all, i)
		}
	}
	return all
}

// Named returns the name of an operator, for people.
func (s pastShown) Named(operator int) string {
	o := s.Graph.Operators[operator]
	return strings.TrimSpace(o.Name + " " + o.Label + o.Port)
}
