package mcptools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// How often a watched resource is read: at most once in watchPause, and at least once in watchAgain even if the server reports
// no change, since a stream may have broken unnoticed.
const (
	watchPause = 5 * time.Second
	watchAgain = time.Minute
)

// maxEvent is how many bytes of a resource one event contains.
const maxEvent = 192 << 10

// A watching is the state of a subscription to a resource.
type watching struct {
	URI    string `json:"uri"`
	Digest string `json:"digest"` // of the last shown text
}

// openWatch reads a resource and opens a subscription to it. It also tries to subscribe to the resource at the server, since the
// user can be asked to authorize that only until the call has its result.
func (m *member) openWatch(ctx context.Context, args []byte) (*agentproto.ToolResult, *json.RawMessage, error) {
	uri, err := uriOf(args)
	if err != nil {
		return nil, nil, err
	}
	text, err := m.watched(ctx, uri)
	if err != nil {
		return nil, nil, err
	}
	err = m.query(ctx, func(ctx context.Context, s *session) error {
		updates, err := s.subscribe(ctx, uri)
		if err == nil {
			s.unsubscribe(uri, updates)
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	state, err := json.Marshal(watching{uri, textDigest(text)})
	return &agentproto.ToolResult{Text: &text}, (*json.RawMessage)(&state), err
}

// watched returns a resource as a text.
func (m *member) watched(ctx context.Context, uri string) (string, error) {
	contents, err := m.contents(ctx, uri)
	if err != nil {
		return "", err
	}
	var parts []string
	for _, c := range contents {
		item := contentOf(c, 0) // an event has no images
		parts = append(parts, item.Text)
	}
	text := strings.Join(parts, "\n")
	if len(text) > maxEvent {
		text = strings.ToValidUTF8(text[:maxEvent], "") + "\n[the rest is left out]"
	}
	return text, nil
}

func textDigest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// watch sends the events of a subscription until its context ends. After a restart of the server or of this process it continues
// with what has changed since the last event.
func (m *member) watch(ctx context.Context, sub *toolserver.Subscription[json.RawMessage]) error {
	var state watching
	if err := json.Unmarshal(sub.State(), &state); err != nil {
		return err
	}
	a, err := m.enter(ctx)
	if err != nil {
		return err
	}
	defer a.leave()
	w := &watch{
		digest: state.Digest,
		read:   func(ctx context.Context) (string, error) { return m.watched(ctx, state.URI) },
		send: func(ctx context.Context, text, digest string) error {
			next, err := json.Marshal(watching{state.URI, digest})
			if err != nil {
				return err
			}
			return sub.Send(ctx, toolserver.Event{Text: text}, next)
		},
	}
	for pause := pauses[0]; ; {
		s, err := a.link.session(ctx, true)
		if err == nil {
			var updates *updates
			if updates, err = m.subscribe(ctx, s, state.URI); err == nil {
				before := w.last
				err = w.follow(ctx, updates)
				s.unsubscribe(state.URI, updates)
				if w.last.After(before) {
					pause = pauses[0]
				}
			}
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, new(sendError)), errors.As(err, new(accessError)):
			return err
		}
		if c, ok := challengeIn(err); ok {
			if err := a.answer(c); err != nil {
				return err
			}
			continue
		}
		m.log.Info("the connection to a watched resource is made again", "server", m.server.Name, "uri", short(state.URI), "error", err)
		if err := sleep(ctx, pause, nil); err != nil {
			return err
		}
		pause = min(2*pause, pauses[len(pauses)-1])
	}
}

// A watch reads a resource repeatedly.
type watch struct {
	read   func(ctx context.Context) (string, error)
	send   func(ctx context.Context, text, digest string) error
	digest string    // of the last sent text
	last   time.Time // when it was last read
}

// A sendError says that an event cannot be sent.
type sendError struct{ error }

var errStreamEnded = errors.New("the stream of changes has ended")

// follow reads the resource when it has changed, and sends it if it differs from what was last sent. It returns an error when
// there will be no more updates, or the resource cannot be read.
func (w *watch) follow(ctx context.Context, u *updates) error {
	for {
		if err := u.sleep(ctx, time.Until(w.last.Add(watchPause))); err != nil {
			return err
		}
		select {
		case <-u.changed: // the read below covers the change
		default:
		}
		text, err := w.read(ctx)
		if refused, ok := errors.AsType[refusedError](err); ok {
			text, err = "[the resource cannot be read: "+refused.message+"]", nil
		}
		if err != nil {
			return err
		}
		w.last = time.Now()
		if digest := textDigest(text); digest != w.digest {
			if err := w.send(ctx, text, digest); err != nil {
				return sendError{err}
			}
			w.digest = digest
		}
		again := time.NewTimer(watchAgain)
		select {
		case <-u.changed:
		case <-again.C:
		case <-u.over:
		case <-ctx.Done():
		}
		again.Stop()
	}
}

// sleep waits for a duration. It returns an error when ctx ends or over is closed.
func sleep(ctx context.Context, d time.Duration, over <-chan struct{}) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-over:
		return errStreamEnded
	case <-ctx.Done():
		return context.Cause(ctx)
	default:
	}
	select {
	case <-t.C:
	case <-over:
		return errStreamEnded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// updates notify one watcher of a resource of its changes.
type updates struct {
	changed chan struct{} // holds an element after a change
	over    chan struct{} // closed when there will be no more changes
	why     error         // set before over is closed; nil if nothing is known
}

// sleep is like the function sleep, and also returns an error when there will be no more changes.
func (u *updates) sleep(ctx context.Context, d time.Duration) error {
	err := sleep(ctx, d, u.over)
	if errors.Is(err, errStreamEnded) && u.why != nil {
		err = u.why
	}
	return err
}

// subscribe starts to receive updates of a resource, within the time of a call.
func (m *member) subscribe(ctx context.Context, s *session, uri string) (*updates, error) {
	ctx, stop := context.WithTimeoutCause(ctx, m.server.timeout(), errTimeout)
	defer stop()
	return s.subscribe(ctx, uri)
}

// subscribe starts to receive updates of a resource.
func (s *session) subscribe(ctx context.Context, uri string) (*updates, error) {
	s.subscribing.Lock()
	defer s.subscribing.Unlock()
	u := &updates{changed: make(chan struct{}, 1), over: make(chan struct{})}
	s.mu.Lock()
	first, stale := len(s.watches[uri]) == 0, s.stale[uri]
	if s.watches == nil {
		s.watches, s.stale = make(map[string][]*updates), make(map[string]bool)
	}
	s.watches[uri] = append(s.watches[uri], u)
	delete(s.stale, uri)
	s.mu.Unlock()
	if stale {
		s.stop(uri) // the SDK believes that it is still subscribed
	}
	if first {
		err := s.listen(ctx, uri)
		if err == nil {
			err = u.sleep(ctx, 0) // the SDK does not report that a stream was refused
		}
		if err != nil {
			s.forget(uri, u)
			return nil, err
		}
	}
	return u, nil
}

// listen makes the server send the changes of a resource. The SDK waits for the answer to the request for a stream even when ctx
// ends, unless it is told to unsubscribe.
func (s *session) listen(ctx context.Context, uri string) error {
	stopped := make(chan struct{})
	unstopped := context.AfterFunc(ctx, func() {
		defer close(stopped)
		s.stop(uri)
	})
	err := s.cs.Subscribe(ctx, &mcp.SubscribeParams{URI: uri})
	if !unstopped() {
		<-stopped // a later subscription must not be stopped
	}
	return err
}

// forget removes updates, and reports whether they were the last ones of the resource.
func (s *session) forget(uri string, u *updates) (last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.watches[uri], u)
	if i < 0 {
		return false // they have ended already
	}
	s.watches[uri] = slices.Delete(s.watches[uri], i, i+1)
	if last = len(s.watches[uri]) == 0; last {
		delete(s.watches, uri)
	}
	return last
}

// unsubscribe ends a subscription of subscribe.
func (s *session) unsubscribe(uri string, u *updates) {
	s.subscribing.Lock()
	defer s.subscribing.Unlock()
	if s.forget(uri, u) {
		s.stop(uri)
	}
}

// unsubscribeTime is how long a server may take to end a subscription.
const unsubscribeTime = 2 * time.Second

func (s *session) stop(uri string) {
	ctx, stop := context.WithTimeout(context.Background(), unsubscribeTime)
	defer stop()
	_ = s.cs.Unsubscribe(ctx, &mcp.UnsubscribeParams{URI: uri}) // a server that is gone has forgotten the subscription
}

// updated receives a notification that a resource, or a part of it, has changed.
func (s *session) updated(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uri, all := range s.watches {
		if !strings.HasPrefix(r.Params.URI, uri) {
			continue
		}
		for _, u := range all {
			select {
			case u.changed <- struct{}{}:
			default:
			}
		}
	}
}

// endUpdates ends all updates when the connection, or a stream of changes, has ended. Why is returned to those who wait for them.
func (s *session) endUpdates(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uri, all := range s.watches {
		for _, u := range all {
			u.why = why
			close(u.over)
		}
		delete(s.watches, uri)
		s.stale[uri] = true
	}
}
