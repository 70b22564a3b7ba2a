package durable

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedstream"
)

// A chunk is counted under its key. Asks outputs the count of the key, and Echo outputs the data.
type chunk struct {
	Data       []byte
	Asks, Echo bool
	Keep       bool // keep the data, in place of the earlier data of the key
}

// A chunks is the state of a key.
type chunks struct {
	Count int
	Data  []byte
}

type chunkPorts struct {
	in  *dataflow.KeyedInputPort[string, chunk]
	out *dataflow.OutputPort[string]
}

// chunkFlow counts the chunks of each key.
func chunkFlow(f *dataflow.Flow) chunkPorts {
	in, all := keyedstream.Input[string, chunk](dataflow.At[members](f), "in")
	out := keyedstream.Scan(all, func() chunks { return chunks{} }, func(s *chunks, c chunk, emit func(string)) {
		if c.Asks {
			emit(fmt.Sprint(s.Count))
			return
		}
		s.Count++
		if c.Keep {
			s.Data = c.Data
		}
		if c.Echo {
			emit(string(c.Data))
		}
	})
	return chunkPorts{in, dataflow.Output(keyedstream.Values(out), "out")}
}

// noise returns n random bytes, which do not compress.
func noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

// sendChunks sends each chunks to every key, with one goroutine per key.
func sendChunks(ctx context.Context, app *App[chunkPorts], keys []string, each int, c func() chunk) error {
	var wg sync.WaitGroup
	errs := make([]error, len(keys))
	for i, k := range keys {
		wg.Go(func() {
			for n := range each {
				if err := app.Ports.in.Send(ctx, k, c()); err != nil {
					errs[i] = fmt.Errorf("chunk %d of %s: %w", n, k, err)
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// wantChunks checks the count of each key.
func wantChunks(t *testing.T, app *App[chunkPorts], keys []string, want int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, k := range keys {
		if err := app.Ports.in.Send(ctx, k, chunk{Asks: true}); err != nil {
			t.Fatalf("asking for the count of %s: %v", k, err)
		}
		if got, err := app.Ports.out.Next(ctx); err != nil || got != fmt.Sprint(want) {
			t.Errorf("%s has %s chunks (%v), want %d", k, got, err, want)
		}
	}
}

func keysOf(n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprint("key-", i))
	}
	return keys
}

// onlyFull makes a snapshot only when the log is full.
var onlyFull = Options{SnapshotBytes: math.MaxInt, SnapshotAge: 1000 * time.Hour}

// within checks a log in memory against its limit after each action.
func within(t *testing.T, log *journal.Memory) {
	log.SetHook(func(a journal.Action) (none journal.Fault) {
		if r, err := log.Reopen().Room(context.Background()); a.Done && err == nil && r.Limit > 0 && r.Kept > r.Limit {
			t.Errorf("after an action %s of %d bytes %d are kept, the limit is %d", a.Op, a.Size, r.Kept, r.Limit)
		}
		return none
	})
}

// TestMaxBytes sends much more than a log may keep. All of it is accepted and handled without a
// restart, and the log never keeps more than its limit. Idle partitions make room too.
func TestMaxBytes(t *testing.T) {
	for _, partitions := range []int{1, 4} {
		for _, limit := range []int{64 << 10, 512 << 10} {
			t.Run(fmt.Sprintf("partitions=%d/limit=%d", partitions, limit), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					log := journal.NewMemory(journal.MemoryOptions{Partitions: partitions, MaxBytes: limit})
					within(t, log)
					app := start(t, log, chunkFlow, onlyFull)
					size := limit / 64
					send := func() chunk { return chunk{Data: noise(size)} }
					all := keysOf(16)
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					defer cancel()
					if err := sendChunks(ctx, app, all, 40, send); err != nil {
						t.Fatal(err)
					}
					if err := sendChunks(ctx, app, all[:1], 400, send); err != nil { // the other keys are idle
						t.Fatal(err)
					}
					wantChunks(t, app, all[1:], 40)
					wantChunks(t, app, all[:1], 440)
					stop(t, app)
				})
			})
		}
	}
}

// TestFullRestarts restarts a flow with a full log several times and lowers the limit in between.
func TestFullRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 512 << 10
		log := journal.NewMemory(journal.MemoryOptions{Partitions: 3, MaxBytes: limit})
		keys, sent := keysOf(9), 0
		for round := range 6 {
			if round == 3 {
				log.SetMaxBytes(limit / 4)
			}
			app := start(t, log.Reopen(), chunkFlow, onlyFull)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			if err := sendChunks(ctx, app, keys, 20, func() chunk { return chunk{Data: noise(4 << 10)} }); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			cancel()
			sent += 20
			if round == 5 {
				wantChunks(t, app, keys, sent)
			}
			app.core.abandoned.Store(true)
			stop(t, app)
		}
	})
}

