package host

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/discovery"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/internal/freeport"
)

// A strictTool is a tool server that accepts answers of users only with credentials.
type strictTool struct {
	*httptest.Server
	silent atomic.Bool // it does not serve its manifest

	mu       sync.Mutex
	invoked  map[string]string // the callback URLs, by the ids of the calls
	answered int
}

func newStrictTool(t *testing.T) *strictTool {
	s := &strictTool{invoked: map[string]string{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case r.URL.Path == discovery.Path && s.silent.Load():
			http.Error(rw, "starting", http.StatusServiceUnavailable)
		case r.URL.Path == discovery.Path:
			fmt.Fprintf(rw, `{"name":"set","endpoint":"%s/invoke","tools":[{"name":"echo","description":"d","inputSchema":{}}]}`, s.URL)
		case r.URL.Path == "/invoke":
			inv, err := agentproto.DecodeInvocation(body, agentproto.Limits{})
			if err != nil {
				t.Error(err)
				return
			}
			s.invoked[inv.ID] = inv.CallbackURL
		case r.URL.Path == "/answer" && r.Header.Get("Authorization") == "":
			http.Error(rw, "unauthorized", http.StatusUnauthorized)
		case r.URL.Path == "/answer":
			s.answered++
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// callback waits until a call is invoked and returns its callback URL.
func (s *strictTool) callback(t *testing.T, id string) (url string) {
	t.Helper()
	within(t, id+" is invoked", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		url = s.invoked[id]
		return url != ""
	})
	return url
}

// newMortal starts a host with durable state and one tool server.
func newMortal(t *testing.T, n byte, tool *strictTool) *mortal {
	t.Helper()
	at, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	sealer, err := SealerOf([32]byte{n})
	if err != nil {
		t.Fatal(err)
	}
	m := &mortal{t: t, opts: Options{
		Toolsets: []string{tool.URL}, Headers: map[string]http.Header{tool.URL: {"Authorization": {"Bearer token"}}},
		Surface: &user{}, Logger: slog.New(slog.DiscardHandler), Sealer: sealer, MigrationKey: sharedKey, ListenAddr: at,
		Timeouts: Timeouts{Retry: []time.Duration{20 * time.Millisecond, 40 * time.Millisecond}},
		State:    &durable.Options{Log: natslog.Embedded(t.TempDir()), Logger: slog.New(slog.DiscardHandler)},
	}}
	m.start()
	t.Cleanup(m.end)
	return m
}

// end cuts the host off and waits until its state can be used again.
func (m *mortal) end() {
	m.cut()
	<-m.now().stopped
}

// called makes a call at a host, and returns what else is needed to move its session: both tool servers, both hosts, and the call's
// callback URL.
func called(t *testing.T) (here, there *strictTool, source, destination *mortal, key agentproto.CallKey, url string) {
	t.Helper()
	here, there = newStrictTool(t), newStrictTool(t)
	source, destination = newMortal(t, 1, here), newMortal(t, 2, there)
	key, err := source.now().Call(t.Context(), Request{GroupID: "s", ID: "a", Operation: "echo"})
	if err != nil {
		t.Fatal(err)
	}
	return here, there, source, destination, key, here.callback(t, "a")
}

// TestForwardWithoutToolServer moves a session, ends the tool server that it left, and restarts the source. The test fails if the
// source no longer forwards the callbacks of the session.
func TestForwardWithoutToolServer(t *testing.T) {
	t.Parallel()
	here, _, source, destination, key, url := called(t)
	if err := source.now().Migrate(t.Context(), "s", destination.now().PublicURL()); err != nil {
		t.Fatal(err)
	}
	source.end()
	here.Close()
	source.start()
	resp, err := http.Post(url, "application/json", strings.NewReader(result(key, "done")))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("a callback was answered %d", resp.StatusCode)
	}
	if r, err := destination.now().Await(t.Context(), key); err != nil || r.Result.String() != "done" {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestMoveBeforeManifest restarts a host while its tool server serves no manifest, and then moves a session. The test fails if the
// destination does not know the tool server of the call: it would answer the tool without credentials.
func TestMoveBeforeManifest(t *testing.T) {
	t.Parallel()
	here, there, source, destination, key, url := called(t)
	source.end()
	here.silent.Store(true)
	source.start()
	here.silent.Store(false)
	if err := source.now().Migrate(t.Context(), "s", destination.now().PublicURL()); err != nil {
		t.Fatal(err)
	}
	postUntilTaken(t, url, choiceBody(key, there.URL+"/answer"))
	if err := destination.now().Answer(t.Context(), key, there.URL+"/answer", 1); err != nil {
		t.Fatal(err)
	}
	within(t, "the answer arrives, or the call ends", func() bool {
		there.mu.Lock()
		defer there.mu.Unlock()
		_, over := destination.now().program.Resolved(key)
		return over || there.answered > 0
	})
	postUntilTaken(t, url, result(key, "done"))
	if r, err := destination.now().Await(t.Context(), key); err != nil || r.Result.String() != "done" {
		t.Errorf("%+v, %v", r, err)
	}
}
