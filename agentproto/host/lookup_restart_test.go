package host

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/discovery"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/natslog"
)

// TestD04Restart checks that, after a restart too, a server's tools are missing only while
// the server is down (D04).
func TestD04Restart(t *testing.T) {
	t.Parallel()
	var up atomic.Bool
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch {
		case !up.Load():
			rw.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == discovery.Path:
			fmt.Fprintf(rw, `{"name":"s","endpoint":"%s/invoke","tools":[{"name":"late","description":"d","inputSchema":{}}]}`, server.URL)
		}
	}))
	defer server.Close()
	sealer, err := SealerOf([32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{
		Toolsets: []string{server.URL}, Surface: &user{}, Logger: slog.New(slog.DiscardHandler), Sealer: sealer,
		State: &durable.Options{Log: natslog.Embedded(t.TempDir()), Logger: slog.New(slog.DiscardHandler)}, Timeouts: Timeouts{Retry: []time.Duration{}},
	}
	for range 2 {
		up.Store(false)
		rt, err := Start(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		key, err := rt.Call(t.Context(), Request{GroupID: "g", Operation: "late"})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := rt.Await(t.Context(), key); err != nil || !strings.Contains(r.Result.String(), "cannot be reached") {
			t.Errorf("while it is down: %+v, %v", r, err)
		}
		up.Store(true)
		offered := func() bool {
			tools, _, err := rt.ToolsOf(t.Context(), "g")
			return err == nil && len(tools) == 1
		}
		for deadline := time.Now().Add(time.Minute); !offered(); <-time.After(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the tool is missing a minute after the server is up")
			}
		}
		if key, err = rt.Call(t.Context(), Request{GroupID: "g", Operation: "late"}); err != nil {
			t.Fatal(err)
		}
		if err := rt.Cancel(t.Context(), key); err != nil {
			t.Error(err)
		}
		if r, err := rt.Await(t.Context(), key); err != nil || r.Cause != agentproto.ByInterruption {
			t.Errorf("when it is up: %+v, %v", r, err)
		}
		stopNow(t, rt)
	}
}
