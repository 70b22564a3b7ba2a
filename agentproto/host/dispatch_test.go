package host

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto"
)

func TestI01Dispatch(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		rt := w.start(tool.base)
		key, err := rt.Call(t.Context(), Request{
			GroupID: "child", Operation: "echo", Arguments: []byte(`{"a":1}`),
			UserID: "u1", CallID: "fc_1", ThreadAncestors: []string{"root", "parent"},
		})
		if err != nil {
			t.Fatal(err)
		}
		inv := tool.invocations()[0]
		if inv.Key() != key || key.ID == "" || inv.Operation != "echo" || string(inv.Arguments) != `{"a":1}` {
			t.Errorf("invocation = %+v", inv)
		}
		if *inv.UserID != "u1" || *inv.CallID != "fc_1" || !slices.Equal(inv.ThreadAncestors, []string{"root", "parent"}) {
			t.Errorf("I02: user %v, call_id %v, ancestors %v", *inv.UserID, *inv.CallID, inv.ThreadAncestors)
		}
		if !strings.HasPrefix(inv.CallbackURL, "http://runtime.test/rap/v1/cb/") {
			t.Errorf("callback_url = %q", inv.CallbackURL)
		}
		h := tool.headers[0]
		if got := h.Get("Content-Type"); got != "application/json" {
			t.Errorf("Content-Type = %q", got)
		}
		if id := h.Get("webhook-id"); !strings.HasPrefix(id, "invoke_") || strings.Contains(id, key.ID) {
			t.Errorf("webhook-id = %q", id)
		}
		if status := w.post(inv.CallbackURL, result(key, "done")); status != 200 {
			t.Errorf("R01: status %d, want 200", status)
		}
		if got := w.text(key); got != "done" {
			t.Errorf("R01: result %q, want done", got)
		}
		if st := w.stats(); st.Calls != 1 || st.Results != 1 || st.Toolsets[tool.base].Results != 1 {
			t.Errorf("stats = %+v", st)
		}
	})
}

func TestI02RootThreadHasNoAncestors(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		w.start(tool.base)
		w.call("root", "1")
		if inv := tool.invocations()[0]; inv.ThreadAncestors != nil || inv.UserID != nil || inv.CallID != nil {
			t.Errorf("invocation = %+v, want no optional member", inv)
		}
	})
}

func TestI03UnknownTool(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		rt := w.start(tool.base)
		key, err := rt.Call(t.Context(), Request{GroupID: "g", Operation: "missing\x1b[2J"})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := w.text(key), `Error: there is no tool "missing\x1b[2J"`; got != want {
			t.Errorf("result %q, want %q", got, want)
		}
		if n := len(tool.invocations()); n != 0 {
			t.Errorf("%d invocations, want none", n)
		}
	})
}

func TestI04ArgumentsViolateSchema(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		tool.manifest = `{"name":"s","endpoint":"http://tool.test/invoke","tools":[{"name":"echo","description":"d",
			"inputSchema":{"type":"object","properties":{"at":{"type":"array","items":{"type":"integer"}}},"additionalProperties":false}}]}`
		rt := w.start(tool.base)
		for _, tt := range []struct{ args, want string }{
			{`{"at":[1,"x"]}`, `"/at/1"`},
			{`{"b":1}`, `schema`},
			{`[]`, `not a JSON object`},
			{`{"a":`, `not valid JSON`},
			{`{"a":1,"a":2}`, `not valid JSON`},
		} {
			key, err := rt.Call(t.Context(), Request{GroupID: "g", Operation: "echo", Arguments: []byte(tt.args)})
			if err != nil {
				t.Fatal(err)
			}
			r, err := rt.Await(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Result.String(); r.Cause != agentproto.ByRejection || !strings.Contains(got, tt.want) {
				t.Errorf("arguments %s: %v %q, want %q", tt.args, r.Cause, got, tt.want)
			}
		}
		if n := len(tool.invocations()); n != 0 {
			t.Errorf("%d invocations, want none", n)
		}
	})
}

