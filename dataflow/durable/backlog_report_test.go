package durable

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/singleton"
)

// TestRoom checks how many records a process may have in flight to a partition of another process,
// depending on the last report and its age.
func TestRoom(t *testing.T) {
	opts := Options{MaxLag: Lag{Records: 1000, Bytes: 1 << 20}, Lease: 10 * time.Second}
	said := func(records int) *backlogReport {
		return &backlogReport{upTo: 50, taken: 40, lag: Lag{records, 100 * records}}
	}
	for _, test := range []struct {
		name   string
		said   *backlogReport
		silent time.Duration
		behind int // records sent after the report
		want   int // how many more may be sent
	}{
		{"nothing was heard", nil, time.Hour, 0, fewRecords},
		{"nothing was heard, and some are under way", nil, time.Hour, 60, 4},
		{"nothing waits", said(0), 0, 1, 249},
		{"a quarter of what is free", said(600), 0, 0, 100},
		{"few are left", said(990), 0, 0, 10},
		{"few are left, and they are under way", said(990), 0, 10, 0},
		{"all is filled", said(1000), 0, 0, 0},
		{"more than all is filled", said(1200), 0, 0, 0},
		{"half for what is stale", said(600), 2 * time.Second, 0, 50},
		{"what is stale and filled", said(1000), 2 * time.Second, 0, 0},
		{"older than a lease", said(1000), 11 * time.Second, 0, fewRecords},
		{"older than a lease, and some are under way", said(1000), 11 * time.Second, 64, 0},
		{"the owner takes nothing", &backlogReport{upTo: 50, lag: Lag{1, 1}, stopped: true}, 0, 0, 0},
		{"the owner took nothing a lease ago", &backlogReport{upTo: 50, lag: Lag{1, 1}, stopped: true}, 11 * time.Second, 0, fewRecords},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &partitionGateway{}
				if test.said != nil {
					is, ok := decodeBacklogReport(test.said.encode())
					if !ok || is != *test.said {
						t.Fatalf("the word %+v is read as %+v, %v", *test.said, is, ok)
					}
					w.receiveReport(is)
				}
				time.Sleep(test.silent)
				for i := range test.behind {
					w.backlog.going = w.backlog.going.plus(Lag{1, 100})
					w.sent(Lag{1, 100}, uint64(51+i), nil)
				}
				got := 0
				for got < 2000 && w.backlog.room(Lag{1, 100}, &opts, false) {
					w.backlog.going = w.backlog.going.plus(Lag{1, 100})
					got++
				}
				if got != test.want {
					t.Errorf("%d more records may be sent, want %d", got, test.want)
				}
			})
		})
	}
}

// TestHear receives reports in any order. A record that the owner has counted no longer counts as
// in flight, and a report that is older than the last one is ignored.
func TestHear(t *testing.T) {
	w := &partitionGateway{}
	for i := range 10 {
		w.sent(Lag{1, 10}, uint64(10+i), nil)
	}
	w.receiveReport(backlogReport{upTo: 14, taken: 12, lag: Lag{3, 30}})
	if is := w.backlog.mine(); is != (Lag{5, 50}) {
		t.Errorf("%+v is under way, want 5 records", is)
	}
	w.receiveReport(backlogReport{upTo: 11, taken: 9, lag: Lag{7, 70}})
	if w.backlog.known != (Lag{3, 30}) {
		t.Errorf("an old owner is believed: %+v", w.backlog.known)
	}
	w.receiveReport(backlogReport{upTo: 19, taken: 19})
	if is := w.backlog.known.plus(w.backlog.mine()); is != (Lag{}) {
		t.Errorf("%+v is left when all was taken", is)
	}
	for _, data := range [][]byte{{2, 0, 1, 1, 1, 1}, {1, 0, 1}, nil} {
		if _, ok := decodeBacklogReport(data); ok {
			t.Errorf("%v is taken for a word", data)
		}
	}
}

