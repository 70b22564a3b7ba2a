package toolserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto/toolserver"
)

// notes hold the state of a tool: a text for each session.
type notes struct {
	mu      sync.Mutex
	text    map[string]string
	fails   error // the error of Export and Import
	imports int
	removed []string
}

func (n *notes) set(session, text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.text == nil {
		n.text = make(map[string]string)
	}
	n.text[session] = text
}

func (n *notes) get(session string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text[session]
}

func (n *notes) Export(_ context.Context, session string) ([]byte, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if text, ok := n.text[session]; ok {
		return []byte(text), n.fails
	}
	return nil, n.fails
}

func (n *notes) Import(_ context.Context, session string, state []byte) error {
	if n.fails != nil {
		return n.fails
	}
	n.set(session, string(state))
	n.imports++
	return nil
}

func (n *notes) Remove(_ context.Context, session string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.text, session)
	n.removed = append(n.removed, session)
	return nil
}

const (
	migrationKey = "0123456789abcdef0123456789abcdef"
	destination  = "https://b.example/base"
)

// A road is the network between two instances. It records what was sent.
type road struct {
	to func() *toolserver.Server
	// before and after answer the n-th request before or after it has arrived; nil lets it pass.
	before, after func(n int) (*http.Response, error)
	hangs         func(n int) bool // whether the n-th request is never answered
	sent          []string

	mu sync.Mutex // guards the faults and sent, because the source retries on its own
}

// fault sets how requests fail from now on.
func (r *road) fault(before, after func(n int) (*http.Response, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before, r.after = before, after
}

func (r *road) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		body, _ = io.ReadAll(req.Body)
	}
	r.mu.Lock()
	r.sent = append(r.sent, req.Method+" "+req.URL.String()+" "+string(body))
	n, before, after := len(r.sent), r.before, r.after
	r.mu.Unlock()
	if r.hangs != nil && r.hangs(n) {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	if before != nil {
		if resp, err := before(n); resp != nil || err != nil {
			return resp, err
		}
	}
	in := httptest.NewRequest(req.Method, strings.TrimPrefix(req.URL.Path, "/base"), strings.NewReader(string(body)))
	in.Header = req.Header.Clone()
	w := httptest.NewRecorder()
	r.to().ServeHTTP(w, in)
	if after != nil {
		if resp, err := after(n); resp != nil || err != nil {
			return resp, err
		}
	}
	return w.Result(), nil
}

// A move has a source, which is the server of the runtime, and a destination, with its own
// runtime that receives what the destination sends.
type move struct {
	*house
	dst          *house
	road         *road
	notes, there *notes
}

func newMove(t *testing.T, tools func(*toolserver.Server)) *move {
	m := &move{notes: new(notes), there: new(notes)}
	m.road = &road{to: func() *toolserver.Server { return m.dst.server }}
	opts := toolserver.Options{
		Migrator: m.notes, MigrationKey: toolserver.NewSecret(migrationKey), MigrationTransport: m.road,
		MigrationDestinations: []string{destination, "https://c.example"},
		Authenticate: func(r *http.Request) (string, error) {
			if r.Header.Get("X-Stranger") != "" {
				return "", errors.New("who are you")
			}
			return "runtime", nil
		},
	}
	m.house = newHouse(t, opts, tools)
	opts.Migrator, opts.PublicURL, opts.MigrationTransport = m.there, destination, nil
	m.dst = newHouse(t, opts, tools)
	return m
}

// migrate asks the source to move the session of thread-1.
func (m *move) migrate(to string) *httptest.ResponseRecorder {
	m.t.Helper()
	return m.post("/migrate", fmt.Sprintf(`{"session_id":"thread-1","destination_url":%q}`, to))
}

func (m *move) mustMigrate() {
	m.t.Helper()
	if w := m.migrate(destination); w.Code != http.StatusOK || w.Body.Len() > 0 {
		m.t.Fatalf("/migrate answered %d %s\n%s", w.Code, w.Body, m.log)
	}
}

// addStation adds the tools of these tests: one that waits, one that must not be interrupted,
// and a subscription that counts.
func addStation(ran chan<- string) func(*toolserver.Server) {
	return func(s *toolserver.Server) {
		addTools(s)
		wait := func(ctx context.Context, in struct{ For time.Duration }) (string, error) {
			ran <- toolserver.IdempotencyKey(ctx)
			select {
			case <-time.After(in.For):
				return "done", nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}
		toolserver.Add(s, "long", "Takes long.", wait)
		toolserver.AddWithOptions(s, "once", "Takes long, once.", toolserver.ToolOptions{RunOnce: true}, wait)
		toolserver.AddSubscription(s, "count", "Counts hours.", toolserver.ToolOptions{},
			func(context.Context, none) (string, *int, error) { return "counting", new(int), nil },
			func(ctx context.Context, sub *toolserver.Subscription[int]) error {
				for {
					select {
					case <-time.After(time.Hour):
					case <-ctx.Done():
						return context.Cause(ctx)
					}
					if err := sub.Send(ctx, toolserver.Event{Text: fmt.Sprint(sub.State())}, sub.State()+1); err != nil {
						return err
					}
				}
			})
	}
}

// TestN85_EarlierTransfer has messages of a transfer arrive after those of a later one: a stage that was lost on its way, and one
// whose answer was lost, both with the commit and the abort that may follow. The test fails if the state of a tool is replaced by
// an older one or removed. TestG12_Strangers covers messages for another instance, and TestG12_Replayed those of another
// session.
func TestN85_EarlierTransfer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMove(t, addTools)
		m.notes.set("thread-1", "old")
		fail := func(n int) (*http.Response, error) { return nil, errRefusedConnection }
		m.road.fault(func(n int) (*http.Response, error) { // the stage is lost
			if n == 2 {
				return fail(n)
			}
			return nil, nil
		}, nil)
		if w := m.migrate(destination); w.Code < 500 {
			t.Fatalf("answered %d", w.Code)
		}
		m.road.fault(nil, func(n int) (*http.Response, error) { // the answer to the stage is lost
			if n == 4 {
				return fail(n)
			}
			return nil, nil
		})
		if w := m.migrate(destination); w.Code < 500 {
			t.Fatalf("answered %d", w.Code)
		}
		m.road.fault(nil, nil)
		m.notes.set("thread-1", "new")
		m.mustMigrate()
		m.there.set("thread-1", "newer")
		bodies := m.road.bodies()
		if len(bodies) != 4 {
			t.Fatalf("%d transfers, want three stages and a commit", len(bodies))
		}
		for _, captured := range bodies[:2] {
			bodies = append(bodies, step(migrationKey, captured, "commit"), step(migrationKey, captured, "abort"))
		}
		for _, body := range bodies {
			m.push(body)
		}
		synctest.Wait()
		if got := m.there.get("thread-1"); got != "newer" || len(m.there.removed) > 0 {
			t.Errorf("the tool has %q, and %q were removed", got, m.there.removed)
		}
		m.close()
		m.dst.close()
	})
}
