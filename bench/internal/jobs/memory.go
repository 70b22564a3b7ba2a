package jobs

import (
	"runtime"
	"time"

	"github.com/millrace/millrace/bench/internal/ratio"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

const (
	memoryKeys  = 1_000_000
	memoryCalls = 40_000
)

// Memory is the memory that is kept for each key, in bytes, after a garbage
// collection. The strings, invocations and results that a caller holds anyway
// are not counted.
func Memory() []Job {
	job := func(params string, targets []Target, impls ...ratio.Impl) Job {
		return Job{Name: "Memory", Params: params, Rounds: 3, CPU: true, Slow: true, Targets: targets, Impls: impls}
	}
	words := lazily(func() []uint64 { return makeKeys(memoryKeys, wordKey) })
	ids := lazily(func() []request { return makeKeys(memoryKeys, requestKey) })
	all := lazily(func() []vote { return votes(memoryKeys, 1000) })
	return []Job{
		job("what=key/key=uint64", nil,
			ratio.Impl{Name: "hand", New: func() ratio.Run { return countByHand(words()) }},
			ratio.Impl{Name: "millrace", New: func() ratio.Run { return countInFlow(words()) }}),
		job("what=key/key=struct", nil,
			ratio.Impl{Name: "hand", New: func() ratio.Run { return countByHand(ids()) }},
			ratio.Impl{Name: "millrace", New: func() ratio.Run { return countInFlow(ids()) }}),
		job("what=completed", []Target{{What: Held, AtMost: 41}},
			ratio.Impl{Name: "hand", New: func() ratio.Run { return perRequest(handQuorum(all(), memoryKeys)) }},
			ratio.Impl{Name: "millrace", New: func() ratio.Run { return perRequest(flowQuorum(all(), 256, memoryKeys)) }}),
		job("what=completed/remembered=retained", []Target{{What: Held, AtMost: 8}},
			ratio.Impl{Name: "hand", New: func() ratio.Run { return perRequest(handQuorum(all(), memoryKeys)) }},
			ratio.Impl{Name: "millrace", New: func() ratio.Run { return perRequest(retainedQuorum(all(), memoryKeys)) }}),
		job("what=completed/remembered=sequenced", []Target{{What: Held, AtMost: 2}},
			ratio.Impl{Name: "hand", New: func() ratio.Run { return perRequest(handQuorum(all(), memoryKeys)) }},
			ratio.Impl{Name: "millrace", New: func() ratio.Run { return perRequest(sequencedQuorum(all(), memoryKeys)) }}),
		job("what=timer", nil,
			ratio.Impl{Name: "without", New: func() ratio.Run { return pendingInFlow(words(), false) }},
			ratio.Impl{Name: "millrace", New: func() ratio.Run { return pendingInFlow(words(), true) }},
			ratio.Impl{Name: "time.AfterFunc", New: func() ratio.Run { return pendingByHand(words()) }}),
		job("what=call", nil,
			ratio.Impl{Name: "hand", New: func() ratio.Run { return pendingCalls(newHandRuntime()) }},
			ratio.Impl{Name: "millrace", New: func() ratio.Run { return pendingCalls(newProgramRuntime(false)) }}),
		job("what=answered", nil,
			ratio.Impl{Name: "mutex", New: func() ratio.Run { return held(ask(&locked{work: newWork("map", true)}, "map", 1, false)) }},
			ratio.Impl{Name: "millrace", New: func() ratio.Run { return held(ask(newFlowMap(), "map", 1, false)) }}),
	}
}

// perRequest counts requests instead of votes.
func perRequest(r ratio.Run) ratio.Run {
	do := r.Do
	r.Do = func() int { return do() / replicas }
	return held(r)
}

func countByHand[K comparable](keys []K) ratio.Run {
	counts := make(map[K]int)
	return ratio.Run{Held: true, Close: func() { clear(counts) }, Do: func() int {
		for _, k := range keys {
			counts[k]++
		}
		return len(keys)
	}}
}

func countInFlow[K comparable](keys []K) ratio.Run {
	f := dataflow.New()
	in, xs := dataflow.Input[K](dataflow.At[bench](f), "keys")
	counts := keyedstream.Count(dataflow.KeyBy(xs, func(k K) K { return k }))
	keyedsingleton.Inspect(counts, func(int) {})
	app := start(f)
	return ratio.Run{Held: true, Close: func() { stop(app) }, Do: func() int {
		send(in, keys, 256)
		return len(keys)
	}}
}

// pendingInFlow keeps a key for each timer; if after is false, it keeps only the
// keys.
func pendingInFlow(keys []uint64, after bool) ratio.Run {
	f := dataflow.New()
	in, xs := dataflow.Input[uint64](dataflow.At[bench](f), "keys")
	firsts := keyedstream.First(dataflow.KeyBy(xs, func(k uint64) uint64 { return k }))
	if after {
		firsts = keyedsingleton.After(firsts, time.Hour, "nothing fires before the end")
	}
	keyedsingleton.Inspect(firsts, func(uint64) {})
	app := start(f)
	return ratio.Run{Held: true, Close: func() { stop(app) }, Do: func() int {
		send(in, keys, 256)
		return len(keys)
	}}
}

func pendingByHand(keys []uint64) ratio.Run {
	timers := make(map[uint64]*time.Timer)
	return ratio.Run{
		Held: true,
		Do: func() int {
			for _, k := range keys {
				if timers[k] == nil {
					timers[k] = time.AfterFunc(time.Hour, func() {})
				}
			}
			return len(keys)
		},
		Close: func() {
			for _, t := range timers {
				t.Stop()
			}
		},
	}
}

// pendingCalls puts calls that are not answered.
func pendingCalls(rt protocolCore) ratio.Run {
	all, _ := newCalls(memoryCalls)
	return ratio.Run{
		Held: true,
		Do: func() int {
			for i := range all {
				rt.put(&all[i])
			}
			for range 1000 { // dispatches are acknowledged by other goroutines
				runtime.Gosched()
			}
			return len(all)
		},
		Close: func() {
			rt.stop()
			runtime.KeepAlive(all)
		},
	}
}
