package inspect

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
)

// Limits of one answer about the history.
const (
	mostSteps   = 200
	fewSteps    = 50
	mostTook    = 100  // records of a step
	mostGave    = 200  // lines
	mostChanged = 1000 // steps that changed a key
)

type historyJSON struct {
	Partition int        `json:"partition"`
	Location  string     `json:"location"`
	First     uint64     `json:"first"`
	Last      uint64     `json:"last"`
	Snapshot  uint64     `json:"snapshot"`
	Count     uint64     `json:"count"`
	Bytes     uint64     `json:"bytes"`
	Steps     []stepJSON `json:"steps"`
	Next      uint64     `json:"next,omitempty"` // step to continue from
}

type stepJSON struct {
	Number  uint64    `json:"n"`
	At      time.Time `json:"at,omitzero"`
	Taken   uint64    `json:"taken"` // position of the last message taken
	Refused int       `json:"refused"`
	Gave    []string  `json:"gave,omitempty"` // as text
}

type momentJSON struct {
	Partition int `json:"partition"`
	stepJSON
	Made  bool        `json:"made"` // the step was repeated, so it is known what it took and cut
	Took  []tookJSON  `json:"took"`
	Cut   []cutJSON   `json:"cut"`
	State []stateJSON `json:"state,omitempty"` // of the requested operator
	Found *[]entry    `json:"found,omitempty"` // of the requested key
	Diff  *diffJSON   `json:"diff,omitempty"`
}

type tookJSON struct {
	Operator int          `json:"operator"`
	Port     string       `json:"port,omitempty"`
	Count    int          `json:"count"`
	Records  []recordJSON `json:"records,omitempty"`
}

type recordJSON struct {
	Key   string `json:"key,omitempty"`
	Value string `json:"value"`
}

type cutJSON struct {
	Pos  string `json:"pos"`
	Runs uint64 `json:"runs"`
}

type stateJSON struct {
	Operator int     `json:"operator"`
	State    int     `json:"state"`
	Kind     string  `json:"kind"`
	Kept     int     `json:"kept"`
	Entries  []entry `json:"entries"`
}

type diffJSON struct {
	From    uint64       `json:"from"`
	To      uint64       `json:"to"`
	Changes []changeJSON `json:"changes"`
	More    int          `json:"more"`    // changes that are left out
	Partial bool         `json:"partial"` // not everything was compared
}

type changeJSON struct {
	Operator int    `json:"operator"`
	State    int    `json:"state"`
	Before   *entry `json:"before,omitempty"`
	After    *entry `json:"after,omitempty"`
}

// handlePast serves the history of a durable flow.
func (v *view) handlePast(mux *http.ServeMux) {
	if v.past.app == nil {
		return
	}
	mux.HandleFunc("GET /history", v.serveHistoryPage)
	mux.HandleFunc("GET /v1/history", v.serveHistory)
	mux.HandleFunc("GET /v1/history/{n}/state", v.serveMoment)
	mux.HandleFunc("GET /v1/history/changes", v.serveChanges)
	mux.HandleFunc("GET /v1/history/export", v.serveExport)
}

// partitionIn returns the partition in a request.
func partitionIn(r *http.Request) (int, error) {
	n, err := numberIn(r, "partition", 0, 1<<20)
	return int(n), err
}

func (v *view) serveHistory(w http.ResponseWriter, r *http.Request) {
	if !known(w, r, "partition", "from", "most") {
		return
	}
	a, err := v.steps(r)
	if err != nil {
		refusePast(w, err)
		return
	}
	answerJSON(w, http.StatusOK, a)
}

// steps lists steps of a partition.
func (v *view) steps(r *http.Request) (a historyJSON, err error) {
	partition, err := partitionIn(r)
	if err != nil {
		return a, err
	}
	from, err := numberIn(r, "from", 0, largest)
	if err != nil {
		return a, err
	}
	most, err := numberIn(r, "most", fewSteps, mostSteps)
	if err != nil {
		return a, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), replayTime)
	defer cancel()
	h, err := v.past.open(ctx)
	if err != nil {
		return a, err
	}
	if partition >= h.Partitions() {
		return a, fmt.Errorf("%w: there is no partition %d, only %d of them", durable.ErrNoStep, partition, h.Partitions())
	}
	info, err := h.Partition(ctx, partition)
	if err != nil {
		return a, err
	}
	a = historyJSON{Partition: partition, Location: h.Location(partition), Last: info.Last, Snapshot: info.Snapshot, Count: info.Steps, Bytes: info.Bytes, Steps: []stepJSON{}}
	for s, err := range h.Steps(ctx, partition) {
		if err != nil {
			return a, err
		}
		a.First = s.Number
		break
	}
	for s, err := range h.StepsAfter(ctx, partition, max(from, 1)-1) {
		if err != nil {
			return a, err
		}
		if len(a.Steps) == int(most) {
			a.Next = s.Number
			break
		}
		step, err := v.step(h, partition, s)
		if err != nil {
			return a, err
		}
		a.Steps = append(a.Steps, step)
	}
	return a, nil
}

