package jobs

import (
	"fmt"
	"io"

	"github.com/millrace/millrace/bench/internal/ratio"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/recordings"
	"github.com/millrace/millrace/keyedstream"
)

// Recorded compares a flow with and without a recorder, whose writer discards the file. The flows
// are ints through one map; sales, which are structs of a text and a number, folded by key; and the
// calls of the agent protocol, without HTTP and with it, as in a service. The file contains each
// record. So for batches the encoding of the records dominates, and for single records the step.
func Recorded() []Job {
	ints := chainData(func(i int) int { return i })
	sales := make([]sold, len(ints))
	names := make([]string, 512)
	for i := range names {
		names[i] = fmt.Sprintf("article %d", i)
	}
	for i := range sales {
		sales[i] = sold{names[i*7%len(names)], int64(i)}
	}
	var jobs []Job
	for _, batch := range []int{256, 1} {
		jobs = append(jobs,
			Job{
				Name: "Recorded", Params: fmt.Sprintf("work=map/batch=%d", batch), CPU: true,
				Targets: []Target{{What: More, AtMost: 150, Bound: 400}},
				Impls: []ratio.Impl{
					{Name: "plain", New: func() ratio.Run { return recordedInts(ints, batch, false) }},
					{Name: "millrace", New: func() ratio.Run { return recordedInts(ints, batch, true) }},
				},
			},
			Job{
				Name: "Recorded", Params: fmt.Sprintf("work=fold/batch=%d", batch), CPU: true,
				Targets: []Target{{What: More, AtMost: 150, Bound: 400}},
				Impls: []ratio.Impl{
					{Name: "plain", New: func() ratio.Run { return recordedSales(sales, batch, false) }},
					{Name: "millrace", New: func() ratio.Run { return recordedSales(sales, batch, true) }},
				},
			})
	}
	return append(jobs, Job{
		Name: "Recorded", Params: "work=calls/callers=8", CPU: true,
		Targets: []Target{{AtMost: 1.05, Bound: 5}},
		Impls: []ratio.Impl{
			{Name: "plain", New: func() ratio.Run { return makeCalls(newProgramRuntime(false), 8) }},
			{Name: "millrace", New: func() ratio.Run { return makeCalls(newProgramRuntime(true), 8) }},
		},
	}, Job{
		Name: "Recorded", Params: fmt.Sprintf("work=http/callers=%d", httpCallers), CPU: true,
		Targets: []Target{{AtMost: 1.05, Bound: 2}},
		Impls: []ratio.Impl{
			{Name: "plain", New: func() ratio.Run { return protocolRuntime(false) }},
			{Name: "millrace", New: func() ratio.Run { return protocolRuntime(true) }},
		},
	})
}

// A sold is a sale.
type sold struct {
	Article string
	Cents   int64
}

// recordable returns a flow, and a function to call when it has ended.
func recordable(record bool) (*dataflow.Flow, func()) {
	if !record {
		return dataflow.New(), func() {}
	}
	r := recordings.NewRecorder(io.Discard)
	return dataflow.NewWithOptions(dataflow.Options{Recorder: r}), func() { must(r.Close()) }
}

func recordedInts(data []int, batch int, record bool) ratio.Run {
	f, closed := recordable(record)
	in, xs := dataflow.Input[int](dataflow.At[bench](f), "ints")
	steps := newSteps(1)
	t, add := newTotal()
	dataflow.ForEach(dataflow.Map(xs, steps[0]), add)
	app := start(f)
	return mapsRun(data, 1, 1, t, func() { send(in, data, batch) }, func() { stop(app); closed() })
}

func recordedSales(data []sold, batch int, record bool) ratio.Run {
	f, closed := recordable(record)
	in, xs := dataflow.Input[sold](dataflow.At[bench](f), "sales")
	byArticle := dataflow.KeyBy(xs, func(s sold) string { return s.Article })
	last := int64(0)
	keyedstream.Inspect(keyedstream.Scan(byArticle, func() int64 { return 0 }, func(sum *int64, s sold, emit func(int64)) {
		*sum += s.Cents
		emit(*sum)
	}), func(sum int64) { last = sum })
	app := start(f)
	rounds := int64(0)
	return ratio.Run{
		Do: func() int {
			rounds++
			send(in, data, batch)
			want := int64(0)
			for _, s := range data {
				if s.Article == data[len(data)-1].Article {
					want += s.Cents
				}
			}
			check("sum", last, rounds*want)
			return len(data)
		},
		Close: func() { stop(app); closed() },
	}
}
