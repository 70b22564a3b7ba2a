package connect_test

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
)

// A record of a shelf is a value, or the reason why it cannot be decoded.
type record struct {
	at    dataflow.Position
	key   string
	value int
	bad   string
}

// A shelf is a source in memory whose splits grow.
type shelf struct {
	mu        sync.Mutex
	made      int // incarnation
	splits    map[string][]record
	ended     map[string]bool
	forgotten map[string]dataflow.Position
	confirmed map[string]dataflow.Position
	changed   chan struct{}
	most      int                             // records of a batch
	fail      func(split string, n int) error // of Next, after n records of the split
	opens     int
	closed    bool
}

func newShelf() *shelf {
	return &shelf{splits: map[string][]record{}, ended: map[string]bool{}, forgotten: map[string]dataflow.Position{}, confirmed: map[string]dataflow.Position{}, changed: make(chan struct{}), most: 7}
}

func (s *shelf) put(split string, rs ...record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.splits[split] = append(s.splits[split], rs...)
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *shelf) forget(split string, upTo dataflow.Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgotten[split] = upTo
}

func (s *shelf) end(split string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended[split] = true
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *shelf) Splits(context.Context) (all []connect.Split, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.splits {
		all = append(all, connect.Split{ID: fmt.Sprintf("shelf/%d/%s", s.made, name), Name: name})
	}
	return all, nil
}

func (s *shelf) Open(_ context.Context, split connect.Split, after dataflow.Position) (connect.Cursor[string, int], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opens++
	if gone := s.forgotten[split.Name]; after != (dataflow.Position{}) && gone.After(after) {
		return nil, fmt.Errorf("%w: up to %v, and %v was wanted", connect.ErrGap, gone, after)
	}
	return &hand{shelf: s, split: split, last: after}, nil
}

func (s *shelf) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// A hand reads a split of a shelf.
type hand struct {
	*shelf
	split connect.Split
	last  dataflow.Position
	given int
}

func (h *hand) Next(ctx context.Context, b *connect.Batch[string, int]) error {
	for {
		h.mu.Lock()
		waits := 0
		for _, r := range h.splits[h.split.Name] {
			if !r.at.After(h.last) || !r.at.After(h.forgotten[h.split.Name]) {
				continue
			}
			if len(b.At)+len(b.Bad) == h.most {
				waits++
				continue
			}
			if r.bad != "" {
				b.AddBad(h.split, r.at, []byte(r.bad), fmt.Errorf("%s", r.bad))
			} else {
				b.Add(r.key, r.value, r.at)
			}
		}
		ended, changed, fail := h.ended[h.split.Name], h.changed, h.fail
		h.mu.Unlock()
		if n := len(b.At) + len(b.Bad); n > 0 {
			h.last, b.Behind = b.End, int64(waits)
			h.given += n
			if fail != nil {
				if err := fail(h.split.Name, h.given); err != nil {
					return err
				}
			}
			return nil
		}
		if ended {
			return io.EOF
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (h *hand) Confirm(_ context.Context, p dataflow.Position) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.confirmed[h.split.Name] = p
	return nil
}

func (h *hand) Close() error { return nil }

// fill puts n records into a split, with gaps between their positions.
func (s *shelf) fill(split string, n int) (values []int) {
	var rs []record
	for i := range n {
		v := len(split)*1_000_000 + i
		rs = append(rs, record{at: dataflow.Position{Major: uint64(3*i + 1), Minor: uint64(i % 2)}, key: fmt.Sprint("k", i%5), value: v})
		values = append(values, v)
	}
	s.put(split, rs...)
	return values
}
