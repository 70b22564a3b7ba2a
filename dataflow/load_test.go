package dataflow_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
)

type server struct{ dataflow.Process }

type ticket struct{ sender, n int }

// start starts a flow that is stopped at the end of the test.
func start(t testing.TB, f *dataflow.Flow) *dataflow.App {
	t.Helper()
	app, err := dataflow.Start(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return app
}

// TestSendUnderLoad sends from many goroutines through queues and buffers that are far too small. It catches
// a record that is lost or duplicated when the run token changes hands, and a stall that never resumes.
func TestSendUnderLoad(t *testing.T) {
	for _, senders := range []int{1, 8, 64} {
		for _, opts := range []dataflow.Options{{Queue: 1, Buffer: 1}, {Queue: 3, Buffer: 2}, {Queue: 64, Buffer: 1}, {Queue: 1, Buffer: 64}, {}} {
			for _, readers := range []int{1, 4} {
				t.Run(fmt.Sprintf("%d senders, %d readers, queue %d, buffer %d", senders, readers, opts.Queue, opts.Buffer), func(t *testing.T) {
					load(t, opts, senders, readers, 3000/senders)
				})
			}
		}
	}
}

func load(t *testing.T, opts dataflow.Options, senders, readers, each int) {
	flow := dataflow.NewWithOptions(opts)
	in, shared := dataflow.SharedInput[ticket](dataflow.At[server](flow), "tickets")
	tickets := dataflow.AssumeOrder(shared, "each sender's tickets keep their order, which is tested")
	out := dataflow.Output(dataflow.Map(tickets, func(x ticket) ticket { return x }), "out")
	app := start(t, flow)

	var sending, reading sync.WaitGroup
	for s := range senders {
		sending.Go(func() {
			for n := 0; n < each; {
				if s%2 == 0 {
					if err := in.Send(t.Context(), ticket{s, n}); err != nil {
						t.Error(err)
					}
					n++
					continue
				}
				batch := make([]ticket, min(7, each-n))
				for i := range batch {
					batch[i] = ticket{s, n + i}
				}
				if k, err := in.SendBatch(t.Context(), batch); k != len(batch) || err != nil {
					t.Errorf("SendBatch accepted %d of %d: %v", k, len(batch), err)
				}
				n += len(batch)
			}
		})
	}
	var mu sync.Mutex
	var got []ticket
	for range readers {
		reading.Go(func() {
			var mine []ticket
			for x := range out.All(t.Context()) {
				mine = append(mine, x)
			}
			ordered(t, mine)
			mu.Lock()
			got = append(got, mine...)
			mu.Unlock()
		})
	}
	sending.Wait()
	in.Close()
	if err := app.Wait(); err != nil {
		t.Fatal(err)
	}
	reading.Wait()
	if len(got) != senders*each {
		t.Fatalf("got %d tickets, want %d", len(got), senders*each)
	}
	seen := make(map[ticket]bool)
	for _, x := range got {
		if seen[x] {
			t.Fatalf("%v came twice", x)
		}
		seen[x] = true
	}
}

// ordered checks that the tickets of each sender arrive in the order sent.
func ordered(t *testing.T, got []ticket) {
	last := make(map[int]int)
	for _, x := range got {
		if n, ok := last[x.sender]; ok && x.n <= n {
			t.Errorf("sender %d: %d after %d", x.sender, x.n, n)
		}
		last[x.sender] = x.n
	}
}

// TestPutAwaitUnderLoad makes requests and waits for their responses. Every caller waits for its
// own answer, so waiters receive the run token all the time.
func TestPutAwaitUnderLoad(t *testing.T) {
	for _, callers := range []int{8, 64} {
		for _, queue := range []int{1, 4, 0} {
			for _, async := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d callers, queue %d, async %t", callers, queue, async), func(t *testing.T) {
					flow := dataflow.NewWithOptions(dataflow.Options{Queue: queue})
					in, requests := keyedsingleton.Input[ticket, int](dataflow.At[server](flow), "requests")
					double := keyedsingleton.Map(requests, func(x int) int { return 2 * x })
					if async {
						double = keyedsingleton.MapAsync(requests, func(_ context.Context, x int) int { return 2 * x }, keyedsingleton.AsyncOptions{Concurrency: 3})
					}
					out := keyedsingleton.Output(double, "responses")
					app := start(t, flow)
					var wg sync.WaitGroup
					for c := range callers {
						wg.Go(func() {
							for n := range 2000 / callers {
								k := ticket{c, n}
								if err := in.Put(t.Context(), k, n); err != nil {
									t.Error(err)
								}
								if v, err := out.Take(t.Context(), k); v != 2*n || err != nil {
									t.Errorf("Take(%v) = %d, %v, want %d", k, v, err, 2*n)
								}
							}
						})
					}
					wg.Wait()
					if err := app.Stop(t.Context()); err != nil {
						t.Fatal(err)
					}
					if n := out.Len(); n != 0 {
						t.Errorf("%d entries are left", n)
					}
				})
			}
		}
	}
}

