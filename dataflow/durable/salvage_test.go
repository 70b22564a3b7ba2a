package durable

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine"
)

// salvaged salvages a damaged history with the token of an error, starts a flow on the copy, and returns
// how many of the keys the copy lacks.
func salvaged(t *testing.T, bad *rotten, refused error, keys []string) (missing int) {
	t.Helper()
	var damaged *DamagedError
	if !errors.As(refused, &damaged) || len(damaged.Token) != 8 {
		t.Fatalf("no token: %v", refused)
	}
	opts := func() Options {
		bad.Memory = bad.Reopen()
		return quiet(Options{Log: journal.Opened{Log: *bad}})
	}
	to := &reopened{journal.NewMemory(journal.MemoryOptions{})}
	var without *DamagedError
	if _, err := Salvage(t.Context(), opts(), to); !errors.As(err, &without) || without.Token != damaged.Token || len(without.Lost) == 0 {
		t.Errorf("without a token: %v, want %s", err, damaged.Token)
	}
	if _, err := Salvage(t.Context(), opts(), to, damaged.Token, "01234567"); err == nil {
		t.Error("a token of nothing was accepted")
	}
	made, err := Salvage(t.Context(), opts(), to, damaged.Token)
	if err != nil {
		t.Fatalf("%v, to accept %v", err, without.Lost)
	}
	if len(made.Lost) != 1 || made.Lost[0].Token != damaged.Token || len(made.Lost[0].Lost) == 0 {
		t.Errorf("lost %+v", made.Lost)
	}
	t.Logf("lost: %q", made.Lost[0].Lost)
	app, err := Start(t.Context(), keptProcess, quiet(Options{Log: to, SnapshotAge: time.Hour}))
	if err != nil {
		t.Fatal(err)
	}
	if err := app.Ports.in.Put(t.Context(), "new", "v"); err != nil {
		t.Fatal(err)
	}
	await(t, app.Ports.out, "new", "got v") // so all earlier records were handled too
	for _, k := range keys {
		if v, ok := app.Ports.out.Get(k); !ok {
			missing++
		} else if v != "got v" {
			t.Errorf("%s: %q", k, v)
		}
	}
	stop(t, app)
	return missing
}

func keysNamed(prefix string, n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprint(prefix, i))
	}
	return keys
}

// A rottenPart is a log with one rotten partition.
type rottenPart struct {
	rotten
	partition int
}

func (l rottenPart) Read(ctx context.Context, p int, after uint64) (journal.Reader, error) {
	if p != l.partition {
		return l.Memory.Read(ctx, p, after)
	}
	return l.rotten.Read(ctx, p, after)
}

func (l rottenPart) Restore(ctx context.Context, p int) (*journal.History, error) {
	if p != l.partition {
		return l.Memory.Restore(ctx, p)
	}
	return l.rotten.Restore(ctx, p)
}

func (l rottenPart) Steps(ctx context.Context, p int, after uint64) (journal.StepReader, error) {
	if p != l.partition {
		return l.Memory.Steps(ctx, p, after)
	}
	return l.rotten.Steps(ctx, p, after)
}

