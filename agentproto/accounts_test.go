package agentproto

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/gen"
	"github.com/leanovate/gopter/prop"

	"github.com/millrace/millrace/internal/rerun"
)

// TestN76_Results lets random results arrive, be read and age in two threads. After each step it counts the unread results that
// the program still holds. It catches a thread that holds more than its bound, a result that is cut although there is room for
// it, and a sum that includes deleted results.
func TestN76_Results(t *testing.T) {
	if *seed == 0 {
		*seed = time.Now().UnixNano()
	}
	const most = 100_000
	cut, stayed := 0, 0
	synctest.Test(t, func(t *testing.T) {
		type one struct {
			key   CallKey
			bytes int
			at    time.Time
			read  bool
		}
		once := func(all []int) (why string) {
			opts := retaining
			opts.Results = most
			h := startProgram(t, opts)
			defer h.stop()
			var made []*one
			for _, n := range all {
				draw := func(most int) (x int) { x, n = n%most, n/most; return x }
				switch draw(4) {
				case 0, 1:
					c := &one{CallKey{fmt.Sprint("thread", draw(2)), fmt.Sprint(len(made))}, countedResult + draw(40_000), time.Now(), false}
					h.call(c.key, nil)
					h.deliver(c.key, Event{Kind: ResultArrived, Result: &ToolResult{GroupID: c.key.GroupID, ID: c.key.ID, Text: new(strings.Repeat("x", c.bytes))}})
					made = append(made, c)
				case 2:
					if len(made) == 0 {
						continue
					}
					c := made[len(made)-1-draw(min(4, len(made)))]
					if r, ok := h.Resolved(c.key); ok && r.Result.Size() == c.bytes {
						if err := h.Read(t.Context(), r); err != nil {
							return err.Error()
						}
						c.read = true
					}
				case 3:
					time.Sleep([]time.Duration{time.Second, time.Minute, 11 * time.Minute, 40 * time.Minute}[draw(4)])
				}
				synctest.Wait()
				kept, after := map[string]int{}, map[string]int{} // bytes: unread and still held; newer than the result at hand
				for i := len(made) - 1; i >= 0; i-- {
					c := made[i]
					r, ok := h.Resolved(c.key)
					switch whole := ok && r.Result.Size() == c.bytes; {
					case whole && c.read:
					case whole:
						kept[c.key.GroupID] += c.bytes
						stayed++
					case !c.read && time.Since(c.at) < opts.Retain && after[c.key.GroupID]+c.bytes <= most:
						return fmt.Sprintf("result %d of %d bytes is gone, and behind it came %d bytes", i, c.bytes, after[c.key.GroupID])
					default:
						cut++
					}
					after[c.key.GroupID] += c.bytes
				}
				for thread, n := range kept {
					if n > most {
						return fmt.Sprintf("of %s %d bytes are kept", thread, n)
					}
				}
			}
			return ""
		}
		params := gopter.DefaultTestParametersWithSeed(*seed)
		params.MinSuccessfulTests, params.MinSize, params.MaxSize = 60, 20, 60
		properties := gopter.NewProperties(params)
		properties.Property("a thread keeps as many results as it may", prop.ForAll(once, gen.SliceOf(gen.IntRange(0, min(1<<40, math.MaxInt-1)))))
		var report bytes.Buffer
		if !properties.Run(gopter.NewFormatedReporter(false, 100, &report)) {
			t.Errorf("%s\nrerun: %s", &report, rerun.Line(t.Name(), "-seed", fmt.Sprint(*seed)))
		}
	})
	if cut < 100 || stayed < 100 {
		t.Errorf("%d results were gone and %d were there: too few to show anything (seed %d)", cut, stayed, *seed)
	}
	t.Logf("seed %d: %d gone, %d there", *seed, cut, stayed)
}