// TestFullByHalf repeatedly crashes a flow while a snapshot is partly written to a full log.
func TestFullByHalf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 1 << 20
		log := journal.NewMemory(journal.MemoryOptions{MaxBytes: limit})
		keys, sent := keysOf(4), make(map[string]int)
		for round := range 20 {
			var n atomic.Int32 // snapshots are written concurrently with appends
			handle := log.Reopen()
			handle.SetHook(func(a journal.Action) (none journal.Fault) {
				if a.Done && (a.Op == journal.OpPiece || a.Op == journal.OpSnapshot || a.Op == journal.OpPurge) {
					n.Add(1)
				}
				return journal.Fault{Crash: int(n.Load()) > round}
			})
			app := start(t, handle, chunkFlow, onlyFull)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			for i := 0; ctx.Err() == nil; i++ {
				k := keys[i%len(keys)]
				if err := app.Ports.in.Send(ctx, k, chunk{Data: noise(10 << 10), Keep: true}); err != nil {
					break
				}
				sent[k]++
			}
			cancel()
			app.core.abandoned.Store(true)
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			app.Stop(ended)
		}
		app := start(t, log.Reopen(), chunkFlow, onlyFull)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := sendChunks(ctx, app, keys, 100, func() chunk { return chunk{Data: noise(10 << 10), Keep: true} }); err != nil {
			t.Fatal(err)
		}
		for _, k := range keys {
			if err := app.Ports.in.Send(ctx, k, chunk{Asks: true}); err != nil {
				t.Fatal(err)
			}
			// A send that was cut short may have been accepted.
			got, err := app.Ports.out.Next(ctx)
			var count int
			fmt.Sscan(got, &count)
			if least := sent[k] + 100; err != nil || count < least || count > least+20 {
				t.Errorf("%s has %d chunks (%v), want %d and those cut short", k, count, err, least)
			}
		}
		stop(t, app)
	})
}

// TestFullOfSteps outputs more than it receives, so that steps fill the log.
func TestFullOfSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{Partitions: 2, MaxBytes: 4 << 20})
		within(t, log)
		app := start(t, log, chunkFlow, onlyFull)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		const all = 8 * 400
		read := make(chan error, 1)
		go func() {
			for range all {
				if _, err := app.Ports.out.Next(ctx); err != nil {
					read <- err
					return
				}
			}
			read <- nil
		}()
		if err := sendChunks(ctx, app, keysOf(8), 400, func() chunk {
			time.Sleep(10 * time.Millisecond) // otherwise the reader could not report what it has read
			return chunk{Data: noise(10 << 10), Echo: true}
		}); err != nil {
			t.Fatal(err)
		}
		if err := <-read; err != nil {
			t.Fatal(err)
		}
		wantChunks(t, app, keysOf(8), 400)
		stop(t, app)
	})
}

