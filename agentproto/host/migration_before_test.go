package host

import (
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
)

// TestMigrateBeforeInvocation moves a session whose call its tool server does not take yet. It fails if the call has an error as its
// result because of that: the source goes on offering it, for as long as if the session had stayed.
func TestMigrateBeforeInvocation(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opts.MigrationKey = sharedKey
		here, there := w.tool("here.test").movable(), w.tool("there.test").movable()
		var free atomic.Bool
		var offers atomic.Int32
		here.ack = func(_ int, rw http.ResponseWriter, _ *agentproto.Invocation) {
			offers.Add(1)
			if !free.Load() {
				rw.WriteHeader(http.StatusServiceUnavailable)
			}
		}
		script := conversation.Script{callsOf("a"), {Text: "done"}}
		th := w.converse(script, here.base)
		second := w.another("second.test", &user{}, script, there.base)
		w.say(th, "go")
		if err := w.rt.Migrate(t.Context(), "s", "http://second.test"); err != nil {
			t.Fatalf("Migrate: %v", err)
		}
		before := offers.Load()
		free.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if offers.Load() == before {
			t.Error("the call was not offered again")
		}
		w.post(here.callbackOf(key("a")), result(key("a"), "result a"))
		w.wantHistory(second.Thread("s"), `
			user: go
			assistant: a=echo({})
			result a: result a
			assistant: done
`)
	})
}
