package edge_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/edge"
)

// newClient returns a client that may connect to any address.
func newClient() *edge.Client {
	return edge.NewClient(edge.Outbound{Dial: new(net.Dialer).DialContext}.Transport())
}

// do sends a GET request.
func do(t *testing.T, c *edge.Client, to string, most int64) (*edge.Answer, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, to, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c.Do(r, most)
}

// TestClient gets complete, too long, truncated and redirected answers, and none. It fails if a long
// answer counts as complete, if an answer loses its status with its body, or if a redirect is followed.
// It also fails if an error contains the URL or does not say whether the server was reached.
func TestClient(t *testing.T) {
	var mu sync.Mutex // a request whose connection broke is made again
	var seen []string // guarded by mu
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r.URL.Path+" "+r.Header.Get("User-Agent"))
		mu.Unlock()
		switch r.URL.Path {
		case "/ten":
			io.WriteString(w, "ten bytes.")
		case "/redirect":
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		case "/broken":
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, "not a hundred")
		case "/none":
			panic(http.ErrAbortHandler)
		case "/busy":
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer s.Close()
	c := newClient()
	defer c.CloseIdle()
	for _, x := range []struct {
		path   string
		most   int64
		status int
		body   string
		broken error
	}{
		{"/ten", 10, 200, "ten bytes.", nil},
		{"/ten", 9, 200, "ten bytes", edge.ErrTooLong},
		{"/ten", 0, 200, "", nil},
		{"/redirect", 0, 307, "", nil},
		{"/broken", 100, 404, "not a hundred", io.ErrUnexpectedEOF},
		{"/broken", 13, 404, "not a hundred", io.ErrUnexpectedEOF},
		{"/busy", 10, 503, "", nil},
	} {
		a, err := do(t, c, s.URL+x.path, x.most)
		if err != nil || a.Status != x.status || string(a.Body) != x.body || !errors.Is(a.Broken, x.broken) || a.OK() != (x.status == 200) {
			t.Errorf("%s, %d bytes: %+v, %v, want %d with %q and %v", x.path, x.most, a, err, x.status, x.body, x.broken)
		}
		if want := 7 * time.Second; x.path == "/busy" && a.RetryAfter != want {
			t.Errorf("it waits for %v, want %v", a.RetryAfter, want)
		}
	}
	mu.Lock()
	if all := strings.Join(seen, " "); strings.Contains(all, "/elsewhere") || strings.Count(all, "millrace") != len(seen) {
		t.Errorf("the server has seen %q, want no redirected request, and a name in each", seen)
	}
	mu.Unlock()
	if _, err := do(t, c, s.URL+"/none", 10); err == nil || !edge.Reached(err) || strings.Contains(err.Error(), "/none") {
		t.Errorf("no answer: %v, want an error without the URL that says that the server was reached", err)
	}
	s.Close()
	if _, err := do(t, c, s.URL+"/ten", 10); err == nil || edge.Reached(err) || strings.Contains(err.Error(), "/ten") {
		t.Errorf("no server: %v, want an error without the URL that says that nobody was reached", err)
	}
	if err := edge.WithoutURL(io.EOF); err != io.EOF || edge.Reached(io.EOF) {
		t.Errorf("an error without a URL became %v", err)
	}
}

// TestClientDoesNotWait gets an answer whose body does not end. It fails if a client reads an unwanted
// body for longer than a second.
func TestClientDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := edge.NewClient(roundTrip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 202, Header: http.Header{}, Body: endless{r.Context()}}, nil
		}))
		begin := time.Now()
		a, err := do(t, c, "http://tool.example/", 0)
		if took := time.Since(begin); err != nil || a.Status != 202 || took != time.Second {
			t.Errorf("%+v, %v after %v, want 202 after a second", a, err, took)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// An endless body returns a byte each 100 ms until its request ends.
type endless struct{ ctx context.Context }

func (e endless) Read(p []byte) (int, error) {
	select {
	case <-time.After(100 * time.Millisecond):
		p[0] = 'x'
		return 1, nil
	case <-e.ctx.Done():
		return 0, e.ctx.Err()
	}
}

func (endless) Close() error { return nil }

// TestStandard fails if a library can read more of an answer than the limit.
func TestStandard(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ten bytes.") }))
	defer s.Close()
	resp, err := newClient().Standard(4, time.Minute).Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "ten " {
		t.Errorf("it reads %q, %v", text, err)
	}
}

// TestRetryAfter fails if a server can ask for an unlimited pause, or for one in the past.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for value, want := range map[string]time.Duration{
			"": 0, "120": 2 * time.Minute, "999999": time.Hour, "-1": 0, "1.5": 0, "soon": 0, "99999999999": 0,
			time.Now().Add(90 * time.Second).UTC().Format(http.TimeFormat): 90 * time.Second,
			time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat):       0,
			time.Now().Add(48 * time.Hour).UTC().Format(http.TimeFormat):   time.Hour,
		} {
			c := edge.NewClient(roundTrip(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 503, Header: http.Header{"Retry-After": {value}}, Body: http.NoBody}, nil
			}))
			if a, err := do(t, c, "http://tool.example/", 0); err != nil || a.RetryAfter != want {
				t.Errorf("Retry-After: %s is %v, %v, want %v", value, a.RetryAfter, err, want)
			}
		}
	})
}

