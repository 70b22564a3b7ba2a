package durable

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/internal/membership"
	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

type rollingPorts struct {
	votes *dataflow.KeyedInputPort[string, int]
	sums  *dataflow.EntryOutputPort[string, int]
}

// rolling outputs the sum of the first three values of a key. It keeps its state as a T under a name.
func rolling[T any](name string, add func(s *T, v int) (n int), sum func(T) int) func(*dataflow.Flow) rollingPorts {
	return func(f *dataflow.Flow) rollingPorts {
		votes, in := keyedstream.Input[string, int](dataflow.At[members](f), "votes")
		full := dataflow.Named(name, keyedstream.FoldEarlyStop(in, func() (none T) { return none }, func(s *T, v int) bool { return add(s, v) == 3 }))
		return rollingPorts{votes, keyedsingleton.Output(keyedsingleton.Map(full, sum), "sums")}
	}
}

// Three programs. The second continues from the first with an additional field. The third requires a
// Change that says that its state had another name.
var (
	rollingV1  = rollingFirst("sum")
	rollingV2  = rollingSecond()
	rollingBad = rollingFirst("total")
)

func rollingFirst(name string) func(*dataflow.Flow) rollingPorts {
	type sum struct{ N, Sum int }
	return rolling(name, func(s *sum, v int) int { s.N, s.Sum = s.N+1, s.Sum+v; return s.N }, func(s sum) int { return s.Sum })
}

func rollingSecond() func(*dataflow.Flow) rollingPorts {
	type sum struct{ N, Sum, Last int }
	return rolling("sum", func(s *sum, v int) int { s.N, s.Sum, s.Last = s.N+1, s.Sum+v, v; return s.N }, func(s sum) int { return s.Sum })
}

// rollingOptions returns the options of processes that share a flow on a server.
func rollingOptions(url, version, member string) Options {
	return Options{
		Member: member,
		Log:    natslog.Servers(natslog.Options{URLs: []string{url}, Replicas: 1, AssumeDurable: true}),
		Name:   "rolling", Partitions: 6, Version: version, Lease: 3 * time.Second,
	}
}

// A roller sends three values to each key, one after the other, with other keys in between. No send may
// fail.
type roller struct {
	t      *testing.T
	client *App[rollingPorts]
	ctx    context.Context
	cancel context.CancelFunc
	ended  sync.WaitGroup
	sent   chan int // how many keys were begun
}

func startRoller(t *testing.T, url string) *roller {
	opts := rollingOptions(url, "client", "")
	opts.Client = true
	r := &roller{t: t, client: start(t, nil, rollingV1, opts), sent: make(chan int)}
	r.ctx, r.cancel = context.WithTimeout(t.Context(), time.Minute)
	sending, done := context.WithTimeout(t.Context(), time.Minute)
	r.ended.Go(func() {
		defer done()
		defer close(r.sent)
		for n := 0; ; n++ {
			for i, v := range []int{1, 10, 100} {
				if k := n - 10*i; k >= 0 {
					if err := r.client.Ports.votes.SendNumbered(sending, fmt.Sprint("key ", k), uint64(i+1), v); err != nil {
						t.Errorf("key %d: %v", k, err)
						return
					}
				}
			}
			select {
			case r.sent <- n + 1:
			case <-r.ctx.Done():
				return
			}
		}
	})
	return r
}

// more waits until n more keys have begun.
func (r *roller) more(n int) (began int) {
	r.t.Helper()
	for range n + 1 {
		var ok bool
		if began, ok = <-r.sent; !ok {
			r.t.Fatal("the sender has ended")
		}
	}
	return began
}

// check stops the sender and checks the sums of the keys that have three values.
func (r *roller) check() {
	r.t.Helper()
	n := r.more(30)
	r.cancel()
	r.ended.Wait()
	for k := range n - 21 {
		await(r.t, r.client.Ports.sums, fmt.Sprint("key ", k), 111)
	}
	stop(r.t, r.client)
}

// partitionsOf returns the partitions for which is holds.
func partitionsOf(app *App[rollingPorts], is func(*PartitionStatus) bool) (all []int) {
	for _, st := range app.Status() {
		if is(&st) {
			all = append(all, st.Partition)
		}
	}
	return all
}

// shareOf returns the partitions that the hash gives to id among all members.
func shareOf(id string, all ...string) (share []int) {
	for p, owner := range membership.Owners(6, all, nil) {
		if owner == id {
			share = append(share, p)
		}
	}
	return share
}

