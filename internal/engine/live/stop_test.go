package live_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
	"github.com/millrace/millrace/internal/engine/port"
)

// TestStopDropsTimers stops a flow while a function of it runs. A timer becomes due before the function
// returns, and is dropped. The test fails if the timer fires, or if an empty step is made for it, which
// a recording would contain too.
func TestStopDropsTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestGraph()
		s := g.NewLocation("here")
		in, node := port.NewInput[int](s, engine.NewOp(s, "Input", ""))
		goes := make(chan struct{})
		operators.Inspect(node, engine.NewOp(s, "Inspect", ""), func(int) { <-goes })
		fired := 0
		operators.Inspect(operators.Interval(s, engine.NewOp(s, "Interval", ""), time.Second), engine.NewOp(s, "Inspect", ""), func(time.Duration) { fired++ })
		g.Start(t.Context())
		before := g.Status()[0].Steps
		go in.Send(t.Context(), 1)
		synctest.Wait()
		g.Stop()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		close(goes)
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
		if steps := g.Status()[0].Steps - before; steps != 1 || fired != 0 {
			t.Errorf("of one record %d steps were made, and the timer fired %d times", steps, fired)
		}
	})
}
