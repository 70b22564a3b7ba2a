package jobs

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/millrace/millrace/bench/internal/ratio"
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedstream"
)

const (
	orders      = 1_000_000
	orderParts  = 4
	openOrders  = 50_000
	patient     = time.Hour        // for orders that receive all their parts
	impatient   = time.Millisecond // for orders that receive one part
	patience    = keyedstream.Timer(0)
	givenUp     = uint64(1) << 63
	machineKeys = 100_000
)

// A part is a part of an order. Each part resets the time after which the order is given up.
type part struct {
	Order uint64
	N     uint64
	Wait  time.Duration
}

// parts returns the parts of some orders, mixed so that some orders are open at the same time.
// One order in eight has only one part and a short time: it is given up, at some time.
func parts() []part {
	r := rand.New(rand.NewPCG(7, 8))
	var all []part
	for i := range uint64(orders) {
		if i%8 == 0 {
			all = append(all, part{golden * i, i, impatient})
			continue
		}
		for j := range uint64(orderParts) {
			all = append(all, part{golden * i, i + j, patient})
		}
	}
	for i := range all {
		j := min(i+r.IntN(orderParts*openOrders), len(all)-1)
		all[i], all[j] = all[j], all[i]
	}
	return all
}

// An order is the state of a machine for one order.
type order struct {
	parts int
	sum   uint64
}

// add adds a part and reports whether it is the last.
func (o *order) add(p part) bool {
	o.parts++
	o.sum += p.N
	return o.parts == orderParts
}

// A shipping is the outcome of orders: their number, and a sum over the orders and their outcomes
// that does not depend on the order of completion.
type shipping struct {
	orders int
	sum    uint64
}

func (s *shipping) add(k, what uint64) {
	s.orders++
	s.sum += (k ^ what*golden) * golden
}

// Machines has a state machine for each order, which ends when all its parts have arrived, or
// when none has arrived for some time.
func Machines() []Job {
	all := lazily(parts)
	want := lazily(func() shipping { return shipped(all()) })
	var jobs []Job
	for _, batch := range []int{256, 1} {
		jobs = append(jobs, Job{
			Name: "Machine", Params: fmt.Sprintf("timers=1/batch=%d", batch), CPU: true, Slow: true,
			Targets: []Target{{AtMost: 1.3}, {To: "heap", AtMost: 1}},
			Impls: []ratio.Impl{
				{Name: "hand", New: func() ratio.Run { return handOrders(all(), batch, newOrderWheel(), want()) }},
				{Name: "heap", New: func() ratio.Run { return handOrders(all(), batch, new(orderHeap), want()) }},
				{Name: "millrace", New: func() ratio.Run { return flowOrders(all(), batch, want()) }},
			},
		})
	}
	keys := lazily(func() []uint64 {
		r := rand.New(rand.NewPCG(9, 10))
		ks := make([]uint64, 3_000_000)
		for i := range ks {
			ks[i] = golden * r.Uint64N(machineKeys)
		}
		return ks
	})
	ranks := lazily(func() int { return ranksOf(keys()) })
	for _, batch := range []int{256, 1} {
		jobs = append(jobs, Job{
			Name: "Machine", Params: fmt.Sprintf("timers=0/batch=%d", batch), CPU: true, Slow: true,
			Targets: []Target{{To: "scan", AtMost: 1.2}},
			Impls: []ratio.Impl{
				{Name: "hand", New: func() ratio.Run { return handRanks(keys(), ranks()) }},
				{Name: "scan", New: func() ratio.Run { return flowRanks(keys(), batch, scanRanks, ranks()) }},
				{Name: "machine", New: func() ratio.Run { return flowRanks(keys(), batch, machineRanks, ranks()) }},
				{Name: "millrace", New: func() ratio.Run { return flowRanks(keys(), batch, timedRanks, ranks()) }},
			},
		})
	}
	return jobs
}

