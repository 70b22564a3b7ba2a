package mcpserver_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/agentproto/mcpserver"
)

// again returns another server with the same calls, as after a restart.
func (w *world) again(o mcpserver.Options) *world {
	other := newWorldOf(w.t, o, w.calls)
	other.calls, other.caps = w.calls, w.caps
	return other
}

func sealerOf(t *testing.T, b byte) host.Sealer {
	s, err := host.SealerOf([32]byte{b})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRoundsOfAnotherServer answers a round at a server that did not ask it and shares only the key. It continues the same call
// (MT23).
func TestRoundsOfAnotherServer(t *testing.T) {
	w := newWorld(t, mcpserver.Options{Sealer: sealerOf(t, 1)})
	w.caps = noTasks
	w.calls.onCall = func(d *host.Description) { ask(d, 1) }
	asked := w.say(t.Context(), "tools/call", `{"name":"one","arguments":{}}`)
	state, _ := asked.Result["requestState"].(string)
	if state == "" {
		t.Fatalf("no round: %s", asked.text)
	}
	w = w.again(mcpserver.Options{Sealer: sealerOf(t, 1)})
	got := w.say(t.Context(), "tools/call", `{"name":"one","arguments":{},"requestState":"`+state+`","inputResponses":{"p1":{"action":"accept","content":{"choice":"1"}}}}`)
	if got.Result["resultType"] != "complete" || !strings.Contains(got.text, "done") || len(w.calls.made) != 1 || len(w.calls.answers) != 1 || w.calls.answers[0] != 1 {
		t.Errorf("%s after %d calls, answers %v", got.text, len(w.calls.made), w.calls.answers)
	}
}

// TestOldKey checks that a task sealed with another key is unknown, with the same error as one that never existed (MT16).
func TestOldKey(t *testing.T) {
	w := newWorld(t, mcpserver.Options{Sealer: sealerOf(t, 1)})
	id := w.task()
	never := w.get("t1.k.never")
	never.is(t, "one that never was", -32602, 0)
	if got := w.again(mcpserver.Options{Sealer: sealerOf(t, 2)}).get(id); got.text != never.text {
		t.Errorf("of another key: %s, want %s", got.text, never.text)
	}
	if got := w.again(mcpserver.Options{Sealer: sealerOf(t, 1)}).get(id); got.Error != nil {
		t.Errorf("of the same key: %s", got.text)
	}
}

// TestForgotten checks that a task is unknown to every method once the runtime has forgotten its call (MT14, MT21).
func TestForgotten(t *testing.T) {
	w := newWorld(t, mcpserver.Options{})
	id := w.task()
	w.calls.mu.Lock()
	clear(w.calls.all)
	w.calls.mu.Unlock()
	w.get(id).is(t, "tasks/get", -32602, 0)
	w.update(id, `{}`).is(t, "tasks/update", -32602, 0)
	w.say(t.Context(), "tasks/cancel", `{"taskId":"`+id+`"}`).is(t, "tasks/cancel", -32602, 0)
	if w.calls.canceled != 0 {
		t.Errorf("%d calls were cancelled", w.calls.canceled)
	}
}

// TestAnsweredKey checks that a second answer to an answered question does not affect the next question (MT09).
func TestAnsweredKey(t *testing.T) {
	w := newWorld(t, mcpserver.Options{})
	w.calls.onCall = func(d *host.Description) { d.Operation = "twice"; ask(d, 1) }
	id := w.task()
	for range 2 {
		w.update(id, `{"p1":{"action":"accept","content":{"choice":"1"}}}`)
		if got := w.get(id); got.Result["status"] != "input_required" || !strings.Contains(got.text, `"p2":`) || strings.Contains(got.text, `"p1":`) {
			t.Errorf("after an answer to the first question: %s", got.text)
		}
	}
	if len(w.calls.answers) != 1 {
		t.Errorf("answers %v", w.calls.answers)
	}
}

// TestAuthorizationIsNotLogged checks that the log does not contain the URL of an authorization, and that the task completes when
// the tool continues (MT12).
func TestAuthorizationIsNotLogged(t *testing.T) {
	var log sharedLog
	w := newWorld(t, mcpserver.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	id := w.task()
	w.calls.with(authorize)
	if got := w.get(id); !strings.Contains(got.text, "canary") {
		t.Fatalf("asked: %s", got.text)
	}
	w.update(id, `{"p1":{"action":"accept"}}`)
	w.calls.with(func(d *host.Description) { resolve(d, agentproto.ByResult, "done") })
	if got := w.get(id); got.Result["status"] != "completed" || !strings.Contains(got.text, "done") {
		t.Errorf("at the end: %s", got.text)
	}
	if said := log.String(); said == "" || strings.Contains(said, "canary") {
		t.Errorf("the log has %q", said)
	}
}

// A sharedLog is a log that can be read during writes.
type sharedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *sharedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *sharedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
