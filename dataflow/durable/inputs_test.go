package durable

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

type inputPorts struct {
	one     *dataflow.InputPort[string]
	keyed   *dataflow.KeyedInputPort[string, string]
	shared  *dataflow.SharedInputPort[string]
	byKey   *dataflow.SharedKeyedInputPort[string, string]
	retried *dataflow.SharedInputPort[string]
	senders *dataflow.SenderInputPort[string, string]
	puts    *dataflow.EntryInputPort[string, string]
	counts  *dataflow.EntryOutputPort[string, int]
}

// inputs counts the records of each input until its last record, which ends in "end".
func inputs[L dataflow.Location](at L) (p inputPorts) {
	type entries = dataflow.KeyedStream[string, string, L, bounds.Unbounded, dataflow.NoOrder, dataflow.ExactlyOnce]
	count := func(name string, s entries) entries {
		return keyedstream.MapWithKey(s, func(_, x string) string { return name + " " + x })
	}
	keyedBy := func(s dataflow.Stream[string, L, bounds.Unbounded, dataflow.NoOrder, dataflow.ExactlyOnce]) entries {
		return dataflow.KeyBy(s, func(string) string { return "" })
	}
	var all entries
	one, s1 := dataflow.Input[string](at, "one")
	all = count("one", keyedBy(dataflow.WeakenOrder(s1)))
	keyed, s2 := keyedstream.Input[string, string](at, "keyed")
	all = keyedstream.Merge(all, count("keyed", keyedstream.WeakenOrder(s2)))
	shared, s3 := dataflow.SharedInput[string](at, "shared")
	all = keyedstream.Merge(all, count("shared", keyedBy(s3)))
	byKey, s4 := keyedstream.SharedInput[string, string](at, "shared by key")
	all = keyedstream.Merge(all, count("byKey", s4))
	retried, s5 := dataflow.RetriedInput[string](at, "retried")
	all = keyedstream.Merge(all, count("retried", keyedBy(dataflow.Unique(s5))))
	senders, s6 := dataflow.SenderInput[string, string](at, "senders")
	all = keyedstream.Merge(all, count("senders", keyedstream.WeakenOrder(s6)))
	puts, s7 := keyedsingleton.Input[string, string](at, "puts")
	all = keyedstream.Merge(all, count("puts", keyedstream.WeakenOrder(keyedsingleton.IntoKeyedStream(s7))))

	// The last record, "… end", makes an entry with the count.
	words := keyedstream.Rekey(all, func(_, x string) string { name, _, _ := strings.Cut(x, " "); return name })
	ended := keyedstream.FoldEarlyStop(keyedstream.AssumeOrder(words, "the end is sent last"), func() int { return 0 }, func(n *int, x string) bool {
		*n++
		return strings.HasSuffix(x, " end")
	})
	return inputPorts{one, keyed, shared, byKey, retried, senders, puts, keyedsingleton.Output(ended, "counts")}
}

// TestNumberedAgain sends everything again with the same numbers, with and without a crash in
// between. Each port takes it once.
func TestNumberedAgain(t *testing.T) {
	build := func(f *dataflow.Flow) inputPorts { return inputs(dataflow.At[server](f)) }
	log := journal.NewMemory(journal.MemoryOptions{})
	app := start(t, log, build, tiny)
	send := func(words ...string) {
		t.Helper()
		p, ctx := app.Ports, t.Context()
		for i, w := range words {
			n := uint64(i)
			if w == "end" {
				n = 100
			}
			for _, err := range []error{
				p.one.SendNumbered(ctx, n, w), p.keyed.SendNumbered(ctx, "k", n, w), p.shared.SendNumbered(ctx, "a", n, w),
				p.byKey.SendNumbered(ctx, "a", n, "k", w), p.retried.Send(ctx, w), p.senders.Sender("a").SendNumbered(ctx, n, w),
				p.puts.PutNumbered(ctx, "a", n, w, w),
			} {
				if err != nil {
					t.Error(err)
				}
			}
		}
	}
	send("x", "y", "x'")
	send("x", "y")
	// Each name, key and id has numbers of its own.
	for _, err := range []error{
		app.Ports.keyed.SendNumbered(t.Context(), "other", 0, "w"), app.Ports.shared.SendNumbered(t.Context(), "b", 0, "w"),
		app.Ports.byKey.SendNumbered(t.Context(), "b", 0, "k", "w"), app.Ports.senders.Sender("b").SendNumbered(t.Context(), 0, "w"),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	log.Crash()
	<-app.Done()
	log = log.Reopen()
	app = start(t, log, build, tiny)
	if err := app.Ports.puts.PutNumbered(t.Context(), "late", 0, "x", "no"); !errors.Is(err, dataflow.ErrDuplicateKey) {
		t.Errorf("a Put of what is there: %v", err)
	}
	send("x", "y", "x'", "z")
	if n, err := app.Ports.one.SendBatchNumbered(t.Context(), 2, []string{"x'", "z", "v"}); n != 3 || err != nil {
		t.Errorf("SendBatchNumbered: %d, %v", n, err)
	}
	if n, err := app.Ports.senders.Sender("a").SendBatchNumbered(t.Context(), 2, []string{"x'", "z", "v"}); n != 3 || err != nil {
		t.Errorf("SendBatchNumbered: %d, %v", n, err)
	}
	send("end")
	for name, want := range map[string]int{"one": 6, "keyed": 6, "shared": 6, "byKey": 6, "retried": 5, "senders": 7, "puts": 5} {
		await(t, app.Ports.counts, name, want)
	}
	stop(t, app)
}

// TestNumberedInPartitions sends again to a location with several partitions, each of which
// remembers what it has taken.
func TestNumberedInPartitions(t *testing.T) {
	type ports struct {
		in  *dataflow.SenderInputPort[string, int]
		out *dataflow.OutputPort[dataflow.Entry[string, int]]
	}
	build := func(f *dataflow.Flow) ports {
		in, s := dataflow.SenderInput[string, int](dataflow.At[members](f), "in")
		return ports{in, keyedstream.Output(s, "out")}
	}
	app := start(t, journal.NewMemory(journal.MemoryOptions{Partitions: 4}), build, tiny)
	const ids, each = 9, 4
	for range 2 {
		for n := range each {
			for id := range ids {
				if err := app.Ports.in.Sender(fmt.Sprint(id)).SendNumbered(t.Context(), uint64(n), n); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	next := make(map[string]int)
	for range ids * each {
		e, err := app.Ports.out.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if e.Value != next[e.Key] {
			t.Errorf("%v after %d", e, next[e.Key])
		}
		next[e.Key]++
	}
	stop(t, app)
	if x, err := app.Ports.out.Next(t.Context()); err == nil {
		t.Errorf("%v came as well", x)
	}
}
