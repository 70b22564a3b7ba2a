package jobs

import (
	"sync"

	"github.com/millrace/millrace/bench/internal/ratio"
	"github.com/millrace/millrace/dataflow"
)

const (
	producers = 8
	perSender = 150_000
)

// An event is two words.
type event struct{ Key, Value uint64 }

// Ingress takes events from eight producers, none of which waits for an answer, and adds them up.
//
// By hand, each producer collects batches of the same size as in the flow, and sends them as slices
// through a channel or adds them up under a mutex. So single events are compared with single events.
func Ingress() []Job {
	return []Job{{
		Name: "Ingress", Params: "producers=8/batch=1",
		Targets: []Target{{AtMost: 1}},
		Impls: []ratio.Impl{
			{Name: "channel", New: channelIngress},
			{Name: "mutex", New: func() ratio.Run { return mutexIngress(1) }},
			{Name: "millrace", New: func() ratio.Run { return flowIngress(1) }},
		},
	}, {
		Name: "Ingress", Params: "producers=8/batch=64",
		Targets: []Target{{AtMost: 1}, {To: "mutex-64", AtMost: 1}, {To: "channel", AtMost: 1. / 6}},
		Impls: []ratio.Impl{
			{Name: "channel-64", New: builderIngress},
			{Name: "mutex-64", New: func() ratio.Run { return mutexIngress(64) }},
			{Name: "channel", New: channelIngress},
			{Name: "mutex", New: func() ratio.Run { return mutexIngress(1) }},
			{Name: "millrace", New: func() ratio.Run { return flowIngress(64) }},
		},
	}}
}

func produce(send func(p int)) {
	var wg sync.WaitGroup
	for p := range producers {
		wg.Go(func() { send(p) })
	}
	wg.Wait()
}

func channelIngress() ratio.Run {
	return ratio.Run{Do: func() int {
		ch, sum := make(chan event, 1024), make(chan uint64)
		go func() {
			var n uint64
			for e := range ch {
				n += e.Value
			}
			sum <- n
		}()
		produce(func(p int) {
			for i := range uint64(perSender) {
				ch <- event{i, 1}
			}
		})
		close(ch)
		check("sum", <-sum, producers*perSender)
		return producers * perSender
	}}
}

// mutexIngress adds up events under a mutex, batch events at a time.
func mutexIngress(batch int) ratio.Run {
	return ratio.Run{Do: func() int {
		var mu sync.Mutex
		var n uint64
		add := func(es []event) {
			mu.Lock()
			for _, e := range es {
				n += e.Value
			}
			mu.Unlock()
		}
		produce(func(int) {
			built := make([]event, 0, batch)
			for i := range uint64(perSender) {
				if batch == 1 {
					mu.Lock()
					n += event{i, 1}.Value
					mu.Unlock()
					continue
				}
				if built = append(built, event{i, 1}); len(built) == batch {
					add(built)
					built = built[:0]
				}
			}
			add(built)
		})
		check("sum", n, producers*perSender)
		return producers * perSender
	}}
}

// builderIngress sends slices of 64 through a channel.
func builderIngress() ratio.Run {
	return ratio.Run{Do: func() int {
		ch, free, sum := make(chan []event, 64), make(chan []event, 64), make(chan uint64)
		go func() {
			var n uint64
			for batch := range ch {
				for _, e := range batch {
					n += e.Value
				}
				select {
				case free <- batch[:0]:
				default:
				}
			}
			sum <- n
		}()
		produce(func(int) {
			built := make([]event, 0, 64)
			for i := range uint64(perSender) {
				if built = append(built, event{i, 1}); len(built) < 64 {
					continue
				}
				ch <- built
				select {
				case built = <-free:
				default:
					built = make([]event, 0, 64)
				}
			}
			ch <- built
		})
		close(ch)
		check("sum", <-sum, producers*perSender)
		return producers * perSender
	}}
}

func flowIngress(batch int) ratio.Run {
	f := dataflow.New()
	in, events := dataflow.SharedInput[event](dataflow.At[bench](f), "events")
	var sum uint64
	dataflow.ForEach(dataflow.AssumeOrder(events, "a sum is the same in any order"), func(e event) { sum += e.Value })
	app := start(f)
	return ratio.Run{Do: func() int {
		produce(func(p int) {
			built := make([]event, 0, batch) // each producer has its own builder
			for i := range uint64(perSender) {
				if batch == 1 {
					must(in.Send(background, event{i, 1}))
					continue
				}
				if built = append(built, event{i, 1}); len(built) == batch {
					_, err := in.SendBatch(background, built)
					must(err)
					built = built[:0]
				}
			}
			_, err := in.SendBatch(background, built)
			must(err)
		})
		stop(app)
		check("sum", sum, producers*perSender)
		return producers * perSender
	}}
}