func running(st *PartitionStatus) bool { return st.State == Running }
func refused(st *PartitionStatus) bool { return st.Refused != nil }
func stopped(st *PartitionStatus) bool { return st.State == Stopped }

// untilPartitions waits until is holds for n of the partitions.
func untilPartitions(t *testing.T, app *App[rollingPorts], n int, is func(*PartitionStatus) bool) {
	t.Helper()
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for len(partitionsOf(app, is)) != n {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-soon.Done():
			t.Fatalf("it holds for %v, want %d: %+v", partitionsOf(app, is), n, app.Status())
		}
	}
}

// heard collects the log output of a flow.
type heard struct {
	mu   sync.Mutex
	text strings.Builder
}

func (h *heard) Write(data []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.Write(data)
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.String()
}

// TestIncompatibleJoins has a program join without a Change that it needs in Options.Upgrade. It takes
// no partition, logs the reason once for each partition that it was given, and nothing stops.
func TestIncompatibleJoins(t *testing.T) {
	url := natsServer(t)
	first := start(t, nil, rollingV1, rollingOptions(url, "v1", "a"))
	second := start(t, nil, rollingV1, rollingOptions(url, "v1", "b"))
	for id, app := range map[string]*App[rollingPorts]{"a": first, "b": second} {
		untilPartitions(t, app, len(shareOf(id, "a", "b")), running)
	}
	r := startRoller(t, url)
	r.more(20)
	var said heard
	opts := rollingOptions(url, "v2", "c") // the hash gives it some of the partitions
	opts.Logger = slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn}))
	bad := start(t, nil, rollingBad, opts)
	given := len(shareOf("c", "a", "b", "c"))
	untilPartitions(t, bad, given, refused)
	r.more(100)
	untilPartitions(t, bad, 6, func(st *PartitionStatus) bool { return st.State == Elsewhere })
	refuses := partitionsOf(bad, refused)
	if given == 0 || len(refuses) != given {
		t.Errorf("it was given %d and refuses %v", given, refuses)
	}
	for _, st := range bad.Status() {
		if st.Refused != nil && (!errors.Is(st.Refused, ErrChanged) || !strings.Contains(st.Refused.Error(), `durable.Was("total", "sum")`)) {
			t.Errorf("partition %d: %v", st.Partition, st.Refused)
		}
	}
	const text = "a partition is left to other processes"
	if n := strings.Count(said.String(), text); n != len(refuses) || !strings.Contains(said.String(), "durable.Was(") {
		t.Errorf("it said %d times that it refuses %v:\n%s", n, refuses, said.String())
	}
	look, err := Programs(t.Context(), rollingOptions(url, "", ""))
	if err != nil {
		t.Fatal(err)
	}
	if look.Done() || look.Newest() != "v2" || len(look.Members) != 3 {
		t.Errorf("%+v", look)
	}
	for _, p := range look.Partitions {
		if p.Version != "v1" || p.Owner == "" || p.Owner == "c" || p.Location != "members" || p.Err != nil ||
			p.Program == "" || p.Program != look.Partitions[0].Program || p.Step == 0 {
			t.Errorf("%+v", p)
		}
	}
	stop(t, first) // the bad program is now asked for more partitions
	r.more(100)
	untilPartitions(t, second, 6, running)
	r.check()
	stop(t, bad)
	stop(t, second)
}

