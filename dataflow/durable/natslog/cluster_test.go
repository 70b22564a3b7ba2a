package natslog_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/journal/journaltest"
	"github.com/millrace/millrace/dataflow/durable/natslog"
)

// TestCluster runs the journal tests on three real servers with three replicas.
func TestCluster(t *testing.T) {
	s := startServers(t, 3, "sync_interval: always")
	t.Parallel() // the servers elect their leader while other tests run
	names := 0
	journaltest.Run(t, func(t *testing.T) journal.Log {
		names++
		return open(t, replicated(s, fmt.Sprint("app-", names)))
	})
}

func replicated(s *servers, name string) natslog.Settings {
	return natslog.Settings{Options: natslog.Options{URLs: s.urls("app"), SystemURL: s.urls("sys")[0]}, OpenOptions: journal.OpenOptions{Name: name, Partitions: 32}}
}

// TestLeaderKilled kills the leader while callers append and an owner commits. No
// acknowledged record may be lost, no record may occur twice, and the order must be kept.
// A long run: go test ./dataflow/durable/natslog -run '^TestLeaderKilled$' -clusterkills=20
func TestLeaderKilled(t *testing.T) {
	s := startServers(t, 3, "sync_interval: always")
	t.Parallel() // the servers elect their leader while other tests run
	l := open(t, replicated(s, "app"))
	const callers, after = 6, 20 // appends of each caller after the last kill
	t.Logf("rerun: -seed %d", *seed)
	rng := rand.New(rand.NewPCG(*seed, 1))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var progress atomic.Int64
	var wg sync.WaitGroup

	acked := make([]map[string]uint64, callers)
	for caller := range callers {
		acked[caller] = make(map[string]uint64)
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				record := fmt.Sprint(caller, " ", n)
				if position, err := l.Append(ctx, 0, []byte(record)); err == nil {
					acked[caller][record] = position
					progress.Add(1)
				}
			}
		})
	}
	o := &owner{l: l}
	wg.Go(func() {
		for ctx.Err() == nil {
			o.step(ctx, t)
			progress.Add(1)
		}
	})
	proceed := func(n int64) {
		t.Helper()
		goal := progress.Load() + n
		eventually(t, func(context.Context) error {
			if now := progress.Load(); now < goal {
				return fmt.Errorf("%d appends and commits are missing", goal-now)
			}
			return nil
		})
	}
	for range *clusterKills {
		proceed(100 + rng.Int64N(200))
		stream := []string{"IN_", "ST_"}[rng.IntN(2)] + "app"
		victim := s.leader(t, l.Conn(), stream)
		s.Kill(victim)
		t.Logf("killed %s, which led %s", victim.Name, stream)
		proceed(callers * after)
		s.Start(victim)
		s.healthy(t, l.Conn(), stream)
	}
	proceed(callers * after)
	stop()
	wg.Wait()
	t.Logf("%+v", l.Metrics())

	whole := soon(t)
	r, err := l.Read(whole, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	last, err := r.Last(whole)
	if err != nil || last == 0 {
		t.Fatalf("Last = %d, %v", last, err)
	}
	checkRecords(t, r, last, callers, acked)
	o.check(t, whole)
}

// checkRecords reads all records up to position last and compares them with the
// acknowledged ones.
func checkRecords(t *testing.T, r journal.Reader, last uint64, callers int, acked []map[string]uint64) {
	t.Helper()
	ctx := soon(t)
	next := make([]int, callers)
	read, known := 0, 0
	for at := uint64(0); at < last; {
		messages, err := r.Next(ctx, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			at = m.Position
			for _, record := range m.Records {
				var caller, n int
				if _, err := fmt.Sscan(string(record), &caller, &n); err != nil {
					t.Fatalf("%q: %v", record, err)
				}
				if n < next[caller] {
					t.Errorf("%q comes twice or too late, the next one of its caller is %d", record, next[caller])
				}
				next[caller] = n + 1
				read++
				if position, ok := acked[caller][string(record)]; ok {
					if position != m.Position {
						t.Errorf("%q is at position %d, acknowledged at %d", record, m.Position, position)
					}
					delete(acked[caller], string(record))
					known++
				}
			}
		}
	}
	for _, lost := range acked {
		for record, position := range lost {
			t.Errorf("lost: %q, acknowledged at position %d", record, position)
		}
	}
	if known == 0 {
		t.Error("nothing was read back that was acknowledged, so nothing was checked")
	}
	t.Logf("%d records read back, %d of them acknowledged", read, known)
}

