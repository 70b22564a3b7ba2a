package durable

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// TestWrongClock starts a flow while the system clock is wrong, and twice after it was
// corrected. Time in the flow never goes back. It is right if the clock always was, and
// becomes right again otherwise.
func TestWrongClock(t *testing.T) {
	const week = 7 * 24 * time.Hour
	for _, test := range []struct {
		name           string
		wrong          time.Duration // offset of the clock at the second start
		second, fourth time.Duration // offset of the flow's time at the second start, and a day after the third
	}{
		{"right", 0, 0, 0},
		{"an hour ahead", time.Hour, time.Hour, 0},
		{"an hour behind", -time.Hour, -time.Minute, 0},
		{"ten years ahead", 10 * 365 * 24 * time.Hour, week - time.Minute, week - time.Minute - 12*time.Hour},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := journal.NewMemory(journal.MemoryOptions{})
				wrong := time.Duration(0)
				o := Options{KeepFor: Forever, Now: func() time.Time { return time.Now().Add(wrong) }}
				n := 0
				run := func(d time.Duration) time.Duration { // makes a step after d and returns the offset of its time
					app := start(t, log, keptProcess, o)
					time.Sleep(d)
					n++
					if err := app.Ports.in.Put(t.Context(), fmt.Sprint("k", n), "v"); err != nil {
						t.Fatal(err)
					}
					stop(t, app)
					log = log.Reopen()
					h, err := OpenHistory(t.Context(), keptProcess, quiet(Options{Log: journal.Opened{Log: log}}))
					if err != nil {
						t.Fatal(err)
					}
					defer func() { log = log.Reopen() }()
					defer h.Close()
					var at, before time.Time
					for s, err := range h.Steps(t.Context(), 0) {
						if err != nil {
							t.Fatal(err)
						}
						if before, at = at, s.At; at.Before(before) {
							t.Errorf("step %d is at %v, after one at %v", s.Number, at, before)
						}
					}
					return time.Until(at).Round(time.Second)
				}
				if by := run(0); by != 0 {
					t.Errorf("at the first start the flow's time is wrong by %v", by)
				}
				time.Sleep(time.Minute)
				wrong = test.wrong
				if by := run(0); by != test.second {
					t.Errorf("at the second start the flow's time is wrong by %v, want %v", by, test.second)
				}
				wrong = 0
				if by := run(0); by < 0 || by > test.wrong.Abs() {
					t.Errorf("at the third start the flow's time is wrong by %v", by)
				}
				if by := run(24 * time.Hour); by != test.fourth {
					t.Errorf("a day later the flow's time is wrong by %v, want %v", by, test.fourth)
				}
			})
		})
	}
}
