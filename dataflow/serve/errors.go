package serve

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine/simulate"
)

// A refusal is an error that is sent as the answer to a request.
type refusal struct {
	status int
	words  string
}

func (r *refusal) Error() string { return r.words }

// The reasons why a request is refused. Clients see the words, so they contain no internal
// details.
var (
	errName    error = &refusal{http.StatusBadRequest, "the request's id must be a single header of up to 128 printable ASCII characters"}
	errRead    error = &refusal{http.StatusBadRequest, "the request's body could not be read"}
	errUnnamed error = &refusal{http.StatusBadRequest, "the request must have an id in a header: see the documentation of the service"}
	errUsed    error = &refusal{http.StatusConflict, "the request's id was used before, and its answer is not kept any more"}
	errLarge   error = &refusal{http.StatusRequestEntityTooLarge, "the request's body is too large"}
	errRunning error = &refusal{http.StatusConflict, "the request is still being handled: repeat it later"}
	errOther   error = &refusal{http.StatusUnprocessableEntity, "the request's id was used before, for another request"}
	errFailed  error = &refusal{http.StatusInternalServerError, "the service has failed"}
	errPending error = &refusal{http.StatusServiceUnavailable, "too many requests are pending"}
	errFull    error = &refusal{http.StatusServiceUnavailable, "the service is busy"}
	errEnded   error = &refusal{http.StatusServiceUnavailable, "the service has ended"}
	errGone    error = &refusal{http.StatusServiceUnavailable, "the request was given up"}
	errLate    error = &refusal{http.StatusGatewayTimeout, "there was no answer in time"}
	errWait    error = &refusal{http.StatusGatewayTimeout, "there was no answer in time: repeat the request with its id"}
)

// refused returns the refusal that a client receives for err. Gone says that the client's
// context has ended.
func (t *requestTable) refused(err error, gone bool) *refusal {
	var step *dataflow.StepError
	var why *refusal
	var full interface{ Busy() bool }
	var large interface{ TooLarge() bool }
	switch {
	case errors.As(err, &step):
		t.fail.Do(func() {
			t.opts.Log.Error("serve: the flow has failed", "router", t.name, "error", err, "stack", string(step.Stack))
		})
		err = errFailed
	case errors.As(err, &why):
	case errors.As(err, &full) && full.Busy(): // a durable flow that does not wait for room
		err = errFull
	case errors.As(err, &large) && large.TooLarge(): // for the log of a durable flow
		err = errLarge
	case gone:
		err = errGone
	case errors.Is(err, io.EOF), errors.Is(err, dataflow.ErrClosed), errors.Is(err, context.Canceled):
		err = errEnded
	default:
		t.fail.Do(func() { t.opts.Log.Error("serve: the flow has failed", "router", t.name, "error", err) })
		err = errFailed
	}
	errors.As(err, &why)
	return why
}

// late reports whether err says that an answer has not come yet.
func late(err error) bool { return errors.Is(err, errLate) || errors.Is(err, simulate.ErrQuiet) }

// refuse answers a request that has no response.
func (t *requestTable) refuse(w http.ResponseWriter, why *refusal) {
	if why.status >= http.StatusServiceUnavailable || error(why) == errRunning {
		seconds := (t.opts.RetryAfter + time.Second - 1) / time.Second
		w.Header().Set("Retry-After", strconv.Itoa(int(seconds)))
	}
	http.Error(w, why.words, why.status)
}
