package durable

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/logdriven"
	"github.com/millrace/millrace/keyedstream"
)

// A posting adds to some accounts: N accounts from the number From on, and those in Of.
type posting struct {
	From, N int
	Of      []int
}

// A balance is the state of an account.
type balance struct{ Count, Sum, At int64 }

type accountsPorts struct {
	in    *dataflow.InputPort[posting]
	every *dataflow.OutputPort[int64]
}

func account(i int) string { return "account-" + strconv.Itoa(1_000_000_000+7*i) }

// accounts keeps the balance of each account and outputs every hundredth change of one.
func accounts(f *dataflow.Flow) accountsPorts {
	in, postings := dataflow.Input[posting](dataflow.At[server](f), "in")
	each := dataflow.FlatMap(postings, func(p posting, emit func(int)) {
		for i := range p.N {
			emit(p.From + i)
		}
		for _, i := range p.Of {
			emit(i)
		}
	})
	every := keyedstream.Scan(dataflow.KeyBy(each, account), func() balance { return balance{} }, func(b *balance, i int, emit func(int64)) {
		b.Count, b.Sum, b.At = b.Count+1, b.Sum+int64(i), int64(i)*3
		if b.Count%100 == 0 {
			emit(b.Sum)
		}
	})
	return accountsPorts{in, dataflow.Output(keyedstream.Values(every), "every")}
}

// post sends postings and returns when they have been handled.
func post(t testing.TB, app *App[accountsPorts], ps ...posting) {
	t.Helper()
	if _, err := app.Ports.in.SendBatch(t.Context(), ps); err != nil {
		t.Fatal(err)
	}
	at := app.core.gateway.partitions[0].acknowledged.Load()
	for app.core.gateway.partitions[0].takenUpTo() < at {
		time.Sleep(time.Millisecond) // in a bubble, or a benchmark
	}
}

// filled returns postings to n accounts.
func filled(n int) (ps []posting) {
	const some = 1000
	for from := 0; from < n; from += some {
		ps = append(ps, posting{From: from, N: min(some, n-from)})
	}
	return ps
}

// TestCutsWriteWhatChanged checks that the cost of a snapshot depends on what has changed, and not on the size of the state.
func TestCutsWriteWhatChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var written atomic.Int64
		log := journal.NewMemory(journal.MemoryOptions{Hook: func(a journal.Action) (none journal.Fault) {
			if a.Done && (a.Op == journal.OpPiece || a.Op == journal.OpSnapshot) {
				written.Add(int64(a.Size))
			}
			return none
		}})
		app := start(t, log, accounts, Options{})
		post(t, app, filled(100_000)...)
		time.Sleep(5 * time.Minute)
		if n := written.Swap(0); n < 3_000_000 {
			t.Fatalf("the first snapshots have %d bytes", n)
		}
		for i := range 60 {
			post(t, app, posting{Of: []int{i * 1009}})
			time.Sleep(time.Second)
		}
		time.Sleep(2 * time.Minute)
		if n := written.Load(); n == 0 || n > 32<<10 {
			t.Errorf("snapshots after 60 changes have %d bytes, want at most 32 KiB", n)
		}
		stop(t, app)
	})
}

// TestSnapshotIsDue checks the limits in Options: snapshots must not be made too often, nor leave more history after them than
// documented.
func TestSnapshotIsDue(t *testing.T) {
	const bytes, age, little = 1 << 20, time.Minute, 64<<10 + 4*1000
	o := &owner{core: &core{opts: Options{SnapshotBytes: bytes, SnapshotAge: age}}, before: new(cut)}
	o.stored.last.data = make([]byte, 1000)
	failed := errors.New("the disk is gone")
	for _, c := range []struct {
		unsaved int
		age     time.Duration
		err     error // of the last snapshot, which had bytes of history after it
		behind  int
		want    bool
	}{
		{bytes - 1, 0, nil, 0, false}, {bytes, 0, nil, 0, true},
		{1, age - 1, nil, 0, false}, {1, age, nil, 0, true}, {0, age, nil, bytes, false},
		{little, age/12 - 1, nil, 0, false}, {little, age / 12, nil, 0, true}, {little - 1, age / 12, nil, 0, false},
		{0, age, failed, 1, true}, {0, age - 1, failed, 1, false}, {0, age, failed, 0, false},
		{0, age / 12, failed, bytes, true}, {bytes, age/12 - 1, failed, bytes, false},
		{little - 1, age / 12, failed, 1, true}, {little - 2, age / 12, failed, 1, false},
	} {
		o.before.err, o.before.behind = c.err, c.behind
		if o.unsaved = c.unsaved; o.due(c.age) != c.want {
			t.Errorf("%d bytes, %v after the last one, which had %d and the error %v: %v", c.unsaved, c.age, c.behind, c.err, !c.want)
		}
	}
}

