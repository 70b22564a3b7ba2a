package host

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/capability"
	"github.com/millrace/millrace/agentproto/host/internal/display"
	"github.com/millrace/millrace/agentproto/host/internal/migration"
)

// TestW09Slow checks that stalled connections are closed and delay nobody.
func TestW09Slow(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		_, key, url := w.pending()
		path := strings.TrimPrefix(url, "http://runtime.test")
		tests := []struct {
			name, sent string
			within     time.Duration
		}{
			{"no byte", "", 5 * time.Second},
			{"half a header", "POST " + path + " HTTP/1.1\r\nHost: runtime.test\r\nX: ", 5 * time.Second},
			{"half a body", "POST " + path + " HTTP/1.1\r\nHost: runtime.test\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", 31 * time.Second},
			{"idle", "GET / HTTP/1.1\r\nHost: runtime.test\r\n\r\n", 60 * time.Second},
		}
		var conns []net.Conn
		for _, tt := range tests {
			conn, err := w.net.dial(t.Context(), "", "runtime.test:80")
			if err != nil {
				t.Fatal(err)
			}
			io.WriteString(conn, tt.sent)
			conns = append(conns, conn)
		}
		start := time.Now()
		if status := w.post(url, result(key, "ok")); status != 200 || time.Since(start) > 0 {
			t.Errorf("another post: status %d after %v", status, time.Since(start))
		}
		var wg sync.WaitGroup
		for i, tt := range tests {
			wg.Go(func() {
				answer, _ := io.ReadAll(conns[i])
				if d := time.Since(start); d > tt.within {
					t.Errorf("%s: closed after %v, want %v", tt.name, d, tt.within)
				}
				if strings.Contains(string(answer), "200 OK") {
					t.Errorf("%s: answered %q", tt.name, answer)
				}
				conns[i].Close()
			})
		}
		wg.Wait()
		if got := w.text(key); got != "ok" {
			t.Errorf("result %q, want ok", got)
		}
	})
}

// TestBodyBreaksOff checks that an incomplete body does not resolve the call.
func TestBodyBreaksOff(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		_, key, url := w.pending()
		conn, err := w.net.dial(t.Context(), "", "runtime.test:80")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: runtime.test\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"type\":", strings.TrimPrefix(url, "http://runtime.test"))
		conn.Close()
		synctest.Wait()
		w.post(url, result(key, "ok"))
		if got := w.text(key); got != "ok" {
			t.Errorf("result %q, want ok", got)
		}
	})
}

func TestLargeHeader(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		_, key, url := w.pending()
		status, _ := w.send("POST", url, strings.NewReader(result(key, "x")), "Content-Type", "application/json", "X", strings.Repeat("x", 64<<10))
		if status != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("status %d, want 431", status)
		}
	})
}

// TestConnectionIsKept checks that a keep-alive connection serves many callbacks, valid or not.
func TestConnectionIsKept(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		_, key, url := w.pending()
		conn, err := w.net.dial(t.Context(), "", "runtime.test:80")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		read := bufio.NewReader(conn)
		for _, tt := range []struct {
			path, body string
			want       int
		}{
			{capability.Path + "a/b", "{}", 404},
			{strings.TrimPrefix(url, "http://runtime.test"), result(key, "ok"), 200},
			{"/", "", 404},
		} {
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: runtime.test\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", tt.path, len(tt.body), tt.body)
			resp, err := http.ReadResponse(read, nil)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			if resp.StatusCode != tt.want {
				t.Errorf("%.20s: status %d, want %d", tt.path, resp.StatusCode, tt.want)
			}
		}
	})
}

// TestExternalEndpoint serves the endpoint itself, below a path that a proxy may strip.
func TestExternalEndpoint(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		rt, err := Start(t.Context(), Options{
			Toolsets: []string{tool.base}, External: true, PublicURL: "http://public.test/agents/",
			DialContext: w.net.dial, Surface: w.user,
		})
		if err != nil {
			t.Fatal(err)
		}
		w.rt = rt
		w.host("public.test", rt.Handler())
		w.host("stripped.test", http.StripPrefix("/agents", rt.Handler()))
		if got := rt.PublicURL(); got != "http://public.test/agents" {
			t.Errorf("PublicURL = %q", got)
		}
		for i, host := range []string{"public.test", "stripped.test"} {
			key := w.call("g", fmt.Sprint(i))
			url := tool.callback()
			if !strings.HasPrefix(url, "http://public.test/agents/rap/v1/cb/") {
				t.Errorf("callback_url = %q", url)
			}
			if status := w.post(strings.Replace(url, "public.test", host, 1), result(key, host)); status != 200 {
				t.Errorf("%s: status %d, want 200", host, status)
			}
			if got := w.text(key); got != host {
				t.Errorf("%s: result %q", host, got)
			}
		}
		if err := rt.Stop(context.Background()); err != nil {
			t.Errorf("Stop: %v", err)
		}
	})
}

