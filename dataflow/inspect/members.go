package inspect

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/internal/cbor"
	"github.com/millrace/millrace/internal/edge"
)

//go:embed page/members.html
var membersHTML string

// parking are the methods of a [durable.App] for its quarantine.
type parking interface {
	Quarantine(ctx context.Context) ([]durable.Letter, error)
	Retry(ctx context.Context, partition int, id uint64) error
	Drop(ctx context.Context, partition int, id uint64) error
}

// retryTime is how long a request waits until a parked record has been retried.
const retryTime = 10 * time.Second

type membersJSON struct {
	At         time.Time    `json:"at"`
	Self       string       `json:"self,omitempty"` // the member that answers, if it owns a partition
	Partitions []memberJSON `json:"partitions"`
	Parked     []parkedJSON `json:"parked"`
	Unknown    string       `json:"unknown,omitempty"` // why some of this is not known
}

// A memberJSON is a partition. Fields that only its owner knows are missing, and
// not zero, in other processes.
type memberJSON struct {
	Number     int       `json:"n"`
	Location   string    `json:"location"`
	State      string    `json:"state"`
	Owned      bool      `json:"owned"` // by the process that answers
	Owner      string    `json:"owner,omitempty"`
	Step       *uint64   `json:"step,omitempty"`     // the last durable one
	Snapshot   *uint64   `json:"snapshot,omitempty"` // the step after which it was made, 0 for none
	Bytes      *uint64   `json:"bytes,omitempty"`    // on disk, of one replica; an estimate
	LagRecords *int      `json:"lag_records,omitempty"`
	LagBytes   *int      `json:"lag_bytes,omitempty"`
	Waiting    float64   `json:"waiting_seconds,omitempty"` // of the oldest of them
	Committed  time.Time `json:"committed,omitzero"`
	Saved      time.Time `json:"saved,omitzero"`
}

// SnapshotText returns the step after which the snapshot was made, for people.
func (m memberJSON) SnapshotText() string {
	switch {
	case m.Snapshot == nil:
		return "not known"
	case *m.Snapshot == 0:
		return "none"
	}
	return strconv.FormatUint(*m.Snapshot, 10)
}

// Size returns the size on disk, for people.
func (m memberJSON) Size() string {
	if m.Bytes == nil {
		return "not known"
	}
	return size(*m.Bytes)
}

type parkedJSON struct {
	Partition int       `json:"partition"`
	ID        uint64    `json:"id"`
	Location  string    `json:"location"`
	Input     string    `json:"input"`
	Operator  string    `json:"operator,omitempty"`
	At        time.Time `json:"at"`
	Behind    int       `json:"behind"`
	Key       string    `json:"key,omitempty"`    // as it is kept, for people
	Reason    string    `json:"reason,omitempty"` // may contain values
}

// handleMembers serves the partitions of a durable flow and their owners.
func (v *view) handleMembers(mux *http.ServeMux) {
	if v.past.app == nil {
		return
	}
	mux.HandleFunc("GET /members", v.serveMembersPage)
	mux.HandleFunc("GET /v1/members", func(w http.ResponseWriter, r *http.Request) {
		if known(w, r) {
			answerJSON(w, http.StatusOK, v.members(r.Context()))
		}
	})
	if v.options.Token != "" {
		mux.Handle("POST /members", http.NewCrossOriginProtection().Handler(http.HandlerFunc(v.handleParked)))
	}
}

