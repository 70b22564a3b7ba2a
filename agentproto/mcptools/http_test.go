package mcptools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto/mcptools"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// A remote is an MCP server over Streamable HTTP.
type remote struct {
	*httptest.Server
	calls   atomic.Int32
	headers atomic.Pointer[http.Header]
	before  atomic.Pointer[func(w http.ResponseWriter, r *http.Request) bool] // reports whether it has answered
}

func newRemote(t *testing.T) *remote {
	r := new(remote)
	s := mcp.NewServer(&mcp.Implementation{Name: "remote", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{Name: "hit", Description: "Hits.", InputSchema: object}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		r.calls.Add(1)
		return said("hit"), nil
	})
	r.serve(t, s, true)
	return r
}

// serve starts the server.
func (r *remote) serve(t *testing.T, s *mcp.Server, stateless bool) {
	front := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: stateless})
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		h := req.Header.Clone()
		r.headers.Store(&h)
		if f := r.before.Load(); f != nil && req.Header.Get("Mcp-Method") == "tools/call" && (*f)(w, req) {
			return
		}
		front.ServeHTTP(w, req)
	}))
	t.Cleanup(r.end)
}

// end stops the server and closes the streams of its clients.
func (r *remote) end() {
	r.CloseClientConnections()
	r.Close()
}

func (r *remote) options(o *mcptools.Options) {
	o.Servers[0] = mcptools.Server{Name: "p", URL: r.URL + "/mcp", Header: map[string]toolserver.Secret{"Authorization": toolserver.NewSecret("Bearer for-the-remote")}}
}

// TestMB14a_AnswerLost closes the connection after the server received a call, and has the server refuse calls. The test fails if
// a call is sent twice, or if a call is given up although it could be sent again.
func TestMB14a_AnswerLost(t *testing.T) {
	t.Parallel()
	r := newRemote(t)
	d := newDesk(t, r.options)
	d.call("t", "one", "hit", "{}")
	d.want("a call", "hit")
	if got := r.headers.Load().Get("Authorization"); got != "Bearer for-the-remote" {
		t.Errorf("the header is %q", got)
	}
	lost := func(w http.ResponseWriter, req *http.Request) bool {
		r.calls.Add(1)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return true
		}
		conn.Close()
		return true
	}
	r.before.Store(&lost)
	d.call("t", "two", "hit", "{}")
	d.want("a call whose answer is lost", "Error: the connection to p broke after the call was sent. It may have been carried out; it was not repeated.")
	if n := r.calls.Load(); n != 2 {
		t.Errorf("it was carried out %d times", n-1)
	}
	for _, status := range []int{401, 429} {
		refuse := func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Retry-After", "60") // longer than a call waits
			w.WriteHeader(status)
			return true
		}
		r.before.Store(&refuse)
		d.call("t", strconv.Itoa(status), "hit", "{}")
		if got := d.result().String(); !strings.HasSuffix(got, "the call was not carried out") || !strings.Contains(got, http.StatusText(status)) {
			t.Errorf("%d: %q", status, got)
		}
	}
	r.before.Store(nil)
	d.call("t", "three", "hit", "{}")
	d.want("a call afterwards", "hit")
	r.end()
	d.call("t", "four", "hit", "{}")
	if got := d.result().String(); !strings.HasPrefix(got, "Error: ") { // a kept-alive connection may be tried first
		t.Errorf("a server that is gone: %q", got)
	}
}

// TestMB29_TokensStayHere checks that the credentials a runtime sends to the tool server never reach an MCP server, and that a
// redirect is not followed with the header.
func TestMB29_TokensStayHere(t *testing.T) {
	r, thief := newRemote(t), newRemote(t)
	d := newDesk(t, r.options)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, mcptools.Base("p")+"/invoke", strings.NewReader(invocation("t", "one", "hit", "{}")))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer canary-of-the-runtime")
	res, err := d.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	d.want("the call", "hit")
	for name, values := range *r.headers.Load() {
		if strings.Contains(strings.Join(values, " "), "canary") {
			t.Errorf("the server got %s: %v", name, values)
		}
	}
	away := func(w http.ResponseWriter, req *http.Request) bool {
		http.Redirect(w, req, thief.URL+"/mcp", http.StatusTemporaryRedirect)
		return true
	}
	r.before.Store(&away)
	d.call("t", "two", "hit", "{}")
	if got := d.result().String(); !strings.HasPrefix(got, "Error: ") || thief.calls.Load() != 0 || thief.headers.Load() != nil {
		t.Errorf("a redirect was followed: %q, %v", got, thief.headers.Load())
	}
}

