package durable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

type batchPorts struct {
	plain   *dataflow.InputPort[string]
	keyed   *dataflow.KeyedInputPort[string, string]
	entries *dataflow.EntryInputPort[string, string]
	words   *dataflow.OutputPort[string]
	values  *dataflow.OutputPort[dataflow.Entry[string, string]]
	out     *dataflow.EntryOutputPort[string, string]
}

func batchesAt[L dataflow.Location](at L) (p batchPorts) {
	plain, s := dataflow.Input[string](at, "plain")
	keyed, ks := keyedstream.Input[string, string](at, "keyed")
	entries, es := keyedsingleton.Input[string, string](at, "entries")
	return batchPorts{plain, keyed, entries, dataflow.Output(s, "words"), keyedstream.Output(ks, "values"), keyedsingleton.Output(es, "out")}
}

func batchProcess(f *dataflow.Flow) batchPorts { return batchesAt(dataflow.At[server](f)) }
func batchCluster(f *dataflow.Flow) batchPorts { return batchesAt(dataflow.At[members](f)) }

// manyKeys returns n values and their keys. The values of each of the keys are in order.
func manyKeys(n, each int) (ks, vs []string) {
	for i := range n {
		ks, vs = append(ks, fmt.Sprint("key ", i%each)), append(vs, fmt.Sprintf("value %05d", i))
	}
	return ks, vs
}

// wantValues reads n values and checks that those of each key are in order.
func wantValues(t *testing.T, out *dataflow.OutputPort[dataflow.Entry[string, string]], n int) {
	t.Helper()
	last := make(map[string]string)
	for i := range n {
		e, err := out.Next(t.Context())
		if err != nil {
			t.Fatalf("after %d of %d: %v", i, n, err)
		}
		if e.Value <= last[e.Key] {
			t.Fatalf("%v came after %s", e, last[e.Key])
		}
		last[e.Key] = e.Value
	}
}

// TestBatchAppends sends 1,000 records to each input of a cluster. Each partition receives its
// records in one append and takes them in one step.
func TestBatchAppends(t *testing.T) {
	const n, partitions = 1000, 16
	sends := map[string]func(context.Context, batchPorts) error{
		"InputPort": func(ctx context.Context, p batchPorts) error {
			_, vs := manyKeys(n, n)
			got, err := p.plain.SendBatch(ctx, vs)
			return wantAll(got, n, err)
		},
		"KeyedInputPort": func(ctx context.Context, p batchPorts) error {
			ks, vs := manyKeys(n, 100)
			got, err := p.keyed.SendBatch(ctx, ks, vs)
			return wantAll(got, n, err)
		},
		"EntryInputPort": func(ctx context.Context, p batchPorts) error {
			ks, vs := manyKeys(n, n)
			errs, err := p.entries.PutBatch(ctx, ks, vs)
			return errors.Join(append(errs, err)...)
		},
	}
	for name, send := range sends {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := journal.NewMemory(journal.MemoryOptions{Partitions: partitions})
				app := start(t, log, batchCluster, Options{Partitions: partitions})
				synctest.Wait()
				var appends, commits atomic.Int64
				log.SetHook(func(a journal.Action) journal.Fault {
					if a.Done && a.Op == journal.OpAppend {
						appends.Add(1)
					} else if a.Done && a.Op == journal.OpCommit {
						commits.Add(1)
					}
					return journal.Fault{}
				})
				if err := send(t.Context(), app.Ports); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				if got := app.Metrics().Records; got != n {
					t.Errorf("%d records were taken", got)
				}
				if a, c := appends.Load(), commits.Load(); a != partitions || c != partitions {
					t.Errorf("%d appends and %d steps, want %d of each", a, c, partitions)
				}
				stop(t, app)
			})
		})
	}
}

func wantAll(got, n int, err error) error {
	if got != n || err != nil {
		return fmt.Errorf("%d of %d: %w", got, n, err)
	}
	return nil
}

