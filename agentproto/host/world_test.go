package host

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/discovery"
)

// A network is an in-memory network, so that the clock of a bubble can stop.
type network struct {
	mu    sync.Mutex
	hosts map[string]*listener
}

func newNetwork() *network { return &network{hosts: map[string]*listener{}} }

func (n *network) listen(host string) net.Listener {
	l := &listener{host: host, conns: make(chan net.Conn), closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[host] = l
	return l
}

// black adds a host that never answers a connection.
func (n *network) black(host string) { n.listen(host) }

func (n *network) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	n.mu.Lock()
	l := n.hosts[addr]
	n.mu.Unlock()
	refused := &net.OpError{Op: "dial", Net: "mem", Err: syscall.ECONNREFUSED}
	if l == nil {
		return nil, refused
	}
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.closed:
		return nil, refused
	case <-ctx.Done():
		return nil, &net.OpError{Op: "dial", Net: "mem", Err: ctx.Err()}
	}
}

type listener struct {
	host   string
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *listener) Addr() net.Addr { return addr(l.host) }

type addr string

func (addr) Network() string  { return "mem" }
func (a addr) String() string { return string(a) }

// A world is a runtime in memory, with its user and tool servers.
type world struct {
	t       *testing.T
	net     *network
	rt      *Runtime
	user    *user
	logs    *lockedBuffer
	client  *http.Client
	posts   sync.WaitGroup // see postLater
	deliver func(delivering) delivering
	opts    Options
	last    **Runtime // set to nil by a test that has stopped it and wants it collected
}

// asIs leaves the delivery of events unchanged.
func asIs(d delivering) delivering { return d }

// inWorld runs a test in a bubble.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, net: newNetwork(), user: &user{}, logs: &lockedBuffer{}, deliver: asIs}
		// This runs last: a server lingers for a moment on connections that it closes.
		t.Cleanup(func() { <-time.After(time.Second) })
		// A server of the world closes an idle connection after a minute. The client closes it first: a
		// request at just that time fails.
		transport := &http.Transport{DialContext: w.net.dial, IdleConnTimeout: time.Minute - time.Second}
		w.client = &http.Client{Transport: transport}
		t.Cleanup(transport.CloseIdleConnections)
		t.Cleanup(w.posts.Wait)
		test(t, w)
	})
}

// start starts the runtime with the given tool servers.
func (w *world) start(bases ...string) *Runtime {
	w.t.Helper()
	opts := w.opts
	opts.Toolsets = append(opts.Toolsets, bases...)
	opts.Listener = w.net.listen("runtime.test:80")
	opts.PublicURL = "http://runtime.test"
	opts.DialContext = w.net.dial
	if opts.Surface == nil {
		opts.Surface = w.user
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.NewTextHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	rt, err := start(w.t.Context(), opts, w.deliver)
	if err != nil {
		w.t.Fatalf("start: %v", err)
	}
	listener, last := opts.Listener, &rt
	w.rt, w.last = rt, last
	w.t.Cleanup(func() {
		if *last != nil {
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			defer cancel()
			(*last).Stop(ctx)
		}
		listener.Close()
	})
	return rt
}

// call makes a call of the tool "echo".
func (w *world) call(group, id string) agentproto.CallKey {
	w.t.Helper()
	key, err := w.rt.Call(w.t.Context(), Request{GroupID: group, ID: id, Operation: "echo"})
	if err != nil {
		w.t.Fatalf("Call(%s/%s): %v", group, id, err)
	}
	return key
}

// text waits for a call and returns its result as text.
func (w *world) text(key agentproto.CallKey) string {
	w.t.Helper()
	r, err := w.rt.Await(w.t.Context(), key)
	if err != nil {
		w.t.Fatalf("Await(%v): %v", key, err)
	}
	return r.Result.String()
}

// postLater posts a callback on a goroutine that the end of the test waits for.
func (w *world) postLater(url, body string) { w.posts.Go(func() { w.post(url, body) }) }

// post posts a callback.
func (w *world) post(url, body string) int {
	w.t.Helper()
	status, _ := w.postBody(url, body)
	return status
}

func (w *world) postBody(url, body string) (int, string) {
	w.t.Helper()
	return w.send(http.MethodPost, url, strings.NewReader(body), "Content-Type", "application/json")
}

func (w *world) send(method, url string, body io.Reader, header ...string) (int, string) {
	w.t.Helper()
	// A test that has read a result may end before the sender has read its response.
	req, err := http.NewRequestWithContext(context.WithoutCancel(w.t.Context()), method, url, body)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := w.client.Do(req)
	if err != nil {
		w.t.Fatalf("%s: %v", method, err)
	}
	defer resp.Body.Close()
	data, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data)
}

