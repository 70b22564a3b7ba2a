package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto/follow"
)

// A screen collects the output of a chat.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// until waits until the screen contains a text.
func (s *screen) until(ctx context.Context, t *testing.T, text string) {
	t.Helper()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !strings.Contains(s.String(), text) {
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("there is no %q on the screen:\n%s", text, s)
		}
	}
}

// streamed is a model service whose answers a test writes in parts. Each request waits until the test
// takes it.
type streamed struct{ asked chan *answering }

type answering struct {
	w    http.ResponseWriter
	done chan struct{}
	body string // of the request
}

func (s *streamed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	a := &answering{w, make(chan struct{}), string(body)}
	select {
	case s.asked <- a:
	case <-r.Context().Done():
		return
	}
	select {
	case <-a.done:
	case <-r.Context().Done():
	}
}

func (s *streamed) next(ctx context.Context, t *testing.T) *answering {
	t.Helper()
	select {
	case a := <-s.asked:
		return a
	case <-ctx.Done():
		t.Fatal("the model is not asked")
		return nil
	}
}

func (a *answering) write(delta string) {
	fmt.Fprintf(a.w, "data: {\"choices\":[{\"index\":0,\"delta\":%s}]}\n\n", delta)
	a.w.(http.Flusher).Flush()
}

func (a *answering) end(reason string) {
	fmt.Fprintf(a.w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":%q}]}\n\n", reason)
	fmt.Fprint(a.w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":3}}\n\ndata: [DONE]\n\n")
	close(a.done)
}

// TestSE02_ChatOverAKill chats over pipes and sees the model's text as it is written. The runtime is killed in the
// middle and restarted, and the turn continues. A tool asks and gets its answer. Nothing is printed twice.
func TestSE02_ChatOverAKill(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, tools := startTools(t, "feed")
	service := &streamed{make(chan *answering)}
	model := httptest.NewServer(service)
	defer model.Close()
	defer model.CloseClientConnections()
	s := serveRuntime(t, filepath.Join(t.TempDir(), "state"), tools, "--model", "openai:"+model.URL, "--model-name", "tiny")
	s.request(ctx, "GET", "/calls/none/none", "", http.StatusNotFound)

	cmd := millrace(t, "chat", "talk 1", "--api", s.api, "--state", s.state, "--user", "ada")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out screen
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(in, "hello")
	a := service.next(ctx, t)
	a.write(`{"content":"Hel"}`)
	out.until(ctx, t, "> hello\nHel")
	s.kill()
	out.until(ctx, t, "trying again")
	s.start()
	a = service.next(ctx, t)
	a.write(`{"content":"Hello, "}`)
	out.until(ctx, t, "Hello, ")
	a.write(`{"content":"Ada."}`)
	out.until(ctx, t, "Hello, Ada.")
	a.end("stop")
	out.until(ctx, t, "Hello, Ada.\n(11 tokens read, 3 written)\n")

	fmt.Fprintln(in, "remove it")
	a = service.next(ctx, t)
	a.write(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"delete","arguments":"{\"name\":"}}]}`)
	out.until(ctx, t, "… delete")
	a.write(`{"tool_calls":[{"index":0,"function":{"arguments":"\"a file\"}"}}]}`)
	a.end("tool_calls")
	out.until(ctx, t, "3) No\n")
	out.until(ctx, t, `→ delete {"name":"a file"}`)
	out.until(ctx, t, "delete: choice pending")
	fmt.Fprintln(in, "7")
	out.until(ctx, t, "from 1 to 3")
	fmt.Fprintln(in, "1")
	out.until(ctx, t, "← delete: ")
	a = service.next(ctx, t)
	in.Close()
	a.write(`{"content":"It is gone."}`)
	a.end("stop")
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v:\n%s", err, &out)
	}
	if !strings.HasSuffix(out.String(), "It is gone.\n(11 tokens read, 3 written)\n") {
		t.Errorf("the screen is\n%s", &out)
	}
	_, text := s.request(ctx, "GET", "/threads/talk%201/messages", "", http.StatusOK)
	var all []follow.Message
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, m := range all {
		if m.Kind != "opened" && m.Kind != "result" {
			said = append(said, m.Kind+" "+m.Text)
		}
	}
	if got := strings.Join(said, "; "); got != "user hello; assistant Hello, Ada.; user remove it; assistant ; assistant It is gone." {
		t.Errorf("the history is %q", got)
	}
}