// TestBatchInPieces sends more than the log accepts at once. The batch is divided, and only the
// record that is too large is refused.
func TestBatchInPieces(t *testing.T) {
	log := journal.NewMemory(journal.MemoryOptions{Partitions: 3, MaxRecord: 1000})
	app := start(t, log, batchCluster, Options{Partitions: 3})
	ctx := t.Context()
	ks, vs := manyKeys(2000, 100)
	if n, err := app.Ports.keyed.SendBatch(ctx, ks, vs); n != 2000 || err != nil {
		t.Fatalf("SendBatch: %d, %v", n, err)
	}
	wantValues(t, app.Ports.values, 2000)

	// No later record of the same key is sent after one that is too large.
	huge := strings.Repeat("x", 1001)
	n, err := app.Ports.keyed.SendBatch(ctx, []string{"a", "b", "a", "a", "b"}, []string{"1", "1", huge, "3", "2"})
	if n != 2 || !errors.Is(err, journal.ErrTooLarge) {
		t.Errorf("SendBatch of one that is too large: %d, %v", n, err)
	}
	if _, err = app.Ports.keyed.SendBatch(ctx, []string{"a", "end"}, []string{"4", "."}); err != nil {
		t.Error(err)
	}
	var got []string
	for !slices.Contains(got, "end:.") || !slices.Contains(got, "a:4") {
		e, err := app.Ports.values.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.String())
	}
	if slices.Contains(got, "a:3") {
		t.Errorf("what came behind it was sent: %q", got)
	}

	vs[77], ks[5] = huge, ks[4]
	errs, err := app.Ports.entries.PutBatch(ctx, ks[:100], vs[:100])
	if !errors.Is(err, journal.ErrTooLarge) {
		t.Errorf("PutBatch: %v", err)
	}
	for i, e := range errs {
		if want := map[int]error{77: journal.ErrTooLarge, 5: dataflow.ErrDuplicateKey}[i]; !errors.Is(e, want) {
			t.Errorf("entry %d: %v, want %v", i, e, want)
		}
	}
	await(t, app.Ports.out, ks[99], vs[99])
	stop(t, app)
}

// TestBatchBounded divides a batch that the log would accept at once, because the size of an
// append, and thereby of a step, is bounded. A small rest is not appended alone.
func TestBatchBounded(t *testing.T) {
	var appends, largest atomic.Int64
	log := journal.NewMemory(journal.MemoryOptions{Hook: func(a journal.Action) journal.Fault {
		if a.Op == journal.OpAppend && !a.Done {
			appends.Add(1)
			largest.Store(max(largest.Load(), int64(a.Size)))
		}
		return journal.Fault{}
	}})
	app := start(t, log, batchProcess, Options{})
	ks, vs := manyKeys(600, 600)
	for i := range vs {
		vs[i] += strings.Repeat("x", 10_000)
	}
	if n, err := app.Ports.keyed.SendBatch(t.Context(), ks, vs); n != len(ks) || err != nil {
		t.Errorf("SendBatch: %d, %v", n, err)
	}
	if errs, err := app.Ports.entries.PutBatch(t.Context(), ks, vs); slices.ContainsFunc(errs, func(err error) bool { return err != nil }) || err != nil {
		t.Errorf("PutBatch: %v, %v", errs, err)
	}
	if n := largest.Load(); n > appendBytes*101/100 || n < appendBytes*9/10 { // the frame adds a few bytes to each record
		t.Errorf("the largest append had %d bytes, want about %d", n, appendBytes)
	}
	for n, want := range map[int]int64{200: 1, 310: 1, 320: 2} {
		before := appends.Load()
		if _, err := app.Ports.keyed.SendBatch(t.Context(), ks[:n], vs[:n]); err != nil {
			t.Error(err)
		}
		if got := appends.Load() - before; got != want {
			t.Errorf("%d records of 10 kB: %d appends, want %d", n, got, want)
		}
	}
	stop(t, app)
}

