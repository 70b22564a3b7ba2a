package durable

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine/logdriven"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

// TestLateVerdict asks for the result of a record long after the step that took it, as a
// process does that does not own the partition.
func TestLateVerdict(t *testing.T) {
	c := &core{log: journal.NewMemory(journal.MemoryOptions{})}
	d := newGateway(c)
	ps := &peers{core: c}
	c.gateway = d
	pg := d.partitions[0]
	pg.took(&step{place: place{inputPosition: inputPosition{taken: 5}}, Emission: logdriven.Emission{Refused: []uint64{77}}}, nil)
	pg.took(&step{place: place{inputPosition: inputPosition{taken: 6}}}, nil)
	for _, x := range []struct {
		nonce, at uint64
		want      byte
	}{{77, 5, answerRefused}, {78, 5, answerTaken}, {79, 6, answerTaken}} {
		if got := verdictHere(ps, x.nonce, x.at); got != x.want {
			t.Errorf("record %d at %d: %c, want %c", x.nonce, x.at, got, x.want)
		}
	}
	// After very many refusals the oldest is forgotten, and the answer says so.
	for n := range uint64(keepRefusals + 1) {
		pg.took(&step{place: place{inputPosition: inputPosition{taken: 10 + n}}, Emission: logdriven.Emission{Refused: []uint64{1000 + n}}}, nil)
	}
	if got := verdictHere(ps, 77, 5); got != answerForgotten {
		t.Errorf("a refusal that was forgotten: %c", got)
	}
	if got := verdictHere(ps, 1000+keepRefusals, 10+keepRefusals); got != answerRefused {
		t.Errorf("the latest refusal: %c", got)
	}
	if len(pg.refused) != keepRefusals || len(pg.latest) != keepRefusals {
		t.Errorf("%d and %d refusals are remembered", len(pg.refused), len(pg.latest))
	}
}

// TestManyRefusedAtOnce refuses more records in one step than the partition remembers. All
// waiting callers still learn their result, and so does another process that asks for a
// quarantined record among them.
func TestManyRefusedAtOnce(t *testing.T) {
	c := &core{log: journal.NewMemory(journal.MemoryOptions{})}
	c.gateway = newGateway(c)
	pg := c.gateway.partitions[0]
	nonces := make([]uint64, 2*keepRefusals)
	for i := range nonces {
		nonces[i] = uint64(1000 + i)
	}
	vs := pg.awaitResults(append([]uint64{1}, nonces...))
	pg.setPosition(vs, 7)
	last := &step{place: place{inputPosition: inputPosition{taken: 7}}, Emission: logdriven.Emission{Refused: nonces, Parked: []logdriven.Parked{{Nonce: 2, Letter: 300}}}}
	pg.took(last, nil)
	for i, v := range vs {
		if err := pg.outcome(0, v); i == 0 && err != nil || i > 0 && err != dataflow.ErrDuplicateKey {
			t.Fatalf("record %d: %v", i, err)
		}
	}
	pg.forgetResults(vs)
	if len(pg.waiting) != 0 {
		t.Errorf("%d are waited for", len(pg.waiting))
	}
	latest := nonces[len(nonces)-1]
	want := append(binary.AppendUvarint([]byte{answerRefused, answerParked}, 300), answerForgotten, answerRefused)
	if got := (&peers{core: c}).localResults(t.Context(), 0, []uint64{latest, 2, 1, latest}, 7); !slices.Equal(got, want) {
		t.Errorf("the answer is %q, want %q", got, want)
	}
}

// verdictHere asks for the result of one record.
func verdictHere(ps *peers, nonce, at uint64) byte {
	return ps.localResults(context.Background(), 0, []uint64{nonce}, at)[0]
}

// TestPutAgain repeats an accepted and a refused Put, with a restart and without one.
func TestPutAgain(t *testing.T) {
	log := journal.NewMemory(journal.MemoryOptions{})
	app := start(t, log, crashFlow, tiny)
	for life := range 2 {
		for range 2 {
			if err := app.Ports.claims.PutNumbered(t.Context(), "first", 0, "a", 1); err != nil {
				t.Errorf("life %d, who was first: %v", life, err)
			}
			if err := app.Ports.claims.PutNumbered(t.Context(), "second", 0, "a", 2); !errors.Is(err, dataflow.ErrDuplicateKey) {
				t.Errorf("life %d, who was second: %v", life, err)
			}
		}
		stop(t, app)
		log = log.Reopen()
		app = start(t, log, crashFlow, tiny)
	}
	stop(t, app)
}

