package host

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto/conversation"
)

// TestMigrationCrashesInDetours is TestMigrationCrashes for calls in a detour: a user has answered the choice of one, but the tool
// server has not taken the answer, another one waits for an authorization, and the result of the third arrives in the middle of the
// move. The test fails if a call has no result or two, if the answer is lost or changed, or if the user at the destination is not
// asked for what is still open.
func TestMigrationCrashesInDetours(t *testing.T) {
	points := []string{
		"the offer is sent", "the offer was answered", "a tool is asked", "a tool has moved", "the import is sent",
		"the session is half there", "the import was answered", "the source cleans up", "a later message is sent", "a later message was answered",
	}
	script := conversation.Script{callsOf("sub"), {Text: "watching"}, callsOf("a", "b", "c"), {Text: "all done"}, {Text: "seen"}, {Text: "seen 2"}}
	for _, point := range points {
		for _, who := range []string{"source", "destination"} {
			t.Run(who+" when "+point, func(t *testing.T) {
				t.Parallel()
				c := &crashing{t: t, point: point}
				c.retry = slices.Repeat([]time.Duration{100 * time.Millisecond}, 1000)
				c.beginWith(script, "a", "b", "c")
				var taken atomic.Bool
				var mu sync.Mutex
				answers := map[string]int{}
				c.answers = func(w http.ResponseWriter, r *http.Request, body []byte) {
					if !taken.Load() {
						w.WriteHeader(http.StatusServiceUnavailable)
						return
					}
					mu.Lock()
					defer mu.Unlock()
					answers[r.Header.Get("webhook-id")+" "+string(body)]++
				}
				c.post("a", choiceBody(key("a"), c.source.opts.Toolsets[0]+"/answer"))
				c.post("b", oauthBody(key("b")))
				within(t, "the user answers", func() bool {
					return c.source.now().Answer(t.Context(), key("a"), c.source.opts.Toolsets[0]+"/answer", 1) == nil
				})
				var during atomic.Int32
				c.middle = func() {
					resp, err := http.Post(c.callbackOf("c"), "application/json", strings.NewReader(result(key("c"), "result c")))
					if err == nil {
						resp.Body.Close()
						during.CompareAndSwap(0, int32(resp.StatusCode))
					}
				}
				c.move(who)
				taken.Store(true)
				within(t, "the session is whole at the destination", func() bool {
					c.revive()
					return c.at(c.destination, c.source)
				})
				within(t, "the answer arrives", func() bool {
					c.revive()
					mu.Lock()
					defer mu.Unlock()
					return len(answers) > 0
				})
				for range 2 {
					c.post("a", result(key("a"), "result a"))
					c.post("c", result(key("c"), "result c"))
					c.post("b", result(key("b"), "result b"))
				}
				c.post("sub", eventBody(key("sub"), "tick", true, false))
				within(t, "the conversation goes on", func() bool { c.revive(); return strings.Contains(c.history(c.destination), "tick") })
				within(t, "all results are there", func() bool {
					c.revive()
					h := c.history(c.destination)
					return strings.Contains(h, "result a") && strings.Contains(h, "result b") && strings.Contains(h, "result c")
				})
				h := c.history(c.destination)
				for _, once := range []string{": result a\n", ": result b\n", ": result c\n", "tick"} {
					if n := strings.Count(h+"\n", once); n != 1 {
						t.Errorf("%q is there %d times in\n%s", once, n, h)
					}
				}
				mu.Lock()
				if len(answers) != 1 {
					t.Errorf("answers: %v", answers)
				}
				for a := range answers {
					if !strings.Contains(a, `"selected":1`) {
						t.Errorf("answer %s", a)
					}
				}
				mu.Unlock()
				u := c.destination.opts.Surface.(*user)
				u.mu.Lock()
				saw := strings.Join(u.seen, "\n")
				u.mu.Unlock()
				if status := during.Load(); status != http.StatusServiceUnavailable {
					t.Errorf("a result in the middle of the move was answered %d", status)
				}
				if !strings.Contains(saw, "oauth s/b") {
					t.Errorf("the user at the destination saw\n%s", saw)
				}
			})
		}
	}
}
