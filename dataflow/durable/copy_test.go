package durable

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/keyedsingleton"
)

// logKinds are the kinds of logs, each with a function that makes an opener of a new one.
var logKinds = map[string]func(t *testing.T) journal.Opener{
	"memory": func(*testing.T) journal.Opener {
		return &reopened{journal.NewMemory(journal.MemoryOptions{Partitions: 7})}
	},
	"disklog": func(t *testing.T) journal.Opener { return disklog.Dir(t.TempDir()) },
	"natslog": func(t *testing.T) journal.Opener { return natslog.Embedded(t.TempDir()) },
}

// A reopened opens the same log in memory each time.
type reopened struct{ log *journal.Memory }

func (r *reopened) Open(ctx context.Context, o journal.OpenOptions) (journal.Log, error) {
	r.log = r.log.Reopen()
	return journal.Opened{Log: r.log}.Open(ctx, o)
}

func (*reopened) String() string { return "memory" }

type movedPorts struct {
	in  *dataflow.EntryInputPort[string, int]
	out *dataflow.OutputPort[string]
	bad *dataflow.EntryInputPort[string, int]
}

// moving returns a flow in which each partition of one location sends its entries to another
// location, which outputs them.
func moving(f *dataflow.Flow) (p movedPorts) {
	in, entries := keyedsingleton.Input[string, int](dataflow.At[members](f), "in")
	moved := keyedsingleton.Send(entries, dataflow.At[ledgers](f))
	p.in, p.out = in, dataflow.Output(dataflow.AssumeOrder(keyedsingleton.Keys(moved), "the test looks at the set"), "out")
	bad, unlucky := keyedsingleton.Input[string, int](dataflow.At[server](f), "bad")
	keyedsingleton.Output(keyedsingleton.Map(unlucky, func(int) int { panic("no") }), "none")
	p.bad = bad
	return p
}

// movingOptions returns options for frequent snapshots and large unread outputs.
func movingOptions(at journal.Opener) Options {
	return quiet(Options{Log: at, Partitions: 3, SnapshotBytes: 8 << 10, Flow: dataflow.Options{Buffer: 1 << 20}})
}

// came reads keys until it has seen all wanted ones. It returns an error if a key comes twice.
func came(ctx context.Context, app *App[movedPorts], seen map[string]bool, want map[string]bool) error {
	missing := 0
	for key := range want {
		if !seen[key] {
			missing++
		}
	}
	for missing > 0 {
		key, err := app.Ports.out.Next(ctx)
		if err != nil {
			return fmt.Errorf("%d of %d have not come: %w", missing, len(want), err)
		}
		if seen[key] {
			return fmt.Errorf("%s has come twice", key)
		}
		if seen[key] = true; want[key] {
			missing--
		}
	}
	return nil
}

// TestCopy copies histories between all kinds of logs, both after a stop and after a kill, and
// continues with the copies.
func TestCopy(t *testing.T) {
	for fromKind, newFrom := range logKinds {
		for toKind, newTo := range logKinds {
			for _, records := range []int{0, 300} {
				t.Run(fmt.Sprint(fromKind, " to ", toKind, " ", records), func(t *testing.T) {
					from, to := newFrom(t), newTo(t)
					app := start(t, nil, moving, movingOptions(from))
					want := make(map[string]bool)
					var keys []string
					for n := range records {
						keys = append(keys, fmt.Sprint("k", n))
						want[keys[n]] = true
					}
					for i := 0; i < len(keys); i += 10 {
						batch := keys[i:min(i+10, len(keys))]
						if _, err := app.Ports.in.PutBatch(t.Context(), batch, make([]int, len(batch))); err != nil {
							t.Fatal(err)
						}
					}
					if err := app.Ports.bad.Put(t.Context(), "x", 1); !errors.As(err, new(*QuarantinedError)) {
						t.Fatal(err)
					}
					running, err := app.Backup(t.Context(), to)
					if err != nil {
						t.Fatal(err)
					}
					if id := app.core.log.Identity(); running.Identity == id || running.Identity == (journal.Identity{}) || len(running.Partitions) != 7 {
						t.Errorf("%+v, of %v", running, id)
					}
					if _, err := app.Backup(t.Context(), to); !errors.Is(err, ErrExists) {
						t.Errorf("a second copy there: %v", err)
					}
					stop(t, app)
					again := newTo(t)
					stopped, err := Copy(t.Context(), movingOptions(from), again)
					if err != nil {
						t.Fatal(err)
					}
					for _, p := range stopped.Partitions {
						if p.Snapshot == 0 || p.Last != p.Snapshot {
							t.Errorf("the copy of a flow that was stopped: %+v", p)
						}
					}
					for what, at := range map[string]journal.Opener{"running": to, "stopped": again} {
						app := start(t, nil, moving, movingOptions(at))
						seen := make(map[string]bool)
						err := came(t.Context(), app, seen, want)
						if e := app.Ports.in.Put(t.Context(), "later", 1); err == nil {
							err = errors.Join(e, came(t.Context(), app, seen, map[string]bool{"later": true}))
						}
						if err != nil {
							t.Errorf("%s: %v", what, err)
						}
						if records > 0 {
							if err := app.Ports.in.Put(t.Context(), "k0", 1); !errors.Is(err, dataflow.ErrDuplicateKey) {
								t.Errorf("%s: a key again: %v", what, err)
							}
						}
						if letters, err := app.Quarantine(t.Context()); err != nil || len(letters) != 1 {
							t.Errorf("%s: in quarantine: %v, %v", what, letters, err)
						}
						stop(t, app)
						if _, err := Check(t.Context(), movingOptions(at)); err != nil {
							t.Errorf("%s: %v", what, err)
						}
					}
				})
			}
		}
	}
}

