package durable

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// A chair belongs to the room that it is in.
type chair struct {
	Room string
	N    int
}

func (s chair) Affinity() string { return s.Room }

type room string

func (r room) Affinity() string { return string(r) }

type roomPorts struct {
	taken *dataflow.KeyedInputPort[chair, string]
	held  *dataflow.EntryInputPort[chair, int]
	seats *dataflow.EntryOutputPort[chair, int]
	full  *dataflow.EntryOutputPort[room, int]
	by    *dataflow.EntryOutputPort[dataflow.Pair[string, chair], string]
	moved *dataflow.EntryOutputPort[chair, int]
}

// rooms counts the taken seats of a room. A room with three is full.
func rooms(f *dataflow.Flow) (p roomPorts) {
	at := dataflow.At[members](f)
	in, taken := keyedstream.Input[chair, string](at, "taken")
	puts, held := keyedsingleton.Input[chair, int](at, "held")
	p.taken, p.held = in, puts
	p.seats = keyedsingleton.Output(held, "seats")
	p.full = keyedsingleton.Output(keyedstream.FoldEarlyStop(
		keyedstream.AssumeOrder(keyedstream.Rekey(taken, func(s chair, _ string) room { return room(s.Room) }), "seats are counted"),
		func() int { return 0 }, func(n *int, _ string) bool { *n++; return *n == 3 }), "full")
	p.by = keyedsingleton.Output(keyedstream.First(keyedstream.PrefixKey(taken, func(_ chair, who string) string { return who })), "by whom")
	p.moved = keyedsingleton.Output(keyedsingleton.Send(held, dataflow.At[ledgers](f)), "moved")
	return p
}

// TestAffinity checks that every user of a key looks in the partition that holds it: senders, calls that
// wait, take or ask, moves to another location, and a restart, which drops keys that do not belong to a
// partition.
func TestAffinity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{Partitions: 16})
		opts := Options{Partitions: 8}
		app := start(t, log, rooms, opts)
		ctx := t.Context()
		for r := range 20 {
			for n := range 3 {
				s := chair{fmt.Sprint("room ", r), n}
				if err := errors.Join(app.Ports.taken.Send(ctx, s, "ann"), app.Ports.held.Put(ctx, s, r)); err != nil {
					t.Fatal(err)
				}
			}
		}
		look := func(when string) {
			t.Helper()
			for r := range 20 {
				name := fmt.Sprint("room ", r)
				if n, err := app.Ports.full.Await(ctx, room(name)); n != 3 || err != nil {
					t.Errorf("%s, %s: %d %v", when, name, n, err)
				}
				for n := range 3 {
					if is, err := app.Ports.held.Has(ctx, chair{name, n}); !is || err != nil {
						t.Errorf("%s, %s, chair %d: %v %v", when, name, n, is, err)
					}
					if who, err := app.Ports.by.Await(ctx, dataflow.Pair[string, chair]{First: "ann", Second: chair{name, n}}); who != "ann" || err != nil {
						t.Errorf("%s, %s, chair %d: %q %v", when, name, n, who, err)
					}
					if v, err := app.Ports.moved.Await(ctx, chair{name, n}); v != r || err != nil {
						t.Errorf("%s, %s, chair %d was moved as %d: %v", when, name, n, v, err)
					}
				}
			}
		}
		look("at first")
		used := make(map[int]bool)
		for r := range 20 {
			used[engine.PartitionOf(fmt.Append(nil, "room ", r), 8)] = true
		}
		for p := range 8 {
			if n := app.core.gateway.partitions[p].takenUpTo(); n > 0 != used[p] {
				t.Errorf("partition %d took records up to %d, and it has rooms is %v", p, n, used[p])
			}
		}
		for r := range 20 {
			s := chair{fmt.Sprint("room ", r), 0}
			if v, err := app.Ports.seats.Take(ctx, s); v != r || err != nil {
				t.Errorf("taking %v: %d %v", s, v, err)
			}
		}
		stop(t, app)
		app = start(t, log.Reopen(), rooms, opts)
		look("after a restart")
		waiting, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if v, err := app.Ports.seats.Await(waiting, chair{"room 0", 0}); err == nil {
			t.Errorf("a seat that was taken is there again: %d", v)
		}
		if v, err := app.Ports.seats.Await(ctx, chair{"room 7", 2}); v != 7 || err != nil {
			t.Errorf("%d %v", v, err)
		}
		stop(t, app)
	})
}

// TestAffinityOfOne pins where keys are placed: histories depend on it.
func TestAffinityOfOne(t *testing.T) {
	for by, want := range map[string]int{"": 37, "a": 12, "session 1": 12, "é": 1} {
		if p := engine.PartitionOf([]byte(by), 64); p != want {
			t.Errorf("%q is placed in %d", by, p)
		}
	}
}

