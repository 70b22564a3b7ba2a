package mcpserver_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/agentproto/mcpserver"
)

// TestTask checks that a slow call becomes a task that tasks/get finds at once, and that its result has a resultType (MT01,
// MT20).
func TestTask(t *testing.T) {
	w := newWorld(t, mcpserver.Options{})
	id := w.task()
	got := w.get(id)
	if got.Result["status"] != "working" || got.Result["taskId"] != id || got.Result["result"] != nil || got.Result["ttlMs"] != nil || got.Result["createdAt"] == nil {
		t.Errorf("working: %s", got.text)
	}
	w.calls.with(func(d *host.Description) { resolve(d, agentproto.ByResult, "done") })
	got = w.get(id)
	result, _ := got.Result["result"].(map[string]any)
	if got.Result["status"] != "completed" || result["resultType"] != "complete" || result["isError"] != nil || got.Result["ttlMs"] == nil {
		t.Errorf("completed: %s", got.text)
	}
}

// TestTTL checks that a task with a large result does not promise a lifetime of a day: the runtime keeps such a result for an
// hour if nobody reads it (MT21).
func TestTTL(t *testing.T) {
	for text, want := range map[string]time.Duration{"done": 24 * time.Hour, strings.Repeat("x", 16<<10): time.Hour} {
		w := newWorld(t, mcpserver.Options{})
		id := w.task()
		w.calls.with(func(d *host.Description) { resolve(d, agentproto.ByResult, text) })
		ms, _ := w.get(id).Result["ttlMs"].(float64)
		if got := time.Duration(ms) * time.Millisecond; got < want || got > want+time.Minute {
			t.Errorf("%d bytes: the task can be asked for for %v, want %v", len(text), got, want)
		}
	}
}

// TestFast checks that a call that resolves at once returns its result and no task (MT02).
func TestFast(t *testing.T) {
	w := newWorld(t, mcpserver.Options{Fast: time.Minute})
	w.calls.onCall = func(d *host.Description) { resolve(d, agentproto.ByResult, "done") }
	got := w.say(t.Context(), "tools/call", `{"name":"one","arguments":{}}`)
	if got.Result["resultType"] != "complete" || got.Result["taskId"] != nil || !strings.Contains(got.text, "done") {
		t.Errorf("got %s", got.text)
	}
}

// TestEnds checks that a task ends as its call does. No task fails: an error is a result (MT14, MT22).
func TestEnds(t *testing.T) {
	for cause := agentproto.ByResult; cause <= agentproto.ByRefusal; cause++ {
		w := newWorld(t, mcpserver.Options{})
		id := w.task()
		w.calls.with(func(d *host.Description) { resolve(d, cause, "Error: so") })
		want := "completed"
		if cause == agentproto.ByInterruption || cause == agentproto.ByClosure {
			want = "cancelled"
		}
		got := w.get(id)
		if got.Result["status"] != want || want == "completed" && !strings.Contains(got.text, `"isError":true`) {
			t.Errorf("%v: %s", cause, got.text)
		}
		if got := w.say(t.Context(), "tasks/cancel", `{"taskId":"`+id+`"}`); got.Result["resultType"] != "complete" || w.calls.canceled != 0 {
			t.Errorf("%v: a cancellation afterwards: %s", cause, got.text)
		}
	}
}

// TestCancel checks that a working task can be cancelled and stays cancelled (MT14).
func TestCancel(t *testing.T) {
	w := newWorld(t, mcpserver.Options{})
	id := w.task()
	if got := w.say(t.Context(), "tasks/cancel", `{"taskId":"`+id+`"}`); got.Error != nil || w.calls.canceled != 1 {
		t.Fatalf("cancel: %s", got.text)
	}
	if got := w.get(id); got.Result["status"] != "cancelled" {
		t.Errorf("cancelled: %s", got.text)
	}
}

