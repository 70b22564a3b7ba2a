package inspect

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/internal/keytext"
)

// Methods of an [App] that look up keys.
type (
	inMemoryKeys interface {
		Lookup(ctx context.Context, key any) ([]dataflow.StateEntry, error)
		Entries(ctx context.Context, operator, state int, from uint32, most int) (dataflow.StatePage, error)
	}
	keptKeys interface {
		Lookup(ctx context.Context, key any) ([]durable.StateEntry, error)
		Entries(ctx context.Context, partition, operator, state int, from uint32, most int) (dataflow.StatePage, error)
	}
)

// An entry is what an operator remembers of a key, in JSON.
type entry struct {
	Operator  int       `json:"operator"`
	State     int       `json:"state"`
	Kind      string    `json:"kind"`
	Partition int       `json:"partition"` // -1 if the flow is not durable
	Key       string    `json:"key"`
	Value     string    `json:"value,omitempty"`
	Due       time.Time `json:"due,omitzero"`
}

// patience is how long a request waits for a step. mostEntries is the maximum number of entries on a page, fewEntries
// the default.
const (
	patience    = time.Second
	mostEntries = 200
	fewEntries  = 50
)

// find returns what the flow remembers of a key. Types of several packages may have the same name, and the text may be a
// key of each of them.
func (v *view) find(ctx context.Context, keyType, text string) (found []entry, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	same, err := v.typesNamed(keyType)
	if err != nil {
		return nil, err
	}
	read := false
	for _, t := range same {
		key, failed := keytext.Parse(t, text)
		if failed != nil {
			err = failed
			continue
		}
		read = true
		here, failed := v.findKey(ctx, key)
		if failed != nil {
			return nil, failed
		}
		found = append(found, here...)
	}
	if read {
		return found, nil
	}
	return nil, err
}

// typesNamed returns the key types with a name. There may be several, from several packages. The error lists the
// existing types.
func (v *view) typesNamed(name string) ([]reflect.Type, error) {
	types := v.keyTypes()
	same := slices.DeleteFunc(slices.Clone(types), func(t reflect.Type) bool { return t.String() != name })
	if len(same) == 0 {
		return nil, fmt.Errorf("%w: nothing has keys of type %q; the types are %v", dataflow.ErrNoState, name, types)
	}
	return same, nil
}

// keyTypes returns the types of keys, ordered by name.
func (v *view) keyTypes() (all []reflect.Type) {
	for _, o := range v.graph.Operators {
		for _, s := range o.States {
			if s.Key != nil && !slices.Contains(all, s.Key) {
				all = append(all, s.Key)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b reflect.Type) int { return strings.Compare(a.String(), b.String()) })
	return all
}

func (v *view) findKey(ctx context.Context, key any) (found []entry, err error) {
	switch app := v.app.(type) {
	case inMemoryKeys:
		all, failed := app.Lookup(ctx, key)
		for _, e := range all {
			found = append(found, v.entry(e, -1))
		}
		err = failed
	case keptKeys:
		all, failed := app.Lookup(ctx, key)
		for _, e := range all {
			found = append(found, v.entry(e.StateEntry, e.Partition))
		}
		err = failed
	}
	return found, err
}

func (v *view) entry(e dataflow.StateEntry, partition int) entry {
	return entry{e.Operator, e.State, v.graph.Operators[e.Operator].States[e.State].Kind, partition, e.Key, e.Value, e.Due}
}

func (v *view) serveKeys(w http.ResponseWriter, r *http.Request) {
	if !known(w, r, "type", "key") || !v.shows(w) {
		return
	}
	q := r.URL.Query()
	found, err := v.find(r.Context(), q.Get("type"), q.Get("key"))
	if err != nil {
		refuseLook(w, err)
		return
	}
	answerJSON(w, http.StatusOK, struct {
		Type  string  `json:"type"`
		Key   string  `json:"key"`
		Found []entry `json:"found"`
	}{q.Get("type"), q.Get("key"), append([]entry{}, found...)})
}

// A pageOf says which entries a request asks for.
type pageOf struct {
	partition, operator, state, most int
	from                             uint32
}

// entries returns a page of entries.
func (v *view) entries(ctx context.Context, of pageOf) (found []entry, next *uint32, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var p dataflow.StatePage
	switch app := v.app.(type) {
	case inMemoryKeys:
		of.partition = -1
		p, err = app.Entries(ctx, of.operator, of.state, of.from, of.most)
	case keptKeys:
		p, err = app.Entries(ctx, of.partition, of.operator, of.state, of.from, of.most)
	}
	for _, e := range p.Entries {
		found = append(found, v.entry(e, of.partition))
	}
	if p.More {
		next = &p.Next
	}
	return found, next, err
}

func (v *view) serveEntries(w http.ResponseWriter, r *http.Request) {
	if !known(w, r, "partition", "operator", "state", "from", "most") || !v.shows(w) {
		return
	}
	of, err := v.pageOf(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	found, next, err := v.entries(r.Context(), of)
	if err != nil {
		refuseLook(w, err)
		return
	}
	answerJSON(w, http.StatusOK, struct {
		Entries []entry `json:"entries"`
		Next    *uint32 `json:"next,omitempty"`
	}{append([]entry{}, found...), next})
}

// pageOf parses which entries a request asks for. The default for the partition is the
// first one of the operator's location.
func (v *view) pageOf(r *http.Request) (of pageOf, err error) {
	q := r.URL.Query()
	number := func(name string, otherwise, most int) int {
		if !q.Has(name) {
			return otherwise
		}
		n, failed := strconv.Atoi(q.Get(name))
		if failed != nil || n < 0 || n > most {
			err = fmt.Errorf("%s is a number from 0 to %d", name, most)
		}
		return n
	}
	of.operator = number("operator", -1, len(v.graph.Operators)-1)
	if of.operator < 0 && err == nil {
		return of, errors.New("operator is missing: its number in v1/graph")
	}
	of.state = number("state", 0, math.MaxInt32)
	of.most = number("most", fewEntries, mostEntries)
	of.from = uint32(number("from", 0, math.MaxInt32))
	of.partition = number("partition", -1, math.MaxInt32)
	if of.partition < 0 && err == nil {
		of.partition = v.firstPartition(v.graph.Operators[of.operator].Location)
	}
	return of, err
}

// firstPartition returns the first partition of a location of a durable flow, or -1.
func (v *view) firstPartition(location int) int {
	if app, ok := v.app.(kept); ok {
		return slices.IndexFunc(app.Status(), func(p durable.PartitionStatus) bool { return p.Location == location })
	}
	return -1
}

// shows refuses a request for keys and values unless they may be shown, and reports whether they may.
func (v *view) shows(w http.ResponseWriter) bool {
	if !v.options.Values {
		refuse(w, http.StatusForbidden, "keys and values are not shown here: see inspect.Options.Values")
	}
	return v.options.Values
}

// refuseLook answers with the error of a lookup.
func refuseLook(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, keytext.Err):
		refuse(w, http.StatusBadRequest, err.Error())
	case errors.Is(err, dataflow.ErrNoState):
		refuse(w, http.StatusNotFound, err.Error())
	default:
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusServiceUnavailable, err.Error())
	}
}
