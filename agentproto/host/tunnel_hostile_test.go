package host

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/millrace/millrace/agentproto/host/internal/discovery"
	"github.com/millrace/millrace/agentproto/host/internal/migration"
	"github.com/millrace/millrace/agentproto/internal/envelope"
)

// A stranger is a sender that posts to the exit of a tunnel.
type stranger struct {
	*twoHosts
	key, purpose, host string
	head               migration.TunnelHead
	body               string // the text to seal
	change             func([]byte) []byte
	header             string // instead of the sealed head
	about              string // instead of the nonce
}

// request returns a valid request of a tool server for the session s.
func (h *twoHosts) request(nonce string) *stranger {
	return &stranger{
		twoHosts: h, key: string(sharedKey), purpose: "runtime tunnel", host: "http://second.test",
		head: migration.TunnelHead{Nonce: nonce, Sent: time.Now(), Session: "s", Toolset: "set", Method: "POST", Path: "/migrate/import", ContentType: "a/b", Length: -1},
		body: "state of " + nonce,
	}
}

// post posts the request. It returns the status of the exit and, if that is 200, of the tool server.
func (s *stranger) post() (exit, tool int) {
	e, err := envelope.New([]byte(s.key), s.purpose)
	if err != nil {
		s.t.Fatal(err)
	}
	text, _ := json.Marshal(&s.head)
	header := base64.RawURLEncoding.EncodeToString(e.Seal(text, "head", s.host))
	if s.header != "" {
		header = s.header
	}
	about := s.head.Nonce
	if s.about != "" {
		about = s.about
	}
	sealed, _ := io.ReadAll(e.SealStream(strings.NewReader(s.body), "request", about))
	if s.change != nil {
		sealed = s.change(sealed)
	}
	return s.sealed(header, sealed, e)
}

func (s *stranger) sealed(header string, sealed []byte, e *envelope.Envelope) (exit, tool int) {
	status, text := s.send("POST", "http://second.test"+migration.TunnelPath, bytes.NewReader(sealed), migration.TunnelHeader, header)
	if status != http.StatusOK {
		return status, 0
	}
	answer := new(migration.TunnelAnswer)
	open, err := e.Open([]byte(text), "answer", s.head.Nonce)
	if err == nil {
		err = json.Unmarshal(open, answer)
	}
	if err != nil {
		s.t.Errorf("the answer cannot be read: %v", err)
	}
	return status, answer.Status
}

