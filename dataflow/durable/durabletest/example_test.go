package durabletest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/durabletest"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

type Server struct{ dataflow.Process }

type Ports struct {
	Votes  *dataflow.KeyedInputPort[string, bool]
	Passed *dataflow.EntryOutputPort[string, int]
}

// build lets a proposal pass at its third yes.
func build(flow *dataflow.Flow) Ports {
	votes, cast := keyedstream.Input[string, bool](dataflow.At[Server](flow), "votes")
	yes := keyedstream.Filter(cast, func(yes bool) bool { return yes })
	passed := keyedstream.FoldEarlyStop(yes, func() int { return 0 }, func(n *int, _ bool) bool { *n++; return *n == 3 })
	return Ports{votes, keyedsingleton.Output(passed, "passed")}
}

// TestLongerLunch runs the test of the example, which must pass.
func TestLongerLunch(t *testing.T) {
	if runs := crashLongerLunch(t); runs < 30 {
		t.Errorf("there were only %d runs", runs)
	}
}

func crashLongerLunch(t *testing.T) (runs int) {
	return durabletest.Crash(t, durabletest.Program[Ports]{
		Build: build,
		// After a crash the votes are cast again from the first one. Their numbers
		// identify those that were taken before.
		Drive: func(ctx context.Context, p Ports) error {
			for i, yes := range []bool{true, false, true, true} {
				if err := p.Votes.SendNumbered(ctx, "longer lunch", uint64(i), yes); err != nil {
					return err
				}
			}
			return nil
		},
		Check: func(ctx context.Context, p Ports) error {
			if n, err := p.Passed.Await(ctx, "longer lunch"); err != nil || n != 3 {
				return fmt.Errorf("passed with %d votes, %w", n, err)
			}
			return nil
		},
	}, durabletest.Options{LostAnswers: true, Again: 1})
}

// A test calls Crash with a program and with what to do with it.
func Example() {
	test := func(t *testing.T) {
		runs := crashLongerLunch(t)
		t.Logf("survived in %d runs", runs)
	}
	_ = test // it would be func TestLongerLunch(t *testing.T)
}
