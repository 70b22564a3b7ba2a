package toolserver_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millrace/millrace/agentproto/toolserver"
)

// serve serves a runtime's tool server over TCP.
func (rt *runtime) serve() *httptest.Server {
	s := httptest.NewServer(rt.server)
	rt.t.Cleanup(s.Close)
	return s
}

// breakOff posts the first half of a body, sends no more, and returns the answer.
func breakOff(t *testing.T, s *httptest.Server, path, body string) *http.Response {
	t.Helper()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: tools.example\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body[:len(body)/2])
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp
}

// TestAnswerBreaksOff checks that half of a user's answer neither answers the question nor ends it.
func TestAnswerBreaksOff(t *testing.T) {
	rt := newRuntime(t, toolserver.Options{})
	addMenu(rt.server)
	s := rt.serve()
	rt.call("menu", "c1", "{}")
	_, path := rt.question()
	answer := `{"id":"c1","selected":2}`
	if resp := breakOff(t, s, path, answer); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("half of an answer: %d, Retry-After %q", resp.StatusCode, resp.Header.Get("Retry-After"))
	}
	if w := rt.post(path, answer); w.Code != http.StatusOK {
		t.Errorf("the answer: %d", w.Code)
	}
	if got := rt.nextResult(); got != "cheese" {
		t.Errorf("result %q", got)
	}
	rt.close()
}

// TestRequestBreaksOff checks that half of a message is answered 503, whether or not it has to be signed, so that the runtime sends it
// again. After a 4xx it would give up a call, and count one as lost.
func TestRequestBreaksOff(t *testing.T) {
	secrets := map[string][]toolserver.Secret{"rt": {toolserver.NewSecret("whsec_" + strings.Repeat("A", 32))}}
	for name, authenticate := range map[string]func(*http.Request) (string, error){"open": nil, "signed": toolserver.Signed(secrets)} {
		t.Run(name, func(t *testing.T) {
			rt := newRuntime(t, toolserver.Options{Authenticate: authenticate, Status: true})
			addTools(rt.server)
			s := rt.serve()
			for _, path := range []string{"/invoke", "/cancel_tool_call", "/close_thread", "/tool_call_status"} {
				resp := breakOff(t, s, path, `{"thread_id":"thread-1","tool_call_id":"c1"}`)
				if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
					t.Errorf("%s: %d, Retry-After %q", path, resp.StatusCode, resp.Header.Get("Retry-After"))
				}
			}
			rt.close()
		})
	}
}