// A tooLarge log counts appends that it refuses because of their size.
type tooLarge struct {
	journal.Log
	refused atomic.Int64
}

func (l *tooLarge) Append(ctx context.Context, partition int, records ...[]byte) (uint64, error) {
	position, err := l.Log.Append(ctx, partition, records...)
	if errors.Is(err, journal.ErrTooLarge) {
		l.refused.Add(1)
	}
	return position, err
}

// TestBatchHalved sends batches to a log that accepts less than the largest append. The log refuses the first one,
// and no others.
func TestBatchHalved(t *testing.T) {
	log := &tooLarge{Log: journal.NewMemory(journal.MemoryOptions{MaxRecord: 700_000})}
	app := start(t, log, batchProcess, Options{})
	ks, vs := manyKeys(300, 300)
	for i := range vs {
		vs[i] += strings.Repeat("x", 10_000)
	}
	for range 3 {
		if n, err := app.Ports.keyed.SendBatch(t.Context(), ks, vs); n != len(ks) || err != nil {
			t.Errorf("SendBatch: %d, %v", n, err)
		}
	}
	if n := log.refused.Load(); n != 1 {
		t.Errorf("the log has refused %d appends", n)
	}
	stop(t, app)
}

// TestBatchPrefix makes one partition fail. SendBatch returns the length of the prefix before the
// first failed record, and a repeat with the same numbers sends the missing records.
func TestBatchPrefix(t *testing.T) {
	log := journal.NewMemory(journal.MemoryOptions{Partitions: 4})
	app := start(t, log, batchCluster, Options{Partitions: 4})
	ks, vs := manyKeys(200, 50)
	key, err := CBOR().Append(nil, ks[30])
	if err != nil {
		t.Fatal(err)
	}
	failing := engine.PartitionOf(key, 4)
	first := slices.IndexFunc(ks, func(k string) bool {
		key, _ := CBOR().Append(nil, k)
		return engine.PartitionOf(key, 4) == failing
	})
	for _, done := range []bool{false, true} { // also when only the answer is lost
		log.SetHook(func(a journal.Action) journal.Fault {
			return journal.Fault{Fail: a.Op == journal.OpAppend && a.Partition == failing && a.Done == done}
		})
		n, err := app.Ports.keyed.SendBatchNumbered(t.Context(), 7, ks, vs)
		if n != first || err == nil {
			t.Errorf("a batch of which one partition fails: %d, %v; want %d", n, err, first)
		}
	}
	log.SetHook(nil)
	if n, err := app.Ports.keyed.SendBatchNumbered(t.Context(), 7+uint64(first), ks[first:], vs[first:]); n != len(ks)-first || err != nil {
		t.Errorf("the repeat: %d, %v", n, err)
	}
	wantValues(t, app.Ports.values, len(ks)) // each once: a value that is repeated is not greater than the last one
	stop(t, app)
	if e, err := app.Ports.values.Next(t.Context()); err == nil {
		t.Errorf("%v came as well", e)
	}
}

// TestBatchGivesUp cancels the context of a batch while one partition accepts nothing.
func TestBatchGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{Partitions: 4})
		app := start(t, log, batchCluster, Options{Partitions: 4})
		synctest.Wait()
		hold := make(chan struct{})
		log.SetHook(func(a journal.Action) journal.Fault {
			if !a.Done && a.Partition == 2 && (a.Op == journal.OpCommit || a.Op == journal.OpAppend && a.Size > 2000) {
				return journal.Fault{Until: hold}
			}
			return journal.Fault{}
		})
		ks, vs := manyKeys(200, 200)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		errs, err := app.Ports.entries.PutBatch(ctx, ks, vs)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("PutBatch: %v", err)
		}
		for i, e := range errs {
			key, _ := CBOR().Append(nil, ks[i])
			if waits := engine.PartitionOf(key, 4) == 2; waits != errors.Is(e, context.DeadlineExceeded) || !waits && e != nil {
				t.Errorf("entry %d of a partition that waits %t: %v", i, waits, e)
			}
		}
		close(hold)
		synctest.Wait()
		for i, e := range errs { // the appended records are taken nevertheless
			if _, there := app.Ports.out.Get(ks[i]); e == nil && !there {
				t.Errorf("entry %d is not there", i)
			}
		}
		stop(t, app)
		if n, err := app.Ports.keyed.SendBatch(t.Context(), ks, vs); n != 0 || err == nil {
			t.Errorf("after Stop: %d, %v", n, err)
		}
	})
}