// TestTunnelStrangers checks that a request without the key, or for anything but the move of a
// session that is on its way here, is refused. The tool server receives none of it.
func TestTunnelStrangers(t *testing.T) {
	tests := map[string]struct {
		change     func(s *stranger)
		exit, tool int
	}{
		"no header":             {func(s *stranger) { s.header = "-" }, 403, 0},
		"a header of nonsense":  {func(s *stranger) { s.header = strings.Repeat("A", 8000) }, 403, 0},
		"another key":           {func(s *stranger) { s.key = strings.Repeat("x", 32) }, 403, 0},
		"sealed for a session":  {func(s *stranger) { s.purpose = migration.Purpose }, 403, 0},
		"for another host":      {func(s *stranger) { s.host = "http://runtime.test" }, 403, 0},
		"another session":       {func(s *stranger) { s.head.Session = "other" }, 404, 0},
		"another tool server":   {func(s *stranger) { s.head.Toolset = "sets" }, 404, 0},
		"no tool server":        {func(s *stranger) { s.head.Toolset = "" }, 404, 0},
		"an invocation":         {func(s *stranger) { s.head.Path = "/invoke" }, 404, 0},
		"a notice":              {func(s *stranger) { s.head.Path = "/close_thread" }, 404, 0},
		"a move from there":     {func(s *stranger) { s.head.Path = "/migrate" }, 404, 0},
		"a slash":               {func(s *stranger) { s.head.Path = "/migrate/" }, 404, 0},
		"dots":                  {func(s *stranger) { s.head.Path = "/migrate/../invoke" }, 404, 0},
		"hidden dots":           {func(s *stranger) { s.head.Path = "/migrate/%2e%2e/invoke" }, 404, 0},
		"two slashes":           {func(s *stranger) { s.head.Path = "/migrate//import" }, 404, 0},
		"a query":               {func(s *stranger) { s.head.Path = "/migrate/import?a=b" }, 404, 0},
		"another host":          {func(s *stranger) { s.head.Path = "@evil.test/migrate/import" }, 404, 0},
		"a long path":           {func(s *stranger) { s.head.Path = "/migrate/" + strings.Repeat("a", 300) }, 404, 0},
		"to get":                {func(s *stranger) { s.head.Method = "GET" }, 404, 0},
		"to delete":             {func(s *stranger) { s.head.Method = "DELETE" }, 404, 0},
		"a post of a manifest":  {func(s *stranger) { s.head.Path = discovery.Path }, 404, 0},
		"too much":              {func(s *stranger) { s.head.Length = migration.MaxTunnelled + 1 }, 413, 0},
		"a length that is none": {func(s *stranger) { s.head.Length = -2 }, 413, 0},
		"sent before the start": {func(s *stranger) { s.head.Sent = time.Now().Add(-time.Hour) }, 409, 0},
		"more than was said":    {func(s *stranger) { s.head.Length = 3 }, 200, 502},
		"less than was said":    {func(s *stranger) { s.head.Length = 300 }, 200, 502},
		"a body of another":     {func(s *stranger) { s.about = "other" }, 200, 502},
		"no body":               {func(s *stranger) { s.change = func([]byte) []byte { return nil } }, 200, 502},
		"a body in the clear":   {func(s *stranger) { s.change = func([]byte) []byte { return []byte("state") } }, 200, 502},
		"a body that is cut": {func(s *stranger) {
			s.body = strings.Repeat("x", 200_000)
			s.change = func(b []byte) []byte { return b[:150_000] }
		}, 200, 502},
	}
	inWorld(t, func(t *testing.T, w *world) {
		h := newTwoHosts(w, "hello")
		w.say(h.thread, "hi")
		if exit, _ := h.request("early").post(); exit != http.StatusNotFound {
			t.Errorf("before the session is on its way: %d", exit)
		}
		during := func(test func()) {
			h.here.notice = func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/migrate" {
					test()
					http.Error(rw, "no", 500)
				}
			}
			if err := w.rt.Migrate(t.Context(), "s", "http://second.test"); err == nil {
				t.Error("the session has moved")
			}
		}
		during(func() {
			for name, test := range tests {
				s := h.request(name)
				test.change(s)
				if exit, tool := s.post(); exit != test.exit || tool != test.tool {
					t.Errorf("%s: %d and %d, want %d and %d", name, exit, tool, test.exit, test.tool)
				}
			}
			for _, n := range h.there.noticed() {
				if strings.HasPrefix(n, "/migrate/import ") && strings.Contains(n, "state of more than") || !strings.HasPrefix(n, "/migrate/import ") {
					t.Errorf("the tool server has seen %.100q", n)
				}
			}

			again := h.request("again")
			e, _ := envelope.New(sharedKey, "runtime tunnel")
			text, _ := json.Marshal(&again.head)
			header := base64.RawURLEncoding.EncodeToString(e.Seal(text, "head", again.host))
			sealed, _ := io.ReadAll(e.SealStream(strings.NewReader("once"), "request", again.head.Nonce))
			for i, want := range []int{200, 409, 409} {
				if exit, _ := again.sealed(header, sealed, e); exit != want {
					t.Errorf("sent for the %d. time: %d, want %d", i+1, exit, want)
				}
			}
			w.pass(2 * envelope.Tolerance)
			if exit, _ := again.sealed(header, sealed, e); exit != http.StatusForbidden {
				t.Errorf("sent ten minutes later: %d", exit)
			}
		})
		once := 0
		for _, n := range h.there.noticed() {
			if n == "/migrate/import once" {
				once++
			}
		}
		if once != 1 {
			t.Errorf("the tool server has it %d times", once)
		}
		w.pass(migration.TunnelDoubt + w.opts.withDefaults().Timeouts.Migrate + time.Minute)
		if exit, _ := h.request("late").post(); exit != http.StatusNotFound {
			t.Errorf("long after the move: %d", exit)
		}
	})
}

