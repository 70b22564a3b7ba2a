package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host/internal/discovery"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/internal/freeport"
)

// A crashing is a migration in which a host is cut off at a given point.
type crashing struct {
	t     *testing.T
	point string // where the host is cut off, once
	who   *mortal
	armed atomic.Bool // set once who is set
	once  sync.Once

	source, destination *mortal
	messages            atomic.Int32 // sent to the destination

	answers func(w http.ResponseWriter, r *http.Request, body []byte) // to a choice
	middle  func()                                                    // called while a tool server moves
	retry   []time.Duration

	mu      sync.Mutex
	owner   string // base URL of the tool server that owns the session
	invoked map[string]string
}

// A mortal is a host with durable state that is cut off and restarted.
type mortal struct {
	t    *testing.T
	opts Options

	mu sync.Mutex
	rt *Runtime
}

func (m *mortal) start() {
	m.t.Helper()
	rt, err := Start(m.t.Context(), m.opts)
	if err != nil {
		m.t.Error(err)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rt, m.opts.Listener = rt, nil
}

func (m *mortal) now() *Runtime {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rt
}

// cut stops the host as a crash does: it takes no snapshot and finishes nothing.
func (m *mortal) cut() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	m.now().Stop(ctx)
}

// reach crashes the host if point is the chosen one.
func (c *crashing) reach(point string) {
	if point == c.point && c.armed.Load() {
		c.once.Do(c.who.cut)
	}
}

// revive restarts the host if it was cut off.
func (c *crashing) revive() {
	if rt := c.who.now(); rt.stopping.Load() {
		<-rt.stopped
		c.who.start()
	}
}

// tool starts a tool server that takes part in migrations and hands its sessions over to
// the other one.
func (c *crashing) tool() (base string) {
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case discovery.Path:
			fmt.Fprintf(rw, `{"name":"set","endpoint":"%s/invoke","needsMigration":true,"tools":[{"name":"echo","description":"d","inputSchema":{}}]}`, s.URL)
		case "/invoke":
			inv, err := agentproto.DecodeInvocation(body, agentproto.Limits{})
			if err != nil {
				c.t.Error(err)
				return
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.invoked[inv.ID] = inv.CallbackURL
		case "/answer":
			c.answers(rw, r, body)
		case "/migrate":
			if c.middle != nil {
				c.middle()
			}
			m, err := agentproto.DecodeMigrate(body, agentproto.Limits{})
			if err != nil {
				c.t.Error(err)
				return
			}
			c.reach("a tool is asked")
			c.mu.Lock()
			if c.owner == s.URL {
				c.owner = m.DestinationURL
			}
			c.mu.Unlock()
			c.reach("a tool has moved")
		case "/close_thread":
			if bytes.Contains(body, []byte(`"s"`)) { // and not for the child that is closed at the beginning
				c.reach("the source cleans up")
			}
		}
	}))
	c.t.Cleanup(s.Close)
	return s.URL
}

// inFrontOf starts a proxy for the destination, in which messages can be lost.
func (c *crashing) inFrontOf(address string) (public string) {
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
	proxy.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		what := [...]string{"the offer", "the import", "a later message"}[min(c.messages.Add(1), 3)-1]
		c.reach(what + " is sent")
		answer := httptest.NewRecorder()
		done := make(chan struct{})
		go func() {
			defer close(done)
			proxy.ServeHTTP(answer, r)
		}()
		if what == "the import" && c.point == "the session is half there" {
			within(c.t, "the thread comes", func() bool {
				st, err := c.destination.now().Thread("s").Status(c.t.Context())
				return err == nil && st.Session != nil
			})
			c.reach(c.point)
		}
		<-done
		c.reach(what + " was answered")
		rw.WriteHeader(answer.Code)
		rw.Write(answer.Body.Bytes())
	}))
	c.t.Cleanup(s.Close)
	return s.URL
}

// within waits until happened returns true, for at most 30 s.
func within(t *testing.T, what string, happened func() bool) {
	t.Helper()
	again, deadline := time.NewTicker(5*time.Millisecond), time.After(30*time.Second)
	defer again.Stop()
	for !happened() {
		select {
		case <-again.C:
		case <-deadline:
			t.Errorf("%s: not in 30 s", what)
			return
		}
	}
}

// begin starts both hosts and a conversation at the source. It contains a subscription, two
// pending calls, an open child and a closed one.
func (c *crashing) begin(script conversation.Model) {
	c.retry = []time.Duration{20 * time.Millisecond, 40 * time.Millisecond}
	c.beginWith(script, "a", "b")
}

