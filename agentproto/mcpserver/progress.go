package mcpserver

import (
	"context"
	"math"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto/host"
)

// A client that has sent a progress token is told what the tool says of how far the call is, and that the call goes on if the tool says
// nothing: see doc/decisions/0117-progress-is-a-view.md.

// progressEvery is how often a held request shows a sign of life to a client that asks for progress.
const progressEvery = 15 * time.Second

// progressRate is how many notifications of one request are sent in a second, in the long run.
const progressRate = 5

// progressStep is by how much the value grows when the tool has not said more: it has to grow with each notification.
const progressStep = 0.001

// A progress is what the client of a request was told. The zero value is nothing yet.
type progress struct {
	told   bool
	value  float64
	number uint64 // of what the tool has said
	said   string
	bucket bucket
	taken  bool // there is room in the bucket for the next notification
}

// wantsProgress reports whether the client wants to be told.
func (w *waiting) wantsProgress() bool { return w.req.Params.GetProgressToken() != nil }

// change waits until something of the call is another than in w.now. Progress counts if the client wants to be told of it and was not
// told too much of late.
func (w *waiting) change(ctx context.Context) (host.Description, error) {
	if !w.wantsProgress() {
		return w.s.opts.Calls.Changed(ctx, w.now.Key, w.now.Version)
	}
	w.progress.bucket.rate = progressRate
	for !w.progress.taken {
		if w.progress.taken = w.progress.bucket.take(time.Now()); w.progress.taken {
			break
		}
		pause, cancel := context.WithTimeout(ctx, time.Second/progressRate)
		d, err := w.s.opts.Calls.Changed(pause, w.now.Key, w.now.Version)
		over := pause.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil || !over {
			return d, err
		}
	}
	return w.s.opts.Calls.Progressed(ctx, w.now.Key, w.now.Version, w.progress.number)
}

// showProgress tells the client what the tool has said, if it was not told and wants to be.
func (w *waiting) showProgress(ctx context.Context) {
	p := w.now.Progress
	if p == nil || p.Number == w.progress.number || !w.wantsProgress() {
		return
	}
	w.progress.number, w.progress.said, w.progress.taken = p.Number, p.Message, false
	w.notify(ctx, p.Progress.Progress, p.Total, p.Message)
}

// showLife tells the client that the call goes on, if it wants to be told.
func (w *waiting) showLife(ctx context.Context) {
	if !w.wantsProgress() {
		return
	}
	message := w.progress.said
	if message == "" {
		message = "works"
	}
	if w.now.Prompt != nil {
		message = waitsFor(w.now.Prompt)
	}
	w.notify(ctx, w.progress.value, 0, message)
}

// showWait tells the client every progressEvery that the call waits for its user, if it wants to be told, until ctx ends: a client that gives a
// call up which it hears nothing of does not give this one up before the user has answered.
func (w *waiting) showWait(ctx context.Context) {
	if !w.wantsProgress() {
		return
	}
	again := time.NewTicker(progressEvery)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			w.notify(ctx, w.progress.value, 0, "waits for the user's answer")
		case <-ctx.Done():
			return
		}
	}
}

// notify sends a notification. A value that is not more than the last one is made so: a tool begins again after a crash.
func (w *waiting) notify(ctx context.Context, value, total float64, message string) {
	last := w.progress.value
	if w.progress.told && value <= last {
		value = max(math.Round((last+progressStep)/progressStep)*progressStep, math.Nextafter(last, math.Inf(1)))
	}
	if math.IsInf(value, 1) {
		return
	}
	if total < value || total < 0 {
		total = 0 // which is none
	}
	w.progress.told, w.progress.value = true, value
	_ = w.req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
		ProgressToken: w.req.Params.GetProgressToken(), Progress: value, Total: total, Message: message,
	})
}
