package durable

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/slice"
)

type statusPorts struct {
	put     *dataflow.EntryInputPort[int, int]
	kept    *dataflow.EntryOutputPort[int, int]
	all     *dataflow.OutputPort[int]
	another *dataflow.EntryInputPort[int, int]
}

// statusFlow has a location with partitions and one without. The calls of the latter wait
// until release is closed.
func statusFlow(release <-chan bool) func(f *dataflow.Flow) statusPorts {
	return func(f *dataflow.Flow) (p statusPorts) {
		at := dataflow.At[members](f)
		put, in := keyedsingleton.Input[int, int](at, "put")
		p.put = put
		p.kept = keyedsingleton.Output(in, "kept")
		p.all = dataflow.Output(keyedsingleton.Values(in), "all")
		keyedsingleton.After(in, time.Hour, "nobody waits for it")
		keys := slice.Emit(keyedsingleton.Keys(slice.BatchEntries(slice.At(at), in, "each run is counted")))
		dataflow.ForEach(dataflow.AssumeOrder(keys, "nothing is done with it"), func(int) {})
		another, e := keyedsingleton.Input[int, int](dataflow.At[server](f), "another")
		p.another = another
		keyedsingleton.MapAsync(e, func(ctx context.Context, x int) int {
			select {
			case <-release:
			case <-ctx.Done():
			}
			return x
		}, keyedsingleton.AsyncOptions{Concurrency: 2})
		return p
	}
}

// sums holds totals over partitions.
type sums struct {
	records, steps, runs, given uint64
	unread, kept, timers        int
	log                         uint64
}

func sumOf(all []PartitionStatus) (s sums) {
	for _, st := range all {
		s.records += st.Records
		s.steps += st.Step
		s.log += st.Position
		s.timers += st.Timers
		for _, r := range st.Slices {
			s.runs += r.Runs
		}
		for _, out := range st.Outputs {
			if out.Port == "kept" {
				s.kept += out.Unread
			} else {
				s.unread += out.Unread
				s.given += out.Given
			}
		}
	}
	return s
}

// An alone log has the methods of a shared log, but no other process answers.
type alone struct{ *journal.Memory }

func (alone) Join(context.Context, journal.MemberOptions) (journal.Member, error) {
	return nil, errors.ErrUnsupported
}
func (alone) Ask(context.Context, int, []byte) ([]byte, error) { return nil, errors.ErrUnsupported }
func (alone) Answer(int, func([]byte) []byte) (func(), error)  { return nil, errors.ErrUnsupported }
func (alone) Announce(int, []byte) error                       { return nil }
func (alone) Announced(func(int, []byte)) error                { return nil }

// TestStatus checks the status of several partitions, before and after a restart, and that
// of a process that owns none.
func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan bool)
		build := statusFlow(release)
		opts := Options{Partitions: 3, Flow: dataflow.Options{Count: true}, SnapshotAge: time.Hour}
		log := journal.NewMemory(journal.MemoryOptions{Partitions: 4})
		app := start(t, log, build, opts)
		client := start(t, alone{log.Reopen()}, build, Options{Partitions: 3, Client: true})
		began := time.Now()
		const n = 12
		for k := range n {
			if err := app.Ports.put.Put(t.Context(), k, k); err != nil {
				t.Fatal(err)
			}
		}
		for range 5 {
			app.Ports.all.Next(t.Context())
		}
		app.Ports.kept.Take(t.Context(), 3)
		for k := range 5 {
			app.Ports.another.Put(t.Context(), k, k)
		}
		time.Sleep(time.Minute)
		check := func(when string, records uint64) {
			t.Helper()
			all := app.Status()
			if len(all) != 4 {
				t.Fatalf("%s: %d partitions", when, len(all))
			}
			for p, st := range all {
				name := "members"
				if p == 3 {
					name = "server"
				}
				if st.Partition != p || st.Name != name || !st.Owned || st.Owner != "" || st.Stale || st.Ended || st.Step == 0 || !st.Time.Equal(time.Now()) {
					t.Errorf("%s: %+v", when, st)
				}
				if st.Timers > 0 && (st.NextTimer.Before(began.Add(time.Hour)) || st.NextTimer.After(began.Add(time.Hour+time.Second))) {
					t.Errorf("%s: the next timer is at %v, it is %v", when, st.NextTimer, time.Now())
				}
			}
			s, calls := sumOf(all[:3]), all[3]
			got := fmt.Sprintln(s.unread, s.given, s.kept, s.timers, calls.Calls, calls.CallsWaiting)
			// The fifth element counts as unread until the reader calls Next again.
			if want := fmt.Sprintln(n-4, n, n-1, n, 2, 3); got != want {
				t.Errorf("%s: unread, given, kept, timers, calls: %s, want %s", when, got, want)
			}
			if s.records < records || records > 0 && s.runs == 0 || s.log < n || s.steps < 3 {
				t.Errorf("%s: %+v", when, s)
			}
		}
		check("at first", n)
		before := sumOf(app.Status()[:3])
		for p, st := range client.Status() {
			if st.Owned || st.Steps != 0 || st.Step != 0 || st.Name == "" || st.Partition != p || st.Stale {
				t.Errorf("at the client: %+v", st)
			}
		}
		stop(t, client)
		stop(t, app)
		for _, st := range app.Status() {
			if !st.Ended || st.Owned || st.Stale || st.Step == 0 {
				t.Errorf("after Stop: %+v", st)
			}
		}
		log = log.Reopen()
		app = start(t, log, build, opts)
		time.Sleep(time.Minute)
		check("after the restart", 0)
		if after := sumOf(app.Status()[:3]); after.steps < before.steps || after.log < before.log {
			t.Errorf("after the restart: %+v, before %+v", after, before)
		}
		close(release)
		synctest.Wait()
		if st := app.Status()[3]; st.Calls+st.CallsWaiting != 0 {
			t.Errorf("%d calls run and %d wait after they have returned", st.Calls, st.CallsWaiting)
		}
		stop(t, app)
	})
}