// TestSalvageSends damages the later steps of one partition, either a sending or a receiving one. The
// records of these steps are taken again, and everything comes out of the copy once.
func TestSalvageSends(t *testing.T) {
	for partition := range 6 {
		t.Run(fmt.Sprint(partition), func(t *testing.T) {
			log := journal.NewMemory(journal.MemoryOptions{Partitions: 7})
			app := start(t, log, moving, Options{Partitions: 3, SnapshotAge: time.Hour, Flow: dataflow.Options{Buffer: 1 << 20}})
			want := make(map[string]bool)
			for n := range 120 {
				k := fmt.Sprint("k", n)
				if err := app.Ports.in.Put(t.Context(), k, n); err != nil {
					t.Fatal(err)
				}
				want[k] = true
			}
			for range want { // so all steps are committed; elements without an Ack come again
				if _, err := app.Ports.out.Receive(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			log.Crash()
			<-app.Done()

			lost := 0
			bad := rottenPart{rotten{Memory: log.Reopen(), history: func(h *journal.History) {
				if keep := len(h.Steps) / 2; keep > 0 {
					lost = len(h.Steps) - keep
					flip(h.Steps[keep].Data, .5)
				}
			}}, partition}
			opts := quiet(Options{Log: journal.Opened{Log: bad}, Partitions: 3})
			to := &reopened{journal.NewMemory(journal.MemoryOptions{Partitions: 7})}
			without, err := Salvage(t.Context(), opts, to)
			if err == nil || len(without.Lost) != 1 || without.Lost[0].Partition != partition || lost == 0 {
				t.Fatalf("%v, %+v", err, without.Lost)
			}
			bad.Memory = bad.Reopen()
			opts.Log = journal.Opened{Log: bad}
			if _, err := Salvage(t.Context(), opts, to, without.Lost[0].Token); err != nil {
				t.Fatal(err)
			}
			app, err = Start(t.Context(), moving, movingOptions(to))
			if err != nil {
				t.Fatal(err)
			}
			if err := app.Ports.in.Put(t.Context(), "new", 1); err != nil {
				t.Fatal(err)
			}
			want["new"] = true
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if err := came(ctx, app, make(map[string]bool), want); err != nil {
				t.Errorf("of what was salvaged, %v; it lost %q", err, without.Lost[0].Lost)
			}
			stop(t, app)
		})
	}
}

// A gone log returns ErrPurged for one partition, as if it had purged what the last snapshot needs, for
// the given number of questions. The end of each partition is its own.
type gone struct {
	*journal.Memory
	partition int
	questions *int
}

func (l gone) Restore(ctx context.Context, p int) (*journal.History, error) {
	if p == l.partition && *l.questions > 0 {
		*l.questions--
		return nil, journal.ErrPurged
	}
	h, err := l.Memory.Restore(ctx, p)
	if err != nil {
		return nil, err
	}
	r, err := l.Memory.Read(ctx, p, h.End)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	h.End, err = r.Last(ctx)
	return h, err
}

// TestCopyBehind copies a history while a partition saves a new snapshot and purges what the previous one
// needs. The copy contains everything that was acknowledged before.
func TestCopyBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{Partitions: 3})
		app := start(t, log, keptCluster, Options{Partitions: 3})
		for _, key := range keysNamed("k", 30) {
			if err := app.Ports.in.Put(t.Context(), key, "v"); err != nil {
				t.Fatal(err)
			}
		}
		log.Crash()
		<-app.Done()
		questions, last := 3, 0 // partition 0 gets the last record
		for ; ; last++ {
			encoded, err := CBOR().Append(nil, fmt.Sprint("last", last))
			if err != nil {
				t.Fatal(err)
			}
			if engine.PartitionOf(encoded, 3) == 0 {
				break
			}
		}
		log = log.Reopen()
		app = start(t, log, keptCluster, Options{Partitions: 3})
		if err := app.Ports.in.Put(t.Context(), fmt.Sprint("last", last), "v"); err != nil {
			t.Fatal(err)
		}
		log.Crash()
		<-app.Done()
		to := &reopened{journal.NewMemory(journal.MemoryOptions{Partitions: 3})}
		if _, err := Copy(t.Context(), quiet(Options{Log: journal.Opened{Log: gone{log.Reopen(), 0, &questions}}, Partitions: 3}), to); err != nil {
			t.Fatal(err)
		}
		app, err := Start(t.Context(), keptCluster, quiet(Options{Log: to, Partitions: 3}))
		if err != nil {
			t.Fatal(err)
		}
		await(t, app.Ports.out, fmt.Sprint("last", last), "got v")
		stop(t, app)
	})
}

// TestSalvageNothing has a partition of which nothing can be salvaged. It starts empty, and the others
// continue.
func TestSalvageNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{Partitions: 3})
		app := start(t, log, keptCluster, Options{Partitions: 3})
		parts := make(map[int]int) // number of keys of each partition
		for n := range 30 {
			key := fmt.Sprint("k", n)
			if err := app.Ports.in.Put(t.Context(), key, "v"); err != nil {
				t.Fatal(err)
			}
			encoded, err := CBOR().Append(nil, key)
			if err != nil {
				t.Fatal(err)
			}
			parts[engine.PartitionOf(encoded, 3)]++
		}
		stop(t, app)
		always := 1 << 30
		opts := func() Options {
			return quiet(Options{Log: journal.Opened{Log: gone{log.Reopen(), 1, &always}}, Partitions: 3})
		}
		to := &reopened{journal.NewMemory(journal.MemoryOptions{Partitions: 3})}
		if _, err := Copy(t.Context(), opts(), to); !errors.Is(err, ErrDamaged) {
			t.Errorf("a copy: %v", err)
		}
		to = &reopened{journal.NewMemory(journal.MemoryOptions{Partitions: 3})}
		made, err := Salvage(t.Context(), opts(), to)
		if err == nil || len(made.Lost) != 1 || made.Lost[0].Partition != 1 {
			t.Fatalf("%v, %+v", err, made.Lost)
		}
		if _, err := Salvage(t.Context(), opts(), to, made.Lost[0].Token); err != nil {
			t.Fatal(err)
		}
		app, err = Start(t.Context(), keptCluster, quiet(Options{Log: to, Partitions: 3}))
		if err != nil {
			t.Fatal(err)
		}
		there := 0
		for _, key := range keysNamed("k", 30) {
			if _, ok := app.Ports.out.Get(key); ok {
				there++
			} else if err := app.Ports.in.Put(t.Context(), key, "v"); err != nil {
				t.Fatal(err)
			}
			await(t, app.Ports.out, key, "got v")
		}
		if want := 30 - parts[1]; there != want || parts[1] == 0 {
			t.Errorf("%d keys are there, want %d", there, want)
		}
		stop(t, app)
	})
}
