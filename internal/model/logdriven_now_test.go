package model

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

// nowSources is a flow of two sources. One is stamped by the clock, as a stream and by key. The
// elements of the other carry their own times.
func nowSources(at here, see func(string)) []hands {
	in, xs := dataflow.Input[int](at, "by the clock")
	other, ys := dataflow.Input[int](at, "by itself")
	one := window.StampNow(xs, 7*time.Minute, why)
	two, _ := window.Stamp(ys, func(x int) window.Time { return window.Time(x) * window.Time(time.Minute) }, window.Disorder{})
	dataflow.ForEach(one, func(e window.Event[int]) { see(fmt.Sprint(e)) })
	ks := window.StampNowKeyed(dataflow.KeyBy(xs, func(x int) int { return x % 3 }), 15*time.Minute, why)
	keyedstream.InspectWithKey(ks, func(k int, e window.Event[int]) { see(fmt.Sprint(k, e)) })
	singleton.Output(window.Mark(one), "mark of one")
	singleton.Output(window.Mark(dataflow.Merge(one, two)), "mark")
	singleton.Output(window.Mark(dataflow.Merge(keyedstream.Values(ks), dataflow.WeakenOrder(two))), "mark by key")
	minute := 0
	return []hands{{func(rng *rand.Rand) error {
		minute++
		if rng.IntN(2) == 0 {
			return other.Send(context.Background(), minute)
		}
		return in.Send(context.Background(), minute)
	}, nil}}
}
