package host

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/discovery"
)

// An echo is a tool server. A runtime that does not wait for requests must not stop before posts is done: a result
// is known before the request that brought it is answered.
type echo struct {
	*httptest.Server
	posts sync.WaitGroup
}

// echoServer is a tool server on a real socket. It posts results with its own client, as
// another process would.
func echoServer(t testing.TB, tool string) *echo {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
	slots := make(chan struct{}, 256)
	server := &echo{}
	server.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case discovery.Path:
			fmt.Fprintf(rw, `{"name":"s","endpoint":"%s/invoke","tools":[{"name":%q,"description":"d","inputSchema":{"type":"object"}}]}`, server.URL, tool)
		case "/invoke":
			inv, err := agentproto.DecodeInvocation(body, agentproto.Limits{})
			if err != nil {
				t.Error(err)
				return
			}
			server.posts.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				resp, err := client.Post(inv.CallbackURL, "application/json", strings.NewReader(result(inv.Key(), "echo "+inv.ID)))
				if err != nil {
					t.Error(err)
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode != 200 {
					t.Errorf("status %d", resp.StatusCode)
				}
			})
		}
	}))
	t.Cleanup(client.CloseIdleConnections)
	t.Cleanup(server.Close)
	return server
}

// TestL02ThousandCalls checks that one thousand calls take only a moment while another
// server holds every request.
func TestL02ThousandCalls(t *testing.T) {
	const n = 1000
	echo := echoServer(t, "echo")
	release := make(chan struct{})
	var hung *httptest.Server
	hung = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == discovery.Path {
			fmt.Fprintf(rw, `{"name":"h","endpoint":"%s/invoke","tools":[{"name":"hang","description":"d","inputSchema":{}}]}`, hung.URL)
			return
		}
		<-release
	}))
	defer hung.Close()
	defer close(release)

	rt, err := Start(t.Context(), Options{
		Toolsets: []string{hung.URL, echo.URL}, Surface: &user{}, Logger: slog.New(slog.DiscardHandler), Concurrency: 64,
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		if _, err := rt.Call(t.Context(), Request{GroupID: "h", Operation: "hang"}); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			key, err := rt.Call(t.Context(), Request{GroupID: fmt.Sprint("g", i%10), Operation: "echo"})
			if err != nil {
				t.Error(err)
				return
			}
			r, err := rt.Await(t.Context(), key)
			if err != nil || r.Result.String() != "echo "+key.ID {
				t.Errorf("%v: %+v, %v", key, r, err)
			}
		})
	}
	wg.Wait()
	d := time.Since(start)
	t.Logf("%d calls in %v", n, d)
	echo.posts.Wait()
	if d > 20*time.Second {
		t.Errorf("%d calls took %v", n, d)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	rt.Stop(ctx)
	if st := rt.Stats(); st.Toolsets[echo.URL].Results != n {
		t.Errorf("stats %+v, want %d results", st, n)
	}
}

// TestTLS checks that the callback endpoint and the client work over TLS, and that the
// given configuration is not changed.
func TestTLS(t *testing.T) {
	plain := echoServer(t, "echo")
	secure := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(rw, `{"name":"s","endpoint":"https://%s/i","tools":[{"name":"secure","description":"d","inputSchema":{}}]}`, r.Host)
	}))
	defer secure.Close()
	config := secure.Client().Transport.(*http.Transport).TLSClientConfig
	rt, err := Start(t.Context(), Options{
		Toolsets: []string{secure.URL, plain.URL}, TLS: config, Surface: &user{}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Stop(context.Background())
	if got := len(rt.Tools()); got != 2 {
		t.Errorf("%d tools, want 2: %v", got, rt.Problems())
	}
	if config.MinVersion != 0 {
		t.Errorf("the given configuration was changed: TLS from %x", config.MinVersion)
	}
}

// stopAtOnce stops a runtime without waiting for its tool servers.
func stopAtOnce(t *testing.T, rt *Runtime) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	rt.Stop(ctx)
	<-rt.stopped // afterwards its folder can be removed
}