// A broken target fails at its nth append or commit and thereby ends a copy.
type broken struct {
	journal.Opener
	left int
}

func (b *broken) Open(ctx context.Context, o journal.OpenOptions) (journal.Log, error) {
	l, err := b.Opener.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return &brokenLog{l.(journal.Target), b}, nil
}

type brokenLog struct {
	journal.Target
	b *broken
}

func (l *brokenLog) Append(ctx context.Context, p int, records ...[]byte) (uint64, error) {
	if l.b.left--; l.b.left < 0 {
		return 0, journal.ErrFull
	}
	return l.Target.Append(ctx, p, records...)
}

// TestCopyUnfinished interrupts copies. An unfinished copy can neither be started nor copied to.
func TestCopyUnfinished(t *testing.T) {
	for kind, open := range logKinds {
		t.Run(kind, func(t *testing.T) {
			log := journal.NewMemory(journal.MemoryOptions{})
			app := start(t, log, keptProcess, Options{})
			for n := range 5 {
				if err := app.Ports.in.Put(t.Context(), fmt.Sprint("k", n), "v"); err != nil {
					t.Fatal(err)
				}
			}
			to := open(t)
			if kind == "memory" {
				to = &reopened{journal.NewMemory(journal.MemoryOptions{})}
			}
			if _, err := app.Backup(t.Context(), &broken{to, 2}); !errors.Is(err, journal.ErrFull) {
				t.Errorf("a copy that has no room: %v", err)
			}
			for what, try := range map[string]func() error{
				"start": func() error {
					_, err := Start(t.Context(), keptProcess, quiet(Options{Log: to}))
					return err
				},
				"copy":  func() error { _, err := app.Backup(t.Context(), to); return err },
				"check": func() error { _, err := Check(t.Context(), quiet(Options{Log: to})); return err },
			} {
				if err := try(); !errors.Is(err, journal.ErrUnfinished) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if _, err := app.Backup(t.Context(), nil); err == nil {
				t.Error("a copy to nowhere")
			}
			stop(t, app)
		})
	}
}

// TestCopyRefusesOthers sends a record that was made for a history to its copy. The copy refuses it
// as a record of another history.
func TestCopyRefusesOthers(t *testing.T) {
	from := journal.NewMemory(journal.MemoryOptions{})
	app := start(t, from, keptProcess, Options{})
	if err := app.Ports.in.Put(t.Context(), "before", "v"); err != nil {
		t.Fatal(err)
	}
	to := journal.NewMemory(journal.MemoryOptions{})
	if _, err := app.Backup(t.Context(), &reopened{to}); err != nil {
		t.Fatal(err)
	}
	late := app.core.originOf(0).record(nil, 0, putRecord(t, app, "late"))
	stop(t, app)
	app = start(t, to.Reopen(), keptProcess, Options{})
	await(t, app.Ports.out, "before", "got v")
	if _, err := to.Reopen().Append(t.Context(), 0, late); err != nil {
		t.Fatal(err)
	}
	select {
	case <-app.Done():
		if err := app.Err(); !errors.Is(err, ErrDamaged) {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("a record of another history was taken")
	}
}