// An owner commits numbered steps and records which were acknowledged.
type owner struct {
	l       *natslog.Log
	fence   uint64
	next    int
	acked   []int
	unknown int
}

func (o *owner) step(ctx context.Context, t *testing.T) {
	fence, err := o.l.Commit(ctx, 0, o.fence, fmt.Append(nil, o.next))
	switch {
	case err == nil:
		o.acked = append(o.acked, o.next)
		o.fence = fence
		o.next++
	case ctx.Err() != nil:
		o.next++
	case errors.Is(err, journal.ErrUnknown), errors.Is(err, journal.ErrFenced):
		// The fence may be from an own commit whose answer was lost and that succeeded
		// after all.
		o.unknown++
		o.next++
		if h, err := o.l.Restore(ctx, 0); err == nil {
			o.fence = h.Fence
		}
	default:
		t.Errorf("Commit: %v", err)
	}
}

// check checks that all acknowledged steps exist, and that each number occurs once and in
// order.
func (o *owner) check(t *testing.T, ctx context.Context) {
	t.Helper()
	h, err := o.l.Restore(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	there := make(map[int]bool)
	last := -1
	for _, s := range h.Steps {
		var n int
		if _, err := fmt.Sscan(string(s.Data), &n); err != nil || n <= last {
			t.Errorf("step %q after %d (%v)", s.Data, last, err)
		}
		last = n
		there[n] = true
	}
	for _, n := range o.acked {
		if !there[n] {
			t.Errorf("lost: step %d", n)
		}
	}
	if len(o.acked) == 0 {
		t.Error("no step was acknowledged, so nothing was checked")
	}
	t.Logf("%d steps restored, %d acknowledged, %d unknown", len(h.Steps), len(o.acked), o.unknown)
}

// TestLazyServer checks that Open refuses servers that do not sync every write, or do not
// report it.
func TestLazyServer(t *testing.T) {
	s := startServers(t, 1, "sync_interval: 2m")
	opts := natslog.Settings{Options: natslog.Options{URLs: s.urls("app"), SystemURL: s.urls("sys")[0], Replicas: 1}, OpenOptions: journal.OpenOptions{Logger: quiet}}
	if l, err := natslog.Open(soon(t), opts); err == nil {
		l.Close()
		t.Error("a server that does not sync always was accepted")
	} else if !strings.Contains(err.Error(), "sync_interval: always") {
		t.Error(err)
	}
	opts.SystemURL = s.urls("app")[0]
	if l, err := natslog.Open(soon(t), opts); err == nil {
		l.Close()
		t.Error("a user without access to the system account was accepted")
	} else if !strings.Contains(err.Error(), "system account") {
		t.Error(err)
	}
	opts.SystemURL = ""
	if l, err := natslog.Open(soon(t), opts); err == nil {
		l.Close()
		t.Error("servers that do not say whether they sync were accepted")
	} else if !strings.Contains(err.Error(), "do not say whether they sync always") {
		t.Error(err)
	}
	opts.AssumeDurable = true
	open(t, opts).Close()
	opts.URLs = []string{strings.Replace(opts.URLs[0], "app:app", "app:wrong", 1)}
	if l, err := natslog.Open(soon(t), opts); err == nil {
		l.Close()
		t.Error("a wrong password was accepted")
	} else if !strings.Contains(err.Error(), "does not let us in") {
		t.Error(err)
	}
}