// TestRefusedCallsAreSentAgain has a server refuse a call that must not run twice, with statuses that say it was not carried out
// and with others that do not. The test fails if a call fails although it could be sent again, or is sent again although it may
// have been carried out.
func TestRefusedCallsAreSentAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		status int
		after  string
		again  bool
	}{
		{"too many", 429, "", true}, {"too many, with a time", 429, "1", true}, {"unavailable for a time", 503, "0", true},
		{"unavailable", 503, "", false}, {"bad gateway", 502, "0", false}, {"failed", 500, "", false}, {"forbidden", 403, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRemote(t)
			d := newDesk(t, r.options)
			var times atomic.Int32
			refuse := func(w http.ResponseWriter, _ *http.Request) bool {
				if times.Add(1) > 2 {
					return false
				}
				if c.after != "" {
					w.Header().Set("Retry-After", c.after)
				}
				w.WriteHeader(c.status)
				return true
			}
			r.before.Store(&refuse)
			d.call("t", "one", "hit", "{}")
			got, sent := d.result().String(), times.Load()
			if c.again && (got != "hit" || sent != 3 || r.calls.Load() != 1) || !c.again && (!strings.HasPrefix(got, "Error: ") || sent != 1 || r.calls.Load() != 0) {
				t.Errorf("it was sent %d times, and carried out %d times: %q", sent, r.calls.Load(), got)
			}
		})
	}
}

// TestServerThatComesBack restarts a server, with sessions and without, after a while. A call made meanwhile is carried out once,
// when the server is back.
func TestServerThatComesBack(t *testing.T) {
	t.Parallel()
	for _, stateless := range []bool{true, false} {
		var calls atomic.Int32
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at := l.Addr().String()
		begin := func(l net.Listener) (end func()) {
			s := mcp.NewServer(&mcp.Implementation{Name: "remote", Version: "1"}, nil)
			s.AddTool(&mcp.Tool{Name: "hit", Description: "Hits.", InputSchema: object}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				calls.Add(1)
				return said("hit"), nil
			})
			server := &httptest.Server{Listener: l, Config: &http.Server{Handler: mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: stateless})}}
			server.Config.SetKeepAlivesEnabled(false) // a request written to a closed connection might have been read
			server.Start()
			return func() { server.CloseClientConnections(); server.Close() }
		}
		end := begin(l)
		d := newDesk(t, func(o *mcptools.Options) { o.Servers[0] = mcptools.Server{Name: "p", URL: "http://" + at + "/mcp"} })
		d.call("t", "one", "hit", "{}")
		d.want("before", "hit")
		end()
		d.call("t", "two", "hit", "{}")
		select { // long enough for one attempt, though the test holds without it
		case m := <-d.messages:
			t.Fatalf("stateless %v: it did not wait for the server: %v", stateless, m)
		case <-time.After(300 * time.Millisecond):
		}
		for l = nil; l == nil; { // another process may have the port for a moment
			if l, err = net.Listen("tcp", at); err != nil {
				<-time.After(10 * time.Millisecond)
			}
		}
		end = begin(l)
		d.want("when the server is back", "hit")
		if n := calls.Load(); n != 2 {
			t.Errorf("two calls were carried out %d times", n)
		}
		end()
	}
}

// TestDiscoveryRefused has a server require a token for discovery and reject the initialize of older clients. It is then treated
// as a server that refuses both: the user has to sign in, and the server is not down.
func TestDiscoveryRefused(t *testing.T) {
	var said []string
	for _, status := range []int{http.StatusUnauthorized, http.StatusBadRequest} {
		var greeted atomic.Int32
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			body, err := io.ReadAll(req.Body)
			if err != nil {
				t.Error(err)
			}
			w.Header().Set("WWW-Authenticate", "Bearer")
			if bytes.Contains(body, []byte(`"initialize"`)) {
				greeted.Add(1)
				w.WriteHeader(status)
				return
			}
			w.WriteHeader(http.StatusUnauthorized)
		}))
		t.Cleanup(front.Close)
		d := newDesk(t, func(o *mcptools.Options) { o.Servers[0] = mcptools.Server{Name: "p", URL: front.URL + "/mcp"} })
		d.call("t", "one", "sign_in", "{}")
		said = append(said, d.result().String())
		if greeted.Load() == 0 {
			t.Error("it was not greeted as an older one")
		}
	}
	if said[0] != said[1] || strings.Contains(said[0], "there is no tool") {
		t.Errorf("%q, and %q if initialize is not known", said[0], said[1])
	}
}

// TestUnreadableContent has the server answer with a type of content that the SDK does not know, as JSON and as an event. The rest
// of the result counts, and the call is sent once.
func TestUnreadableContent(t *testing.T) {
	r := newRemote(t)
	var stream atomic.Bool
	before := func(w http.ResponseWriter, req *http.Request) bool {
		r.calls.Add(1)
		var m struct{ ID int }
		if err := json.NewDecoder(req.Body).Decode(&m); err != nil {
			t.Error(err)
		}
		message := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"before"},{"type":"hologram","x":1}]}}`, m.ID)
		w.Header().Set("Content-Type", "application/json")
		if stream.Load() {
			w.Header().Set("Content-Type", "text/event-stream")
			message = "data: " + message + "\n\n"
		}
		io.WriteString(w, message)
		return true
	}
	r.before.Store(&before)
	d := newDesk(t, r.options)
	for i := range 2 {
		stream.Store(i == 1)
		d.call("t", strconv.Itoa(i), "hit", "{}")
		d.want("hit", "before\n[content that cannot be read]")
		if n := r.calls.Swap(0); n != 1 {
			t.Errorf("the call was sent %d times", n)
		}
	}
}