// TestPagesBelow checks that pages receive every path below the public URL or the root, relative to it, except the
// runtime's own paths.
func TestPagesBelow(t *testing.T) {
	for _, public := range []string{"http://public.test", "http://public.test/agents", "http://public.test/agents/", "http://public.test/a/b"} {
		inWorld(t, func(t *testing.T, w *world) {
			var seen []string
			rt, err := Start(t.Context(), Options{
				External: true, PublicURL: public, DialContext: w.net.dial, Surface: w.user,
				Pages: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = append(seen, r.URL.RequestURI()) }),
			})
			if err != nil {
				t.Fatal(err)
			}
			w.rt = rt
			below := strings.TrimSuffix(strings.TrimPrefix(public, "http://public.test"), "/")
			for path, want := range map[string]string{
				"/login/x%2Fy?code=1":   "/login/x%2Fy?code=1",
				"/":                     "/",
				"/agent":                "/agent", // which only begins like one of these paths
				capability.Path + "a/b": "",
				migration.Path:          "",
			} {
				for _, from := range []string{path, below + path} {
					seen = nil
					rt.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "http://public.test"+from, nil))
					if got := strings.Join(seen, " "); got != want {
						t.Errorf("below %s, the pages get %q of %s, want %q", public, got, from, want)
					}
				}
			}
			if err := rt.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestContextEnds checks that a runtime ends with the context of Start and leaves no goroutine running: otherwise
// the bubble would not end.
func TestContextEnds(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		hang := make(chan struct{})
		defer close(hang)
		tool.ack = func(int, http.ResponseWriter, *agentproto.Invocation) { <-hang }
		ctx, cancel := context.WithCancel(context.Background())
		rt, err := Start(ctx, Options{
			Toolsets: []string{tool.base}, Listener: w.net.listen("runtime.test:80"), PublicURL: "http://runtime.test",
			DialContext: w.net.dial, Surface: w.user,
		})
		if err != nil {
			t.Fatal(err)
		}
		w.rt = rt
		key := w.call("g", "1")
		tool.callback()
		cancel()
		if _, err := rt.Await(t.Context(), key); err == nil {
			t.Error("Await succeeded")
		}
		if _, err := rt.Call(t.Context(), Request{GroupID: "g", Operation: "echo"}); err == nil {
			t.Error("Call succeeded")
		}
		<-rt.stopped
		if _, err := w.net.dial(t.Context(), "", "runtime.test:80"); err == nil {
			t.Error("the endpoint listens still")
		}
	})
}

// TestStopWithHungSurface checks that a surface that never returns delays Stop until Stop's context ends, and no
// longer.
func TestStopWithHungSurface(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		_, _, _ = w.pending()
		hang := make(chan struct{})
		defer close(hang)
		w.rt.display.Show(func(context.Context, display.Surface) { <-hang })
		ctx, cancel := context.WithTimeout(context.Background(), 7*time.Second)
		defer cancel()
		start := time.Now()
		if err := w.rt.Stop(ctx); err == nil {
			t.Error("Stop succeeded")
		}
		if d := time.Since(start); d != 7*time.Second {
			t.Errorf("Stop took %v, want 7 s", d)
		}
	})
}

// TestBrowsersAreRefused checks that an endpoint on this machine refuses requests of a page in a browser, which
// names another host or an origin (threat 16). Such a request resolves nothing.
func TestBrowsersAreRefused(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		rt, err := Start(t.Context(), Options{
			Toolsets: []string{tool.base}, Listener: w.net.listen("127.0.0.1:4000"), DialContext: w.net.dial, Surface: w.user,
		})
		if err != nil {
			t.Fatal(err)
		}
		w.rt = rt
		defer rt.Stop(context.Background())
		key := w.call("g", "1")
		url := tool.callback()
		tests := []struct {
			host, origin string
			want         int
		}{
			{"evil.test", "", 421},
			{"evil.test:4000", "", 421},
			{"127.0.0.1", "", 421},
			{"127.0.0.1:80", "", 421},
			{"localhost.evil.test:4000", "", 421},
			{"127.0.0.1:4000", "http://evil.test", 403},
			{"127.0.0.1:4000", "null", 403},
			{"evil.test", "http://evil.test", 403},
			{"LOCALHOST:4000", "", 200},
			{"localhost.:4000", "", 200},
			{"127.0.0.1:4000", "", 200},
		}
		for _, tt := range tests {
			req, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(result(key, "ok")))
			if err != nil {
				t.Fatal(err)
			}
			req.Host = tt.host
			req.Header.Set("Content-Type", "application/json")
			if tt.origin != "" {
				req.Header.Set("Origin", tt.origin)
			}
			resp, err := w.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != tt.want {
				t.Errorf("Host %s, Origin %s: status %d, want %d", tt.host, tt.origin, resp.StatusCode, tt.want)
			}
		}
		if st := w.stats(); st.Forged != 8 || st.Results != 1 || st.Malformed != 0 {
			t.Errorf("stats %+v", st.Counts)
		}
	})
}