// step returns a step in JSON, with its outputs if values may be shown.
func (v *view) step(h *durable.History, partition int, s durable.StepInfo) (stepJSON, error) {
	step := stepJSON{Number: s.Number, At: s.At.UTC(), Taken: s.Taken, Refused: s.Refused}
	if s.At.IsZero() {
		step.At = time.Time{}
	}
	if !v.options.Values {
		return step, nil
	}
	var err error
	step.Gave, _, err = gave(h, partition, s.Outputs, mostGave)
	return step, err
}

func (v *view) serveMoment(w http.ResponseWriter, r *http.Request) {
	if !known(w, r, "partition", "operator", "type", "key", "diff") {
		return
	}
	var a momentJSON
	err := v.past.replay(r.Context(), replayTime, func(ctx context.Context, h *durable.History) (err error) {
		a, err = v.moment(ctx, h, r)
		return err
	})
	if err != nil {
		refusePast(w, err)
		return
	}
	answerJSON(w, http.StatusOK, a)
}

// moment returns what a request asks for about the moment after a step.
func (v *view) moment(ctx context.Context, h *durable.History, r *http.Request) (a momentJSON, err error) {
	partition, err := partitionIn(r)
	if err != nil {
		return a, err
	}
	n, err := number("the step", r.PathValue("n"), largest)
	if err != nil {
		return a, err
	}
	q := r.URL.Query()
	if !v.options.Values && (q.Has("operator") || q.Has("key") || q.Has("diff")) {
		return a, errHidden
	}
	key, err := v.keyIn(r)
	if err != nil {
		return a, err
	}
	operator, err := numberIn(r, "operator", 0, uint64(len(v.graph.Operators)-1))
	if err != nil {
		return a, err
	}
	from, err := numberIn(r, "diff", 0, largest)
	if err != nil {
		return a, err
	}
	m, err := h.At(ctx, partition, n)
	if err != nil {
		return a, err
	}
	defer m.Close()
	a = momentJSON{Partition: partition, Made: m.Made(), Took: v.took(m, mostTook), Cut: []cutJSON{}}
	if a.stepJSON, err = v.step(h, partition, m.Step()); err != nil {
		return a, err
	}
	for _, c := range m.Cut() {
		a.Cut = append(a.Cut, cutJSON(c))
	}
	if q.Has("operator") {
		states, err := m.State(int(operator), mostEntries)
		if err != nil {
			return a, err
		}
		a.State = v.states(states, partition)
	}
	if key != nil {
		found, err := m.Lookup(key)
		if err != nil {
			return a, err
		}
		all := v.entriesOf(found, partition)
		a.Found = &all
	}
	if q.Has("diff") {
		before, err := h.At(ctx, partition, from)
		if err != nil {
			return a, err
		}
		defer before.Close()
		d, err := before.Diff(ctx, m, durable.DiffOptions{Key: key})
		if err != nil {
			return a, err
		}
		a.Diff = v.diff(d, partition)
	}
	return a, nil
}

// took returns what a step took, with records if values may be shown.
func (v *view) took(m *durable.Moment, most int) []tookJSON {
	if !v.options.Values {
		most = 0
	}
	all := []tookJSON{}
	for _, t := range m.Took(most) {
		x := tookJSON{Operator: t.Operator, Port: v.graph.Operators[t.Operator].Port, Count: t.Count}
		for _, r := range t.Records {
			x.Records = append(x.Records, recordJSON(r))
		}
		all = append(all, x)
	}
	return all
}

func (v *view) states(states []durable.OperatorState, partition int) (all []stateJSON) {
	for _, s := range states {
		all = append(all, stateJSON{s.Operator, s.State, s.Kind, s.Kept, v.entriesOf(s.Entries, partition)})
	}
	return all
}

// entriesOf returns entries in JSON.
func (v *view) entriesOf(found []dataflow.StateEntry, partition int) []entry {
	all := []entry{}
	for _, e := range found {
		all = append(all, v.pastEntry(&e, partition))
	}
	return all
}

func (v *view) pastEntry(e *dataflow.StateEntry, partition int) entry {
	x := v.entry(*e, partition)
	if !x.Due.IsZero() {
		x.Due = x.Due.UTC()
	}
	return x
}

func (v *view) diff(d durable.StateDiff, partition int) *diffJSON {
	a := &diffJSON{From: d.From.Number, To: d.To.Number, Changes: []changeJSON{}, More: d.More, Partial: d.Partial}
	for _, c := range d.Changes {
		x := changeJSON{Operator: c.Operator, State: c.State}
		if c.Before != nil {
			e := v.pastEntry(c.Before, partition)
			x.Before = &e
		}
		if c.After != nil {
			e := v.pastEntry(c.After, partition)
			x.After = &e
		}
		a.Changes = append(a.Changes, x)
	}
	return a
}
