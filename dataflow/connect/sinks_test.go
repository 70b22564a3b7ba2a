package connect_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/connecttest"
)

// A table is a sink in memory that is Atomic.
type table struct {
	mu    sync.Mutex
	rows  []int
	lanes map[connect.Lane]*tableLane
	fail  error // of the next write, after it has taken effect
}

type tableLane struct {
	epoch int
	last  uint64
}

func newTable() *table { return &table{lanes: map[connect.Lane]*tableLane{}} }

func (t *table) Open(_ context.Context, l connect.Lane) (connect.Writer[int, connect.Atomic], uint64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := t.lanes[l]
	if at == nil {
		at = &tableLane{}
		t.lanes[l] = at
	}
	at.epoch++
	return &tableWriter{t, at, at.epoch}, at.last, nil
}

type tableWriter struct {
	*table
	at    *tableLane
	epoch int
}

func (w *tableWriter) Write(_ context.Context, first uint64, xs []int) (connect.Atomic, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.epoch != w.at.epoch {
		return connect.Atomic{}, connect.ErrFenced
	}
	if first != w.at.last+1 {
		return connect.Atomic{}, fmt.Errorf("element %d comes behind %d", first, w.at.last)
	}
	w.rows = append(w.rows, xs...)
	w.at.last += uint64(len(xs))
	err := w.fail
	w.fail = nil
	return connect.Atomic{}, err
}

func (w *tableWriter) Close() error { return nil }

func (t *table) read(*testing.T) []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.rows)
}

// A list is a sink in memory that holds an element twice if it is written twice.
type list struct {
	mu   sync.Mutex
	rows []int
}

func (l *list) Open(context.Context, connect.Lane) (connect.Writer[int, connect.Repeats], uint64, error) {
	return l, 0, nil
}
func (l *list) Close() error { return nil }
func (l *list) Write(_ context.Context, _ uint64, xs []int) (connect.Repeats, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rows = append(l.rows, xs...)
	return connect.Repeats{}, nil
}

// TestSinks runs the kit on correct sinks in memory.
func TestSinks(t *testing.T) {
	t.Run("atomic", func(t *testing.T) {
		connecttest.Sink(t, func(*testing.T) connecttest.Target[int, connect.Atomic] {
			x := newTable()
			return connecttest.Target[int, connect.Atomic]{Sink: x, Element: func(n uint64) int { return int(n) }, Read: x.read}
		})
	})
	t.Run("repeats", func(t *testing.T) {
		connecttest.Sink(t, func(*testing.T) connecttest.Target[int, connect.Repeats] {
			x := &list{}
			return connecttest.Target[int, connect.Repeats]{Sink: x, Element: func(n uint64) int { return int(n) }, Read: func(*testing.T) []int { return x.rows }}
		})
	})
}
