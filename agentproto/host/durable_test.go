package host

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/discovery"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/natslog"
)

// TestRestart checks that a runtime restarted on its state still holds a result that was
// answered 200, and a pending call, which gets its result at the same address.
func TestRestart(t *testing.T) {
	echo := echoServer(t, "echo")
	late := lateServer(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	sealer, err := SealerOf([32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{
		Toolsets: []string{echo.URL, late.URL}, Surface: &user{}, Logger: slog.New(slog.DiscardHandler), Sealer: sealer,
		State: &durable.Options{Log: natslog.Embedded(t.TempDir()), Logger: slog.New(slog.DiscardHandler)},
	}
	opts.Listener = listener
	rt, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	call := func(operation string) agentproto.CallKey {
		key, err := rt.Call(t.Context(), Request{GroupID: "g", Operation: operation})
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	done, pending := call("echo"), call("late")
	if r, err := rt.Await(t.Context(), done); err != nil || r.Result.String() != "echo "+done.ID {
		t.Fatalf("%+v, %v", r, err)
	}
	inv := <-late.invocations
	stopNow(t, rt)

	opts.Listener, opts.ListenAddr = nil, addr
	if rt, err = Start(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	if r, err := rt.Await(t.Context(), done); err != nil || r.Result.String() != "echo "+done.ID {
		t.Errorf("after the restart: %+v, %v", r, err)
	}
	for range 2 { // the second one is a duplicate
		if status := late.post(t, inv.CallbackURL, result(inv.Key(), "at last")); status != 200 {
			t.Errorf("status %d", status)
		}
	}
	if r, err := rt.Await(t.Context(), pending); err != nil || r.Result.String() != "at last" {
		t.Errorf("after the restart: %+v, %v", r, err)
	}
	if _, err := rt.Call(t.Context(), Request{GroupID: "g", ID: done.ID, Operation: "echo"}); err == nil {
		t.Error("a call was made twice")
	}
	next := call("echo")
	if r, err := rt.Await(t.Context(), next); err != nil || r.Result.String() != "echo "+next.ID {
		t.Errorf("a new call: %+v, %v", r, err)
	}
	stopNow(t, rt)
}

// late is a tool server that acknowledges invocations and leaves the rest to the test.
type late struct {
	*httptest.Server
	invocations chan *agentproto.Invocation
}

func lateServer(t *testing.T) *late {
	l := &late{invocations: make(chan *agentproto.Invocation, 64)}
	l.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == discovery.Path {
			fmt.Fprintf(rw, `{"name":"l","endpoint":"%s/invoke","tools":[{"name":"late","description":"d","inputSchema":{}}]}`, l.URL)
			return
		}
		body, _ := io.ReadAll(r.Body)
		inv, err := agentproto.DecodeInvocation(body, agentproto.Limits{})
		if err != nil {
			t.Error(err)
			return
		}
		l.invocations <- inv
	}))
	t.Cleanup(l.Close)
	return l
}

func (l *late) post(t *testing.T, callbackURL, body string) int {
	resp, err := http.Post(callbackURL, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// postUntilTaken posts a tool's message and, as tools do, retries it while it is
// deferred.
func postUntilTaken(t *testing.T, callbackURL, body string) {
	t.Helper()
	within(t, "the callback is taken in: "+body, func() bool {
		resp, err := http.Post(callbackURL, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusServiceUnavailable {
			t.Fatalf("%s: status %d", body, resp.StatusCode)
		}
		return resp.StatusCode == http.StatusOK
	})
}

func stopNow(t *testing.T, rt *Runtime) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := rt.Stop(ctx); err != nil {
		t.Fatal(fmt.Errorf("stop: %w", err))
	}
}
