package connect_test

import (
	"context"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/connecttest"
)

// TestKit runs the kit on correct readers in memory.
func TestKit(t *testing.T) {
	t.Parallel()
	t.Run("waiting", func(t *testing.T) { runKit(t, func(s *shelf) connect.Reader[string, int] { return s }) })
	t.Run("returning", func(t *testing.T) { runKit(t, func(s *shelf) connect.Reader[string, int] { return restless{s} }) })
}

func runKit(t *testing.T, readerOf func(*shelf) connect.Reader[string, int]) {
	connecttest.Reader(t, func(t *testing.T) connecttest.Source[string, int] {
		s := newShelf()
		want := map[string][]int{"a": s.fill("a", 40), "bb": s.fill("bb", 60)}
		for split := range want {
			s.put(split, record{at: dataflow.Position{Major: 1000}, bad: "no number"})
		}
		return connecttest.Source[string, int]{
			Reader: readerOf(s), Want: want, Bad: 1,
			Forget: s.forget,
			Remake: func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.made++
			},
		}
	})
}

// A restless reader has cursors that return empty batches while there are no records.
type restless struct{ *shelf }

func (r restless) Open(ctx context.Context, split connect.Split, after dataflow.Position) (connect.Cursor[string, int], error) {
	c, err := r.shelf.Open(ctx, split, after)
	return restlessCursor{c}, err
}

type restlessCursor struct{ connect.Cursor[string, int] }

func (c restlessCursor) Next(ctx context.Context, b *connect.Batch[string, int]) error {
	looking, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	err := c.Cursor.Next(looking, b)
	if looking.Err() != nil && ctx.Err() == nil {
		return nil
	}
	return err
}