// A brittleLog saves no snapshot while it is broken.
type brittleLog struct {
	*journal.Memory
	broken *atomic.Bool
	saved  *atomic.Int64
}

func (l brittleLog) SaveSnapshot(ctx context.Context, p int, after, at uint64, state []byte) error {
	if l.broken.Load() {
		return errors.New("the disk is gone")
	}
	l.saved.Add(1)
	return l.Memory.SaveSnapshot(ctx, p, after, at, state)
}

// TestFailedSnapshotIsRepeated has a snapshot fail and sends nothing more. It checks that the flow still knows how much history
// follows the last snapshot and repeats it. Otherwise a restart would read all of it.
func TestFailedSnapshotIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		var saved atomic.Int64
		broken.Store(true)
		log := brittleLog{journal.NewMemory(journal.MemoryOptions{}), &broken, &saved}
		app, err := Start(t.Context(), accounts, quiet(Options{Log: journal.Opened{Log: log}, SnapshotAge: time.Minute}))
		if err != nil {
			t.Fatal(err)
		}
		post(t, app, filled(10)...)
		time.Sleep(10 * time.Minute)
		broken.Store(false)
		time.Sleep(90 * time.Second)
		if n := saved.Load(); n != 1 {
			t.Errorf("a minute and a half after the log was mended, %d snapshots were kept, want 1", n)
		}
		time.Sleep(10 * time.Minute)
		if n := saved.Load(); n != 1 {
			t.Errorf("although nothing came, %d snapshots were kept, want 1", n)
		}
		stop(t, app)
	})
}

// TestCleaner changes accounts at random, evenly or mostly a few of them, with cuts of different sizes. It checks that the stored
// size is bounded by the live state and the written size by the changes, and that what is stored is the state.
func TestCleaner(t *testing.T) {
	for _, c := range []struct {
		keys, changes, cuts int
		skewed              bool
	}{
		{50_000, 500, 1200, false}, {50_000, 500, 1200, true}, {50_000, 10_000, 60, false}, {50_000, 100, 1500, false},
	} {
		t.Run(fmt.Sprintf("changes=%d/skewed=%v", c.changes, c.skewed), func(t *testing.T) {
			l := executorOf(t)
			if _, err := l.Begin(0); err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(1, 2))
			zipf := rand.NewZipf(r, 1.1, 1, uint64(c.keys-1))
			scatter := r.Perm(c.keys)
			step := func(p posting) {
				data, err := CBOR().Append(nil, p)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := l.Step(1, [][]byte{(&codec.Record{Value: data}).Encode(nil)}, nil); err != nil {
					t.Fatal(err)
				}
			}
			cutter := l.Cutter()
			var pieces []logdriven.Piece
			cut := func() (n int) {
				if err := cutter.Begin(math.MaxInt); err != nil {
					t.Fatal(err)
				}
				if _, err := cutter.Write(func() bool { return false }); err != nil {
					t.Fatal(err)
				}
				for _, p := range cutter.Pieces() {
					n += len(p.Data)
					pieces = append(pieces, p)
				}
				first := cutter.Oldest()
				pieces = slices.DeleteFunc(pieces, func(p logdriven.Piece) bool { return p.Run < first })
				return n
			}
			step(posting{N: c.keys})
			live := cut()
			written, changed, most := 0, 0, 0
			for range c.cuts {
				which := make(map[int]bool)
				var p posting
				for range c.changes {
					i := r.IntN(c.keys)
					if c.skewed {
						i = scatter[zipf.Uint64()]
					}
					which[i], p.Of = true, append(p.Of, i)
				}
				step(p)
				changed += int(int64(len(which)) * int64(live) / int64(c.keys))
				written += cut()
				total := 0
				for _, p := range pieces {
					total += len(p.Data)
				}
				most = max(most, total)
			}
			t.Logf("%d bytes live, %d changed, %.2f times that written, at most %d bytes kept", live, changed, float64(written)/float64(changed), most)
			if float64(written) > 2.5*float64(changed)+float64(c.cuts*100) || most > 3*live+8<<20 {
				t.Errorf("written %d bytes for %d that changed, kept up to %d for %d that live", written, changed, most, live)
			}
			again := executorOf(t)
			load, err := again.Loader(0, false)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range slices.Backward(pieces) {
				if err := load.Piece(p.Run, p.Data); err != nil {
					t.Fatal(err)
				}
			}
			if err := load.End(); err != nil {
				t.Fatal(err)
			}
			is, err := again.Save(nil)
			was, err2 := l.Save(nil)
			if err != nil || err2 != nil || string(is) != string(was) {
				t.Errorf("what is kept is another state: %d bytes and %d (%v, %v)", len(is), len(was), err, err2)
			}
		})
	}
}

