package jobs

import (
	"fmt"
	"slices"

	"github.com/millrace/millrace/bench/internal/ratio"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

const (
	recordBytes = 1 << 22 // of one pass: more than a core's own cache
	recordKeys  = 1000
)

// Records is one map over records of some size, and First of records whose keys are known except
// the first of each. By hand, the records are values too.
func Records() []Job {
	return slices.Concat(
		recordsOf(func(n uint64) [32]uint64 { return [32]uint64{n} }, func(r [32]uint64) uint64 { return r[0] },
			func(r [32]uint64) [32]uint64 { r[1]++; return r }),
		recordsOf(func(n uint64) [128]uint64 { return [128]uint64{n} }, func(r [128]uint64) uint64 { return r[0] },
			func(r [128]uint64) [128]uint64 { r[1]++; return r }),
		recordsOf(func(n uint64) [512]uint64 { return [512]uint64{n} }, func(r [512]uint64) uint64 { return r[0] },
			func(r [512]uint64) [512]uint64 { r[1]++; return r }),
	)
}

func recordsOf[R any](record func(n uint64) R, key func(R) uint64, change func(R) R) []Job {
	size := len(words(*new(R))) * 8
	data := lazily(func() []R {
		all := make([]R, recordBytes/size)
		for i := range all {
			all[i] = record(uint64(i % recordKeys))
		}
		return all
	})
	passes := 8
	keys := min(recordKeys, recordBytes/size)
	job := func(job string, target Target, hand, flow func() ratio.Run) Job {
		return Job{
			Name: "Records", Params: fmt.Sprintf("size=%d/job=%s", size, job), CPU: true, Targets: []Target{target},
			Impls: []ratio.Impl{{Name: "hand", New: hand}, {Name: "millrace", New: flow}},
		}
	}
	return []Job{
		job("Map", Target{AtMost: 1.3, Bound: 7}, // seen: 3.3
			func() ratio.Run { return handRecords(data(), passes, opaque(change), opaque(key)) },
			func() ratio.Run { return flowRecords(data(), passes, opaque(change), opaque(key)) }),
		job("First", Target{AtMost: 1.3, Bound: 10},
			func() ratio.Run { return handFirstRecords(data(), passes, keys, opaque(key)) },
			func() ratio.Run { return flowFirstRecords(data(), passes, keys, opaque(key)) }),
	}
}

// words returns the record as words; the length is its size.
func words(r any) []uint64 {
	switch r := r.(type) {
	case [32]uint64:
		return r[:]
	case [128]uint64:
		return r[:]
	case [512]uint64:
		return r[:]
	}
	panic("jobs: no record of this size")
}

// opaque hides a function from the compiler, as a library sees it.
//
//go:noinline
func opaque[F any](f F) F { return f }

func handRecords[R any](data []R, passes int, change func(R) R, key func(R) uint64) ratio.Run {
	return ratio.Run{Do: func() int {
		sum := uint64(0)
		for range passes {
			for i := range data {
				sum += key(change(data[i]))
			}
		}
		checkRecords(data, passes, key, sum)
		return passes * len(data)
	}}
}

func flowRecords[R any](data []R, passes int, change func(R) R, key func(R) uint64) ratio.Run {
	f := dataflow.New()
	in, xs := dataflow.Input[R](dataflow.At[bench](f), "records")
	sum := uint64(0)
	dataflow.ForEach(dataflow.Map(xs, change), func(r R) { sum += key(r) })
	app := start(f)
	return ratio.Run{
		Do: func() int {
			for range passes {
				send(in, data, 256)
			}
			checkRecords(data, passes, key, sum)
			return passes * len(data)
		},
		Close: func() { stop(app) },
	}
}

// checkRecords checks the sum of the keys that were seen, which cycle through 0 to recordKeys-1.
func checkRecords[R any](data []R, passes int, key func(R) uint64, sum uint64) {
	n, rest := uint64(len(data)/recordKeys), uint64(len(data)%recordKeys)
	check("sum", sum, uint64(passes)*(n*recordKeys*(recordKeys-1)/2+rest*(max(rest, 1)-1)/2))
}

func handFirstRecords[R any](data []R, passes, want int, key func(R) uint64) ratio.Run {
	return ratio.Run{Do: func() int {
		seen := make(map[uint64]struct{})
		n := 0
		for range passes {
			for i := range data {
				k := key(data[i])
				if _, ok := seen[k]; !ok {
					seen[k] = struct{}{}
					n++
				}
			}
		}
		check("keys", n, want)
		return passes * len(data)
	}}
}

func flowFirstRecords[R any](data []R, passes, want int, key func(R) uint64) ratio.Run {
	f := dataflow.New()
	in, xs := dataflow.Input[R](dataflow.At[bench](f), "records")
	n := 0
	keyedsingleton.Inspect(keyedstream.First(dataflow.KeyBy(xs, key)), func(R) { n++ })
	app := start(f)
	return ratio.Run{
		Do: func() int {
			for range passes {
				send(in, data, 256)
			}
			check("keys", n, want)
			return passes * len(data)
		},
		Close: func() { stop(app) },
	}
}