// TestCallsOfConstants checks that calls for constants are made once.
func TestCallsOfConstants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		build := func(f *dataflow.Flow) *dataflow.EntryOutputPort[string, int] {
			at := dataflow.At[server](f)
			fixed := keyedstream.First(dataflow.KeyBy(dataflow.Of(at, 1, 2), func(x int) string { return fmt.Sprint(x) }))
			_, in := keyedsingleton.Input[string, int](at, "in")
			keyedsingleton.Output(in, "as they came")
			return keyedsingleton.Output(keyedsingleton.MapAsync(fixed, func(_ context.Context, x int) int {
				calls.Add(1)
				return 2 * x
			}, keyedsingleton.AsyncOptions{}), "called")
		}
		app := start(t, journal.NewMemory(journal.MemoryOptions{}), build, tiny)
		await(t, app.Ports, "1", 2)
		await(t, app.Ports, "2", 4)
		synctest.Wait()
		stop(t, app)
		if n := calls.Load(); n != 2 {
			t.Errorf("%d calls were made, want 2", n)
		}
	})
}

// TestAnyString puts a key and a value that are not valid UTF-8.
func TestAnyString(t *testing.T) {
	log := journal.NewMemory(journal.MemoryOptions{})
	type ports struct {
		in  *dataflow.EntryInputPort[string, string]
		out *dataflow.EntryOutputPort[string, string]
	}
	build := func(f *dataflow.Flow) ports {
		in, entries := keyedsingleton.Input[string, string](dataflow.At[server](f), "in")
		return ports{in, keyedsingleton.Output(entries, "out")}
	}
	app := start(t, log, build, tiny)
	if err := app.Ports.in.Put(t.Context(), "\xff\xfe", "a\x80"); err != nil {
		t.Fatal(err)
	}
	stop(t, app)
	app = start(t, log.Reopen(), build, tiny)
	await(t, app.Ports.out, "\xff\xfe", "a\x80")
	stop(t, app)
}

// TestZonedKeys has keys that are times in a zone half an hour from a full one. Each decoded key must equal every other one, in one
// process and in the next, or a key is accepted twice and its events are not counted together.
func TestZonedKeys(t *testing.T) {
	log := journal.NewMemory(journal.MemoryOptions{})
	type ports struct {
		once  *dataflow.EntryInputPort[time.Time, int]
		times *dataflow.InputPort[time.Time]
		three *dataflow.OutputPort[dataflow.Entry[time.Time, int]]
	}
	build := func(f *dataflow.Flow) ports {
		at := dataflow.At[server](f)
		once, entries := keyedsingleton.Input[time.Time, int](at, "once")
		keyedsingleton.Output(entries, "entries")
		in, times := dataflow.Input[time.Time](at, "times")
		minutes := dataflow.KeyBy(times, func(at time.Time) time.Time { return at.Truncate(time.Minute) })
		three := keyedstream.FoldEarlyStop(minutes, func() int { return 0 }, func(n *int, _ time.Time) bool { *n++; return *n == 3 })
		return ports{once, in, dataflow.Output(keyedsingleton.Entries(three), "three")}
	}
	at := time.Date(2026, 11, 30, 10, 0, 0, 5, time.FixedZone("IST", 19800))
	for life := range 3 {
		app := start(t, log.Reopen(), build, tiny)
		want := error(nil)
		if life > 0 {
			want = dataflow.ErrDuplicateKey
		}
		if err := app.Ports.once.Put(t.Context(), at, life); !errors.Is(err, want) {
			t.Errorf("life %d: Put = %v, want %v", life, err, want)
		}
		if err := app.Ports.times.Send(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		if life == 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // for a program that never gives it
			defer cancel()
			got, err := app.Ports.three.Receive(ctx)
			if err != nil || got.Value.Value != 3 || !got.Value.Key.Equal(at.Truncate(time.Minute)) {
				t.Errorf("three events of a minute: %v, %v", got, err)
			}
		}
		stop(t, app)
	}
}

// TestBatchAgain sends a batch again after a part of it was kept. The flow takes the rest.
func TestBatchAgain(t *testing.T) {
	type ports struct {
		in    *dataflow.InputPort[int]
		total *dataflow.SingletonOutputPort[int]
	}
	build := func(f *dataflow.Flow) ports {
		in, xs := dataflow.Input[int](dataflow.At[server](f), "in")
		return ports{in, singleton.Output(dataflow.Sum(xs), "total")}
	}
	app := start(t, journal.NewMemory(journal.MemoryOptions{}), build, tiny)
	first := uint64(10)
	for _, batch := range [][]int{{1, 10}, {1, 10, 100}, {1, 10, 100}, {1000}} {
		if len(batch) == 1 {
			first = 13
		}
		if _, err := app.Ports.in.SendBatchNumbered(t.Context(), first, batch); err != nil {
			t.Fatal(err)
		}
	}
	for total := range app.Ports.total.Watch(t.Context()) {
		if total >= 1000 {
			if total != 1111 {
				t.Errorf("the total is %d, want 1111", total)
			}
			break
		}
	}
	stop(t, app)
}
