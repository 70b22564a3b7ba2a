package model

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/singleton"
)

// idleSources is a flow with two sources. Each of them is idle now and then.
func idleSources(at here, see func(string)) []hands {
	in, xs := dataflow.Input[int](at, "one")
	other, ys := dataflow.Input[int](at, "two")
	one, two := idleSource(xs, 5*time.Minute, 3*time.Minute, see), idleSource(ys, time.Minute, time.Minute, see)
	singleton.Output(window.Mark(two), "mark of two")
	singleton.Output(window.Mark(dataflow.Merge(one, two)), "mark")
	minute := 0
	return []hands{{func(rng *rand.Rand) error {
		minute++
		if rng.IntN(4) == 0 {
			return other.Send(context.Background(), minute+rng.IntN(8))
		}
		return in.Send(context.Background(), minute+rng.IntN(8))
	}, nil}}
}

func idleSource(xs dataflow.Stream[int, here, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce], slack, quiet time.Duration, see func(string)) idleEvents {
	es, late := window.Stamp(xs, func(x int) window.Time { return window.Time(x) * window.Time(time.Minute) }, window.Disorder{Slack: slack})
	still, idled := window.Idle(es, quiet, why)
	dataflow.ForEach(still, func(e window.Event[int]) { see(fmt.Sprint(e.Value)) })
	dataflow.ForEach(late, func(e window.Event[int]) { see(fmt.Sprint(e.Value, " is late")) })
	dataflow.ForEach(idled, func(e window.Event[int]) { see(fmt.Sprint(e.Value, " is too late")) })
	return still
}

type idleEvents = dataflow.Stream[window.Event[int], here, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]