// TestReject checks that sends return at once when there is no room.
func TestReject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 10
		var held atomic.Pointer[chan struct{}]
		log := journal.NewMemory(journal.MemoryOptions{Hook: func(a journal.Action) journal.Fault {
			if until := held.Load(); until != nil && a.Op == journal.OpCommit && !a.Done {
				return journal.Fault{Until: *until}
			}
			return journal.Fault{}
		}})
		app := start(t, log, gathering(func(int) bool { return false }), Options{Partitions: 1, MaxLag: Lag{Records: most}, Reject: true})
		goOn := make(chan struct{})
		held.Store(&goOn)
		for i := range 2 * most {
			err := app.Ports.in.Send(t.Context(), "k", i)
			var full *BacklogError
			if i < most && err != nil || i >= most && (!errors.As(err, &full) || !errors.Is(err, ErrNoRoom) || !full.Busy() || full.Lag.Records != most) {
				t.Errorf("send %d: %v", i, err)
			}
		}
		close(goOn)
		stop(t, app)
	})
}

type lagPorts struct {
	in  *dataflow.SharedInputPort[int]
	sum *dataflow.SingletonOutputPort[int]
	out *dataflow.OutputPort[int]
}

// lagging adds up and outputs the numbers that it receives, and calls wait before each.
func lagging(wait func()) func(f *dataflow.Flow) lagPorts {
	return func(f *dataflow.Flow) lagPorts {
		in, xs := dataflow.SharedInput[int](dataflow.At[server](f), "in")
		xs = dataflow.Map(xs, func(x int) int {
			wait()
			return x
		})
		return lagPorts{in, singleton.Output(dataflow.Sum(xs), "sum"), dataflow.Output(xs, "out")}
	}
}

// TestBacklogElsewhere sends to a partition whose step does not end, from the process that owns it
// and from two others. The partition accepts as many records as may wait, and 64 more from each
// other process. All accepted records are handled when the step continues.
func TestBacklogElsewhere(t *testing.T) {
	const most = 100
	opts := Options{Log: natslog.Servers(natslog.Options{URLs: []string{natsServer(t)}, Replicas: 1, AssumeDurable: true}), Name: "lag", MaxLag: Lag{Records: most}, Flow: dataflow.Options{Buffer: 10_000}}
	goOn := make(chan struct{})
	build := lagging(func() { <-goOn })
	apps := []*App[lagPorts]{start(t, nil, build, opts)}
	opts.Client = true
	apps = append(apps, start(t, nil, build, opts), start(t, nil, build, opts))
	var accepted atomic.Int64
	var sending sync.WaitGroup
	for _, app := range apps {
		for range 4 {
			sending.Go(func() {
				for {
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
					err := app.Ports.in.Send(ctx, 1)
					cancel()
					if err != nil {
						var full *BacklogError
						if !errors.As(err, &full) || !errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("a send that waits: %v", err)
						}
						return
					}
					accepted.Add(1)
				}
			})
		}
	}
	sending.Wait()
	n := int(accepted.Load())
	if n > most+2*fewRecords {
		t.Errorf("%d records were accepted, want at most %d", n, most+2*fewRecords)
	}
	close(goOn)
	reaches(t, apps[0].Ports.sum, n)
	for i := range 3 * most { // there is room again
		if err := apps[1].Ports.in.Send(t.Context(), 1); err != nil {
			t.Fatalf("send %d: %v", i, err)
		}
	}
	reaches(t, apps[0].Ports.sum, n+3*most)
	for i := range apps {
		stop(t, apps[len(apps)-1-i])
	}
}

// TestStoppedElsewhere sends from a client to a partition whose output nobody reads. The client
// waits, learns the reason, and continues when somebody reads.
func TestStoppedElsewhere(t *testing.T) {
	opts := Options{Log: natslog.Servers(natslog.Options{URLs: []string{natsServer(t)}, Replicas: 1, AssumeDurable: true}), Name: "stopped", Flow: dataflow.Options{Buffer: 2}}
	build := lagging(func() {})
	app := start(t, nil, build, opts)
	opts.Client = true
	client := start(t, nil, build, opts)
	n := 0
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		err := client.Ports.in.Send(ctx, n)
		cancel()
		var full *BacklogError
		if errors.As(err, &full) && full.Stopped {
			break
		}
		if err != nil {
			t.Fatalf("send %d: %v", n, err)
		}
		n++
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	sent := make(chan error, 1)
	go func() { sent <- client.Ports.in.Send(ctx, n) }()
	for i := range n + 1 {
		if x, err := app.Ports.out.Next(ctx); x != i || err != nil {
			t.Fatalf("element %d is %d, %v", i, x, err)
		}
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	stop(t, client)
	stop(t, app)
}
