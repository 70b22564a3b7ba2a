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

// A remembering flow is a [durable.App]: it has a history.
type remembering interface {
	History(ctx context.Context) (*durable.History, error)
}

// How long steps are made again for one answer, and for a download.
const (
	replayTime = 2 * time.Second
	exportTime = time.Minute
)

// exportBytes is how large a download is at most.
const exportBytes = 64 << 20

// A past is the history of a flow as it is shown. Steps are made again for one request at a time, since each
// has another flow in memory.
type past struct {
	app remembering // nil if the flow has no history

	busy    chan struct{} // of capacity 1: steps are made again
	mu      sync.Mutex
	history *durable.History // nil if nobody has asked for a while
	idle    *time.Timer      // forgets it, with the images that it keeps in memory
}

// pastKept is how long the history is kept for who asks again.
const pastKept = time.Minute

func newPast(app App) *past {
	p := &past{busy: make(chan struct{}, 1)}
	p.app, _ = app.(remembering)
	return p
}

// errBusy is that steps are made again for somebody else.
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

// forget forgets the history. A request that has it goes on with it: the log is that of the flow, so nothing has to be closed.
func (p *past) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.history = nil
}

// replay calls do with the history, unless it is called for another request now.
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

// pastStatus is the status and the text of an error of a history.
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

// errHidden is that keys and values are not shown.
var errHidden = errors.New("keys and values are not shown here: see inspect.Options.Values")

// refusePast answers why nothing of the history is shown.
func refusePast(w http.ResponseWriter, err error) {
	status, text := pastStatus(err)
	retryLater(w, status)
	refuse(w, status, text)
}

// retryLater says when to ask again, where that helps.
func retryLater(w http.ResponseWriter, status int) {
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
}

// numberIn reads a number from a request, or returns another one if it has none.
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

// largest is the greatest number of a step: JSON has no greater one without loss.
const largest = 1 << 53

// keyIn reads the key that a request asks for, or returns nil if it has none. Types of several packages may have
// one name: the first one is taken that the text is a key of.
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

// errTooLarge is that a download is too large.
var errTooLarge = fmt.Errorf("the steps have more than %d bytes: write fewer of them, or all with the program's command when no process runs the flow", exportBytes)

// A bounded is a buffer that does not become too large.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > exportBytes {
		return 0, errTooLarge
	}
	return b.Buffer.Write(p)
}

// gave returns what a step gave at each output, as text, so many lines at most.
func gave(h *durable.History, partition int, outputs []byte, most int) (lines []string, more int, err error) {
	var b strings.Builder
	if err := h.DescribeOutputs(&b, partition, outputs); err != nil || b.Len() == 0 {
		return nil, 0, err
	}
	lines = strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	n := min(len(lines), most)
	return lines[:n], len(lines) - n, nil
}