// TestOneWay has a later program take partitions of an earlier one. These partitions do not go back:
// when the later program leaves, they stop with the reason, and the others continue. When the later
// program returns, they continue.
func TestOneWay(t *testing.T) {
	url := natsServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	opts := rollingOptions(url, "v1", "a")
	old := start(t, nil, rollingV1, opts)
	untilPartitions(t, old, 6, running)
	opts = rollingOptions(url, "v2", "b")
	next := start(t, nil, rollingV2, opts)
	r := startRoller(t, url)
	r.more(30)
	changed := shareOf("b", "a", "b")
	untilPartitions(t, next, len(changed), running)
	untilPartitions(t, old, 6-len(changed), running)
	r.check()

	ended, end := context.WithCancel(ctx) // as if it had been killed
	end()
	_ = next.Stop(ended)
	untilPartitions(t, old, len(changed), stopped)
	untilPartitions(t, old, 6-len(changed), running)
	is := make(map[int]bool)
	for _, p := range changed {
		is[p] = true
	}
	client := start(t, nil, rollingV1, func() Options {
		opts := rollingOptions(url, "client", "")
		opts.Client = true
		return opts
	}())
	send := func(key string) (p int, err error) {
		p = client.core.layout.of(0, encoded(t, key))
		return p, client.Ports.votes.Send(ctx, key, 1)
	}
	for k := range 30 {
		key := fmt.Sprint("later ", k)
		p, err := send(key)
		if err != nil { // the record is kept even if no process can handle it
			t.Errorf("partition %d: %v", p, err)
		}
		if !is[p] {
			continue
		}
		var why *PartitionError
		if _, err := client.Ports.sums.Await(ctx, key); !errors.As(err, &why) || why.Partition != p || !strings.Contains(err.Error(), "has gone on: start that one") {
			t.Errorf("partition %d: %v, want that it has stopped", p, err)
		}
	}
	health := old.Health()
	if err := health.Ready(); !errors.Is(err, ErrChanged) {
		t.Errorf("the earlier program is ready: %v", err)
	}

	opts.Member = "c"
	again := start(t, nil, rollingV2, opts)
	untilPartitions(t, old, 0, stopped)
	for k := range 30 {
		if p, err := send(fmt.Sprint("later ", k)); err != nil {
			t.Errorf("partition %d: %v", p, err)
		}
	}
	stop(t, old)
	untilPartitions(t, again, 6, running)
	opts = rollingOptions(url, "v1", "d")
	back := start(t, nil, rollingV1, opts) // a rollback, which is not possible
	for k := range 30 {
		key := fmt.Sprint("later ", k)
		if p, err := send(key); err != nil {
			t.Errorf("partition %d: %v", p, err)
		}
		await(t, client.Ports.sums, key, 3)
	}
	untilPartitions(t, back, 0, running)
	untilPartitions(t, again, 6, running)
	look, err := Programs(ctx, opts)
	if err != nil || look.Done() {
		t.Errorf("%+v, %v", look, err)
	}
	stop(t, back)
	if look, err = Programs(ctx, opts); err != nil || !look.Done() || look.Newest() != "v2" {
		t.Errorf("%+v, %v", look, err)
	}
	stop(t, client)
	stop(t, again)
}

// TestDivergedElsewhere has a later program with a changed function take over from a killed process. It
// cannot replay the last steps, so it refuses these partitions for now. A process of the earlier program
// continues them. When that process leaves with a snapshot, the later program takes them.
func TestDivergedElsewhere(t *testing.T) {
	url := natsServer(t)
	type sum struct{ N, Sum int }
	twice := rolling("sum", func(s *sum, v int) int { s.N, s.Sum = s.N+1, s.Sum+v; return s.N }, func(s sum) int { return 2 * s.Sum })
	first := start(t, nil, rollingV1, rollingOptions(url, "v1", "b"))
	untilPartitions(t, first, 6, running)
	vote := func(app *App[rollingPorts], key string, want int) {
		t.Helper()
		for range 3 {
			if err := app.Ports.votes.Send(t.Context(), key, 1); err != nil {
				t.Fatal(err)
			}
		}
		await(t, app.Ports.sums, key, want)
	}
	later := start(t, nil, twice, rollingOptions(url, "v2", "c"))
	kept := shareOf("b", "b", "c")
	untilPartitions(t, first, len(kept), running)
	untilPartitions(t, later, 6-len(kept), running)
	of := func(key string) int { return first.core.layout.of(0, encoded(t, key)) }
	voted := make(map[int]bool)
	for k := 0; len(voted) < len(kept); k++ {
		if key := fmt.Sprint("first ", k); slices.Contains(kept, of(key)) {
			vote(first, key, 3)
			voted[of(key)] = true
		}
	}
	ended, end := context.WithCancel(t.Context()) // as if it had been killed
	end()
	_ = first.Stop(ended)
	untilPartitions(t, later, len(kept), stopped)
	for _, st := range later.Status() {
		if st.Stopped != nil && (!errors.Is(st.Refused, ErrDiverged) || !strings.Contains(st.Stopped.Error(), `made by version "v1", and made again by version "v2"`)) {
			t.Errorf("partition %d: %v, %v", st.Partition, st.Stopped, st.Refused)
		}
	}
	again := start(t, nil, rollingV1, rollingOptions(url, "v1", "d"))
	untilPartitions(t, later, 0, stopped)
	for k := range 10 {
		if key := fmt.Sprint("second ", k); slices.Contains(kept, of(key)) {
			vote(again, key, 3)
		}
	}
	stop(t, again)
	untilPartitions(t, later, 6, running)
	untilPartitions(t, later, 0, refused)
	for k := range 10 {
		vote(later, fmt.Sprint("third ", k), 6)
	}
	stop(t, later)
}
