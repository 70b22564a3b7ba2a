package jobs

import (
	"fmt"

	"slices"

	"github.com/millrace/millrace/bench/internal/ratio"
	"github.com/millrace/millrace/internal/keyed"
)

const tableRequests = 400_000

// Table is the cost of the framework: FoldEarlyStop and First compared with loops
// over the engine's own table that call the same functions, hash a batch at once
// and touch sixteen keys before they put them. The loops have no inputs, steps or
// columns.
func Table() []Job {
	all := lazily(func() []vote { return votes(tableRequests, 1000) })
	keys := lazily(func() []request { return makeKeys(tableRequests, requestKey) })
	var jobs []Job
	for _, batch := range []int{256, 64, 16} {
		jobs = append(jobs, Job{
			Name: "Table", Params: fmt.Sprintf("job=FoldEarlyStop/batch=%d", batch), CPU: true,
			Targets: []Target{{AtMost: 1.15}},
			Impls: []ratio.Impl{
				{Name: "table", New: func() ratio.Run { return tableQuorum(all(), batch) }},
				{Name: "millrace", New: func() ratio.Run { return flowQuorum(all(), batch, tableRequests) }},
			},
		})
	}
	for _, batch := range []int{256, 16} {
		jobs = append(jobs, Job{
			Name: "Table", Params: fmt.Sprintf("job=First/key=struct/batch=%d", batch), CPU: true,
			Targets: []Target{{AtMost: 1.15}},
			Impls: []ratio.Impl{
				{Name: "table", New: func() ratio.Run { return tableFirst(keys(), batch) }},
				{Name: "millrace", New: func() ratio.Run { return sendFirst(keys(), tableRequests, batch) }},
			},
		})
	}
	return jobs
}

// columns are the keys and hashes of a batch, reused from one batch to the next.
type columns struct {
	k []request
	h []uint64
}

// fill sets the keys of n elements and hashes them.
func (c *columns) fill(n int, key func(i int) request, hash *keyed.Hasher[request]) {
	c.k, c.h = c.k[:0], slices.Grow(c.h[:0], n)[:n]
	for i := range n {
		c.k = append(c.k, key(i))
	}
	hash.HashAll(c.k, c.h)
}

func tableQuorum(all []vote, batch int) ratio.Run {
	hash, table := keyed.HasherOf[request](), keyed.NewTable[request, ballot]()
	key, step := requestOf(), stepOf(0)
	n := 0
	var c columns
	return ratio.Run{Close: table.Clear, Do: func() int {
		for part := range slices.Chunk(all, batch) {
			c.fill(len(part), func(i int) request { return key(part[i]) }, hash)
			for from := 0; from < len(part); from += 16 {
				to := min(from+16, len(part))
				table.Touch(c.h[from:to])
				for i := from; i < to; i++ {
					s, _ := table.Put(c.k[i], c.h[i])
					if s.done {
						continue
					}
					if step(&s.voted, part[i]) {
						s.done = true
						n++
					}
				}
			}
		}
		check("requests", n, len(all)/replicas)
		return len(all)
	}}
}

func tableFirst(keys []request, batch int) ratio.Run {
	hash, table := keyed.HasherOf[request](), keyed.NewTable[request, struct{}]()
	n := 0
	var c columns
	return ratio.Run{Close: table.Clear, Do: func() int {
		for part := range slices.Chunk(keys, batch) {
			c.fill(len(part), func(i int) request { return part[i] }, hash)
			for from := 0; from < len(part); from += 16 {
				to := min(from+16, len(part))
				table.Touch(c.h[from:to])
				for i := from; i < to; i++ {
					if _, added := table.Put(c.k[i], c.h[i]); added {
						n++
					}
				}
			}
		}
		check("keys", n, len(keys))
		return len(keys)
	}}
}