// executorOf returns an executor of a flow of accounts.
func executorOf(t testing.TB) *logdriven.Executor {
	flow, graph := newLogDriven(dataflow.Options{Buffer: 1 << 20}, CBOR(), nil, false)
	accounts(flow)
	graph.Start(t.Context())
	return logdriven.NewExecutor(graph, 0)
}

var cutKeys = flag.Int("keys", 1_000_000, "accounts of BenchmarkCuts")

// BenchmarkCuts measures a flow with a large state: how long steps wait for a snapshot of all of it and for one of 60 changes,
// how much the latter writes, and how long a restart takes.
func BenchmarkCuts(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "log")
	opts := quiet(Options{Log: disklog.Dir(dir), SnapshotAge: 2 * time.Second, SnapshotBytes: math.MaxInt, LeaveWithin: time.Minute})
	app, err := Start(context.Background(), accounts, opts)
	if err != nil {
		b.Fatal(err)
	}
	most := time.Duration(0) // the longest wait of a step for a snapshot
	for ps := range slices.Chunk(filled(*cutKeys), 20) {
		post(b, app, ps...)
		most = max(most, app.Metrics().LastSnapshot)
	}
	for n := app.Metrics().Snapshots; app.Metrics().Snapshots < n+2; { // one that began when all keys existed
		post(b, app, posting{Of: []int{7}})
		most = max(most, app.Metrics().LastSnapshot)
	}
	again := func() time.Duration {
		if err := app.Stop(context.Background()); err != nil {
			b.Fatal(err)
		}
		runtime.GC()
		began := time.Now()
		if app, err = Start(context.Background(), accounts, opts); err != nil {
			b.Fatal(err)
		}
		return time.Since(began)
	}
	restart := again()
	for b.Loop() {
		restart = min(restart, again())
	}
	var mem runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&mem)
	r := rand.New(rand.NewPCG(1, 2))
	app.Stop(context.Background())
	if app, err = Start(context.Background(), accounts, opts); err != nil {
		b.Fatal(err)
	}
	for range 60 {
		post(b, app, posting{Of: []int{r.IntN(*cutKeys)}})
	}
	for n := app.Metrics().Snapshots; app.Metrics().Snapshots == n; {
		time.Sleep(10 * time.Millisecond)
	}
	m := app.Metrics()
	b.ReportMetric(restart.Seconds(), "s/restart")
	b.ReportMetric(float64(most.Microseconds())/1000, "ms/mostwait")
	b.ReportMetric(float64(m.LastSnapshot.Microseconds())/1000, "ms/wait")
	b.ReportMetric(float64(m.LastSnapshotSize), "B/60changes")
	b.ReportMetric(float64(mem.HeapAlloc>>20), "MB/heap")
	app.Stop(context.Background())
}
