package journal

import (
	"context"
	"fmt"
	"time"
)

// commitWithin is how long an Append waits for a step while the log is read ahead.
const commitWithin = 10 * time.Millisecond

// ReadAhead is like Read. It reads ahead if the log was made with [MemoryOptions].Ahead.
func (m *Memory) ReadAhead(ctx context.Context, partition int, after uint64) (Reader, error) {
	r, err := m.Read(ctx, partition, after)
	if err != nil || !m.data.opts.Ahead {
		return r, err
	}
	m.data.mu.Lock()
	defer m.data.mu.Unlock()
	r.(*memoryReader).ahead = true
	m.data.partitions[partition].readers++
	return r, nil
}

// appendAhead adds records that can be read at once and become durable
// with a step, or after a while.
func (m *Memory) appendAhead(ctx context.Context, a Action, add func(*memoryPartition) (Message, error)) error {
	if err := m.judge(ctx, a); err != nil {
		return err
	}
	var kept chan struct{}
	if err := m.do(a, func(p *memoryPartition) error {
		added, err := add(p)
		if err != nil {
			return err
		}
		if p.undurable = append(p.undurable, added); p.durable == nil {
			p.durable = make(chan struct{})
		}
		if kept = p.durable; p.readers == 0 {
			p.keep()
		}
		return nil
	}); err != nil {
		return err
	}
	late := time.NewTimer(commitWithin)
	defer late.Stop()
	select {
	case <-kept:
	case <-late.C:
		if err := m.do(a, func(p *memoryPartition) error {
			p.keep()
			return nil
		}); err != nil {
			return fmt.Errorf("%w: %w", ErrUnknown, err)
		}
	case <-m.ended: // or it would wait for a process that has ended
		return fmt.Errorf("%w: %w", ErrUnknown, m.ready(context.Background(), a.Partition))
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnknown, context.Cause(ctx))
	}
	a.Done = true
	return m.judge(ctx, a)
}

// keep makes all records durable.
func (p *memoryPartition) keep() {
	p.messages = append(p.messages, p.undurable...)
	p.undurable = nil
	if p.durable != nil {
		close(p.durable)
		p.durable = nil
	}
}

// lose forgets the records that are not durable.
func (d *memoryData) lose() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.partitions {
		p := &d.partitions[i]
		for _, m := range p.undurable {
			for _, r := range m.Records {
				d.bound.Free(int64(len(r)))
			}
		}
		p.undurable, p.durable, p.readers = nil, nil, 0
	}
}