// TestTransport fails if connections use the proxy of the environment or an old TLS version, if the
// given configuration is changed, or if connecting has no timeout.
func TestTransport(t *testing.T) {
	given := &tls.Config{ServerName: "tool.example"}
	o := edge.Outbound{TLS: given, Connect: time.Minute, Idle: 3, Most: 5}
	synctest.Test(t, func(t *testing.T) {
		o.Dial = func(ctx context.Context, _, addr string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		transport := o.Transport()
		if c := transport.TLSClientConfig; c.MinVersion != tls.VersionTLS12 || c.ServerName != given.ServerName || given.MinVersion != 0 || transport.Proxy != nil {
			t.Errorf("TLS from %x to %q, of which %x was given; proxy: %v", c.MinVersion, c.ServerName, given.MinVersion, transport.Proxy != nil)
		}
		if transport.MaxIdleConnsPerHost != 3 || transport.MaxConnsPerHost != 5 || transport.TLSHandshakeTimeout != time.Minute {
			t.Errorf("%d idle connections, %d at most, %v for a handshake", transport.MaxIdleConnsPerHost, transport.MaxConnsPerHost, transport.TLSHandshakeTimeout)
		}
		if kept := transport.IdleConnTimeout; kept == 0 || kept >= time.Minute {
			t.Errorf("an idle connection is kept for %v, but servers close it after a minute", kept)
		}
		begin := time.Now()
		_, err := do(t, edge.NewClient(transport), "http://tool.example/", 0)
		if took := time.Since(begin); !errors.Is(err, context.DeadlineExceeded) || edge.Reached(err) || took != time.Minute {
			t.Errorf("%v after %v, want that there is no connection after a minute", err, took)
		}
	})
	if least := (edge.Outbound{TLS: &tls.Config{MinVersion: tls.VersionTLS13}}).Transport(); least.TLSClientConfig.MinVersion != tls.VersionTLS13 {
		t.Errorf("TLS from %x", least.TLSClientConfig.MinVersion)
	}
}

// TestCurve checks the pauses of a finite curve and of one that continues. It fails if a pause
// overflows, if there are too many attempts, or if the pause that a server asks for is ignored.
func TestCurve(t *testing.T) {
	finite := edge.Curve{First: []time.Duration{time.Second, 5 * time.Second}}
	rising := edge.Curve{First: finite.First, Most: time.Minute}
	for _, x := range []struct {
		c      edge.Curve
		failed int
		want   time.Duration
		ok     bool
	}{
		{finite, 1, time.Second, true}, {finite, 2, 5 * time.Second, true}, {finite, 3, 0, false},
		{rising, 2, 5 * time.Second, true}, {rising, 3, 10 * time.Second, true}, {rising, 5, 40 * time.Second, true},
		{rising, 6, time.Minute, true}, {rising, 1000, time.Minute, true}, {edge.Curve{Most: time.Hour}, 1, 0, false},
	} {
		if got, ok := x.c.After(x.failed); got != x.want || ok != x.ok {
			t.Errorf("%v after %d failures: %v, %v, want %v, %v", x.c, x.failed, got, ok, x.want, x.ok)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		wait := func(ctx context.Context, failed int, atLeast time.Duration, stop chan struct{}) (time.Duration, bool) {
			begin := time.Now()
			ok := finite.Wait(ctx, failed, atLeast, stop)
			return time.Since(begin), ok
		}
		for range 100 {
			if took, ok := wait(t.Context(), 1, 0, nil); !ok || took < 500*time.Millisecond || took > 1500*time.Millisecond {
				t.Fatalf("it waited for %v, %v", took, ok)
			}
		}
		if took, ok := wait(t.Context(), 1, time.Hour, nil); !ok || took != time.Hour {
			t.Errorf("for a server that wants an hour it waited for %v, %v", took, ok)
		}
		if took, ok := wait(t.Context(), 3, time.Hour, nil); ok || took != 0 {
			t.Errorf("without a further attempt it waited for %v, %v", took, ok)
		}
		short, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
		defer cancel()
		if took, ok := wait(short, 1, 0, nil); ok || took != 0 {
			t.Errorf("without the time for it, it waited for %v, %v", took, ok)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if took, ok := wait(ended, 1, 0, nil); ok || took != 0 {
			t.Errorf("after the end it waited for %v, %v", took, ok)
		}
		stop := make(chan struct{})
		time.AfterFunc(100*time.Millisecond, func() { close(stop) })
		if took, ok := wait(t.Context(), 1, 0, stop); ok || took != 100*time.Millisecond {
			t.Errorf("stopped, it waited for %v, %v", took, ok)
		}
	})
}

// TestSegment checks that every text arrives at a server as one segment of the path.
func TestSegment(t *testing.T) {
	var got string
	mux := http.NewServeMux()
	mux.HandleFunc("GET /threads/{thread}/tools", func(_ http.ResponseWriter, r *http.Request) { got = r.PathValue("thread") })
	s := httptest.NewServer(edge.Guard(edge.Policy{}, mux))
	defer s.Close()
	for _, text := range []string{".", "..", "...", ".a", "a/../b", "//", "%2E", "%", "a b", "ä?#"} {
		got = ""
		resp, err := http.Get(s.URL + "/threads/" + edge.Segment(text) + "/tools")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got != text {
			t.Errorf("%q arrives as %q, status %d", text, got, resp.StatusCode)
		}
	}
}
