package agentproto

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestWatch checks that a call acknowledged with Watch is watched, and is lost if the watch says so.
// Other calls are not watched. Stop does not wait for watches.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		watched := map[string]bool{}
		p := NewProgram(ProgramOptions{
			Dispatch: func(_ context.Context, c *Call) DispatchOutcome {
				switch c.Key.ID {
				case "plain":
					return DispatchOutcome{Accepted: true}
				case "refused":
					return DispatchOutcome{Watch: "url"}
				}
				return DispatchOutcome{Accepted: true, Watch: "url of " + c.Key.ID}
			},
			Watch: func(ctx context.Context, w *Watched) string {
				mu.Lock()
				watched[w.Key.ID+" "+w.Server] = true
				mu.Unlock()
				if w.Key.ID == "lost" {
					return "it is gone"
				}
				<-ctx.Done()
				return ""
			},
		})
		if err := p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				if _, err := p.NextEffect(context.Background()); err != nil {
					return
				}
			}
		}()
		for _, id := range []string{"plain", "refused", "lost", "alive"} {
			key := CallKey{GroupID: "g", ID: id}
			if err := p.Call(t.Context(), &Call{Key: key, Invocation: &Invocation{GroupID: "g", ID: id}}); err != nil {
				t.Fatal(err)
			}
		}
		r, err := p.Await(t.Context(), CallKey{GroupID: "g", ID: "lost"})
		if err != nil || r.Cause != ByLoss || *r.Result.Text != "Error: the tool server lost the call: it is gone" {
			t.Errorf("%+v, %v", r, err)
		}
		synctest.Wait()
		if len(watched) != 2 || !watched["lost url of lost"] || !watched["alive url of alive"] {
			t.Errorf("watched %v", watched)
		}
		start := time.Now()
		if err := p.Stop(t.Context()); err != nil || time.Since(start) > 0 {
			t.Errorf("Stop: %v after %v", err, time.Since(start))
		}
	})
}
