package durable

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A fullLog is full for one action in three.
type fullLog struct {
	*journal.Memory
	n atomic.Int64
}

func (l *fullLog) full() error {
	if l.n.Add(1)%3 == 0 {
		return fmt.Errorf("%w: on demand", journal.ErrFull)
	}
	return nil
}

func (l *fullLog) Append(ctx context.Context, p int, records ...[]byte) (uint64, error) {
	if err := l.full(); err != nil {
		return 0, err
	}
	return l.Memory.Append(ctx, p, records...)
}

func (l *fullLog) Commit(ctx context.Context, p int, fence uint64, step []byte) (uint64, error) {
	if err := l.full(); err != nil {
		return 0, err
	}
	return l.Memory.Commit(ctx, p, fence, step)
}

func (l *fullLog) SavePiece(ctx context.Context, p int, piece []byte) (uint64, error) {
	if err := l.full(); err != nil {
		return 0, err
	}
	return l.Memory.SavePiece(ctx, p, piece)
}

func (l *fullLog) SaveSnapshot(ctx context.Context, p int, after, at uint64, state []byte) error {
	if err := l.full(); err != nil {
		return err
	}
	return l.Memory.SaveSnapshot(ctx, p, after, at, state)
}

// TestFull runs the workload on a log that is full from time to time. Everything waits,
// and nothing fails.
func TestFull(t *testing.T) {
	for _, together := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			memory := journal.NewMemory(journal.MemoryOptions{})
			w := &world{options: tiny, build: crashFlow, logs: make([]journal.Log, 1)}
			w.reopen = func(int) journal.Log { return &fullLog{Memory: memory.Reopen()} }
			report(t, fmt.Sprint("together=", together), w.work(together))
			if w.starts > 2 { // the second start is part of the workload
				t.Errorf("the flow was started %d times: what is full ended it", w.starts)
			}
		})
	}
}
