package jobs

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/millrace/millrace/bench/internal/ratio"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

const (
	lineEvents  = 2_000_000
	putRequests = 1_000_000
)

// Lines adds up values by key, which one producer sends to a keyed input.
func Lines() []Job {
	const keys = 1000
	ks := lazily(func() []uint64 {
		r := rand.New(rand.NewPCG(11, 12))
		all := make([]uint64, lineEvents)
		for i := range all {
			all[i] = r.Uint64N(keys)
		}
		return all
	})
	vs := lazily(func() []uint64 { return make([]uint64, lineEvents) })
	var jobs []Job
	for _, batch := range []int{1, 64, 256, 1000} {
		jobs = append(jobs, Job{
			Name: "Lines", Params: fmt.Sprintf("keys=%d/batch=%d", keys, batch), CPU: true,
			Impls: []ratio.Impl{
				{Name: "hand", New: func() ratio.Run { return handLines(ks(), vs()) }},
				{Name: "millrace", New: func() ratio.Run { return flowLines(ks(), vs(), batch) }},
			},
		})
	}
	return jobs
}

func handLines(ks, vs []uint64) ratio.Run {
	sums := make(map[uint64]*uint64)
	return ratio.Run{Close: func() { clear(sums) }, Do: func() int {
		n := 0
		for i, k := range ks {
			s := sums[k]
			if s == nil {
				s = new(uint64)
				sums[k] = s
			}
			*s += vs[i]
			n++
		}
		check("lines", n, len(ks))
		return len(ks)
	}}
}

func flowLines(ks, vs []uint64, batch int) ratio.Run {
	f := dataflow.New()
	in, lines := keyedstream.Input[uint64, uint64](dataflow.At[bench](f), "lines")
	n := 0
	keyedstream.Fold(lines, func() uint64 { return 0 }, func(sum *uint64, v uint64) { *sum += v; n++ })
	app := start(f)
	return ratio.Run{Close: func() { stop(app) }, Do: func() int {
		for i := 0; i < len(ks); i += batch {
			if batch == 1 {
				must(in.Send(background, ks[i], vs[i]))
				continue
			}
			end := min(i+batch, len(ks))
			_, err := in.SendBatch(background, ks[i:end], vs[i:end])
			must(err)
		}
		check("lines", n, len(ks))
		return len(ks)
	}}
}

// Puts accepts requests with distinct keys, and reports the result for each.
func Puts() []Job {
	ks := lazily(func() []request { return makeKeys(putRequests, requestKey) })
	vs := lazily(func() []uint64 { return make([]uint64, putRequests) })
	var jobs []Job
	for _, batch := range []int{1, 256} {
		jobs = append(jobs, Job{
			Name: "Puts", Params: fmt.Sprintf("batch=%d", batch), CPU: true,
			Impls: []ratio.Impl{
				{Name: "hand", New: func() ratio.Run { return handPuts(ks(), vs()) }},
				{Name: "millrace", New: func() ratio.Run { return flowPuts(ks(), vs(), batch) }},
			},
		})
	}
	return jobs
}

var errPresent = errors.New("the key is present")

func handPuts(ks []request, vs []uint64) ratio.Run {
	seen := make(map[request]struct{})
	return ratio.Run{Close: func() { clear(seen) }, Do: func() int {
		n, sum := 0, uint64(0)
		put := func(k request, v uint64) error {
			if _, ok := seen[k]; ok {
				return errPresent
			}
			seen[k] = struct{}{}
			sum += v
			n++
			return nil
		}
		for i, k := range ks {
			must(put(k, vs[i]))
		}
		check("requests", n, len(ks))
		return len(ks)
	}}
}

func flowPuts(ks []request, vs []uint64, batch int) ratio.Run {
	f := dataflow.New()
	in, requests := keyedsingleton.Input[request, uint64](dataflow.At[bench](f), "requests")
	n, sum := 0, uint64(0)
	keyedsingleton.Inspect(requests, func(v uint64) { sum += v; n++ })
	app := start(f)
	return ratio.Run{Close: func() { stop(app) }, Do: func() int {
		for i := 0; i < len(ks); i += batch {
			if batch == 1 {
				must(in.Put(background, ks[i], vs[i]))
				continue
			}
			end := min(i+batch, len(ks))
			_, err := in.PutBatch(background, ks[i:end], vs[i:end])
			must(err)
		}
		check("requests", n, len(ks))
		return len(ks)
	}}
}
