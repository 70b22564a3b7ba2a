package durable

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/singleton"
)

// TestQuarantinedInterval has a function fail on some firings of an interval. These firings are
// held, and all others happen. A retried firing happens when the program can handle it, and a
// dropped one never does. A firing that was missed while the program was down stays missed.
func TestQuarantinedInterval(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed=%v", killed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { quarantinedInterval(t, killed) })
		})
	}
}

func quarantinedInterval(t *testing.T, killed bool) {
	var mended atomic.Bool
	const period = 10 * time.Second
	build := func(f *dataflow.Flow) *dataflow.SingletonOutputPort[string] {
		ticks := dataflow.Map(dataflow.Interval(dataflow.At[server](f), period, "tested"), func(d time.Duration) int {
			i := int(d / period)
			if i%3 == 2 && !mended.Load() {
				panic(fmt.Sprint("no tick ", i))
			}
			return i
		})
		return singleton.Output(dataflow.Fold(ticks, func() string { return "" }, func(all *string, i int) { *all += fmt.Sprint(" ", i) }), "ticks")
	}
	log := journal.NewMemory(journal.MemoryOptions{})
	o := Options{SnapshotBytes: 50}
	app := start(t, log, build, o)
	want := func(ticks string) {
		t.Helper()
		synctest.Wait()
		if got, _ := app.Ports.Latest(); got != " "+ticks {
			t.Errorf("the ticks are%s, want %s", got, ticks)
		}
	}
	restart := func() {
		if killed {
			app.core.abandoned.Store(true)
		}
		stop(t, app)
		log = log.Reopen()
		app = start(t, log, build, o)
	}
	letters := func(want int) []Letter {
		t.Helper()
		restart()
		synctest.Wait()
		all, err := app.Quarantine(t.Context())
		if err != nil || len(all) != want {
			t.Fatalf("%d letters in quarantine (%v), want %d: %+v", len(all), err, want, all)
		}
		return all
	}
	time.Sleep(9*period + period/2)
	want("1 3 4 6 7 9")
	for i, l := range letters(3) {
		if l.Key != nil || l.Behind != 0 || !strings.Contains(l.Operator, "Interval") || l.Reason != fmt.Sprint("panic: no tick ", 3*i+2) || l.Record != nil {
			t.Errorf("letter %d is %+v", i, l)
		}
		var still *QuarantinedError
		if err := app.Retry(t.Context(), l.Partition, l.ID); !errors.As(err, &still) || still.Letter != l.ID {
			t.Errorf("Retry of letter %d, which fails again: %v", i, err)
		}
	}
	mended.Store(true)
	all := letters(3)
	if err := app.Drop(t.Context(), 0, all[1].ID); err != nil {
		t.Error(err)
	}
	for _, l := range []Letter{all[2], all[0]} {
		if err := app.Retry(t.Context(), 0, l.ID); err != nil {
			t.Error(err)
		}
		if err := app.Retry(t.Context(), 0, l.ID); !errors.Is(err, ErrNoLetter) {
			t.Errorf("the second Retry: %v", err)
		}
	}
	want("1 3 4 6 7 9 8 2")
	time.Sleep(2 * period)
	letters(0)
	want("1 3 4 6 7 9 8 2 10 11")
	mended.Store(false)
	stop(t, app)
	time.Sleep(9 * period) // firings 12 to 20 become due; only the last one happens, and it fails
	log = log.Reopen()
	app = start(t, log, build, o)
	time.Sleep(period)
	mended.Store(true)
	for _, l := range letters(1) {
		if err := app.Retry(t.Context(), 0, l.ID); err != nil {
			t.Error(err)
		}
	}
	want("1 3 4 6 7 9 8 2 10 11 21 20")
	stop(t, app)
}