// TestTunnelEntry checks that at the entry a tool server with an address can make the same requests
// and no others, and that nobody without one can make any.
func TestTunnelEntry(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		h := newTwoHosts(w, "hello")
		w.say(h.thread, "hi")
		h.here.notice = func(rw http.ResponseWriter, r *http.Request) {
			to := destinationOf(h.here)
			if r.URL.Path != "/migrate" {
				return
			}
			for _, test := range []struct {
				method, path string
				want         int
			}{
				{"POST", "/invoke", 404}, {"POST", "/migrate", 404}, {"POST", "/close_thread", 404}, {"GET", "/migrate/import", 404},
				{"POST", "/migrate/../invoke", 404}, {"POST", "/migrate/%2e%2e/invoke", 404}, {"POST", "/migrate/import?x=y", 404}, {"GET", "", 404},
				{"DELETE", discovery.Path, 404}, {"GET", discovery.Path, 200}, {"POST", "/migrate/import", 200},
			} {
				if status, _, _ := h.ask(test.method, to+test.path, "a/b", "x"); status != test.want {
					t.Errorf("%s %s: %d, want %d", test.method, test.path, status, test.want)
				}
			}
			altered := strings.Replace(to, "/tunnel/e", "/tunnel/f", 1)
			for _, url := range []string{altered, "http://runtime.test" + migration.TunnelPath + "/x", "http://second.test" + strings.TrimPrefix(to, "http://runtime.test")} {
				if status, _, _ := h.ask("POST", url+"/migrate/import", "a/b", "x"); status != 404 {
					t.Errorf("%s: %d", url, status)
				}
			}
			if status, _, _ := h.ask("GET", "http://second.test"+migration.TunnelPath, "", ""); status != http.StatusMethodNotAllowed {
				t.Errorf("a GET of the exit: %d", status)
			}
		}
		if err := w.rt.Migrate(t.Context(), "s", "http://second.test"); err != nil {
			t.Fatalf("Migrate: %v", err)
		}
		if got := h.there.noticed(); len(got) != 1 {
			t.Errorf("the destination has %q", got)
		}
	})
}

// TestTunnelWithoutKey checks that a runtime without a key has no tunnels.
func TestTunnelWithoutKey(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start(w.tool("tool.test").base)
		for _, path := range []string{migration.TunnelPath, migration.TunnelPath + "/x/migrate/import"} {
			if status, _ := w.send("POST", "http://runtime.test"+path, strings.NewReader("x")); status != http.StatusNotFound {
				t.Errorf("%s: %d", path, status)
			}
		}
	})
}

// TestTunnelBounds checks the limit on concurrent requests.
func TestTunnelBounds(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		h := newTwoHosts(w, "hello")
		w.say(h.thread, "hi")
		hold := make(chan struct{})
		h.there.notice = func(http.ResponseWriter, *http.Request) { <-hold }
		h.here.notice = func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/migrate" {
				return
			}
			to := destinationOf(h.here)
			done := make(chan int, migration.TunnelRequests)
			for range migration.TunnelRequests {
				go func() {
					status, _, _ := h.ask("POST", to+"/migrate/import", "a/b", "x")
					done <- status
				}()
			}
			h.there.noticed() // returns when all of them wait
			if status, header, _ := h.ask("POST", to+"/migrate/import", "a/b", "x"); status != 503 || header.Get("Retry-After") == "" {
				t.Errorf("one more is answered %d", status)
			}
			close(hold)
			for range migration.TunnelRequests {
				if status := <-done; status != 200 {
					t.Errorf("one of them is answered %d", status)
				}
			}
		}
		if err := w.rt.Migrate(t.Context(), "s", "http://second.test"); err != nil {
			t.Fatalf("Migrate: %v", err)
		}
	})
}