// shipped returns the outcome of the orders, without a clock.
func shipped(all []part) (s shipping) {
	open := make(map[uint64]order)
	for _, p := range all {
		o := open[p.Order]
		if o.add(p) {
			s.add(p.Order, o.sum)
		}
		open[p.Order] = o
	}
	for k, o := range open {
		if o.parts < orderParts {
			s.add(k, o.sum|givenUp)
		}
	}
	return s
}

func flowOrders(all []part, batch int, want shipping) ratio.Run {
	type turn = keyedstream.TimedTurn[uint64, uint64, struct{}]
	f := dataflow.New()
	in, ps := dataflow.Input[part](dataflow.At[bench](f), "parts")
	ended, _ := keyedstream.TimedMachine(dataflow.KeyBy(ps, func(p part) uint64 { return p.Order }), func() order { return order{} },
		func(o *order, p part, do *turn) {
			if o.add(p) {
				do.Emit(o.sum)
				do.Forget()
				return
			}
			do.After(patience, p.Wait)
		},
		func(o *order, _ keyedstream.Timer, do *turn) {
			do.Emit(o.sum | givenUp)
			do.Forget()
		}, "an order gets all its parts or is given up")
	var got shipping
	keyedstream.InspectWithKey(ended, got.add)
	app := start(f)
	return ratio.Run{Do: func() int {
		send(in, all, batch)
		in.Close()
		must(app.Wait())
		check("orders", got, want)
		return len(all)
	}}
}

// A handOrder is an order with its timer, which is in a list of a wheel or at a place in a heap.
type handOrder struct {
	order
	key        uint64
	due        int64
	next, prev *handOrder
	place      int
}

// orderTimers are the timers of the orders by hand. Expire removes the timers that it passes to
// f.
type orderTimers interface {
	set(o *handOrder, at int64)
	stop(o *handOrder)
	expire(now int64, f func(*handOrder))
	len() int
}

// handOrders has a map of orders. Before each batch it reads the clock and handles what is due,
// as a flow does.
func handOrders(all []part, batch int, timers orderTimers, want shipping) ratio.Run {
	return ratio.Run{Do: func() int {
		open := make(map[uint64]*handOrder)
		var got shipping
		begin := time.Now()
		late := func(o *handOrder) {
			got.add(o.key, o.sum|givenUp)
			delete(open, o.key)
		}
		for at := 0; at < len(all); at += batch {
			now := int64(time.Since(begin))
			timers.expire(now, late)
			for _, p := range all[at:min(at+batch, len(all))] {
				o := open[p.Order]
				if o == nil {
					o = &handOrder{key: p.Order, place: -1}
					open[p.Order] = o
				}
				if o.add(p) {
					got.add(p.Order, o.sum)
					timers.stop(o)
					delete(open, p.Order)
					continue
				}
				timers.set(o, now+int64(p.Wait))
			}
		}
		for timers.len() > 0 {
			<-time.After(impatient)
			timers.expire(int64(time.Since(begin)), late)
		}
		check("orders", got, want)
		return len(all)
	}}
}

// An orderWheel holds the orders by the millisecond in which they are due, in rings of lists.
type orderWheel struct {
	lists [4096]handOrder
	tick  int64 // the time up to which it has looked
	n     int
}

const tickOfWheel = int64(time.Millisecond)

func newOrderWheel() *orderWheel {
	w := new(orderWheel)
	for i := range w.lists {
		w.lists[i].next, w.lists[i].prev = &w.lists[i], &w.lists[i]
	}
	return w
}

func (w *orderWheel) len() int { return w.n }

func (w *orderWheel) stop(o *handOrder) {
	if o.next != nil {
		o.next.prev, o.prev.next = o.prev, o.next
		o.next, o.prev = nil, nil
		w.n--
	}
}

