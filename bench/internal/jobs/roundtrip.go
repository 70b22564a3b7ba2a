package jobs

import (
	"fmt"
	"sync"
	"time"

	"github.com/millrace/millrace/bench/internal/ratio"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/slice"
)

const (
	trips = 200_000
	items = 1000 // in the price list
)

// A service answers requests. Each id is accepted once.
type service interface {
	ask(id, item uint64) uint64
	close()
}

// answer is the user's function.
//
//go:noinline
func answer() func(uint64) uint64 { return func(item uint64) uint64 { return item*3 + 1 } }

// RoundTrip sends a request and waits for its answer, in one process. In job=map the answer
// is a function of the request. In job=slice it is the price of an item in a list that may
// change.
//
// By hand, a mutex guards the set of accepted ids and the job. Mutex-bare leaves out the
// set, and so does not refuse a repeated id. Sharded has 64 mutexes and sets; the id selects
// one. Millrace-put-take is the flow when a caller puts a request and takes its answer, instead of asking.
func RoundTrip() []Job {
	services := func(job string) []struct {
		name string
		new  func() service
	} {
		flow := newFlowMap
		if job == "slice" {
			flow = newFlowSlice
		}
		return []struct {
			name string
			new  func() service
		}{
			{"mutex", func() service { return &locked{work: newWork(job, true)} }},
			{"mutex-bare", func() service { return &locked{work: newWork(job, false)} }},
			{"sharded", func() service { return newSharded(job) }},
			{"channel", func() service { return newExecutor(newWork(job, true)) }},
			{"millrace", func() service { return flow() }},
			{"millrace-put-take", func() service { return &flow().putTake }},
		}
	}
	var jobs []Job
	for _, job := range []string{"map", "slice"} {
		for _, x := range []struct {
			callers int
			clock   bool
			target  float64
		}{{1, true, 0}, {1, false, 0}, {8, false, 1}, {64, false, 1}} {
			params := fmt.Sprintf("job=%s/callers=%d", job, x.callers)
			if x.clock {
				params += "/latency"
			}
			j := Job{Name: "RoundTrip", Params: params, CPU: x.callers == 1}
			switch {
			case x.clock:
				j.Targets = []Target{{What: P50Ratio, AtMost: 4}, {What: P99, AtMost: 500}}
			case x.callers == 1:
				// The round trip through a slice is at .43.
				j.Targets = []Target{{To: "channel", AtMost: .25, Bound: .7}}
			default:
				j.Targets = []Target{{AtMost: x.target}, {To: "sharded", AtMost: 1.5}}
			}
			for _, s := range services(job) {
				j.Impls = append(j.Impls, ratio.Impl{Name: s.name, New: func() ratio.Run { return ask(s.new(), job, x.callers, x.clock) }})
			}
			jobs = append(jobs, j)
		}
	}
	return append(jobs, OpenRequests()...)
}

// ask sends requests from a number of goroutines, each of which waits for its answer before
// it sends the next one. With clock it measures each trip, at the cost of two readings of
// the clock per trip.
func ask(s service, job string, callers int, clock bool) ratio.Run {
	var lat []time.Duration
	if clock {
		lat = make([]time.Duration, 0, trips)
	}
	want := answer()
	if job == "slice" {
		want = price
	}
	each := trips / callers
	run := ratio.Run{
		Do: func() int {
			var wg sync.WaitGroup
			for c := range callers {
				wg.Go(func() {
					for i := range each {
						id, item := uint64(c*each+i), uint64(i%items)
						var start time.Time
						if clock {
							start = time.Now()
						}
						got := s.ask(id, item)
						if clock {
							lat = append(lat, time.Since(start)) // only with one caller
						}
						if got != want(item) {
							check("answer", got, want(item))
						}
					}
				})
			}
			wg.Wait()
			return each * callers
		},
		Close: s.close,
	}
	if clock {
		run.Lat = func() []time.Duration { return lat }
	}
	return run
}

func price(item uint64) uint64 { return 7*item + 5 }

// A work is the job without any synchronization.
type work struct {
	accepted map[uint64]struct{} // nil if ids may repeat
	prices   map[uint64]uint64   // nil if the answer is a function of the request
	answer   func(uint64) uint64
}