// TestManyRefused puts more keys than a partition remembers as refused.
func TestManyRefused(t *testing.T) {
	app := start(t, journal.NewMemory(journal.MemoryOptions{}), batchProcess, Options{})
	ks, vs := manyKeys(2*keepRefusals, 2*keepRefusals)
	for _, want := range []error{nil, dataflow.ErrDuplicateKey} {
		var all sync.WaitGroup
		for part := range slices.Chunk(ks, keepRefusals) {
			all.Go(func() {
				errs, err := app.Ports.entries.PutBatch(t.Context(), part, vs[:len(part)])
				if i := slices.IndexFunc(errs, func(e error) bool { return e != want }); i >= 0 || err != nil {
					t.Errorf("PutBatch: entry %d, %v; want %v", i, err, want)
				}
			})
		}
		all.Wait()
	}
	stop(t, app)
}

// TestPutBatchQuarantined puts a batch with an entry that the program cannot handle. Later entries
// of its key are not taken either, and all others are.
func TestPutBatchQuarantined(t *testing.T) {
	type ports struct {
		in  *dataflow.EntryInputPort[string, int]
		out *dataflow.EntryOutputPort[string, int]
	}
	app := start(t, journal.NewMemory(journal.MemoryOptions{}), func(f *dataflow.Flow) ports {
		in, entries := keyedsingleton.Input[string, int](dataflow.At[server](f), "in")
		return ports{in, keyedsingleton.Output(keyedsingleton.Map(entries, func(x int) int { return 10 / x }), "out")}
	}, Options{})
	errs, err := app.Ports.in.PutBatch(t.Context(), []string{"a", "b", "c", "b"}, []int{5, 0, 2, 1})
	var q *QuarantinedError
	if !errors.As(err, &q) || err != errs[1] {
		t.Errorf("PutBatch: %v", err)
	}
	for i, e := range errs {
		if kept := i == 1 || i == 3; kept != errors.As(e, &q) || !kept && e != nil {
			t.Errorf("entry %d: %v", i, e)
		}
	}
	await(t, app.Ports.out, "a", 2)
	await(t, app.Ports.out, "c", 5)
	stop(t, app)
}

// TestBatchBacklog sends a batch that is larger than the allowed backlog to a partition whose step
// does not end. As many records are accepted as may wait.
func TestBatchBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 100
		goOn := make(chan struct{})
		var held atomic.Bool
		log := journal.NewMemory(journal.MemoryOptions{Hook: func(a journal.Action) journal.Fault {
			if held.Load() && a.Op == journal.OpCommit && !a.Done {
				return journal.Fault{Until: goOn}
			}
			return journal.Fault{}
		}})
		app := start(t, log, batchProcess, Options{MaxLag: Lag{Records: most}})
		held.Store(true)
		ks, vs := manyKeys(10*most, most)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var full *BacklogError
		n, err := app.Ports.keyed.SendBatch(ctx, ks, vs)
		if n != most || !errors.As(err, &full) || full.Lag.Records != most {
			t.Errorf("SendBatch: %d, %v", n, err)
		}
		close(goOn)
		if n, err := app.Ports.keyed.SendBatch(t.Context(), ks[n:], vs[n:]); n != 9*most || err != nil {
			t.Errorf("the rest: %d, %v", n, err)
		}
		wantValues(t, app.Ports.values, 10*most)
		stop(t, app)
	})
}