// TestForeignTask checks that a task ID of another owner, or one altered anywhere, is unknown, with the same error (MT16).
func TestForeignTask(t *testing.T) {
	w := newWorld(t, mcpserver.Options{})
	id := w.task()
	w.owner = "mallory"
	foreign := w.get(id)
	foreign.is(t, "of another owner", -32602, 0)
	w.owner = "alice"
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for i := range id {
		b := []byte(id)
		b[i] = letters[(strings.IndexByte(letters, b[i])+1)%len(letters)]
		if got := w.get(string(b)); got.text != foreign.text {
			t.Errorf("altered at %d: %s, want %s", i, got.text, foreign.text)
		}
	}
	if got := w.get(id); got.Error != nil {
		t.Errorf("as it is: %s", got.text)
	}
}

// TestUnknownIsNotLookedUp checks that no call is looked up for an unknown task, whatever is wrong with its ID, so that all take
// the same work (MT16). BenchmarkMT16_Unknown measures the time.
func TestUnknownIsNotLookedUp(t *testing.T) {
	w := newWorld(t, mcpserver.Options{})
	id := w.task()
	w.owner = "mallory"
	w.task()
	other := newWorld(t, mcpserver.Options{})
	before := w.calls.looked
	for _, unknown := range []string{id, id[:len(id)-8] + "AAAAAAAA", other.task(), "t1.k.never", "x", strings.Repeat("x", 5000)} {
		w.get(unknown).is(t, unknown, -32602, 0)
		w.update(unknown, `{}`).is(t, unknown, -32602, 0)
		w.say(t.Context(), "tasks/cancel", `{"taskId":"`+unknown+`"}`).is(t, unknown, -32602, 0)
	}
	if w.calls.looked != before || w.calls.canceled != 0 {
		t.Errorf("%d calls were looked for, %d cancelled", w.calls.looked-before, w.calls.canceled)
	}
	w.owner = "alice"
	if w.get(id); w.calls.looked != before+1 {
		t.Errorf("%d calls were looked for behind the right id", w.calls.looked-before)
	}
}

// TestUpdate checks that an invalid answer changes nothing and that a dismissal selects the default (MT09, MT10, MT11).
func TestUpdate(t *testing.T) {
	w := newWorld(t, mcpserver.Options{})
	id := w.task()
	w.calls.with(func(d *host.Description) { ask(d, 1) })
	for _, responses := range []string{
		`{}`, `{"p0":{"action":"accept","content":{"choice":"0"}}}`, `{"p2":{"action":"accept","content":{"choice":"0"}}}`, `{"p01":{"action":"decline"}}`,
		`{"p1":{"action":"accept","content":{"choice":"3"}}}`, `{"p1":{"action":"accept","content":{"choice":"-1"}}}`, `{"p1":{"action":"accept","content":{"choice":"00"}}}`,
		`{"p1":{"action":"accept","content":{"choice":0}}}`, `{"p1":{"action":"accept","content":{"choice":"0","more":1}}}`, `{"p1":{"action":"accept"}}`,
		`{"p1":{"action":"other"}}`, `{"p1":3}`,
	} {
		if got := w.update(id, responses); got.Error != nil || got.Result["resultType"] != "complete" {
			t.Errorf("%s: %s", responses, got.text)
		}
		if got := w.get(id); got.Result["status"] != "input_required" || !strings.Contains(got.text, `"p1":`) {
			t.Errorf("after %s: %s", responses, got.text)
		}
	}
	w.update(id, `{"p1":{"action":"decline"}}`)
	if got := w.get(id); got.Result["status"] != "completed" || len(w.calls.answers) != 1 || w.calls.answers[0] != host.Dismiss {
		t.Errorf("declined: %s, answers %v", got.text, w.calls.answers)
	}
}

