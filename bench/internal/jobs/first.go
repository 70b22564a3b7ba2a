package jobs

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/millrace/millrace/bench/internal/ratio"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

const (
	firstEvents  = 2_000_000
	distinctKeys = 5_000_000
)

// A request is a key of two words: a client and its sequence number.
type request struct{ Client, Seq uint64 }

// First passes on the first element of each key. The keys are drawn at random from
// a fixed number, or are 5M distinct ones. With inserts=32, elements are processed
// 32 at a time and each batch is timed, also in the implementation by hand.
func First() []Job {
	return slices.Concat(
		first("uint64", 1000, 1.3, wordKey),
		first("uint64", 10_000, .8, wordKey),
		first("uint64", 100_000, 1, wordKey),
		first("string", 100_000, .8, textKey),
		first("struct", 100_000, .4, requestKey),
		distinct("uint64", .55, 24, wordKey),
		distinct("struct", .25, 32, requestKey),
		distinct("string", .35, 32, textKey),
	)
}

func wordKey(r *rand.Rand, _ int) uint64     { return r.Uint64() }
func requestKey(_ *rand.Rand, i int) request { return request{uint64(i % 1000), uint64(i / 1000)} }

// textKey returns 16 to 36 random hexadecimal digits.
func textKey(r *rand.Rand, _ int) string {
	b := make([]byte, 16+r.IntN(21))
	for i := range b {
		b[i] = "0123456789abcdef"[r.IntN(16)]
	}
	return string(b)
}

func makeKeys[K comparable](n int, key func(r *rand.Rand, i int) K) []K {
	r := rand.New(rand.NewPCG(7, 9))
	all := make([]K, n)
	for i := range all {
		all[i] = key(r, i)
	}
	return all
}

// draw draws elements from some keys.
func draw[K comparable](some []K) []K {
	r := rand.New(rand.NewPCG(8, 9))
	drawn := make([]K, firstEvents)
	for i := range drawn {
		drawn[i] = some[r.IntN(len(some))]
	}
	return drawn
}

func first[K comparable](kind string, keys int, target float64, key func(r *rand.Rand, i int) K) []Job {
	all := lazily(func() []K { return draw(makeKeys(keys, key)) })
	return []Job{{
		Name: "First", Params: fmt.Sprintf("key=%s/keys=%d", kind, keys), CPU: true,
		Targets: []Target{{AtMost: target}},
		Impls: []ratio.Impl{
			{Name: "hand", New: func() ratio.Run { return handFirst(all(), keys) }},
			{Name: "millrace", New: func() ratio.Run { return flowFirst(all(), keys) }},
		},
	}}
}

// distinct is First for distinct keys: the time, the latency of 32 elements, and
// the memory kept.
func distinct[K comparable](kind string, target, bytes float64, key func(r *rand.Rand, i int) K) []Job {
	all := lazily(func() []K { return makeKeys(distinctKeys, key) })
	params := fmt.Sprintf("key=%s/keys=5M", kind)
	return []Job{{
		Name: "First", Params: params, CPU: true, Rounds: 5, Slow: true,
		Targets: []Target{{AtMost: target}, {What: Held, AtMost: bytes}},
		Impls: []ratio.Impl{
			{Name: "hand", New: func() ratio.Run { return held(handFirst(all(), distinctKeys)) }},
			{Name: "millrace", New: func() ratio.Run { return held(flowFirst(all(), distinctKeys)) }},
		},
	}, {
		Name: "First", Params: params + "/inserts=32", Rounds: 5, Slow: true,
		Targets: []Target{{What: P99, AtMost: 20_000}},
		Impls: []ratio.Impl{
			{Name: "hand", New: func() ratio.Run { return inserts(handSeen(all())) }},
			{Name: "millrace", New: func() ratio.Run { return inserts(flowSeen(all())) }},
		},
	}}
}

func held(r ratio.Run) ratio.Run {
	r.Held = true
	return r
}

// inserts measures each of many short runs of see.
func inserts[K comparable](keys []K, see func([]K), done func()) ratio.Run {
	lat := make([]time.Duration, 0, len(keys)/32)
	return ratio.Run{
		Do: func() int {
			for part := range slices.Chunk(keys, 32) {
				start := time.Now()
				see(part)
				lat = append(lat, time.Since(start))
			}
			return len(keys)
		},
		Lat:   func() []time.Duration { return lat },
		Close: done,
	}
}

func handSeen[K comparable](keys []K) ([]K, func([]K), func()) {
	seen := make(map[K]struct{})
	return keys, func(part []K) {
		for _, k := range part {
			if _, ok := seen[k]; !ok {
				seen[k] = struct{}{}
			}
		}
	}, func() { clear(seen) }
}

func flowSeen[K comparable](keys []K) ([]K, func([]K), func()) {
	f := dataflow.New()
	in, xs := dataflow.Input[K](dataflow.At[bench](f), "keys")
	keyedsingleton.Inspect(keyedstream.First(dataflow.KeyBy(xs, func(k K) K { return k })), func(K) {})
	app := start(f)
	return keys, func(part []K) { send(in, part, 32) }, func() { stop(app) }
}

func handFirst[K comparable](keys []K, want int) ratio.Run {
	seen := make(map[K]struct{})
	return ratio.Run{Close: func() { clear(seen) }, Do: func() int {
		n := 0
		for _, k := range keys {
			if _, ok := seen[k]; ok {
				continue
			}
			seen[k] = struct{}{}
			n++
		}
		check("keys", n, want)
		return len(keys)
	}}
}

func flowFirst[K comparable](keys []K, want int) ratio.Run { return sendFirst(keys, want, 256) }

// sendFirst is First with any batch size.
func sendFirst[K comparable](keys []K, want, batch int) ratio.Run {
	f := dataflow.New()
	in, xs := dataflow.Input[K](dataflow.At[bench](f), "keys")
	n := 0
	keyedsingleton.Inspect(keyedstream.First(dataflow.KeyBy(xs, func(k K) K { return k })), func(K) { n++ })
	app := start(f)
	return ratio.Run{
		Do: func() int {
			send(in, keys, batch)
			check("keys", n, want)
			return len(keys)
		},
		Close: func() { stop(app) },
	}
}