// beginWith is begin for other pending calls.
func (c *crashing) beginWith(script conversation.Model, pending ...string) {
	t := c.t
	host := func(n byte, tool string) *mortal {
		at, err := freeport.Address()
		if err != nil {
			t.Fatal(err)
		}
		listener, err := net.Listen("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		sealer, err := SealerOf([32]byte{n})
		if err != nil {
			t.Fatal(err)
		}
		return &mortal{t: t, opts: Options{
			Toolsets: []string{tool}, Surface: &user{}, Logger: slog.New(slog.DiscardHandler), Sealer: sealer, Model: script,
			MigrationKey: sharedKey, Listener: listener, ListenAddr: at,
			Timeouts: Timeouts{Retry: c.retry},
			State:    &durable.Options{Log: natslog.Embedded(t.TempDir()), Logger: slog.New(slog.DiscardHandler)},
		}}
	}
	here := c.tool()
	c.owner, c.invoked = here, map[string]string{}
	c.source, c.destination = host(1, here), host(2, c.tool())
	c.destination.opts.PublicURL = c.inFrontOf(c.destination.opts.ListenAddr)
	c.source.start()
	c.destination.start()
	t.Cleanup(func() {
		for _, m := range []*mortal{c.source, c.destination} {
			m.cut()
			<-m.now().stopped // afterwards its folder can be removed
		}
	})

	th, err := c.source.now().OpenSession(t.Context(), SessionRequest{ID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	say := func(text string, ids ...string) {
		if err := th.Say(t.Context(), text); err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			within(t, id+" is invoked", func() bool { return c.callbackOf(id) != "" })
		}
	}
	say("watch", "sub")
	c.post("sub", subscriptionBody(key("sub")))
	within(t, "it watches", func() bool { return strings.Contains(c.history(c.source), "assistant: watching") })
	say("go", pending...)
	for _, id := range []string{"open", "closed"} {
		child, err := th.OpenChild(t.Context(), id, "")
		if err != nil {
			t.Fatal(err)
		}
		if id == "closed" {
			if err := child.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func (c *crashing) callbackOf(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.invoked[id]
}

// post posts a tool's message until it is accepted.
func (c *crashing) post(id, body string) {
	c.t.Helper()
	within(c.t, id+" is taken in", func() bool {
		if c.who != nil {
			c.revive()
		}
		resp, err := http.Post(c.callbackOf(id), "application/json", strings.NewReader(body))
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

func (c *crashing) history(at *mortal) string {
	messages, err := at.now().Thread("s").History(c.t.Context())
	if err != nil {
		return err.Error()
	}
	return transcript(messages)
}

// whole reports whether a host holds the whole session, not frozen.
func (c *crashing) whole(at *mortal) bool {
	for _, id := range []string{"s", "open", "closed"} {
		st, err := at.now().Thread(id).Status(c.t.Context())
		if err != nil || st.Session == nil || st.Moved || st.Frozen || st.Closed != (id == "closed") {
			return false
		}
	}
	return true
}

// gone reports whether a host holds no part of the session.
func (c *crashing) gone(at *mortal) bool {
	for _, id := range []string{"s", "open", "closed"} {
		st, err := at.now().Thread(id).Status(c.t.Context())
		if err == nil && st.Session != nil && !st.Moved {
			return false
		}
	}
	return true
}

// at reports whether the session and the tool server's state are at one host and not at the
// other.
func (c *crashing) at(here, there *mortal) bool {
	c.mu.Lock()
	owner := c.owner
	c.mu.Unlock()
	return c.whole(here) && c.gone(there) && owner == here.opts.Toolsets[0]
}

// move moves the session, crashes one of the hosts on the way, and asks again until the session has moved. Whenever it has not, it
// is whole at the source.
func (c *crashing) move(who string) {
	t := c.t
	if c.who = c.source; who == "destination" {
		c.who = c.destination
	}
	c.armed.Store(true)
	for range 10 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		asked := make(chan error, 1)
		go func() { asked <- c.source.now().Migrate(ctx, "s", c.destination.now().PublicURL()) }()
		var err error
		for waiting := true; waiting; {
			select {
			case err = <-asked:
				waiting = false
			case <-c.who.now().stopped:
				c.who.start()
			}
		}
		cancel()
		c.revive()
		switch {
		case err == nil, errors.Is(err, ErrNotMoved) && strings.Contains(err.Error(), "lives at"):
			return
		case errors.Is(err, ErrNotMoved) && !c.at(c.source, c.destination):
			t.Fatalf("the session is not whole at the source, or the tool server's is elsewhere, after: %v", err)
		}
	}
	t.Fatal("the session does not move")
}

// TestMigrationCrashes crashes either host at each point of a migration. When the migration
// has an outcome, the session and the tool server's state are whole at one of the hosts.
// Asked again, the session moves, and each call has exactly one result.
func TestMigrationCrashes(t *testing.T) {
	points := []string{
		"the offer is sent", "the offer was answered", "a tool is asked", "a tool has moved", "the import is sent",
		"the session is half there", "the import was answered", "the source cleans up", "a later message is sent", "a later message was answered",
	}
	script := conversation.Script{callsOf("sub"), {Text: "watching"}, callsOf("a", "b"), {Text: "all done"}, {Text: "seen"}}
	for _, point := range points {
		for _, who := range []string{"source", "destination"} {
			t.Run(who+" when "+point, func(t *testing.T) {
				t.Parallel()
				c := &crashing{t: t, point: point}
				c.begin(script)
				c.move(who)
				within(t, "the session is whole at the destination", func() bool {
					c.revive() // the source cleans up last, and a host may crash then
					return c.at(c.destination, c.source)
				})
				for range 2 { // twice, as tools do
					c.post("a", result(key("a"), "result a"))
					c.post("b", result(key("b"), "result b"))
				}
				c.post("sub", eventBody(key("sub"), "tick", true, false))
				within(t, "the conversation goes on", func() bool { c.revive(); return strings.Contains(c.history(c.destination), "assistant: seen") })
				h := c.history(c.destination)
				for _, once := range []string{"result a: result a", "result b: result b", "result sub: watching", "tick", "assistant: all done"} {
					if n := strings.Count(h, once); n != 1 {
						t.Errorf("%q is there %d times in\n%s", once, n, h)
					}
				}
			})
		}
	}
}
