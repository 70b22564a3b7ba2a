package journal

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"sync"
)

// Read returns a reader of the input after a position.
func (m *Memory) Read(ctx context.Context, partition int, after uint64) (Reader, error) {
	if err := m.ready(ctx, partition); err != nil {
		return nil, err
	}
	r := &memoryReader{memoryCursor: newMemoryCursor(m, partition, after)}
	m.data.mu.Lock()
	defer m.data.mu.Unlock()
	if err := r.check(&m.data.partitions[partition]); err != nil {
		return nil, err
	}
	return r, nil
}

// Steps returns a reader of committed steps after a fence.
func (m *Memory) Steps(ctx context.Context, partition int, after uint64) (StepReader, error) {
	if err := m.ready(ctx, partition); err != nil {
		return nil, err
	}
	return &memoryStepReader{memoryCursor: newMemoryCursor(m, partition, after)}, nil
}

// A memoryCursor is common to both readers: it holds their position and waits for more.
type memoryCursor struct {
	m         *Memory
	partition int
	ahead     bool // the reader reads ahead
	closed    chan struct{}
	closing   sync.Once

	mu   sync.Mutex // held during Next, so that two callers do not get the same messages
	last uint64
}

func newMemoryCursor(m *Memory, partition int, after uint64) *memoryCursor {
	return &memoryCursor{m: m, partition: partition, closed: make(chan struct{}), last: after}
}

// Close closes the reader. A waiting Next returns ErrClosed.
func (c *memoryCursor) Close() {
	c.closing.Do(func() {
		close(c.closed)
		if c.ahead {
			c.m.data.mu.Lock()
			defer c.m.data.mu.Unlock()
			if p := &c.m.data.partitions[c.partition]; p.readers > 0 {
				p.readers--
			}
		}
	})
}

// wait calls take with the partition, now and after each change, until take
// reports that it found something.
func (c *memoryCursor) wait(ctx context.Context, take func(*memoryPartition) (bool, error)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if err := c.m.ready(ctx, c.partition); err != nil {
			return err
		}
		select {
		case <-c.closed:
			return ErrClosed
		default:
		}
		c.m.data.mu.Lock()
		p := &c.m.data.partitions[c.partition]
		found, err := take(p)
		changed := p.changed
		c.m.data.mu.Unlock()
		if found || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-c.closed:
		case <-c.m.ended:
		case <-ctx.Done():
		}
	}
}

type memoryReader struct{ *memoryCursor }

func (r *memoryReader) check(p *memoryPartition) error {
	if r.last < p.purged {
		return fmt.Errorf("%w: up to position %d, wanted after %d", ErrPurged, p.purged, r.last)
	}
	return nil
}

func (r *memoryReader) Next(ctx context.Context, max int) (out []Message, err error) {
	err = r.wait(ctx, func(p *memoryPartition) (bool, error) {
		if err := r.check(p); err != nil {
			return false, err
		}
		messages := p.messages
		if r.ahead {
			messages = slices.Concat(messages, p.undurable)
		}
		at := sort.Search(len(messages), func(i int) bool { return messages[i].Position > r.last })
		size := 0
		for i, m := range messages[at:] {
			for _, record := range m.Records {
				if i > 0 {
					size += len(record)
				}
			}
			if size > max {
				break
			}
			out = append(out, m)
			r.last = m.Position
		}
		return len(out) > 0, nil
	})
	return out, err
}

func (r *memoryReader) Last(ctx context.Context) (uint64, error) {
	if err := r.m.ready(ctx, r.partition); err != nil {
		return 0, err
	}
	r.m.data.mu.Lock()
	defer r.m.data.mu.Unlock()
	messages := r.m.data.partitions[r.partition].messages
	if len(messages) == 0 {
		return 0, nil
	}
	return messages[len(messages)-1].Position, nil
}

type memoryStepReader struct{ *memoryCursor }

func (r *memoryStepReader) Next(ctx context.Context) (out Step, err error) {
	err = r.wait(ctx, func(p *memoryPartition) (bool, error) {
		for _, s := range p.after(r.last) {
			if r.last != 0 && s.before != r.last {
				return false, fmt.Errorf("%w: the step after fence %d", ErrPurged, r.last)
			}
			out, r.last = s.Step, s.Fence
			return true, nil
		}
		return false, nil
	})
	return out, err
}
