package inspect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/internal/keytext"
)

// A remembering is a flow with a history: a [durable.App].
type remembering interface {
	History(ctx context.Context) (*durable.History, error)
}

// Time limits for repeating steps, for one answer and for a download.
const (
	replayTime = 2 * time.Second
	exportTime = time.Minute
)

// exportBytes is the maximum size of a download, in bytes.
const exportBytes = 64 << 20

// A past is the history of a flow as it is shown. It repeats steps for one request at a time, because each such request has
// another flow in memory.
type past struct {
	app remembering // nil if the flow has no history

	busy    chan struct{} // of capacity 1: full while steps are repeated
	mu      sync.Mutex
	history *durable.History // nil if it has not been used for a while
	idle    *time.Timer      // drops the history, with the images that it keeps in memory
}

// pastKept is how long an unused history is kept.
const pastKept = time.Minute

func newPast(app App) *past {
	p := &past{busy: make(chan struct{}, 1)}
	p.app, _ = app.(remembering)
	return p
}

// errBusy says that steps are being repeated for another request.
var errBusy = errors.New("steps are being made again for another request: ask again in a moment")

// open returns the history.
func (p *past) open(ctx context.Context) (*durable.History, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.history == nil {
		h, err := p.app.History(ctx)
		if err != nil {
			return nil, err
		}
		p.history, p.idle = h, time.AfterFunc(pastKept, p.forget)
	}
	p.idle.Reset(pastKept)
	return p.history, nil
}

// forget drops the history. Requests that use it can continue: the log belongs to the flow, so nothing is closed.
func (p *past) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.history = nil
}

// replay calls do with the history. If it is running for another request, it returns errBusy.
func (p *past) replay(ctx context.Context, time time.Duration, do func(ctx context.Context, h *durable.History) error) error {
	select {
	case p.busy <- struct{}{}:
		defer func() { <-p.busy }()
	default:
		return errBusy
	}
	h, err := p.open(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time)
	defer cancel()
	return do(ctx, h)
}

// pastStatus returns the status and the text for an error of a history.
func pastStatus(err error) (status int, text string) {
	switch {
	case errors.Is(err, errBusy):
		return http.StatusTooManyRequests, err.Error()
	case errors.Is(err, durable.ErrNoStep), errors.Is(err, dataflow.ErrNoState):
		return http.StatusNotFound, err.Error()
	case errors.Is(err, keytext.Err), errors.Is(err, errQuery):
		return http.StatusBadRequest, err.Error()
	case errors.Is(err, errHidden):
		return http.StatusForbidden, err.Error()
	case errors.Is(err, errTooLarge):
		return http.StatusRequestEntityTooLarge, err.Error()
	case errors.Is(err, durable.ErrDiverged), errors.Is(err, durable.ErrChanged):
		return http.StatusConflict, err.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable, "the steps were not made again in time: ask again, and it goes on from where it came to"
	default:
		return http.StatusServiceUnavailable, err.Error()
	}
}

// errHidden says that keys and values are not shown.
var errHidden = errors.New("keys and values are not shown here: see inspect.Options.Values")

// refusePast answers with an error of the history.
func refusePast(w http.ResponseWriter, err error) {
	status, text := pastStatus(err)
	retryLater(w, status)
	refuse(w, status, text)
}

// retryLater tells the client when to ask again, if that helps.
func retryLater(w http.ResponseWriter, status int) {
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
}

// numberIn returns a number from a request, or otherwise if the request does not contain it.
func numberIn(r *http.Request, name string, otherwise, most uint64) (uint64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	return number(name, text, most)
}

func number(name, text string, most uint64) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n > most {
		return 0, fmt.Errorf("%w: %s is a number from 0 to %d", errQuery, name, most)
	}
	return n, nil
}

// largest is the greatest number of a step. JSON cannot represent greater ones exactly.
const largest = 1 << 53

// keyIn returns the key in a request, or nil if there is none. Types of several packages may have one name. Then the first
// type counts for which the text is a valid key.
func (v *view) keyIn(r *http.Request) (key any, err error) {
	q := r.URL.Query()
	if !q.Has("key") || q.Get("key") == "" && q.Get("type") == "" {
		return nil, nil
	}
	if !v.options.Values {
		return nil, errHidden
	}
	same, err := v.typesNamed(q.Get("type"))
	if err != nil {
		return nil, err
	}
	for _, t := range same {
		if key, err = keytext.Parse(t, q.Get("key")); err == nil {
			return key, nil
		}
	}
	return nil, err
}

// errTooLarge says that a download is too large.
var errTooLarge = fmt.Errorf("the steps have more than %d bytes: write fewer of them, or all with the program's command when no process runs the flow", exportBytes)

// A bounded is a buffer of limited size.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > exportBytes {
		return 0, errTooLarge
	}
	return b.Buffer.Write(p)
}

// gave returns what a step gave at each output, as text of at most most lines, and the number of further lines.
func gave(h *durable.History, partition int, outputs []byte, most int) (lines []string, more int, err error) {
	var b strings.Builder
	if err := h.DescribeOutputs(&b, partition, outputs); err != nil || b.Len() == 0 {
		return nil, 0, err
	}
	lines = strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	n := min(len(lines), most)
	return lines[:n], len(lines) - n, nil
}
