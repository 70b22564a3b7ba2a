package jobs

import (
	"sync"

	"github.com/millrace/millrace/bench/internal/ratio"
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// exchanged is FoldEarlyStop on n members of one flow: each member has a part of the
// input, in any order, and sends every vote to the member that owns its key.
func exchanged(all []vote, n, work int) ratio.Run {
	f := dataflow.New()
	members := dataflow.Members[bench](f, n)
	in := make([]*dataflow.InputPort[vote], n)
	parts := make([][]votesAt, n)
	completed := make([]struct {
		n int
		_ [120]byte // keeps the counters of two members off one cache line
	}, n)
	for i, at := range members {
		port, vs := dataflow.Input[vote](at, "votes")
		in[i], parts[i] = port, keyedstream.Divide(dataflow.KeyBy(vs, requestOf()), members)
	}
	for i := range members {
		mine := parts[0][i]
		for _, part := range parts[1:] {
			mine = keyedstream.AssumeOrder(keyedstream.Merge(mine, part[i]), "a quorum is a quorum in any order")
		}
		complete := keyedstream.FoldEarlyStop(mine, func() uint8 { return 0 }, stepOf(work))
		keyedsingleton.Inspect(complete, func(uint8) { completed[i].n++ })
	}
	app := start(f)
	return ratio.Run{Do: func() int {
		var wg sync.WaitGroup
		for i, port := range in {
			wg.Go(func() { send(port, all[len(all)*i/n:len(all)*(i+1)/n], 1024) })
		}
		wg.Wait()
		stop(app) // returns when everything that was sent is done
		total := 0
		for i := range completed {
			total += completed[i].n
		}
		check("requests", total, len(all)/replicas)
		return len(all)
	}}
}

// votesAt are the votes by request, at a member.
type votesAt = dataflow.KeyedStream[request, vote, bench, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]
