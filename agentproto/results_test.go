package agentproto

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// kept describes what the program keeps of the result of a call.
func (h *host) kept(key CallKey) string {
	synctest.Wait()
	r, ok := h.Resolved(key)
	if !ok {
		return "nothing"
	}
	if r.Key != key || r.Cause != ByResult || r.Result.GroupID != key.GroupID || r.Result.ID != key.ID {
		h.t.Errorf("%+v is kept of %v", r, key)
	}
	if s := r.Result.String(); len(s) <= 100 {
		return s
	}
	return "all"
}

// TestLargeResultIsCut fails if a large result is kept for a day although it was read, if one is cut before it can be read
// again, if a small one is cut, or if one disappears without a note.
func TestLargeResultIsCut(t *testing.T) {
	const cut = "[a result of 5000 bytes, which is no longer kept]"
	for _, x := range []struct {
		name   string
		result *ToolResult
		told   bool
		read   bool
		after  string // after ten minutes
	}{
		{"nobody has read it", text(strings.Repeat("x", 5000)), false, false, "all"},
		{"read", text(strings.Repeat("x", 5000)), false, true, cut},
		{"told", text(strings.Repeat("x", 5000)), true, false, cut},
		{"an error", text("Error: " + strings.Repeat("x", 4993)), true, false, "Error: " + cut},
		{"parts", &ToolResult{Content: []Content{
			{Type: KindText, Text: strings.Repeat("x", 4000)}, {Type: KindImage, Data: strings.Repeat("A", 1000)},
		}}, true, false, cut},
		{"for a person", &ToolResult{Text: new("ab"), DisplayAs: []Display{
			{Type: KindDiff, Diff: &Diff{Path: "p", Patch: strings.Repeat("x", 4989)}}, {Type: KindText, Text: "12345678"},
		}}, true, false, cut},
		{"small", text(strings.Repeat("x", 1024)), true, true, "all"},
		{"subscribed", &ToolResult{Text: new(strings.Repeat("x", 5000)), Subscription: true}, false, true, cut},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := startProgram(t, retaining)
				h.call(k1, func(c *Call) { c.Told = x.told })
				x.result.GroupID, x.result.ID = k1.GroupID, k1.ID
				h.deliver(k1, Event{Kind: ResultArrived, Result: x.result})
				for range 2 { // only the first read counts
					time.Sleep(4 * time.Minute)
					if r, err := h.Await(t.Context(), k1); err != nil || r.Result.Size() < 1000 {
						t.Errorf("after minutes there is %+v, %v", r, err)
					} else if x.read {
						if err := h.Read(t.Context(), r); err != nil {
							t.Error(err)
						}
					}
				}
				time.Sleep(7 * time.Minute)
				if x.after == "all" && x.result.Size() == 1024 {
					x.after = x.result.String()
				}
				if got := h.kept(k1); got != x.after && !(x.after == x.result.String() && got == "all") {
					t.Errorf("after a quarter of an hour there is %q, want %q", got, x.after)
				}
				if x.result.Subscription {
					h.deliver(k1, final("x"))
				}
				time.Sleep(time.Hour)
				if got := h.kept(k1); got != "nothing" {
					t.Errorf("after an hour there is %q", got)
				}
				h.stop()
			})
		})
	}
}

// TestResultsOfThread has a thread with more results than it may keep. The test fails if a tool can fill the memory, or if
// results are cut because another thread has too many.
func TestResultsOfThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := retaining
		opts.Results = 100_000
		h := startProgram(t, opts)
		one := func(thread string, i int) CallKey {
			key := CallKey{thread, fmt.Sprint(i)}
			h.call(key, nil)
			h.deliver(key, Event{Kind: ResultArrived, Result: &ToolResult{GroupID: key.GroupID, ID: key.ID, Text: new(strings.Repeat("x", 30_000))}})
			synctest.Wait()
			return key
		}
		other := one("other", 0)
		var keys []CallKey
		for i := range 5 {
			keys = append(keys, one("thread", i))
			time.Sleep(time.Minute)
		}
		const cut = "[a result of 30000 bytes, which is no longer kept]"
		for i, want := range []string{cut, cut, "all", "all", "all"} {
			if got := h.kept(keys[i]); got != want {
				t.Errorf("of result %d there is %q, want %q", i, got, want)
			}
		}
		if got := h.kept(other); got != "all" {
			t.Errorf("of another thread there is %q", got)
		}
		time.Sleep(2 * time.Hour) // counts are forgotten with their calls
		for i := range 3 {
			one("thread", 10+i)
		}
		if got := h.kept(CallKey{"thread", "10"}); got != "all" {
			t.Errorf("after two hours there is %q", got)
		}
		h.stop()
	})
}

// TestUnreadResultIsCut fails if a result of many bytes that nobody reads is kept for a day, if it is cut before an hour has
// passed, or if a smaller one is cut.
func TestUnreadResultIsCut(t *testing.T) {
	for bytes, want := range map[int]string{
		countedResult:     fmt.Sprintf("[a result of %d bytes, which is no longer kept]", countedResult),
		countedResult - 1: "all",
	} {
		synctest.Test(t, func(t *testing.T) {
			opts := retaining
			opts.Retain = 24 * time.Hour
			h := startProgram(t, opts)
			defer h.stop()
			h.call(k1, nil)
			result := text(strings.Repeat("x", bytes))
			result.GroupID, result.ID = k1.GroupID, k1.ID
			h.deliver(k1, Event{Kind: ResultArrived, Result: result})
			time.Sleep(unreadResult - time.Second)
			if got := h.kept(k1); got != "all" {
				t.Errorf("of %d bytes there is %q before the hour is over", bytes, got)
			}
			time.Sleep(2 * time.Second)
			if got := h.kept(k1); got != want {
				t.Errorf("of %d bytes there is %q after an hour, want %q", bytes, got, want)
			}
		})
	}
}

// TestResultsAreForEver fails if a program without Retain forgets a result.
func TestResultsAreForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startProgram(t, ProgramOptions{Retain: -1, Results: 1})
		h.call(k1, func(c *Call) { c.Told = true })
		h.deliver(k1, result(strings.Repeat("x", 100_000)))
		time.Sleep(1000 * time.Hour)
		if got := h.kept(k1); got != "all" {
			t.Errorf("there is %q", got)
		}
		h.stop()
	})
}