// TestDispatchOutcomes checks the outcome of each status that a tool server may answer.
func TestDispatchOutcomes(t *testing.T) {
	tests := []struct {
		id       string
		statuses []int // the last one repeats for all further attempts
		attempts int
		want     string // of the error; empty for accepted
		cancel   bool
	}{
		{"I05", []int{400}, 1, "refused the call: 400", false},
		{"I05", []int{404}, 1, "refused the call: 404", false},
		{"I05", []int{409}, 1, "refused the call: 409", false},
		{"I05", []int{422}, 1, "refused the call: 422", false},
		{"I06", []int{503, 503, 200}, 3, "", false},
		{"I07", []int{503}, 5, "failed: 503", true},
		{"I05 429", []int{429, 200}, 2, "", false},
		{"I05 429 for ever", []int{429}, 5, "is overloaded: 429", false},
		{"I10", []int{307}, 1, "redirected the call, which is not followed: 307", false},
		{"I10", []int{302}, 1, "redirected the call, which is not followed: 302", false},
		{"I11", []int{204}, 1, "", false},
		{"503 then 404", []int{503, 404}, 2, "refused the call: 404", true},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.id, tt.statuses), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				tool := w.tool("tool.test")
				tool.ack = func(n int, rw http.ResponseWriter, _ *agentproto.Invocation) {
					rw.Header().Set("Location", "http://evil.test/")
					rw.WriteHeader(tt.statuses[min(n, len(tt.statuses))-1])
				}
				evil := w.tool("evil.test")
				w.start(tool.base)
				start := time.Now()
				key := w.call("g", "1")
				if tt.want == "" {
					w.pass(time.Minute)
					if status := w.post(tool.callback(), result(key, "ok")); status != 200 {
						t.Errorf("status %d, want 200", status)
					}
				}
				got := w.text(key)
				if want := "Error: tool server http://tool.test " + tt.want; tt.want != "" && got != want {
					t.Errorf("result %q, want %q", got, want)
				}
				if tt.want == "" && got != "ok" {
					t.Errorf("result %q, want ok", got)
				}
				calls := tool.invocations()
				if len(calls) != tt.attempts {
					t.Errorf("%d attempts, want %d", len(calls), tt.attempts)
				}
				for i, inv := range calls {
					if inv.Key() != key || inv.CallbackURL != calls[0].CallbackURL || tool.headers[i].Get("webhook-id") != tool.headers[0].Get("webhook-id") {
						t.Errorf("attempt %d differs from the first one", i+1)
					}
				}
				if d := time.Since(start); tt.attempts == 5 && (d < 3750*time.Millisecond || d > 11250*time.Millisecond) {
					t.Errorf("five attempts took %v, want 3.75 s to 11.25 s", d)
				}
				wantNotices := 0
				if tt.cancel {
					wantNotices = 1
				}
				if got := tool.noticed(); len(got) != wantNotices {
					t.Errorf("notices %q, want %d", got, wantNotices)
				}
				if n := len(evil.invocations()); n != 0 {
					t.Errorf("a redirect was followed")
				}
			})
		})
	}
}

func TestI08Unreachable(t *testing.T) {
	for _, host := range []string{"refused", "silent"} {
		t.Run(host, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				tool := w.tool("tool.test")
				tool.manifest = strings.ReplaceAll(tool.manifest, "http://tool.test/", "http://gone.test/")
				if host == "silent" {
					w.net.black("gone.test:80")
				}
				w.opts.AllowOrigins = []string{"http://gone.test"}
				w.start(tool.base)
				start := time.Now()
				key := w.call("g", "1")
				if got, want := w.text(key), "Error: tool server http://tool.test is unreachable"; got != want {
					t.Errorf("result %q, want %q", got, want)
				}
				if d := time.Since(start); d > 30*time.Second {
					t.Errorf("took %v, want at most 30 s", d)
				}
				if got := tool.noticed(); len(got) != 0 {
					t.Errorf("notices %q, want none: nothing was started", got)
				}
				if st := w.stats(); host == "refused" && st.Attempts != 5 || st.Failures != 1 {
					t.Errorf("stats %+v", st.Counts)
				}
			})
		})
	}
}

// TestI09L02NoAck checks that a server that does not acknowledge delays its own call by
// 30 seconds and no others.
func TestI09L02NoAck(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opts.Concurrency = 2
		hung, good := w.tool("hung.test", "hang"), w.tool("tool.test")
		release := make(chan struct{})
		hung.ack = func(int, http.ResponseWriter, *agentproto.Invocation) { <-release }
		defer close(release)
		good.ack = func(_ int, _ http.ResponseWriter, inv *agentproto.Invocation) {
			w.postLater(inv.CallbackURL, result(inv.Key(), "ok"))
		}
		rt := w.start(hung.base, good.base)
		start := time.Now()
		var stuck []agentproto.CallKey
		for i := range 3 {
			key, err := rt.Call(t.Context(), Request{GroupID: "g", ID: fmt.Sprint("h", i), Operation: "hang"})
			if err != nil {
				t.Fatal(err)
			}
			stuck = append(stuck, key)
		}
		for i := range 20 {
			if got := w.text(w.call("g", fmt.Sprint(i))); got != "ok" {
				t.Errorf("call %d: %q", i, got)
			}
		}
		if d := time.Since(start); d > 0 {
			t.Errorf("calls of another server waited %v", d)
		}
		for _, key := range stuck {
			if got, want := w.text(key), "Error: tool server http://hung.test did not acknowledge the call in time"; got != want {
				t.Errorf("result %q, want %q", got, want)
			}
		}
		if d := time.Since(start); d > 60*time.Second {
			t.Errorf("gave up after %v, want at most 30 s for two and as much again for the third", d)
		}
		if n := len(good.noticed()); n != 3 {
			t.Errorf("%d notices, want 3: the calls may have been started", n)
		}
	})
}