func (w *orderWheel) set(o *handOrder, at int64) {
	w.stop(o)
	head := &w.lists[(at/tickOfWheel+1)%int64(len(w.lists))]
	o.due, o.next, o.prev = at, head, head.prev
	head.prev.next, head.prev = o, o
	w.n++
}

func (w *orderWheel) expire(now int64, f func(*handOrder)) {
	for ; w.tick < now/tickOfWheel; w.tick++ {
		head := &w.lists[(w.tick+1)%int64(len(w.lists))]
		for o := head.next; o != head; {
			next := o.next
			if o.due <= now {
				w.stop(o)
				f(o)
			}
			o = next
		}
	}
}

// An orderHeap holds the orders by the time at which they are due.
type orderHeap []*handOrder

func (h orderHeap) Len() int           { return len(h) }
func (h orderHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h orderHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *orderHeap) Push(x any) {
	o := x.(*handOrder)
	o.place = len(*h)
	*h = append(*h, o)
}

func (h *orderHeap) Pop() any {
	o := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = nil
	*h = (*h)[:len(*h)-1]
	o.place = -1
	return o
}

func (h *orderHeap) len() int { return len(*h) }

func (h *orderHeap) stop(o *handOrder) {
	if o.place >= 0 {
		heap.Remove(h, o.place)
	}
}

func (h *orderHeap) set(o *handOrder, at int64) {
	o.due = at
	if o.place >= 0 {
		heap.Fix(h, o.place)
	} else {
		heap.Push(h, o)
	}
}

func (h *orderHeap) expire(now int64, f func(*handOrder)) {
	for len(*h) > 0 && (*h)[0].due <= now {
		f(heap.Pop(h).(*handOrder))
	}
}

// A ranked stream has, for each element, its rank among the elements of its key.
type ranked = dataflow.KeyedStream[uint64, int, bench, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]

type rankable = dataflow.KeyedStream[uint64, uint64, bench, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]

// ranksOf returns the sum of the ranks of keys.
func ranksOf(keys []uint64) (sum int) {
	counts := make(map[uint64]int)
	for _, k := range keys {
		counts[k]++
	}
	for _, n := range counts {
		sum += n * (n + 1) / 2
	}
	return sum
}

func handRanks(keys []uint64, want int) ratio.Run {
	return ratio.Run{Do: func() int {
		ranks := make(map[uint64]int)
		sum := 0
		for _, k := range keys {
			n := ranks[k] + 1
			ranks[k] = n
			sum += n
		}
		check("ranks", sum, want)
		return len(keys)
	}}
}

func flowRanks(keys []uint64, batch int, rank func(rankable) ranked, want int) ratio.Run {
	f := dataflow.New()
	in, ks := dataflow.Input[uint64](dataflow.At[bench](f), "keys")
	sum := 0
	keyedstream.Inspect(rank(dataflow.KeyBy(ks, func(k uint64) uint64 { return k })), func(n int) { sum += n })
	app := start(f)
	return ratio.Run{Do: func() int {
		send(in, keys, batch)
		in.Close()
		must(app.Wait())
		check("ranks", sum, want)
		return len(keys)
	}}
}

func zero() int { return 0 }

func scanRanks(ks rankable) ranked {
	return keyedstream.Scan(ks, zero, func(n *int, _ uint64, emit func(int)) {
		*n++
		emit(*n)
	})
}

func machineRanks(ks rankable) ranked {
	ranks, _ := keyedstream.Machine(ks, zero, func(n *int, _ uint64, do *keyedstream.Turn[uint64, int, struct{}]) {
		*n++
		do.Emit(*n)
	})
	return ranks
}

func timedRanks(ks rankable) ranked {
	type turn = keyedstream.TimedTurn[uint64, int, struct{}]
	ranks, _ := keyedstream.TimedMachine(ks, zero, func(n *int, _ uint64, do *turn) {
		*n++
		do.Emit(*n)
	}, func(*int, keyedstream.Timer, *turn) {}, "no timer is set")
	return ranks
}