// TestAuthorization checks that only a client that can open a URL receives it, and not again after the user has agreed (MT12,
// MT13).
func TestAuthorization(t *testing.T) {
	w := newWorld(t, mcpserver.Options{})
	id := w.task()
	w.calls.with(authorize)
	for _, caps := range []string{formOnly, noAsking} {
		w.caps = caps
		if got := w.get(id); got.Result["status"] != "working" || strings.Contains(got.text, "canary") || !strings.Contains(got.text, "id.example") {
			t.Errorf("%s: %s", caps, got.text)
		}
	}
	w.caps = withTasks
	if got := w.get(id); got.Result["status"] != "input_required" || !strings.Contains(got.text, "canary") {
		t.Errorf("asked: %s", got.text)
	}
	w.update(id, `{"p1":{"action":"accept"}}`)
	if got := w.get(id); got.Result["status"] != "working" || strings.Contains(got.text, "canary") {
		t.Errorf("agreed: %s", got.text)
	}
}

// TestRefusals checks the errors and statuses that the extension and the revision require (MT17, MT18, MT19).
func TestRefusals(t *testing.T) {
	w := newWorld(t, mcpserver.Options{})
	id := w.task()
	w.say(t.Context(), "tasks/list", `{}`).is(t, "tasks/list", -32601, http.StatusNotFound)
	w.say(t.Context(), "tasks/result", `{"taskId":"`+id+`"}`).is(t, "tasks/result", -32601, http.StatusNotFound)
	for _, name := range [][]string{nil, {""}, {"other"}, {id, id}} {
		w.header["Mcp-Name"] = name
		w.get(id).is(t, "Mcp-Name "+strings.Join(name, ","), -32020, http.StatusBadRequest)
	}
	delete(w.header, "Mcp-Name")
	w.caps = noTasks
	got := w.get(id)
	got.is(t, "without the extension", -32021, http.StatusBadRequest)
	if !strings.Contains(string(got.Error.Data), "io.modelcontextprotocol/tasks") {
		t.Errorf("data %s", got.Error.Data)
	}
	for _, method := range []string{"prompts/list", "prompts/get", "completion/complete", "logging/setLevel"} { // discovery does not declare these
		w.say(t.Context(), method, `{"name":"x","level":"info","ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"a","value":"b"}}`).is(t, method, -32601, http.StatusNotFound)
	}
	w.say(t.Context(), "tools/call", `{"name":"none"}`).is(t, "an unknown tool", -32602, 0)
	w.say(t.Context(), "tools/call", `{"name":"one","arguments":[]}`).is(t, "arguments that are no object", -32602, 0)
}

// TestRounds checks that without the extension a call asks in rounds of its request and stays one call (MT23, MT24, MT24a).
func TestRounds(t *testing.T) {
	w := newWorld(t, mcpserver.Options{})
	w.caps = noTasks
	w.calls.onCall = func(d *host.Description) { d.Operation = "twice"; ask(d, 1) }
	state := ""
	for n, key := range []string{"p1", "p2"} {
		params := `{"name":"one","arguments":{}}`
		if n > 0 {
			params = `{"name":"one","arguments":{},"requestState":"` + state + `","inputResponses":{"p1":{"action":"accept","content":{"choice":"1"}}}}`
		}
		got := w.say(t.Context(), "tools/call", params)
		state, _ = got.Result["requestState"].(string)
		if got.Result["resultType"] != "input_required" || state == "" || !strings.Contains(got.text, `"`+key+`":`) {
			t.Fatalf("round %d: %s", n+1, got.text)
		}
	}
	w.say(t.Context(), "tools/call", `{"name":"one","arguments":{},"requestState":"`+state+`x"}`).is(t, "an altered state", -32602, 0)
	got := w.say(t.Context(), "tools/call", `{"name":"one","arguments":{},"requestState":"`+state+`","inputResponses":{"p2":{"action":"decline"}}}`)
	if got.Result["resultType"] != "complete" || !strings.Contains(got.text, "done") {
		t.Errorf("at the end: %s", got.text)
	}
	if len(w.calls.made) != 1 || len(w.calls.answers) != 2 || w.calls.answers[0] != 1 || w.calls.answers[1] != host.Dismiss {
		t.Errorf("%d calls, answers %v", len(w.calls.made), w.calls.answers)
	}
}

