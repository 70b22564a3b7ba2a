package durable

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/keyedsingleton"
)

// An unreadCase bounds the size of unread output.
type unreadCase struct {
	limit, buffer, partitions int
	more                      int // sent while it is read
	killed                    bool
}

func (c unreadCase) options() Options {
	o := onlyFull
	o.Flow.Buffer = c.buffer
	return o
}

func eachUnread(t *testing.T, do func(*testing.T, unreadCase)) {
	for _, limit := range []int{1 << 20, 2 << 20, 8 << 20} {
		for _, buffer := range []int{10, 100, 1000} {
			for _, partitions := range []int{1, 3} {
				for _, more := range []int{0, 200} {
					for _, killed := range []bool{false, true} {
						c := unreadCase{limit, buffer, partitions, more, killed}
						t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
							synctest.Test(t, func(t *testing.T) { do(t, c) })
						})
					}
				}
			}
		}
	}
}

// fill sends until nothing has been accepted for a minute. If the case says so, it kills and
// restarts the flow. It returns how many sends were accepted.
func fill[P any](t *testing.T, c unreadCase, build func(*dataflow.Flow) P, send func(context.Context, *App[P], int) error) (*App[P], int) {
	log := journal.NewMemory(journal.MemoryOptions{MaxBytes: c.limit, Partitions: c.partitions})
	within(t, log)
	app := start(t, log, build, c.options())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	sent := 0
	for ; send(ctx, app, sent) == nil; sent++ {
	}
	if c.killed {
		app.core.abandoned.Store(true)
		stop(t, app)
		log = log.Reopen()
		within(t, log)
		app = start(t, log, build, c.options())
	}
	return app, sent
}

// TestFullOfOutputs reads nothing until no more sends are accepted. Reading makes room.
func TestFullOfOutputs(t *testing.T) {
	eachUnread(t, func(t *testing.T, c unreadCase) {
		send := func(ctx context.Context, app *App[chunkPorts], i int) error {
			return app.Ports.in.Send(ctx, fmt.Sprint("key-", i%16), chunk{Data: noise(10 << 10), Echo: true})
		}
		app, sent := fill(t, c, chunkFlow, send)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		go func() {
			for i := range c.more {
				if send(ctx, app, i) != nil {
					return
				}
			}
		}()
		for i := range sent + c.more {
			if _, err := app.Ports.out.Next(ctx); err != nil {
				t.Errorf("after %d of %d: %v", i, sent+c.more, err)
				app.core.abandoned.Store(true)
				break
			}
		}
		stop(t, app)
	})
}

type entryPorts struct {
	in  *dataflow.EntryInputPort[string, []byte]
	out *dataflow.EntryOutputPort[string, []byte]
}

// passed outputs its entries.
func passed(f *dataflow.Flow) entryPorts {
	in, all := keyedsingleton.Input[string, []byte](dataflow.At[members](f), "in")
	return entryPorts{in, keyedsingleton.Output(all, "out")}
}

// TestFullOfEntries takes nothing until no more entries are accepted. Taking them makes room for
// new entries.
func TestFullOfEntries(t *testing.T) {
	eachUnread(t, func(t *testing.T, c unreadCase) {
		send := func(ctx context.Context, app *App[entryPorts], i int) error {
			return app.Ports.in.Put(ctx, fmt.Sprint("key-", i), noise(10<<10))
		}
		app, sent := fill(t, c, passed, send)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for i := range sent {
			if _, err := app.Ports.out.Take(ctx, fmt.Sprint("key-", i)); err != nil {
				t.Errorf("after %d of %d: %v", i, sent, err)
				app.core.abandoned.Store(true)
				break
			}
		}
		stop(t, app)
	})
}

// TestFullOfOutputsOnDisk fills logs on disk with unread outputs, reads them, and repeats this.
func TestFullOfOutputsOnDisk(t *testing.T) {
	for name, log := range map[string]journal.Opener{
		"disklog": disklog.Dir(t.TempDir()), "natslog": natslog.Embedded(t.TempDir()),
	} {
		t.Run(name, func(t *testing.T) {
			o := onlyFull
			o.Log, o.MaxBytes, o.Flow.Buffer, o.Partitions = log, 8<<20, 1000, 2
			app := start(t, nil, chunkFlow, o)
			sent := 0
			send := func(ctx context.Context) error {
				return app.Ports.in.Send(ctx, fmt.Sprint("key-", sent%16), chunk{Data: noise(32 << 10), Echo: true})
			}
			for range 3 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				if err := send(ctx); err != nil { // room may appear some time after all was read
					t.Fatal(err)
				}
				cancel()
				ctx, cancel = context.WithTimeout(t.Context(), time.Second)
				for sent = 1; send(ctx) == nil; sent++ {
				}
				cancel()
				ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
				for i := range sent {
					if _, err := app.Ports.out.Next(ctx); err != nil {
						t.Fatalf("after %d of %d: %v", i, sent, err)
					}
				}
				cancel()
				t.Logf("%d MiB", sent>>5)
			}
			stop(t, app)
		})
	}
}
