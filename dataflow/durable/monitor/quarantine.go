package monitor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/millrace/millrace/dataflow/durable"
)

// A Quarantined is a flow with a quarantine, such as a [durable.App].
type Quarantined interface {
	Quarantine(ctx context.Context) ([]durable.Letter, error)
	Retry(ctx context.Context, partition int, id uint64) error
	Drop(ctx context.Context, partition int, id uint64) error
}

// A Letter is a [durable.Letter] in JSON. Key and Record are the stored bytes, in base64.
type Letter struct {
	Partition int       `json:"partition"`
	ID        uint64    `json:"id"`
	Location  string    `json:"location"`
	Input     string    `json:"input"`
	Operator  string    `json:"operator,omitempty"`
	Reason    string    `json:"reason"`
	At        time.Time `json:"at"`
	Key       []byte    `json:"key,omitempty"`
	Record    []byte    `json:"record,omitempty"`
	Behind    int       `json:"behind"`
}

// Quarantine returns a handler that lists, retries and drops the records that the program could not handle, in
// a running flow, in any of its processes.
//
//	GET  /quarantine                          200 and a JSON array of Letter
//	POST /quarantine/{partition}/{id}/retry   204 when the program has handled it
//	POST /quarantine/{partition}/{id}/drop    204 when it is forgotten
//
// Other answers have the body {"error": why} and are 404 if there is no such letter, 409 if the program still
// cannot handle it or a record that waits behind it, and 503 if the flow has ended, or its partition has
// stopped or does not answer. Anybody who can reach the handler can read records and have them forgotten: check
// the client in a handler in front of this one. The command `millrace durable quarantine` uses it. The handler
// may serve any number of requests at the same time. Quarantine panics if flow is nil.
func Quarantine(flow Quarantined) http.Handler {
	if flow == nil {
		panic("monitor: Quarantine needs a flow: what durable.Start returned")
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /quarantine", func(w http.ResponseWriter, r *http.Request) {
		letters, err := flow.Quarantine(r.Context())
		if err != nil {
			refuse(w, err)
			return
		}
		all := make([]Letter, len(letters))
		for i, l := range letters {
			all[i] = Letter(l)
		}
		answerJSON(w, http.StatusOK, all)
	})
	mux.HandleFunc("POST /quarantine/{partition}/{id}/retry", order(flow.Retry))
	mux.HandleFunc("POST /quarantine/{partition}/{id}/drop", order(flow.Drop))
	return mux
}

// order handles requests to do something to the letter in the path.
func order(do func(ctx context.Context, partition int, id uint64) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		partition, err := strconv.Atoi(r.PathValue("partition"))
		id, e := strconv.ParseUint(r.PathValue("id"), 10, 64)
		if err != nil || e != nil {
			refuse(w, durable.ErrNoLetter)
			return
		}
		if err := do(r.Context(), partition, id); err != nil {
			refuse(w, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

// refuse answers with an error and the status for it.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusServiceUnavailable
	switch {
	case errors.Is(err, durable.ErrNoLetter):
		status = http.StatusNotFound
	case errors.As(err, new(*durable.QuarantinedError)):
		status = http.StatusConflict
	}
	problem(w, status, err)
}

// problem answers with an error in JSON.
func problem(w http.ResponseWriter, status int, err error) {
	answerJSON(w, status, struct {
		Error string `json:"error"`
	}{err.Error()})
}

func answerJSON(w http.ResponseWriter, status int, v any) {
	var text bytes.Buffer
	_ = json.NewEncoder(&text).Encode(v) // texts, numbers and times
	answer(w, status, "application/json", text.Bytes())
}