func TestI12ResultBeforeAck(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		tool.ack = func(_ int, rw http.ResponseWriter, inv *agentproto.Invocation) {
			if status := w.post(inv.CallbackURL, result(inv.Key(), "early")); status != 200 {
				t.Errorf("status %d, want 200", status)
			}
			<-time.After(time.Second)
			rw.WriteHeader(http.StatusServiceUnavailable) // must not lead to a second attempt
		}
		w.start(tool.base)
		if got := w.text(w.call("g", "1")); got != "early" {
			t.Errorf("result %q, want early", got)
		}
		w.pass(time.Minute)
		if n := len(tool.invocations()); n != 1 {
			t.Errorf("%d attempts, want 1: the call was resolved", n)
		}
		if st := w.stats(); st.Results != 1 || st.Failures != 0 {
			t.Errorf("stats %+v", st.Counts)
		}
	})
}

func TestI14IdentifierReused(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		rt := w.start(tool.base)
		first := w.call("g", "1")
		url := tool.callback()
		if _, err := rt.Call(t.Context(), Request{GroupID: "g", ID: "1", Operation: "echo"}); !errors.Is(err, ErrDuplicateCall) {
			t.Errorf("second call: %v, want ErrDuplicateCall", err)
		}
		w.post(url, result(first, "one"))
		if got := w.text(first); got != "one" {
			t.Errorf("first call: %q, want one", got)
		}
		w.stats()
		if _, err := rt.Call(t.Context(), Request{GroupID: "g", ID: "1", Operation: "echo"}); !errors.Is(err, ErrDuplicateCall) {
			t.Errorf("call with a resolved key: %v, want ErrDuplicateCall", err)
		}
		if n := len(tool.invocations()); n != 1 {
			t.Errorf("%d invocations, want 1", n)
		}
	})
}

func TestI15SameIDInTwoThreads(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		w.start(tool.base)
		a := w.call("a", "1")
		urlA := tool.callback()
		b := w.call("b", "1")
		urlB := tool.callback()
		w.post(urlB, result(b, "B"))
		w.post(urlA, result(a, "A"))
		if gotA, gotB := w.text(a), w.text(b); gotA != "A" || gotB != "B" {
			t.Errorf("results %q and %q, want A and B", gotA, gotB)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	tests := []struct {
		after    string
		attempts int
		atLeast  time.Duration
	}{
		{"7", 2, 7 * time.Second},
		{"29", 2, 29 * time.Second},
		{"60", 1, 0}, // does not fit into the 30 s
		{"soon", 2, 0},
	}
	for _, tt := range tests {
		inWorld(t, func(t *testing.T, w *world) {
			tool := w.tool("tool.test")
			var at []time.Time
			tool.ack = func(n int, rw http.ResponseWriter, _ *agentproto.Invocation) {
				at = append(at, time.Now())
				if n == 1 {
					rw.Header().Set("Retry-After", tt.after)
					rw.WriteHeader(http.StatusServiceUnavailable)
				}
			}
			w.start(tool.base)
			w.call("g", "1")
			w.pass(time.Minute)
			synctest.Wait()
			if len(at) != tt.attempts || len(at) == 2 && at[1].Sub(at[0]) < tt.atLeast {
				t.Errorf("Retry-After %s: attempts at %v", tt.after, at)
			}
		})
	}
}

// TestW11Identifiers checks that identifiers are validated before they are sent.
func TestW11Identifiers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		rt := w.start(tool.base)
		for _, id := range []string{"a\r\nX: y", "a\x00", strings.Repeat("x", 10_000), "\xff", "\u0085", "a\u2028b", "a\u2029b", "a\u202eb", "\u200f"} {
			if _, err := rt.Call(t.Context(), Request{GroupID: "g", ID: id, Operation: "echo"}); !errors.Is(err, ErrBadID) {
				t.Errorf("id %.10q: %v, want ErrBadID", id, err)
			}
			if _, err := rt.Call(t.Context(), Request{GroupID: id, Operation: "echo"}); !errors.Is(err, ErrBadID) {
				t.Errorf("thread %.10q: %v, want ErrBadID", id, err)
			}
			if _, err := rt.Call(t.Context(), Request{GroupID: "g", UserID: id, Operation: "echo"}); !errors.Is(err, ErrBadID) {
				t.Errorf("user %.10q: %v, want ErrBadID", id, err)
			}
		}
		if _, err := rt.Call(t.Context(), Request{Operation: "echo"}); !errors.Is(err, ErrBadID) {
			t.Errorf("no thread: %v, want ErrBadID", err)
		}
		for _, id := range []string{"../../etc/passwd", "🙂/?#%2e", strings.Repeat("é", MaxID/2)} {
			key := w.call(id, id)
			if status := w.post(tool.callback(), result(key, "ok")); status != 200 {
				t.Errorf("id %q: status %d", id, status)
			}
			if got := w.text(key); got != "ok" {
				t.Errorf("id %q: %q", id, got)
			}
		}
	})
}