// TestDuplicateUnderLoad puts each key from several goroutines. Exactly one succeeds, and its value is the one stored.
func TestDuplicateUnderLoad(t *testing.T) {
	const keys, callers = 300, 8
	flow := dataflow.NewWithOptions(dataflow.Options{Queue: 2})
	in, requests := keyedsingleton.Input[int, int](dataflow.At[server](flow), "requests")
	out := keyedsingleton.Output(requests, "responses")
	start(t, flow)
	var winner [keys]atomic.Int64
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for k := range keys {
				switch err := in.Put(t.Context(), k, c+1); {
				case err == nil:
					if !winner[k].CompareAndSwap(0, int64(c+1)) {
						t.Errorf("key %d was put twice", k)
					}
				case !errors.Is(err, dataflow.ErrDuplicateKey):
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for k := range keys {
		if v, err := out.Await(t.Context(), k); err != nil || int64(v) != winner[k].Load() {
			t.Errorf("key %d is %d, %v, want %d", k, v, err, winner[k].Load())
		}
	}
}

// TestStopUnderLoad stops the flow while many goroutines send. Every accepted record is handled,
// every other Send returns ErrClosed, and nothing hangs.
func TestStopUnderLoad(t *testing.T) {
	for _, how := range []string{"stop", "close"} {
		t.Run(how, func(t *testing.T) {
			for range 400 {
				stopUnderLoad(t, how)
			}
		})
	}
}

func stopUnderLoad(t *testing.T, how string) {
	flow := dataflow.NewWithOptions(dataflow.Options{Queue: 1, Buffer: 1})
	at := dataflow.At[server](flow)
	in, tickets := dataflow.SharedInput[ticket](at, "tickets")
	other, more := dataflow.SharedInput[ticket](at, "more")
	out := dataflow.Output(dataflow.Merge(tickets, more), "out")
	app := start(t, flow)
	var accepted atomic.Int64
	busy := make(chan struct{}, 6)
	var wg sync.WaitGroup
	for s := range 6 {
		wg.Go(func() {
			port := in
			if s%3 == 0 {
				port = other
			}
			for n := 0; ; n += 3 {
				k, err := port.SendBatch(t.Context(), []ticket{{s, n}, {s, n + 1}, {s, n + 2}})
				accepted.Add(int64(k))
				if n == 9 {
					busy <- struct{}{}
				}
				if err != nil {
					if !errors.Is(err, dataflow.ErrClosed) {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	read := make(chan []ticket)
	go func() {
		var got []ticket
		for x := range out.All(t.Context()) {
			got = append(got, x)
		}
		read <- got
	}()
	<-busy
	if how == "stop" {
		if err := app.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	} else {
		in.Close()
		other.Close()
		if err := app.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	got := <-read
	if int64(len(got)) != accepted.Load() {
		t.Fatalf("%d were accepted and %d came out", accepted.Load(), len(got))
	}
	ordered(t, got)
}

// TestAnswersOverQueue has the answers of calls compete with senders for a full queue until the
// flow is stopped. Answers are accepted without room; senders wait for room.
func TestAnswersOverQueue(t *testing.T) {
	for range 20 {
		flow := dataflow.NewWithOptions(dataflow.Options{Queue: 1})
		at := dataflow.At[server](flow)
		in, requests := keyedsingleton.Input[ticket, int](at, "requests")
		keyedsingleton.MapAsync(requests, func(_ context.Context, x int) int { return x }, keyedsingleton.AsyncOptions{Concurrency: 16})
		batches, tickets := dataflow.SharedInput[ticket](at, "tickets")
		handled := make(map[ticket]bool)
		dataflow.ForEach(dataflow.AssumeOrder(tickets, "they are put into a map"), func(x ticket) { runtime.Gosched(); handled[x] = true })
		app := start(t, flow)
		var wg sync.WaitGroup
		var accepted, asked atomic.Int64
		for s := range 16 {
			wg.Go(func() {
				for n := 0; ; n += 3 {
					k, err := batches.SendBatch(t.Context(), []ticket{{s, n}, {s, n + 1}, {s, n + 2}})
					accepted.Add(int64(k))
					if err != nil {
						return
					}
				}
			})
			wg.Go(func() {
				for n := 0; in.Put(t.Context(), ticket{s, n}, n) == nil; n++ {
					asked.Add(1)
					if n == 30 {
						go app.Stop(t.Context())
					}
				}
			})
		}
		wg.Wait()
		if err := app.Wait(); err != nil {
			t.Fatal(err)
		}
		if int64(len(handled)) != accepted.Load() {
			t.Fatalf("%d were accepted and %d handled", accepted.Load(), len(handled))
		}
	}
}
