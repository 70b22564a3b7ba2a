package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/millrace/millrace/internal/edge"
	"github.com/millrace/millrace/internal/sse"
)

// A Client follows threads over the HTTP API of a runtime. Its methods are safe for concurrent use.
type Client struct {
	URL   string // URL of the API, such as http://127.0.0.1:7341
	Token string // token of the API; empty if it requires none
	// HTTP makes the requests. Nil means a client that uses no proxy and follows no redirects, which must not receive the token.
	HTTP *http.Client
	// Lost, if not nil, is called when the connection breaks or cannot be made, before the client waits and tries again.
	Lost func(err error)
}

// An Event is an event sent by a server. The field that belongs to Name is set.
type Event struct {
	Name    string // such as [MessageEvent]
	Message *Message
	State   *State
	Prompts []Prompt
	View    *View
	Delta   *Delta // of [DeltaEvent] and [ResetEvent]
}

// The durations and limits of a client.
const (
	firstPause = time.Second      // unless the server says otherwise
	longPause  = 10 * time.Second // the longest pause
	silence    = 45 * time.Second // after which a connection counts as broken: a server sends something every 15 s
	maxEvent   = 64 << 20
)

var errSilent = errors.New("the server has sent nothing for 45 s")

// direct makes the requests of clients without an HTTP client of their own.
var direct = edge.NewClient(edge.Outbound{Dial: new(net.Dialer).DialContext}.Transport()).Standard(0, 0)

// Follow returns the events of a thread, with its messages from number from on. When the connection breaks or the server is
// unavailable, it retries for as long as ctx permits, and continues after the last message it has. Deltas received before are
// then void, which a [ResetEvent] says. The sequence ends when the thread is closed, or with an error when ctx ends or the server
// refuses the request permanently, for example because the thread does not exist.
func (c *Client) Follow(ctx context.Context, thread string, from int) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		last, pause := "", firstPause
		for {
			got, again, err := c.once(ctx, thread, from, &last, yield)
			switch {
			case errors.Is(err, errStop):
				return
			case err == nil && again == 0:
				return
			case again == 0 || ctx.Err() != nil:
				if ctx.Err() != nil {
					err = context.Cause(ctx)
				}
				yield(Event{}, err)
				return
			}
			if c.Lost != nil {
				c.Lost(err)
			}
			if got && !yield(Event{Name: ResetEvent, Delta: &Delta{}}, nil) {
				return
			}
			if got {
				pause = again
			}
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				yield(Event{}, context.Cause(ctx))
				return
			}
			pause = min(2*pause, longPause)
		}
	}
}

// errStop says that the reader has stopped.
var errStop = errors.New("stop")

// once makes one request and yields its events. It reports whether there were any, and how long to wait before the next request,
// or zero if no further request is to be made.
func (c *Client) once(ctx context.Context, thread string, from int, last *string, yield func(Event, error) bool) (got bool, again time.Duration, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer watch.Stop()
	at := fmt.Sprintf("%s/threads/%s/events?from=%d", strings.TrimSuffix(c.URL, "/"), edge.Segment(thread), from)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return false, 0, err
	}
	r.Header.Set("Accept", "text/event-stream")
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	if *last != "" {
		r.Header.Set("Last-Event-ID", *last)
	}
	client := c.HTTP
	if client == nil {
		client = direct
	}
	resp, err := client.Do(r)
	if err != nil {
		return false, firstPause, edge.WithoutURL(err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNoContent:
		return false, 0, nil
	case resp.StatusCode == http.StatusOK && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream"):
	default:
		err := refusal(resp)
		if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500 {
			return false, firstPause, err
		}
		return false, 0, err
	}
	in := sse.NewReader(resp.Body, maxEvent)
	in.Heard = func() { watch.Reset(silence) }
	for {
		read, err := in.Next()
		if in.ID != "" {
			*last = in.ID
		}
		if again = in.Retry; again == 0 {
			again = firstPause
		}
		if err != nil {
			if errors.Is(context.Cause(ctx), errSilent) {
				err = errSilent
			}
			return got, again, err
		}
		got = true
		if read.Name == ClosedEvent {
			yield(Event{Name: ClosedEvent}, nil)
			return got, 0, nil
		}
		e, err := decode(read)
		if err != nil {
			return got, 0, fmt.Errorf("follow: an event %q cannot be read: %w", read.Name, err)
		}
		watch.Stop() // the time that the reader takes does not count as silence
		if !yield(e, nil) {
			return got, 0, errStop
		}
		watch.Reset(silence)
	}
}

// decode decodes an event. For an unknown name it sets only Name.
func decode(read sse.Event) (e Event, err error) {
	e.Name = read.Name
	switch e.Name {
	case MessageEvent:
		err = json.Unmarshal(read.Data, &e.Message)
		if err == nil && e.Message != nil && strconv.Itoa(e.Message.N) != read.ID {
			err = fmt.Errorf("message %d has the id %q", e.Message.N, read.ID)
		}
	case StateEvent:
		err = json.Unmarshal(read.Data, &e.State)
	case PromptsEvent:
		err = json.Unmarshal(read.Data, &e.Prompts)
	case ViewEvent:
		err = json.Unmarshal(read.Data, &e.View)
	case DeltaEvent, ResetEvent:
		err = json.Unmarshal(read.Data, &e.Delta)
	}
	if err == nil && string(read.Data) == "null" {
		err = errors.New("it is null")
	}
	return e, err
}

// refusal returns the error in a server's response.
func refusal(resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	var p struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(text, &p) == nil && p.Error != "" {
		return errors.New(p.Error)
	}
	return fmt.Errorf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
}