// members returns what can be found out about each partition within replayTime.
func (v *view) members(ctx context.Context) (a membersJSON) {
	ctx, cancel := context.WithTimeout(ctx, replayTime)
	defer cancel()
	a = membersJSON{At: time.Now().UTC(), Partitions: []memberJSON{}, Parked: []parkedJSON{}}
	h, err := v.past.open(ctx)
	if err != nil {
		a.Unknown = err.Error()
	}
	for _, p := range v.app.(kept).Status() {
		m := memberJSON{Number: p.Partition, Location: p.Name, State: string(p.State), Owned: p.Owned, Owner: p.Owner, Committed: p.Committed.UTC(), Saved: p.Saved.UTC()}
		if p.Committed.IsZero() {
			m.Committed = time.Time{}
		}
		if p.Saved.IsZero() {
			m.Saved = time.Time{}
		}
		if p.Owned {
			a.Self = p.Owner
			m.LagRecords, m.LagBytes, m.Waiting = &p.Lag.Records, &p.Lag.Bytes, p.Waiting.Seconds()
		}
		if h != nil {
			switch info, err := h.Partition(ctx, p.Partition); {
			case err != nil:
				a.Unknown = err.Error()
			default:
				m.Step, m.Snapshot, m.Bytes = &info.Last, &info.Snapshot, &info.Bytes
			}
		}
		a.Partitions = append(a.Partitions, m)
	}
	letters, err := v.app.(parking).Quarantine(ctx)
	if err != nil {
		a.Unknown = err.Error()
	}
	for _, l := range letters {
		x := parkedJSON{Partition: l.Partition, ID: l.ID, Location: l.Location, Input: l.Input, Operator: l.Operator, At: l.At.UTC(), Behind: l.Behind}
		if v.options.Values {
			x.Key, x.Reason = keptText(l.Key), l.Reason
		}
		a.Parked = append(a.Parked, x)
	}
	return a
}

// keptText formats a stored value for people.
func keptText(data []byte) string {
	if len(data) == 0 {
		return ""
	}
	if text, rest, err := cbor.Diagnose(data); err == nil && len(rest) == 0 {
		return text
	}
	return fmt.Sprintf("%q", data)
}

// A membersShown is the data of the page of members.
type membersShown struct {
	Frame frame
	membersJSON
	Values bool
	Acts   bool // the page has forms
	Shared bool // partitions are shared by several processes
	Wrong  string
}

func (v *view) serveMembersPage(w http.ResponseWriter, r *http.Request) {
	if known(w, r) {
		v.writeMembers(w, r, http.StatusOK, "")
	}
}

func (v *view) writeMembers(w http.ResponseWriter, r *http.Request, status int, wrong string) {
	s := membersShown{Frame: v.frame(membersTab, ""), membersJSON: v.members(r.Context()), Values: v.options.Values, Acts: v.options.Token != "", Wrong: wrong}
	for _, p := range s.Partitions {
		s.Shared = s.Shared || p.Owner != "" || !p.Owned
	}
	v.write(w, status, "members", s)
}

// handleParked retries or skips a parked record.
func (v *view) handleParked(w http.ResponseWriter, r *http.Request) {
	form, err := edge.ReadForm(w, r)
	if err != nil {
		refuse(w, http.StatusBadRequest, "the form cannot be read")
		return
	}
	partition, wrong := strconv.Atoi(form.Get("partition"))
	id, failed := strconv.ParseUint(form.Get("id"), 10, 64)
	if wrong != nil || failed != nil {
		refuse(w, http.StatusBadRequest, "partition and id are numbers")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), retryTime)
	defer cancel()
	switch app := v.app.(parking); form.Get("do") {
	case "retry":
		err = app.Retry(ctx, partition, id)
	case "skip":
		err = app.Drop(ctx, partition, id)
	default:
		refuse(w, http.StatusBadRequest, "do is retry or skip")
		return
	}
	switch {
	case err == nil:
		w.Header().Set("Location", "members") // relative: the handler may be mounted anywhere
		w.WriteHeader(http.StatusSeeOther)
	case errors.Is(err, durable.ErrNoLetter):
		v.writeMembers(w, r, http.StatusNotFound, "This was retried or skipped before.")
	case errors.As(err, new(*durable.QuarantinedError)):
		v.writeMembers(w, r, http.StatusConflict, "The program still cannot handle it.")
	default:
		v.options.Logger.Error("inspect: what is parked was not handled", "partition", partition, "id", id, "error", err)
		v.writeMembers(w, r, http.StatusServiceUnavailable, "It is not known whether this was done. Look again in a moment.")
	}
}
