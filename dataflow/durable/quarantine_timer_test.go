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
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

const forget = -1 // a number that makes the flow forget its key

type alarmPorts struct {
	in    *dataflow.KeyedInputPort[string, int]
	sums  *dataflow.EntryOutputPort[string, int]
	heard *dataflow.OutputPort[dataflow.Entry[string, int]]
}

// alarming returns a flow that adds up the numbers of a key until none arrived for a second. The
// timer function panics for the keys that fails selects, and an operator below it panics for those
// that below selects.
func alarming(fails, below func(string) bool) func(*dataflow.Flow) alarmPorts {
	return func(f *dataflow.Flow) alarmPorts {
		type turn = keyedstream.TimedTurn[string, int, int]
		in, numbers := keyedstream.Input[string, int](dataflow.At[members](f), "in")
		heard, sums := keyedstream.TimedMachine(numbers, func() int { return 0 },
			func(sum *int, x int, do *turn) {
				*sum += x
				do.After(7, time.Second)
				if x == forget {
					do.Forget()
				}
			},
			func(sum *int, timer keyedstream.Timer, do *turn) {
				if fails(do.Key()) {
					panic("no alarm of " + do.Key())
				}
				do.Emit(*sum)
				do.Decide(*sum)
			}, "tested")
		checked := keyedstream.InspectWithKey(heard, func(k string, _ int) {
			if below(k) {
				panic("nobody may hear of " + k)
			}
		})
		return alarmPorts{in, keyedsingleton.Output(sums, "sums"), keyedstream.Output(checked, "heard")}
	}
}

// TestQuarantinedTimers has timers on which a function panics. These timers are held, all others
// fire, and the keys take further numbers. A retried timer fires when the program can handle it,
// and a dropped one never does. This also holds after a kill, and with snapshots that contain the
// timers.
func TestQuarantinedTimers(t *testing.T) {
	for _, below := range []bool{false, true} {
		for _, killed := range []bool{false, true} {
			for _, together := range []bool{false, true} {
				t.Run(fmt.Sprintf("below=%v/killed=%v/together=%v", below, killed, together), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { quarantinedTimers(t, below, killed, together) })
				})
			}
		}
	}
}

func quarantinedTimers(t *testing.T, below, killed, together bool) {
	var mended atomic.Bool
	bad := func(k string) bool { return !mended.Load() && strings.HasSuffix(k, "3") }
	never := func(string) bool { return false }
	build := alarming(bad, never)
	if below {
		build = alarming(never, bad)
	}
	log := journal.NewMemory(journal.MemoryOptions{Partitions: 2})
	o := Options{SnapshotBytes: 500}
	app := start(t, log, build, o)
	send := func(k string, x int) {
		t.Helper()
		if err := app.Ports.in.Send(t.Context(), k, x); err != nil {
			t.Fatal(err)
		}
		if !together {
			time.Sleep(time.Millisecond)
		}
	}
	const keys = 40
	for k := range keys {
		send(fmt.Sprint("k", k), k)
	}
	send("k13", 1000) // to a key whose timer will fail
	time.Sleep(2 * time.Second)
	letters := func(want int) []Letter {
		t.Helper()
		if killed {
			app.core.abandoned.Store(true)
			stop(t, app)
			app = start(t, log.Reopen(), build, o)
			time.Sleep(time.Second)
		}
		all, err := app.Quarantine(t.Context())
		if err != nil || len(all) != want {
			t.Fatalf("%d letters in quarantine (%v), want %d: %+v", len(all), err, want, all)
		}
		return all
	}
	all := letters(4) // k3, k13, k23, k33
	for _, l := range all {
		if !strings.Contains(l.Reason, "3") || l.Operator == "" || l.Record == nil || string(l.Record) != "\a" {
			t.Errorf("a letter is %+v", l)
		}
	}
	want := func(key string, sum int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if got, err := app.Ports.sums.Await(ctx, key); err != nil || got != sum {
			t.Errorf("the sum of %s is %d (%v), want %d", key, got, err, sum)
		}
	}
	for k := range keys {
		if key := fmt.Sprint("k", k); !strings.HasSuffix(key, "3") {
			want(key, k)
		}
	}
	send("k3", 100) // sets the timer again, which fails too
	time.Sleep(2 * time.Second)
	for _, l := range letters(4) { // the program is not fixed yet
		var still *QuarantinedError
		if err := app.Retry(t.Context(), l.Partition, l.ID); !errors.As(err, &still) || still.Letter != l.ID {
			t.Errorf("Retry of %s, which fails again: %v", l.Key, err)
		}
	}
	time.Sleep(2 * time.Second)
	mended.Store(true)
	for _, l := range letters(4) {
		var key string
		if err := CBOR().Decode(l.Key, &key); err != nil {
			t.Fatal(err)
		}
		settle := app.Retry
		switch key {
		case "k23":
			settle = app.Drop
		case "k33": // the timer is set again before the drop
			send(key, 7)
			settle = app.Drop
		}
		if err := settle(t.Context(), l.Partition, l.ID); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	letters(0)
	want("k3", 103)
	want("k13", 1013)
	want("k33", 40)
	if sum, there := app.Ports.sums.Get("k23"); there {
		t.Errorf("k23, whose timer was dropped, has the sum %d", sum)
	}
	stop(t, app) // saves snapshots without held timers
	app = start(t, log.Reopen(), build, o)
	send("k23", 5)
	want("k23", 28)
	if app.Ports.sums.Len() > keys {
		t.Errorf("%d sums of %d keys", app.Ports.sums.Len(), keys)
	}
	send("k23", forget)
	time.Sleep(2 * time.Second)
	if _, there := app.Ports.sums.Get("k23"); there {
		t.Error("k23 is forgotten, and has a sum")
	}
	stop(t, app)
}