// TestStatusOfABusyPartition checks the status while a function blocks.
func TestStatusOfABusyPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, release := make(chan bool), make(chan bool)
		app := start(t, journal.NewMemory(journal.MemoryOptions{}), func(f *dataflow.Flow) *dataflow.InputPort[int] {
			in, s := dataflow.Input[int](dataflow.At[server](f), "in")
			dataflow.ForEach(s, func(x int) {
				if x == 1 {
					close(entered)
					<-release
				}
			})
			return in
		}, Options{})
		app.Ports.Send(t.Context(), 0)
		synctest.Wait()
		before := app.Status()[0]
		if before.Stale || before.Records != 1 {
			t.Errorf("idle: %+v", before)
		}
		app.Ports.Send(t.Context(), 1)
		<-entered
		began := time.Now()
		for range 2 {
			if st := app.Status()[0]; !st.Stale || !st.Owned || st.Records != 1 || st.Position != before.Position {
				t.Errorf("busy: %+v", st)
			}
		}
		if d := time.Since(began); d > 20*time.Millisecond {
			t.Errorf("two calls took %v", d)
		}
		close(release)
		synctest.Wait()
		if st := app.Status()[0]; st.Stale || st.Records != 2 {
			t.Errorf("afterwards: %+v", st)
		}
		stop(t, app)
	})
}

// TestCallsThatStopAPartition has calls that do not return. Every call that waits for the
// partition returns an error that names them. OnBlocked is called once.
func TestCallsThatStopAPartition(t *testing.T) {
	type ports struct {
		put    *dataflow.EntryInputPort[int, int]
		in     *dataflow.InputPort[int]
		out    *dataflow.EntryOutputPort[int, int]
		others *dataflow.OutputPort[int]
	}
	synctest.Test(t, func(t *testing.T) {
		var warned warnings
		app := start(t, journal.NewMemory(journal.MemoryOptions{}), func(f *dataflow.Flow) ports {
			at := dataflow.At[server](f)
			put, e := keyedsingleton.Input[int, int](at, "put")
			in, s := dataflow.Input[int](at, "in")
			hang := func(ctx context.Context, x int) int { <-ctx.Done(); return x }
			out := keyedsingleton.Output(keyedsingleton.MapAsync(e, hang, keyedsingleton.AsyncOptions{Concurrency: 2}), "out")
			return ports{put, in, out, dataflow.Output(s, "others")}
		}, Options{Flow: dataflow.Options{Queue: 2, OnBlocked: warned.add}})
		soon := func() context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			t.Cleanup(cancel)
			return ctx
		}
		for k := range 5 {
			if err := app.Ports.put.Put(t.Context(), k, k); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait() // Put returns shortly before the calls of its step begin
		began := time.Now()
		errs := map[string]error{"Put": app.Ports.put.Put(soon(), 9, 9), "Send": app.Ports.in.Send(soon(), 9)}
		_, errs["SendBatch"] = app.Ports.in.SendBatch(soon(), []int{9, 9})
		_, errs["Await"] = app.Ports.out.Await(soon(), 0)
		_, errs["Take"] = app.Ports.out.Take(soon(), 0)
		_, errs["Next"] = app.Ports.others.Next(soon())
		for what, err := range errs {
			if err == nil || !strings.HasPrefix(err.Error(), "dataflow: location server is stopped: 3 calls of keyedsingleton.MapAsync (status_test.go:") || !strings.HasSuffix(err.Error(), ": context deadline exceeded") {
				t.Errorf("%s: %v", what, err)
			}
		}
		if told := warned.take(); len(told) != 1 || !strings.HasPrefix(told[0], "dataflow: location server is stopped: 3 calls of") {
			t.Errorf("told %q", told)
		}
		if st := app.Status()[0]; st.Blocked == nil || !st.Blocked.Calls || !st.Since.Equal(began) || st.CallsWaiting != 3 || st.Calls != 2 {
			t.Errorf("%+v: %v", st, st.Blocked)
		}
		stop(t, app)
	})
}
