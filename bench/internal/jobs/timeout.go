package jobs

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/millrace/millrace/bench/internal/ratio"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/timer"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

const (
	pendingTimers = 1_000_000
	timerSteps    = 1_000_000
)

// An index holds timers by number.
type index interface {
	Add(h uint32, at int64)
	Cancel(h uint32) bool
}

// none holds no timers: it measures the rest of the work.
type none struct{}

func (none) Add(uint32, int64)  {}
func (none) Cancel(uint32) bool { return true }

// handTimers are timers of package time.
type handTimers []*time.Timer

func (ts handTimers) Add(h uint32, _ int64) { ts[h] = time.AfterFunc(time.Hour, func() {}) }
func (ts handTimers) Cancel(h uint32) bool  { return ts[h].Stop() }
func newHandTimers() handTimers             { return make(handTimers, pendingTimers+1) }
func (ts handTimers) stop() {
	for _, t := range ts {
		if t != nil {
			t.Stop()
		}
	}
}

// Timeout sets a timer and cancels one of the last thousand, like a request that is
// answered before its timeout, with a million timers pending. This measures the
// engine's index of timers. In flow, a change of one of a million keys resets the
// timer after which the key is forgotten; without is the same flow without forgetting.
func Timeout() []Job {
	step := Job{
		Name: "Timeout", Params: "pending=1M/step=set+cancel", CPU: true,
		Targets: []Target{{What: More, Of: "fifo", AtMost: 40}, {What: More, Of: "wheel", AtMost: 40}},
		Impls: []ratio.Impl{
			{Name: "alone", New: func() ratio.Run { return setAndCancel(none{}, nil) }},
			{Name: "fifo", New: func() ratio.Run { return setAndCancel(timer.NewFIFO(), nil) }},
			{Name: "wheel", New: func() ratio.Run { return setAndCancel(timer.NewWheel(), nil) }},
			{Name: "time.AfterFunc", New: func() ratio.Run { ts := newHandTimers(); return setAndCancel(ts, ts.stop) }},
		},
	}
	jobs := []Job{step}
	for _, batch := range []int{256, 1} {
		target := Target{What: More, AtMost: 40}
		if batch == 1 {
			target.Bound = 150 // each change takes a step of its own. Seen: 70
		}
		jobs = append(jobs, Job{
			Name: "Timeout", Params: fmt.Sprintf("pending=1M/step=flow/batch=%d", batch), CPU: true,
			Targets: []Target{target},
			Impls: []ratio.Impl{
				{Name: "without", New: func() ratio.Run { return resetInFlow(batch, false) }},
				{Name: "millrace", New: func() ratio.Run { return resetInFlow(batch, true) }},
			},
		})
	}
	return jobs
}

func setAndCancel(x index, done func()) ratio.Run {
	r := rand.New(rand.NewPCG(1, 2))
	now := int64(0)
	for h := range uint32(pendingTimers) {
		now += 10
		x.Add(h, now+30e9)
	}
	recent := make([]uint32, 1000)
	for i := range recent {
		recent[i] = uint32(pendingTimers - 1 - i)
	}
	h := uint32(pendingTimers)
	return ratio.Run{
		Do: func() int {
			for range timerSteps {
				now += 10
				x.Add(h, now+30e9)
				i := r.IntN(len(recent))
				x.Cancel(recent[i])
				recent[i], h = h, recent[i]
			}
			return timerSteps
		},
		Close: done,
	}
}

func resetInFlow(batch int, forget bool) ratio.Run {
	f := dataflow.New()
	in, xs := dataflow.Input[uint64](dataflow.At[bench](f), "changes")
	counts := keyedstream.Fold(dataflow.KeyBy(xs, func(k uint64) uint64 { return k }),
		func() int { return 0 }, func(n *int, _ uint64) { *n++ })
	seen := 0
	if forget {
		keyedsingleton.Inspect(keyedsingleton.ForgetAfter(counts, time.Hour, "nothing is forgotten before the end"),
			func(int) { seen++ })
	} else {
		keyedsingleton.Inspect(counts, func(int) { seen++ })
	}
	app := start(f)
	keys := make([]uint64, pendingTimers)
	for i := range keys {
		keys[i] = golden * uint64(i)
	}
	send(in, keys, 256)
	r := rand.New(rand.NewPCG(1, 2))
	changes := make([]uint64, timerSteps)
	for i := range changes {
		changes[i] = golden * uint64(pendingTimers-1-r.IntN(1000))
	}
	return ratio.Run{
		Do: func() int {
			send(in, changes, batch)
			if seen < pendingTimers {
				check("changes", seen, pendingTimers)
			}
			return len(changes)
		},
		Close: func() { stop(app) },
	}
}
