package agentinspect

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/millrace/millrace/internal/edge"
	"github.com/millrace/millrace/internal/sse"
)

// The limits of sending transcripts.
const (
	maxStreams = 32               // at once
	lookAgain  = time.Second      // how often the state of the thread is checked
	longest    = 10 * time.Minute // of one response; a browser reconnects by itself
)

// A standing is the state of a thread and its open prompts, as an open page shows them.
type standing struct {
	State   string   `json:"state"`
	Pending int      `json:"pending"`
	Prompts []prompt `json:"prompts"`
}

// events sends the messages of a thread as they arrive, and its state whenever it has changed, as server-sent events (WHATWG
// HTML, section 9.2). The id of a message is its number, so that a browser that was disconnected continues after it.
func (v *view) events(q request) error {
	id := q.r.URL.Query().Get("thread")
	from, err := number(q.r.URL.Query().Get("from"))
	if err != nil {
		return err
	}
	if last := q.r.Header.Get("Last-Event-ID"); last != "" {
		n, err := strconv.Atoi(last)
		if err != nil || n < 0 {
			return problem{http.StatusBadRequest, "Last-Event-ID is the number of a message"}
		}
		from = n + 1
	}
	if _, err := v.standing(q.r.Context(), id); err != nil {
		return err
	}
	select {
	case v.streams <- struct{}{}:
		defer func() { <-v.streams }()
	default:
		return fmt.Errorf("%d transcripts are being sent; that is as many as may be", maxStreams)
	}
	release, ok := edge.Hold(q.w, q.r, longest)
	if !ok {
		return nil
	}
	defer release()
	ctx, cancel := context.WithTimeout(q.r.Context(), longest)
	defer cancel()
	s := stream{sse.Begin(q.w, sse.Options{})}
	defer s.End()
	s.follow(ctx, v, id, from)
	return nil
}

// A stream is a response that is still being sent.
type stream struct{ *sse.Writer }

// follow sends messages from number from on, until ctx ends, the thread is closed, or the reader has gone.
func (s stream) follow(ctx context.Context, v *view, id string, from int) {
	messages := make(chan message)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer close(messages)
		for m, err := range v.rt.Thread(id).Follow(ctx, from) {
			if err != nil {
				return
			}
			select {
			case messages <- messageOf(&m):
			case <-ctx.Done():
				return
			}
		}
	}()
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	var now standing
	stand := func() bool {
		next := standing{Prompts: v.promptsOf(func(p prompt) bool { return p.Thread == id })}
		if t, err := v.standing(ctx, id); err == nil {
			next.State, next.Pending = t.State, t.Pending
		}
		if reflect.DeepEqual(now, next) {
			return true
		}
		now = next
		return s.send("standing", -1, next)
	}
	for stand() {
		select {
		case m, ok := <-messages:
			if !ok {
				if ctx.Err() == nil { // the thread is closed, or the runtime has stopped
					stand()
					s.send("end", -1, struct{}{})
				}
				return
			}
			if !s.send("message", m.N, m) {
				return
			}
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}

// send sends an event, and reports whether the reader may still be connected.
func (s stream) send(event string, id int, data any) bool {
	text, err := json.Marshal(data) // in the same way as the JSON of the pages
	number := ""
	if id >= 0 {
		number = strconv.Itoa(id)
	}
	return err == nil && s.Text(event, number, text) == nil
}
