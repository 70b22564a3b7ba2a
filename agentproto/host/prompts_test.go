package host

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/discovery"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/natslog"
)

// A told is a surface that records what the user is currently asked.
type told struct {
	mu   sync.Mutex
	open map[string]string // by call
	news chan struct{}     // closed when that changes
	Surface
}

func (u *told) set(key agentproto.CallKey, to string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.open[key.ID] = to; to == "" {
		delete(u.open, key.ID)
	}
	close(u.news)
	u.news = make(chan struct{})
}

func (u *told) OAuth(_ context.Context, key agentproto.CallKey, o *agentproto.OAuth) {
	u.set(key, o.AuthURL)
}

func (u *told) Choice(_ context.Context, key agentproto.CallKey, c *agentproto.UserChoice) {
	u.set(key, c.Prompt)
}
func (u *told) Withdraw(key agentproto.CallKey, _ string)       { u.set(key, "") }
func (u *told) Progress(agentproto.CallKey, agentproto.State)   {}
func (u *told) View(agentproto.CallKey, *agentproto.ViewUpdate) {}

// expect waits until the user is asked exactly want.
func (u *told) expect(t *testing.T, want map[string]string) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		u.mu.Lock()
		open, news := maps.Clone(u.open), u.news
		u.mu.Unlock()
		if maps.Equal(open, want) {
			return
		}
		select {
		case <-news:
		case <-deadline:
			t.Fatalf("the user is asked %q, want %q", open, want)
		}
	}
}

// forget clears the prompts, as a user interface does when its runtime is gone.
func (u *told) forget() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.open = map[string]string{}
}

// TestPromptsSurvive checks that prompts that are open when the runtime is cut off are
// shown again by the next one (U08, O07). An answer that was accepted but not delivered is
// delivered. No auth_url is on the disk.
func TestPromptsSurvive(t *testing.T) {
	type posted struct{ id, body string }
	answers := make(chan posted, 100)
	refuse := make(chan struct{}) // the tool accepts answers once it is closed
	invoked := make(chan *agentproto.Invocation, 8)
	mux := http.NewServeMux()
	tool := httptest.NewServer(mux)
	defer tool.Close()
	mux.HandleFunc(discovery.Path, func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(rw, `{"name":"l","endpoint":"%s/invoke","tools":[{"name":"ask","description":"d","inputSchema":{}}]}`, tool.URL)
	})
	mux.HandleFunc("/invoke", func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		inv, err := agentproto.DecodeInvocation(body, agentproto.Limits{})
		if err != nil {
			t.Error(err)
			return
		}
		invoked <- inv
	})
	mux.HandleFunc("/answer", func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		answers <- posted{r.Header.Get("webhook-id"), string(body)}
		select {
		case <-refuse:
		default:
			rw.WriteHeader(http.StatusServiceUnavailable)
		}
	})

	dir := t.TempDir()
	sealer, err := SealerOf([32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	user := &told{open: map[string]string{}, news: make(chan struct{})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{
		Toolsets: []string{tool.URL}, Surface: user, Logger: slog.New(slog.DiscardHandler), Sealer: sealer,
		State:    &durable.Options{Log: natslog.Embedded(dir), Logger: slog.New(slog.DiscardHandler)},
		Timeouts: Timeouts{Retry: []time.Duration{time.Millisecond, time.Hour}}, Listener: listener,
	}
	start := func() *Runtime {
		rt, err := Start(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		opts.Listener, opts.ListenAddr = nil, listener.Addr().String()
		return rt
	}
	cutOff := func(rt *Runtime) { // like a crash: no snapshot, nothing is finished
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		rt.Stop(ctx)
		user.forget()
	}
	rt := start()
	urls := map[string]string{}
	for _, id := range []string{"signin", "open", "answered", "over"} {
		if _, err := rt.Call(t.Context(), Request{GroupID: "g", ID: id, Operation: "ask"}); err != nil {
			t.Fatal(err)
		}
		inv := <-invoked
		urls[inv.ID] = inv.CallbackURL
	}
	say := func(id, format string, args ...any) {
		t.Helper()
		postUntilTaken(t, urls[id], fmt.Sprintf(format, args...))
	}
	const secret = "https://login.test/canary?state=4711"
	say("signin", `{"type":"oauth","group_id":"g","id":"signin","auth_url":%q}`, secret)
	for _, id := range []string{"open", "answered", "over"} {
		say(id, `{"type":"user_choice","group_id":"g","id":%q,"prompt":%q,"choices":["a","b"],"default":0,"response_url":%q}`, id, id+"?", tool.URL+"/answer")
	}
	user.expect(t, map[string]string{"signin": secret, "open": "open?", "answered": "answered?", "over": "over?"})
	say("over", `{"type":"tool_result","group_id":"g","id":"over","text":"x"}`)
	user.expect(t, map[string]string{"signin": secret, "open": "open?", "answered": "answered?"})
	if err := rt.Answer(t.Context(), agentproto.CallKey{GroupID: "g", ID: "answered"}, tool.URL+"/answer", 1); err != nil {
		t.Fatal(err)
	}
	first := <-answers // refused, like the second; the third would come in an hour
	<-answers

	cutOff(rt)
	close(refuse)
	rt = start()
	user.expect(t, map[string]string{"signin": secret, "open": "open?"})
	if again := <-answers; again != first || again.body != `{"id":"answered","selected":1}` {
		t.Errorf("the answer was %v, and after the restart %v", first, again)
	}
	say("answered", `{"type":"tool_result","group_id":"g","id":"answered","text":"x"}`)
	say("signin", `{"type":"tool_result","group_id":"g","id":"signin","text":"x"}`)
	user.expect(t, map[string]string{"open": "open?"})
	cutOff(rt)

	rt = start()
	user.expect(t, map[string]string{"open": "open?"})
	if err := rt.Answer(t.Context(), agentproto.CallKey{GroupID: "g", ID: "open"}, tool.URL+"/answer", Dismiss); err != nil {
		t.Fatal(err)
	}
	dismissed := <-answers
	if dismissed.body != `{"id":"open","selected":0}` {
		t.Errorf("the answer to a prompt of the process before: %v", dismissed)
	}
	stopNow(t, rt)
	user.forget()

	rt = start()
	user.expect(t, map[string]string{})
	select {
	case got := <-answers: // Stop may come before the record that the tool has it
		if got != dismissed {
			t.Errorf("delivered again: %v, and before as %v", got, dismissed)
		}
	default:
	}
	stopNow(t, rt)
	if grep(t, dir, "canary") {
		t.Error("an auth_url is kept in clear")
	}
	if !grep(t, dir, "answered?") {
		t.Error("what is kept cannot be searched for texts")
	}
}

// grep reports whether a file in a folder contains a text.
func grep(t *testing.T, dir, text string) (found bool) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		found = found || bytes.Contains(data, []byte(text))
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return found
}
