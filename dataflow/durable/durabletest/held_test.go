package durabletest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

type bellPorts struct {
	in   *dataflow.KeyedInputPort[string, int]
	sums *dataflow.EntryOutputPort[string, int]
}

// TestHeldTimerSurvives crashes a flow at every moment while the function of a timer fails for one
// key, also after the timer was set again. All other timers fire.
func TestHeldTimerSurvives(t *testing.T) {
	type turn = keyedstream.TimedTurn[string, int, int]
	keys := []string{"a", "bad", "c"}
	runs := Crash(t, Program[bellPorts]{
		Build: func(flow *dataflow.Flow) bellPorts {
			in, numbers := keyedstream.Input[string, int](dataflow.At[server](flow), "in")
			_, sums := keyedstream.TimedMachine(numbers, func() int { return 0 },
				func(sum *int, x int, do *turn) { *sum += x; do.After(1, time.Minute) },
				func(sum *int, _ keyedstream.Timer, do *turn) {
					if do.Key() == "bad" {
						panic("no bell for bad")
					}
					do.Decide(*sum)
				}, "tested")
			return bellPorts{in, keyedsingleton.Output(sums, "sums")}
		},
		Drive: func(ctx context.Context, p bellPorts) error {
			for i := range 2 {
				for _, k := range keys {
					if err := p.in.SendNumbered(ctx, k, uint64(i), 1+i); err != nil {
						return err
					}
				}
			}
			return nil
		},
		Check: func(ctx context.Context, p bellPorts) error {
			for _, k := range []string{"a", "c"} {
				if got, err := p.sums.Await(ctx, k); err != nil || got != 3 {
					return fmt.Errorf("the sum of %s is %d, want 3 (%v)", k, got, err)
				}
			}
			return nil
		},
	}, Options{})
	if runs < 20 {
		t.Errorf("%d runs", runs)
	}
}

// TestHeldAfterSurvives crashes a flow at every moment while a function fails after the timer of an
// entry, and after the firings of an interval. All others fire.
func TestHeldAfterSurvives(t *testing.T) {
	keys := []string{"a", "bad", "c"}
	runs := Crash(t, Program[bellPorts]{
		Build: func(flow *dataflow.Flow) bellPorts {
			at := dataflow.At[server](flow)
			in, numbers := keyedstream.Input[string, int](at, "in")
			late := keyedsingleton.After(keyedstream.First(numbers), 90*time.Second, "tested")
			sums := keyedsingleton.InspectWithKey(late, func(k string, _ int) {
				if k == "bad" {
					panic("it is never late enough for bad")
				}
			})
			dataflow.ForEach(dataflow.Interval(at, time.Minute, "tested"), func(d time.Duration) {
				if d%(2*time.Minute) != 0 {
					panic("no odd minutes")
				}
			})
			return bellPorts{in, keyedsingleton.Output(sums, "sums")}
		},
		Drive: func(ctx context.Context, p bellPorts) error {
			for _, k := range keys {
				if err := p.in.SendNumbered(ctx, k, 0, 3); err != nil {
					return err
				}
			}
			return nil
		},
		Check: func(ctx context.Context, p bellPorts) error {
			for _, k := range []string{"a", "c"} {
				if got, err := p.sums.Await(ctx, k); err != nil || got != 3 {
					return fmt.Errorf("the number of %s is %d, want 3 (%v)", k, got, err)
				}
			}
			if _, there := p.sums.Get("bad"); there {
				return fmt.Errorf("bad has a number")
			}
			return nil
		},
	}, Options{})
	if runs < 20 {
		t.Errorf("%d runs", runs)
	}
}
