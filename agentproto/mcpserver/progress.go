package mcpserver

import (
	"context"
	"math"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto/host"
)

// A client that has sent a progress token is notified of the progress that the tool reports, and, if the tool reports nothing,
// that the call is still running: see doc/decisions/0117-progress-is-a-view.md.

// progressEvery is how often a held request without news notifies a client that asks for progress.
const progressEvery = 15 * time.Second

// progressRate is how many notifications per second one request may send, in the long run.
const progressRate = 5

// progressStep is the increment of the value if the tool has not reported more: the value must grow with each notification.
const progressStep = 0.001

// A progress is what the client of a request was last notified of. In the zero value it was notified of nothing.
type progress struct {
	told   bool
	value  float64
	number uint64 // of the tool's last report
	said   string
	bucket bucket
	taken  bool // the bucket has granted the next notification
}

// wantsProgress reports whether the client asks for progress notifications.
func (w *waiting) wantsProgress() bool { return w.req.Params.GetProgressToken() != nil }

// change waits until the call differs from w.now. A change of progress counts only if the client asks for progress and the rate
// limit allows a notification.
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

// showProgress notifies the client of the tool's latest report, if the client asks for progress and does not have this report
// yet.
func (w *waiting) showProgress(ctx context.Context) {
	p := w.now.Progress
	if p == nil || p.Number == w.progress.number || !w.wantsProgress() {
		return
	}
	w.progress.number, w.progress.said, w.progress.taken = p.Number, p.Message, false
	w.notify(ctx, p.Progress.Progress, p.Total, p.Message)
}

// showLife notifies the client that the call is still running, if the client asks for progress.
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

// showWait notifies the client every progressEvery, until ctx ends, that the call waits for its user, if the client asks for
// progress. It keeps a client that times out without notifications from giving up the call before the user has answered.
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

// notify sends a notification. A value that is not greater than the last one is increased: a tool starts again after a crash.
func (w *waiting) notify(ctx context.Context, value, total float64, message string) {
	last := w.progress.value
	if w.progress.told && value <= last {
		value = max(math.Round((last+progressStep)/progressStep)*progressStep, math.Nextafter(last, math.Inf(1)))
	}
	if math.IsInf(value, 1) {
		return
	}
	if total < value || total < 0 {
		total = 0 // unknown
	}
	w.progress.told, w.progress.value = true, value
	_ = w.req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
		ProgressToken: w.req.Params.GetProgressToken(), Progress: value, Total: total, Message: message,
	})
}