// stats returns the counters once everything has happened.
func (w *world) stats() Stats {
	synctest.Wait()
	return w.rt.Stats()
}

// pass lets time pass and then waits until the world is idle.
func (w *world) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// result returns the body of a tool_result.
func result(key agentproto.CallKey, text string) string {
	return fmt.Sprintf(`{"type":"tool_result","group_id":%q,"id":%q,"text":%q}`, key.GroupID, key.ID, text)
}

// A toolServer is a tool server controlled by a test.
type toolServer struct {
	w        *world
	base     string
	manifest string

	mu       sync.Mutex
	calls    []*agentproto.Invocation
	headers  []http.Header
	notices  []string // "path body"
	ack      func(n int, rw http.ResponseWriter, inv *agentproto.Invocation)
	notice   func(rw http.ResponseWriter, r *http.Request)
	answers  []string
	answered func(n int, rw http.ResponseWriter)
}

// tool starts a tool server with the given tools, by default "echo".
func (w *world) tool(host string, tools ...string) *toolServer {
	w.t.Helper()
	s := &toolServer{w: w, base: "http://" + host}
	if len(tools) == 0 {
		tools = []string{"echo"}
	}
	var list []string
	for _, name := range tools {
		list = append(list, fmt.Sprintf(`{"name":%q,"description":"d","inputSchema":{"type":"object"}}`, name))
	}
	s.manifest = fmt.Sprintf(`{"name":"set","endpoint":%q,"tools":[%s]}`, s.base+"/invoke", strings.Join(list, ","))
	w.host(host, s)
	return s
}

// host serves a handler at a host.
func (w *world) host(host string, h http.Handler) {
	server := &http.Server{Handler: h, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	l := w.net.listen(host + ":80")
	done := make(chan struct{})
	go func() {
		server.Serve(l)
		close(done)
	}()
	w.t.Cleanup(func() {
		server.Close()
		<-done
	})
}

func (s *toolServer) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	switch r.URL.Path {
	case discovery.Path:
		io.WriteString(rw, s.manifest)
	case "/invoke":
		inv, err := agentproto.DecodeInvocation(body, agentproto.Limits{})
		if err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		s.calls, s.headers = append(s.calls, inv), append(s.headers, r.Header)
		n := len(s.calls)
		s.mu.Unlock()
		if s.ack != nil {
			s.ack(n, rw, inv)
		}
	case "/answer":
		s.mu.Lock()
		s.answers = append(s.answers, string(body))
		n := len(s.answers)
		s.mu.Unlock()
		if s.answered != nil {
			s.answered(n, rw)
		}
	default:
		s.mu.Lock()
		s.notices = append(s.notices, r.URL.Path+" "+string(body))
		s.mu.Unlock()
		if s.notice != nil {
			s.notice(rw, r)
		}
	}
}

func (s *toolServer) invocations() []*agentproto.Invocation {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*agentproto.Invocation(nil), s.calls...)
}

// callback returns the callback URL of the last invocation.
func (s *toolServer) callback() string {
	s.w.t.Helper()
	calls := s.invocations()
	if len(calls) == 0 {
		s.w.t.Fatal("nothing was invoked")
	}
	return calls[len(calls)-1].CallbackURL
}

// callbackOf returns the callback URL of a call.
func (s *toolServer) callbackOf(key agentproto.CallKey) string {
	s.w.t.Helper()
	for _, inv := range s.invocations() {
		if inv.Key() == key {
			return inv.CallbackURL
		}
	}
	s.w.t.Fatalf("%v was not invoked", key)
	return ""
}

func (s *toolServer) noticed() []string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.notices...)
}

func (s *toolServer) answersGot() []string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.answers...)
}

// stuck is a program that accepts nothing.
func stuck(delivering) delivering {
	return func(ctx context.Context, _ agentproto.CallKey, _ agentproto.Event) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
}
