package toolserver_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// The function of a call that is over does not run, whoever asks: its outcome may be in the
// history behind the last step, so that the next process does not know of it when it begins.
func TestA09_NotAgainWhenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{})
		var runs atomic.Int32
		toolserver.Add(rt.server, "count", "Counts.", func(ctx context.Context, _ none) (string, error) {
			runs.Add(1)
			<-ctx.Done()
			return "", context.Cause(ctx)
		})
		inv := &agentproto.Invocation{Operation: "count", GroupID: "thread-1", ID: "c1"}
		rt.call("count", "c1", "{}")
		synctest.Wait()
		if toolserver.RunAgain(rt.server, inv); runs.Load() != 2 {
			t.Errorf("the function of a call that goes on ran %d times", runs.Load())
		}
		rt.post("/cancel_tool_call", `{"thread_id":"thread-1","tool_call_id":"c1"}`)
		synctest.Wait()
		if again := toolserver.RunAgain(rt.server, inv); again || runs.Load() != 2 {
			t.Errorf("the function of a call that is over ran %d times", runs.Load()-1)
		}
		rt.close()
	})
}