func newWork(job string, once bool) work {
	w := work{answer: answer()}
	if once {
		w.accepted = make(map[uint64]struct{})
	}
	if job == "slice" {
		w.prices = make(map[uint64]uint64)
		for i := range uint64(items) {
			w.prices[i] = price(i)
		}
	}
	return w
}

func (w *work) do(id, item uint64) uint64 {
	if w.accepted != nil {
		if _, ok := w.accepted[id]; ok {
			panic("jobs: id was used before")
		}
		w.accepted[id] = struct{}{}
	}
	if w.prices != nil {
		return w.prices[item]
	}
	return w.answer(item)
}

// A locked service lets the caller do the work under a mutex.
type locked struct {
	mu   sync.Mutex
	work work
}

func (s *locked) ask(id, item uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.work.do(id, item)
}

func (s *locked) close() {}

// A sharded service is many locked ones.
type sharded [64]struct {
	locked
	_ [64]byte // keeps two mutexes off one cache line
}

func newSharded(job string) *sharded {
	s := new(sharded)
	for i := range s {
		s[i].work = newWork(job, true)
	}
	return s
}

func (s *sharded) ask(id, item uint64) uint64 { return s[id*golden>>58].ask(id, item) }

func (s *sharded) close() {}

// An executor does the work on its own goroutine.
type executor struct {
	calls chan *call
	pool  sync.Pool
}

type call struct {
	id, item, answer uint64
	done             chan struct{}
}

func newExecutor(w work) *executor {
	s := &executor{calls: make(chan *call, 1024)}
	s.pool.New = func() any { return &call{done: make(chan struct{}, 1)} }
	go func() {
		for c := range s.calls {
			c.answer = w.do(c.id, c.item)
			c.done <- struct{}{}
		}
	}()
	return s
}

func (s *executor) ask(id, item uint64) uint64 {
	c := s.pool.Get().(*call)
	c.id, c.item = id, item
	s.calls <- c
	<-c.done
	answer := c.answer
	s.pool.Put(c)
	return answer
}

func (s *executor) close() { close(s.calls) }

// A flowService asks for the answer to a request.
type flowService struct {
	putTake
	asker *keyedsingleton.Asker[uint64, uint64, uint64]
}

func newFlowService(app *dataflow.App, in *dataflow.EntryInputPort[uint64, uint64], out *dataflow.EntryOutputPort[uint64, uint64]) *flowService {
	return &flowService{putTake{app, in, out}, keyedsingleton.Ask(in, out)}
}

func (s *flowService) ask(id, item uint64) uint64 {
	answer, err := s.asker.Ask(background, id, item)
	must(err)
	return answer
}

// A putTake is a flowService that puts a request and takes its answer, in two calls.
type putTake struct {
	app *dataflow.App
	in  *dataflow.EntryInputPort[uint64, uint64]
	out *dataflow.EntryOutputPort[uint64, uint64]
}

func (s *putTake) ask(id, item uint64) uint64 {
	must(s.in.Put(background, id, item))
	answer, err := s.out.Take(background, id)
	must(err)
	return answer
}

func (s *putTake) close() { stop(s.app) }

func newFlowMap() *flowService {
	f := dataflow.New()
	in, requests := keyedsingleton.Input[uint64, uint64](dataflow.At[bench](f), "requests")
	out := keyedsingleton.Output(keyedsingleton.Map(requests, answer()), "answers")
	return newFlowService(start(f), in, out)
}

func newFlowSlice() *flowService {
	const why = "a request is answered at the price of the moment"
	f := dataflow.New()
	at := dataflow.At[bench](f)
	changes, changed := keyedstream.Input[uint64, uint64](at, "price changes")
	prices := keyedstream.Fold(changed, func() uint64 { return 0 }, func(p *uint64, now uint64) { *p = now })
	in, requests := keyedsingleton.Input[uint64, uint64](at, "requests")
	tick := slice.At(at)
	priced := keyedsingleton.LookupKeyedSingleton(slice.BatchEntries(tick, requests, why), slice.SnapshotEntries(tick, prices, why))
	answers := keyedsingleton.Map(slice.EmitEntries(priced),
		func(p dataflow.Pair[uint64, dataflow.Maybe[uint64]]) uint64 { return p.Second.Value })
	out := keyedsingleton.Output(answers, "answers")
	s := newFlowService(start(f), in, out)
	for i := range uint64(items) {
		must(changes.Send(background, i, price(i)))
	}
	return s
}
