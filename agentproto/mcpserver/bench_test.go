package mcpserver_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto/mcpserver"
)

// worldOf returns a world for a benchmark.
func worldOf(b *testing.B, o mcpserver.Options) *world {
	calls := newCalls()
	w := newWorldOf(b, o, calls)
	w.calls = calls
	return w
}

// BenchmarkMT16_Unknown measures how long it takes to refuse an unknown task: one of another owner, one that was altered, one of
// another key, and one that never existed. It has no time limit. TestUnknownIsNotLookedUp checks that the seal alone decides.
func BenchmarkMT16_Unknown(b *testing.B) {
	w := worldOf(b, mcpserver.Options{Rate: 1 << 30})
	w.owner = "bob"
	foreign := w.task()
	w.owner = "alice"
	own := w.task()
	other := worldOf(b, mcpserver.Options{})
	for name, id := range map[string]string{
		"foreign": foreign, "altered": own[:len(own)-8] + "AAAAAAAA", "other key": other.task(), "never": "t1.k.never",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if got := w.get(id); got.Error == nil {
					b.Fatalf("it is known: %s", got.text)
				}
			}
		})
	}
}

// BenchmarkMT29_Polls measures the polls of one client, alone and beside a client that polls as fast as it can and is refused.
// The figure includes the cost of making that client's requests.
func BenchmarkMT29_Polls(b *testing.B) {
	for name, floods := range map[string]int{"alone": 0, "beside": 1} {
		b.Run(name, func(b *testing.B) {
			calls := newCalls()
			w, flood := newWorldOf(b, mcpserver.Options{Rate: 1 << 30}, calls), newWorldOf(b, mcpserver.Options{Rate: 20}, calls)
			w.calls, flood.calls = calls, calls
			id, theirs := w.task(), flood.task()
			var over atomic.Bool
			var others sync.WaitGroup
			for range floods {
				others.Go(func() {
					for !over.Load() {
						flood.get(theirs)
					}
				})
			}
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				if got := w.get(id); got.Error != nil {
					b.Fatalf("a poll is refused: %s", got.text)
				}
				took = append(took, time.Since(began))
			}
			over.Store(true)
			others.Wait()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
	}
}