// TestTooLargeState has a state that does not fit into the log. The log message reports its size,
// after a restart, too, and a larger limit is sufficient to continue.
func TestTooLargeState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{Partitions: 2, MaxBytes: 1 << 20})
		within(t, log)
		var said safeBuffer
		o := onlyFull
		o.Logger = slog.New(slog.NewTextHandler(&said, nil))
		app := start(t, log, chunkFlow, o)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		sent := 0
		for ; ; sent++ {
			if err := app.Ports.in.Send(ctx, fmt.Sprint("k", sent), chunk{Data: noise(10 << 10), Keep: true}); err != nil {
				break
			}
		}
		cancel()
		if text := said.String(); !strings.Contains(text, "the log is full") || !strings.Contains(text, "MaxBytes=1048576") {
			t.Errorf("the logger heard only %.2000s", text)
		}
		if sent < 20 || sent > 100 {
			t.Errorf("%d chunks were accepted", sent)
		}
		app.core.abandoned.Store(true)
		stop(t, app)
		heard := len(said.String())
		log = log.Reopen()
		app = start(t, crammed{log}, chunkFlow, o)
		time.Sleep(2 * fullAgain)
		if text := said.String()[heard:]; !strings.Contains(text, "the log is full") || strings.Contains(text, "(0 bytes here)") {
			t.Errorf("after a restart, the logger heard only %.2000s", text)
		}
		app.core.abandoned.Store(true)
		stop(t, app) // although a snapshot waits
		log.SetMaxBytes(8 << 20)
		app = start(t, log.Reopen(), chunkFlow, onlyFull)
		for i := range sent {
			wantChunks(t, app, []string{fmt.Sprint("k", i)}, 1)
		}
		if err := sendChunks(t.Context(), app, keysOf(2), 200, func() chunk { return chunk{Data: noise(10 << 10), Keep: true} }); err != nil {
			t.Error(err)
		}
		stop(t, app)
	})
}

// A crammed log has no space for a snapshot.
type crammed struct{ *journal.Memory }

func (c crammed) SaveSnapshot(context.Context, int, uint64, uint64, []byte) error {
	return journal.ErrFull
}

// TestFailureInFullLog sends a record on which the program panics while a snapshot waits for space. It is
// quarantined, and other keys continue.
func TestFailureInFullLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := crammed{journal.NewMemory(journal.MemoryOptions{})}
		app := start(t, log, gathering(func(x int) bool { return x < 0 }), Options{SnapshotBytes: 1})
		for _, r := range []struct {
			key string
			x   int
		}{{"a", 1}, {"a", 2}, {"b", -1}, {"c", 4}, {"a", 3}, {"c", 5}, {"c", 6}} {
			if err := app.Ports.in.Send(t.Context(), r.key, r.x); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second) // each record in a step of its own, and a snapshot after the first
		}
		await(t, app.Ports.sums, "a", "[1 2 3]")
		await(t, app.Ports.sums, "c", "[4 5 6]")
		if letters, err := app.Quarantine(t.Context()); err != nil || len(letters) != 1 {
			t.Errorf("%d records in quarantine, %v", len(letters), err)
		}
		stop(t, app)
	})
}

// TestFullForGood keeps all history and checks that the error says that nothing can make room.
func TestFullForGood(t *testing.T) {
	for _, reject := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			log := journal.NewMemory(journal.MemoryOptions{MaxBytes: 256 << 10})
			within(t, log)
			o := onlyFull
			o.KeepFor, o.Reject = Forever, reject
			app := start(t, log, chunkFlow, o)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := sendChunks(ctx, app, keysOf(1), 1000, func() chunk {
				time.Sleep(time.Millisecond) // MaxLag is not under test
				return chunk{Data: noise(1 << 10)}
			})
			var full *BacklogError
			cause := context.DeadlineExceeded
			if reject {
				cause = ErrNoRoom
			}
			if !errors.As(err, &full) || !full.Busy() || !errors.Is(err, journal.ErrFull) || !errors.Is(err, cause) || !strings.Contains(err.Error(), "KeepFor = Forever") {
				t.Errorf("reject=%v: %v", reject, err)
			}
			stop(t, app)
		})
	}
}

// A safeBuffer is a buffer that several goroutines may write to.
type safeBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
