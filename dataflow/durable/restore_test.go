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

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A tampered log returns changed histories and positions.
type tampered struct {
	*journal.Memory
	history func(*journal.History) error
	at      func(uint64) uint64
	asked   *atomic.Int64
}

func (l tampered) Restore(ctx context.Context, partition int) (*journal.History, error) {
	h, err := l.Memory.Restore(ctx, partition)
	if l.asked != nil {
		l.asked.Add(1)
	}
	if err == nil && l.history != nil {
		err = l.history(h)
	}
	return h, err
}

func (l tampered) Append(ctx context.Context, partition int, records ...[]byte) (uint64, error) {
	at, err := l.Memory.Append(ctx, partition, records...)
	if l.at != nil {
		at = l.at(at)
	}
	return at, err
}

// TestRestoreDamaged starts flows on inconsistent histories. Each start fails with the reason
// and does not retry forever.
func TestRestoreDamaged(t *testing.T) {
	var asked atomic.Int64
	tests := map[string]struct {
		clean   bool
		tampers tampered
		want    string
	}{
		"intact, killed":  {false, tampered{}, ""},
		"intact, stopped": {true, tampered{}, ""},
		"records end before the snapshot": {true, tampered{history: func(h *journal.History) error { h.End = 2; return nil }},
			", and they end at 2"},
		"records end before the last step": {false, tampered{history: func(h *journal.History) error { h.End = 1; return nil }},
			", and they end at 1"},
		"a step is cut": {false, tampered{history: func(h *journal.History) error {
			s := &h.Steps[len(h.Steps)-1]
			s.Data = s.Data[:2]
			return nil
		}}, "a step is damaged"},
		"an earlier step is cut": {false, tampered{history: func(h *journal.History) error {
			s := &h.Steps[1]
			s.Data = s.Data[:2]
			return nil
		}}, "a step is damaged"},
		"a step is of nothing":  {false, tampered{history: func(h *journal.History) error { h.Steps[1].Data = nil; return nil }}, "step"},
		"the snapshot is cut":   {true, tampered{history: func(h *journal.History) error { h.Snapshot = h.Snapshot[:len(h.Snapshot)/2]; return nil }}, "snapshot"},
		"the snapshot's end":    {true, tampered{history: func(h *journal.History) error { h.Snapshot = h.Snapshot[:len(h.Snapshot)-3]; return nil }}, "snapshot"},
		"the snapshot is empty": {true, tampered{history: func(h *journal.History) error { h.Snapshot = []byte{}; return nil }}, "snapshot"},
		"purged without an end": {true, tampered{asked: &asked, history: func(*journal.History) error { return fmt.Errorf("%w: as it says", journal.ErrPurged) }}, "as it says"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := journal.NewMemory(journal.MemoryOptions{})
				app := start(t, log, times(1), Options{})
				for i := range 3 {
					if err := app.Ports.in.Send(t.Context(), fmt.Sprint("k", i), i+1); err != nil {
						t.Fatal(err)
					}
					await(t, app.Ports.out, fmt.Sprint("k", i), i+1)
				}
				if test.clean {
					stop(t, app)
				} else {
					log.Crash()
					<-app.Done()
				}
				asked.Store(0)
				test.tampers.Memory = log.Reopen()
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				app, err := Start(ctx, times(1), quiet(Options{Log: journal.Opened{Log: test.tampers}}))
				if test.want == "" {
					if err != nil {
						t.Fatal(err)
					}
					stop(t, app)
					return
				}
				if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "partition 0") {
					t.Errorf("the start says %v, want %q", err, test.want)
				}
				if n := asked.Load(); n > 30 { // by the start, and for the token
					t.Errorf("the history was read %d times", n)
				}
			})
		})
	}
}

// TestRecordsEnd reads up to records that no longer exist, which only the reader can detect.
func TestRecordsEnd(t *testing.T) {
	s := &source{reader: reading{last: 5, messages: []journal.Message{{Position: 4}, {Position: 5}, {Position: 9}}}, max: 1}
	if _, err := s.until(t.Context(), 0, 6); !errors.Is(err, ErrDamaged) {
		t.Errorf("records up to message 6, where the last one is 5: %v", err)
	}
	if _, err := s.until(t.Context(), 0, 5); err != nil {
		t.Error(err)
	}
	s = &source{reader: reading{last: 9, messages: []journal.Message{{Position: 4}, {Position: 9}}}, max: 1}
	if _, err := s.until(t.Context(), 0, 6); !errors.Is(err, ErrDamaged) {
		t.Errorf("records up to message 6, where 9 comes after 4: %v", err)
	}
}

// A reading returns the same messages from every Next.
type reading struct {
	last     uint64
	messages []journal.Message
}

func (r reading) Next(context.Context, int) ([]journal.Message, error) { return r.messages, nil }
func (r reading) Last(context.Context) (uint64, error)                 { return r.last, nil }
func (r reading) Close()                                               {}

// TestTakenAlready acknowledges a record at a position that was taken before the record was
// sent.
func TestTakenAlready(t *testing.T) {
	var back atomic.Uint64
	log := tampered{Memory: journal.NewMemory(journal.MemoryOptions{}), at: func(at uint64) uint64 { return at - min(back.Load(), at-1) }}
	app := start(t, log, times(1), Options{})
	defer stop(t, app)
	if err := app.Ports.in.Send(t.Context(), "a", 1); err != nil {
		t.Fatal(err)
	}
	await(t, app.Ports.out, "a", 1)
	back.Store(1000)
	if err := app.Ports.in.Send(t.Context(), "b", 2); !errors.Is(err, ErrDamaged) {
		t.Errorf("a record at a position that was taken is acknowledged: %v", err)
	}
}

// TestStartEnds ends the context of Start before the history was read.
func TestStartEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		log := tampered{Memory: journal.NewMemory(journal.MemoryOptions{}), history: func(*journal.History) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}}
		if _, err := Start(ctx, times(1), quiet(Options{Log: journal.Opened{Log: log}})); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the start says %v", err)
		}
	})
}
