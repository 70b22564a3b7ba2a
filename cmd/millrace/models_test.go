package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/agentproto/follow"
)

// history returns the messages of a thread.
func (s *served) history(ctx context.Context, thread string) (all []follow.Message) {
	s.t.Helper()
	_, text := s.request(ctx, "GET", "/threads/"+thread+"/messages", "", http.StatusOK)
	if err := json.Unmarshal(text, &all); err != nil {
		s.t.Fatal(err)
	}
	return all
}

// wait waits until a thread has a message of a kind with a number of at least n, and returns the history.
func (s *served) wait(ctx context.Context, thread, kind string, n int) []follow.Message {
	s.t.Helper()
	for from := n; ; {
		_, text := s.request(ctx, "GET", fmt.Sprintf("/threads/%s/messages?from=%d&wait=20s", thread, from), "", http.StatusOK)
		var all []follow.Message
		if err := json.Unmarshal(text, &all); err != nil {
			s.t.Fatal(err)
		}
		for _, m := range all {
			if from = m.N + 1; m.Kind == kind {
				return s.history(ctx, thread)
			}
		}
		if ctx.Err() != nil {
			s.t.Fatalf("there is no message of the kind %s", kind)
		}
	}
}

// reply answers a request to a model.
func (a *answering) reply(text string) {
	a.write(fmt.Sprintf(`{"content":%q}`, text))
	a.end("stop")
}

// serveModels starts a runtime with two models: big, whose service is always busy, and small, which a test plays. Sessions
// without a model use big.
func serveModels(t *testing.T) (*served, *streamed) {
	_, tools := startTools(t, "feed")
	small := &streamed{make(chan *answering)}
	service := httptest.NewServer(small)
	t.Cleanup(service.Close)
	t.Cleanup(service.CloseClientConnections)
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	t.Cleanup(busy.Close)
	dir := t.TempDir()
	api := freeAddress(t)
	s := &served{t: t, state: filepath.Join(dir, "state"), api: "http://" + api}
	file := writeConfig(t, filepath.Join(dir, "c.json"), fmt.Sprintf(`{"state": %q, "api": {"listen": %q}, "callbacks": {"listen": %q}, "tools": [{"url": %q}],
		"models": [{"name": "big", "openai": %q, "model": "m1", "fallback": ["small"]}, {"name": "small", "openai": %q, "model": "m2", "context": "16KiB"}]}`,
		s.state, api, freeAddress(t), tools[0], busy.URL, service.URL))
	s.args = []string{"serve", "--config", file}
	s.start()
	t.Cleanup(s.kill)
	return s, small
}

// TestFallbackOverAKill kills the runtime while a fallback is asked, and after it has answered. The turn has one answer, which
// names the model and the reason, and its tokens are counted once.
func TestFallbackOverAKill(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, small := serveModels(t)
	s.request(ctx, "POST", "/sessions", `{"id": "x", "model": "huge"}`, http.StatusBadRequest)
	s.request(ctx, "POST", "/sessions", `{"id": "s"}`, http.StatusCreated)
	s.request(ctx, "POST", "/threads/s/messages", `{"text": "hello", "key": "k"}`, http.StatusAccepted)
	a := small.next(ctx, t)
	if !strings.Contains(a.body, `"model":"m2"`) {
		t.Errorf("asked is %s", a.body)
	}
	a.write(`{"content":"Hel"}`)
	s.kill()
	s.start()
	a = small.next(ctx, t)
	s.request(ctx, "POST", "/threads/s/messages", `{"text": "hello", "key": "k"}`, http.StatusAccepted)
	a.reply("Hello.")
	all := s.wait(ctx, "s", "assistant", 0)
	last := all[len(all)-1]
	if len(all) != 3 || last.Text != "Hello." || last.Model != "small" || len(last.Notes) != 1 || !strings.Contains(last.Notes[0], `"big" did not answer`) {
		t.Fatalf("the history is %+v", all)
	}
	s.kill()
	s.start()
	s.request(ctx, "POST", "/threads/s/messages", `{"text": "hello", "key": "k"}`, http.StatusAccepted)
	_, text := s.request(ctx, "GET", "/sessions", "", http.StatusOK)
	if !bytes.Contains(text, []byte(`"models":{"small":{"input":11,"output":3}}`)) {
		t.Errorf("the sessions are %s", text)
	}
	if all := s.history(ctx, "s"); len(all) != 3 {
		t.Errorf("the history is %+v", all)
	}

	s.request(ctx, "POST", "/sessions", `{"id": "t", "model": "small"}`, http.StatusCreated)
	s.request(ctx, "POST", "/threads/t/messages", `{"text": "you?", "key": "you"}`, http.StatusAccepted)
	small.next(ctx, t).reply("Me.")
	if all := s.wait(ctx, "t", "assistant", 0); all[2].Model != "small" || len(all[2].Notes) > 0 {
		t.Errorf("the history is %+v", all)
	}
}

// TestSummaryOverKills has a conversation outgrow the context of its model. It kills the runtime while the summary is requested,
// and while the model is asked with it. The history has one summary, which then replaces its beginning.
func TestSummaryOverKills(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, small := serveModels(t)
	s.request(ctx, "POST", "/sessions", `{"id": "s", "model": "small"}`, http.StatusCreated)
	long := strings.Repeat("long ", 1200)
	for n := range 2 {
		s.request(ctx, "POST", "/threads/s/messages", fmt.Sprintf(`{"text": "%d %s", "key": "%d"}`, n, long, n), http.StatusAccepted)
		small.next(ctx, t).reply(fmt.Sprint("answer ", n))
		s.wait(ctx, "s", "assistant", 2*n+2)
	}
	s.request(ctx, "POST", "/threads/s/messages", fmt.Sprintf(`{"text": "2 %s", "key": "2"}`, long), http.StatusAccepted)
	const wants = "Summarize it for the model"
	for range 2 {
		a := small.next(ctx, t)
		if !strings.Contains(a.body, wants) || strings.Contains(a.body, `"tools"`) {
			t.Fatalf("asked is %s", a.body)
		}
		s.kill()
		s.start()
	}
	small.next(ctx, t).reply("They have talked twice.")
	for range 2 {
		a := small.next(ctx, t)
		if strings.Contains(a.body, wants) || !strings.Contains(a.body, "They have talked twice.") || strings.Contains(a.body, "answer 0") || !strings.Contains(a.body, "2 long") {
			t.Fatalf("asked is %s", a.body)
		}
		s.kill()
		s.start()
	}
	small.next(ctx, t).reply("answer 2")
	all := s.wait(ctx, "s", "assistant", 6)
	var kinds []string
	for _, m := range all {
		kinds = append(kinds, m.Kind)
	}
	if got := strings.Join(kinds, " "); got != "opened user assistant user assistant user summary assistant" {
		t.Fatalf("the history is %s", got)
	}
	if sum := all[6]; sum.Text != "They have talked twice." || sum.From != 5 || sum.Model != "small" || sum.Usage == nil || all[1].Text != "0 "+long {
		t.Errorf("the summary is %+v", sum)
	}
	s.request(ctx, "POST", "/threads/s/messages", `{"text": "and now?", "key": "now"}`, http.StatusAccepted)
	if a := small.next(ctx, t); strings.Contains(a.body, wants) || !strings.Contains(a.body, "They have talked twice.") {
		t.Errorf("asked is %s", a.body)
	} else {
		a.reply("bye")
	}
}