// TestMisplaced checks that an entry in another partition than its key says is reported. Otherwise nobody
// could read it, without any error.
func TestMisplaced(t *testing.T) {
	type ports struct {
		in  *dataflow.KeyedInputPort[chair, string]
		out *dataflow.EntryOutputPort[room, string]
	}
	build := func(f *dataflow.Flow) ports {
		in, seats := keyedstream.Input[chair, string](dataflow.At[members](f), "in")
		byName := keyedstream.Rekey(seats, func(_ chair, who string) room { return room(who) })
		return ports{in, keyedsingleton.Output(keyedstream.First(keyedstream.AssumeOrder(byName, "each has one")), "by name")}
	}
	synctest.Test(t, func(t *testing.T) {
		app := start(t, journal.NewMemory(journal.MemoryOptions{Partitions: 3}), build, Options{Partitions: 3})
		ctx := t.Context()
		for i := range 8 {
			if err := app.Ports.in.Send(ctx, chair{Room: fmt.Sprint(i)}, fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
			if err := app.Ports.in.Send(ctx, chair{Room: fmt.Sprint(i)}, fmt.Sprint("who ", i)); err != nil {
				t.Fatal(err)
			}
			if who, err := app.Ports.out.Await(ctx, room(fmt.Sprint(i))); who != fmt.Sprint(i) || err != nil {
				t.Errorf("%q %v", who, err)
			}
		}
		synctest.Wait()
		letters, err := app.Quarantine(ctx)
		if err != nil || len(letters) == 0 {
			t.Fatalf("%d letters, %v", len(letters), err)
		}
		for _, l := range letters {
			if !strings.Contains(l.Reason, `belongs where the affinity "who `) || !strings.Contains(l.Operator, "by name") {
				t.Errorf("%s: %s", l.Operator, l.Reason)
			}
		}
		stop(t, app)
	})
}

// TestMisplacedMadeKey is TestMisplaced for keys without an affinity. A key that a function made is in its partition if it is the
// key of the record, after keyedstream.Send, or by chance.
func TestMisplacedMadeKey(t *testing.T) {
	type ports struct {
		in          *dataflow.KeyedInputPort[int, string]
		same        *dataflow.EntryOutputPort[int, string]
		made, moved *dataflow.EntryOutputPort[string, string]
	}
	build := func(f *dataflow.Flow) ports {
		in, names := keyedstream.Input[int, string](dataflow.At[members](f), "in")
		same := keyedstream.Rekey(names, func(n int, _ string) int { return n })
		byName := keyedstream.AssumeOrder(keyedstream.Rekey(names, func(_ int, name string) string { return name }), "each has one")
		moved := keyedstream.Send(byName, dataflow.At[ledgers](f))
		return ports{
			in: in, same: keyedsingleton.Output(keyedstream.First(keyedstream.AssumeOrder(same, "each has one")), "same"),
			made: keyedsingleton.Output(keyedstream.First(byName), "made"), moved: keyedsingleton.Output(keyedstream.First(moved), "moved"),
		}
	}
	names := func(t *testing.T, partitions int) (app *App[ports], letters []Letter) {
		app = start(t, journal.NewMemory(journal.MemoryOptions{Partitions: 2 * partitions}), build, Options{Partitions: partitions})
		for i := range 16 {
			if err := app.Ports.in.Send(t.Context(), i, fmt.Sprint("name ", i)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		letters, err := app.Quarantine(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return app, letters
	}
	synctest.Test(t, func(t *testing.T) {
		app, letters := names(t, 3)
		found := 0
		for i := range 16 {
			name := fmt.Sprint("name ", i)
			if _, ok := app.Ports.made.Get(name); !ok {
				continue
			}
			found++
			if same, ok := app.Ports.same.Get(i); same != name || !ok {
				t.Errorf("%s has its own key: %q, %v", name, same, ok)
			}
			if moved, ok := app.Ports.moved.Get(name); moved != name || !ok {
				t.Errorf("%s was moved: %q, %v", name, moved, ok)
			}
		}
		if len(letters) == 0 || found == 0 || found+len(letters) != 16 {
			t.Errorf("%d entries are found, and %d are in the quarantine, of 16", found, len(letters))
		}
		for _, l := range letters {
			if !strings.Contains(l.Reason, "the key name ") || !strings.Contains(l.Reason, "belongs where its encoding is placed, and that is partition") || !strings.Contains(l.Operator, "made") {
				t.Errorf("%s: %s", l.Operator, l.Reason)
			}
		}
		stop(t, app)
	})
	synctest.Test(t, func(t *testing.T) {
		app, letters := names(t, 1)
		if len(letters) > 0 {
			t.Errorf("with one partition: %s", letters[0].Reason)
		}
		stop(t, app)
	})
}

// TestMisplacedBehindCall is TestMisplacedMadeKey for keys that are made of answers. The calls are not made again.
func TestMisplacedBehindCall(t *testing.T) {
	type ports struct {
		in  *dataflow.KeyedInputPort[int, string]
		out *dataflow.EntryOutputPort[string, string]
	}
	var calls atomic.Int32
	build := func(f *dataflow.Flow) ports {
		in, names := keyedstream.Input[int, string](dataflow.At[members](f), "in")
		first := keyedstream.First(keyedstream.AssumeOrder(names, "each has one"))
		called := keyedsingleton.MapAsync(first, func(_ context.Context, name string) string {
			calls.Add(1)
			return name
		}, keyedsingleton.AsyncOptions{})
		byName := keyedstream.Rekey(keyedsingleton.IntoKeyedStream(called), func(_ int, name string) string { return name })
		return ports{in, keyedsingleton.Output(keyedstream.First(keyedstream.AssumeOrder(byName, "each has one")), "by name")}
	}
	synctest.Test(t, func(t *testing.T) {
		app := start(t, journal.NewMemory(journal.MemoryOptions{Partitions: 3}), build, Options{Partitions: 3})
		for i := range 16 {
			if err := app.Ports.in.Send(t.Context(), i, fmt.Sprint("name ", i)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		letters, err := app.Quarantine(t.Context())
		if err != nil || len(letters) == 0 || len(letters) == 16 || calls.Load() < 16 {
			t.Errorf("%d calls, %d letters, %v", calls.Load(), len(letters), err)
		}
		for _, l := range letters {
			if !strings.Contains(l.Reason, "belongs where its encoding is placed, and that is partition") || !strings.Contains(l.Operator, "by name") {
				t.Errorf("%s: %s", l.Operator, l.Reason)
			}
		}
		readable := 0
		for i := range 16 {
			if _, ok := app.Ports.out.Get(fmt.Sprint("name ", i)); ok {
				readable++
			}
		}
		if readable+len(letters) != 16 {
			t.Errorf("%d entries can be read, and %d are in quarantine, of 16", readable, len(letters))
		}
		stop(t, app)
	})
}

type plainChair struct {
	Room string
	N    int
}

// TestAffinityIsNew checks that a history with several partitions is refused if its key type has gained an affinity since,
// because its keys would be looked for in the wrong partitions. With one partition nothing has to move.
func TestAffinityIsNew(t *testing.T) {
	again := func(t *testing.T, partitions int) (*App[*dataflow.EntryInputPort[chair, int]], error) {
		log := journal.NewMemory(journal.MemoryOptions{Partitions: partitions})
		app := start(t, log, seatsOf[plainChair], Options{Partitions: partitions})
		if err := app.Ports.Put(t.Context(), plainChair{"a", 1}, 1); err != nil {
			t.Fatal(err)
		}
		stop(t, app)
		return Start(t.Context(), seatsOf[chair], quiet(Options{Partitions: partitions, Log: journal.Opened{Log: log.Reopen()}, Upgrade: []Change{
			Convert("input seats", func(s plainChair) chair { return chair(s) }), Convert("output all", func(s plainChair) chair { return chair(s) }),
		}}))
	}
	synctest.Test(t, func(t *testing.T) {
		app, err := again(t, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := app.Ports.Put(t.Context(), chair{"a", 1}, 1); !errors.Is(err, dataflow.ErrDuplicateKey) {
			t.Errorf("the seat from before: %v", err)
		}
		stop(t, app)
	})
	synctest.Test(t, func(t *testing.T) {
		_, err := again(t, 2)
		if !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "the keys of input seats were placed by themselves, and are placed by their Affinity") {
			t.Errorf("%v", err)
		}
	})
}

// seatsOf returns a flow with keys of the given type.
func seatsOf[K comparable](f *dataflow.Flow) *dataflow.EntryInputPort[K, int] {
	in, seats := keyedsingleton.Input[K, int](dataflow.At[members](f), "seats")
	keyedsingleton.Output(seats, "all")
	return in
}

type (
	pointedKey struct{ N int }
	numberKey  struct{ N int }
)

func (p *pointedKey) Affinity() string { return "" }
func (numberKey) Affinity() int        { return 0 }

// TestWrongAffinity checks that a method that looks like an affinity, but is none, is an error.
func TestWrongAffinity(t *testing.T) {
	for want, build := range map[string]func(*dataflow.Flow){
		"has a pointer receiver": func(f *dataflow.Flow) { seatsOf[pointedKey](f) },
		"is not a func() string": func(f *dataflow.Flow) { seatsOf[numberKey](f) },
	} {
		func() {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.HasPrefix(text, "keyedsingleton: Input") || !strings.Contains(text, want) {
					t.Error(text)
				}
			}()
			build(dataflow.New())
		}()
	}
	f := dataflow.New()
	keyedsingleton.Input[numberKey, int](dataflow.At[server](f), "of one instance") // nothing partitions these keys
}