// TestClientGoes checks that a client that leaves a held request cancels its call once, but not the call of a task (MT25).
func TestClientGoes(t *testing.T) {
	for caps, want := range map[string]int{noTasks: 1, withTasks: 0} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, mcpserver.Options{Fast: time.Minute})
			w.caps = caps
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan bool)
			go func() {
				w.say(ctx, "tools/call", `{"name":"one","arguments":{}}`)
				close(ended)
			}()
			synctest.Wait()
			cancel()
			<-ended
			synctest.Wait()
			if w.calls.canceled != want || len(w.calls.made) != 1 {
				t.Errorf("%s: %d calls, %d cancelled, want %d", caps, len(w.calls.made), w.calls.canceled, want)
			}
		})
	}
}

// TestHeld checks how many requests of one owner may wait at once. One more is refused before it makes a call, while another
// owner is served (threat 39).
func TestHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mcpserver.Options{Held: 1})
		w.caps = noTasks
		got := make(chan reply)
		hold := func() { got <- w.say(t.Context(), "tools/call", `{"name":"one","arguments":{}}`) }
		go hold()
		synctest.Wait()
		w.say(t.Context(), "tools/call", `{"name":"one","arguments":{}}`).is(t, "one more", -32000, 0)
		if n := len(w.calls.made); n != 1 {
			t.Errorf("%d calls are made", n)
		}
		w.owner = "bob"
		go hold()
		synctest.Wait()
		if n := len(w.calls.made); n != 2 {
			t.Errorf("with the other owner's %d calls are made", n)
		}
		w.calls.with(func(d *host.Description) { resolve(d, agentproto.ByResult, "done") })
		for range 2 {
			if r := <-got; !strings.Contains(r.text, "done") {
				t.Errorf("held: %s", r.text)
			}
		}
		w.calls.onCall = func(d *host.Description) { resolve(d, agentproto.ByResult, "done") }
		if r := w.say(t.Context(), "tools/call", `{"name":"one","arguments":{}}`); !strings.Contains(r.text, "done") {
			t.Errorf("when there is room again: %s", r.text)
		}
	})
}

// TestClose checks that closing a server ends its held requests and cancels no call.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mcpserver.Options{})
		w.caps = noTasks
		got := make(chan reply)
		go func() { got <- w.say(t.Context(), "tools/call", `{"name":"one","arguments":{}}`) }()
		synctest.Wait()
		w.server.Close()
		(<-got).is(t, "held", -32000, 0)
		if w.calls.canceled != 0 {
			t.Errorf("%d calls were cancelled", w.calls.canceled)
		}
		w.say(t.Context(), "tools/list", `{}`).is(t, "afterwards", -32000, http.StatusServiceUnavailable)
	})
}

// TestUnasked checks that a choice that the client cannot show selects its default after 30 seconds.
func TestUnasked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mcpserver.Options{})
		w.caps = `{}`
		w.calls.onCall = func(d *host.Description) { ask(d, 2) }
		start := time.Now()
		if got := w.say(t.Context(), "tools/call", `{"name":"one","arguments":{}}`); !strings.Contains(got.text, "done") {
			t.Errorf("got %s", got.text)
		}
		if took := time.Since(start); took != 30*time.Second || len(w.calls.answers) != 1 || w.calls.answers[0] != host.Dismiss {
			t.Errorf("answers %v after %v", w.calls.answers, took)
		}
	})
}

// TestIdempotencyKey checks that a repetition with the same key is the same call (MT06).
func TestIdempotencyKey(t *testing.T) {
	w := newWorld(t, mcpserver.Options{})
	for range 2 {
		got := w.say(t.Context(), "tools/call", `{"_meta":{"io.millrace/idempotency-key":"k"},"name":"one","arguments":{}}`)
		if got.Result["resultType"] != "task" {
			t.Fatalf("got %s", got.text)
		}
	}
	w.say(t.Context(), "tools/call", `{"_meta":{"io.millrace/idempotency-key":"k"},"name":"two","arguments":{}}`)
	w.say(t.Context(), "tools/call", `{"name":"one","arguments":{}}`)
	if len(w.calls.made) != 3 {
		t.Errorf("%d calls, want 3", len(w.calls.made))
	}
}
