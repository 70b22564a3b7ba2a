package conform

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/edge"
)

// A scriptedTool is a tool server, on loopback, that behaves as a case requires.
type scriptedTool struct {
	t      *runtimeTrial
	name   string
	base   string
	server *edge.Server

	mu       sync.Mutex
	tools    []map[string]any
	extra    map[string]any                         // changed members of the manifest
	onGet    http.HandlerFunc                       // instead of the manifest
	onInvoke func(http.ResponseWriter, *invocation) // instead of 200
	onOther  func(http.ResponseWriter, *posting)    // instead of 200, for everything else
	fetches  int
	invoked  []*invocation
	posted   []*posting
}

// An invocation is one POST to the endpoint.
type invocation struct {
	posting
	tool        *scriptedTool
	OK          bool            // the body could be decoded
	Operation   string          `json:"operation"`
	Arguments   json.RawMessage `json:"arguments"`
	ID          string          `json:"id"`
	CallID      *string         `json:"call_id"`
	CallbackURL string          `json:"callback_url"`
	GroupID     string          `json:"group_id"`
	Ancestors   []string        `json:"thread_ancestors"`
	UserID      *string         `json:"user_id"`
}

// A posting is any request to a scripted tool server other than for the manifest.
type posting struct {
	Method  string
	Path    string
	Header  http.Header
	Body    []byte
	At      time.Time
	Done    <-chan struct{} // closed when the client has disconnected
	Members map[string]any  // of the body
}

// echoTool returns the tool that scripted servers offer unless a case says otherwise.
func echoTool(name string) map[string]any {
	return map[string]any{
		"name": name, "description": "Says " + name + ".",
		"inputSchema": map[string]any{"type": "object"},
	}
}

// server starts a tool server that offers the tools, or echo if there are none. A second
// server offers its tools under its own name.
func (t *runtimeTrial) server(name string, tools ...map[string]any) *scriptedTool {
	if tools == nil && len(t.servers) == 0 {
		tools = []map[string]any{echoTool("echo")}
	} else if tools == nil {
		tools = []map[string]any{echoTool(name)}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	t.must(err)
	s := &scriptedTool{t: t, name: name, base: "http://" + l.Addr().String(), tools: tools}
	s.serve(l)
	t.servers = append(t.servers, s)
	return s
}

func (s *scriptedTool) serve(l net.Listener) {
	s.server = edge.New(s, edge.Options{Body: maxCallback, Write: unhurried})
	go s.server.Serve(l) // ends with close
}

// close stops the server at once, with every request to it.
func (s *scriptedTool) close() { s.server.Close() }

// set changes the behavior of the server.
func (s *scriptedTool) set(change func(s *scriptedTool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// ServeHTTP records a request and behaves as the case requires.
func (s *scriptedTool) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && r.URL.Path == "/.well-known/rap-toolset" {
		s.serveManifest(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	p := posting{Method: r.Method, Path: r.URL.Path, Header: r.Header.Clone(), Body: body, At: time.Now(), Done: r.Context().Done()}
	_ = json.Unmarshal(body, &p.Members) // nil if the body is not an object, which the case checks
	if r.URL.Path != "/invoke" {
		s.mu.Lock()
		s.posted = append(s.posted, &p)
		do := s.onOther
		s.mu.Unlock()
		if do != nil {
			do(w, &p)
		}
		return
	}
	inv := &invocation{posting: p, tool: s}
	inv.OK = json.Unmarshal(body, inv) == nil
	s.mu.Lock()
	s.invoked = append(s.invoked, inv)
	do := s.onInvoke
	s.mu.Unlock()
	if do != nil {
		do(w, inv)
	}
}

func (s *scriptedTool) serveManifest(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.fetches++
	get := s.onGet
	m := map[string]any{"name": s.name, "endpoint": s.base + "/invoke", "tools": s.tools}
	for k, v := range s.extra {
		m[k] = v
	}
	s.mu.Unlock()
	if get != nil {
		get(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(m) // a client that has disconnected gets nothing
}

// invocations returns the invocations of a call so far.
func (s *scriptedTool) invocations(id string) (found []*invocation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, inv := range s.invoked {
		if inv.ID == id {
			found = append(found, inv)
		}
	}
	return found
}

// all returns every invocation so far.
func (s *scriptedTool) all() []*invocation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.invoked)
}

// posts returns the requests with a path so far.
func (s *scriptedTool) posts(path string) (found []*posting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.posted {
		if p.Path == path {
			found = append(found, p)
		}
	}
	return found
}

// cancels returns the notifications that a call is cancelled.
func (s *scriptedTool) cancels(thread, id string) (found []*posting) {
	for _, p := range s.posts("/cancel_tool_call") {
		if p.Members["thread_id"] == thread && p.Members["tool_call_id"] == id {
			found = append(found, p)
		}
	}
	return found
}

// closings returns the notifications that a thread is closed.
func (s *scriptedTool) closings(thread string) (found []*posting) {
	return slices.DeleteFunc(s.posts("/close_thread"), func(p *posting) bool { return p.Members["thread_id"] != thread })
}

// await waits for the first invocation of a call.
func (s *scriptedTool) await(id string) *invocation {
	var found []*invocation
	s.t.until(fmt.Sprintf("the tool server %q is invoked for the call %.40q", s.name, id), func() bool {
		found = s.invocations(id)
		return len(found) > 0
	})
	s.t.want(found[0].OK, "the invocation of %.40q is not readable: %.200q", id, found[0].Body)
	return found[0]
}

// begin makes the model of a thread call the server's first tool, and returns the invocation.
func (s *scriptedTool) begin(h *trialThread, id string) *invocation {
	h.say(callOf(id, s.tools[0]["name"].(string), map[string]any{"text": "of " + id}))
	return s.await(id)
}

// hold leaves a request unanswered until its client disconnects or the server stops.
func hold(_ http.ResponseWriter, done <-chan struct{}) { <-done }

// status returns a handler that answers every request with a status.
func status(code int) func(http.ResponseWriter, *invocation) {
	return func(w http.ResponseWriter, _ *invocation) { w.WriteHeader(code) }
}

// A sink is an address to which nobody may connect.
type sink struct {
	address string
	mu      sync.Mutex
	seen    int
}

// sink listens on a loopback address and counts connections.
func (t *runtimeTrial) sink() *sink {
	l, err := (&net.ListenConfig{}).Listen(t.ctx, "tcp", "127.0.0.1:0")
	t.must(err)
	s := &sink{address: l.Addr().String()}
	t.after(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.seen++
			s.mu.Unlock()
			c.Close()
		}
	}()
	return s
}

// untouched requires that nobody has connected.
func (s *sink) untouched(t *runtimeTrial) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.want(s.seen == 0, "the runtime connected %d times to an address that it must not use", s.seen)
}

func (s *sink) port() string { _, port, _ := net.SplitHostPort(s.address); return port }
