package journal

import "context"

// Room returns how much is kept for all partitions.
func (m *Memory) Room(ctx context.Context) (Room, error) {
	if err := m.ready(ctx, 0); err != nil {
		return Room{}, err
	}
	m.data.mu.Lock()
	defer m.data.mu.Unlock()
	return m.data.bound.Room(), nil
}

// SetMaxBytes changes the limit for all handles, as opening a log with another limit does. Zero
// means no limit.
func (m *Memory) SetMaxBytes(limit int64) {
	m.data.mu.Lock()
	defer m.data.mu.Unlock()
	kept := m.data.bound.Room().Kept
	history := kept
	for i := range m.data.partitions {
		p := &m.data.partitions[i]
		history -= int64(len(p.snapshot))
		for _, x := range p.pieces {
			history -= int64(len(x.Data))
		}
	}
	m.data.bound = NewBound(limit, kept, history)
}

// Usage returns how much the history of a partition takes.
func (m *Memory) Usage(ctx context.Context, partition int) (Usage, error) {
	if err := m.ready(ctx, partition); err != nil {
		return Usage{}, err
	}
	m.data.mu.Lock()
	defer m.data.mu.Unlock()
	p := &m.data.partitions[partition]
	u := Usage{Records: uint64(len(p.messages)), Steps: uint64(len(p.steps)), Bytes: uint64(len(p.snapshot))}
	for _, message := range p.messages {
		for _, r := range message.Records {
			u.Bytes += uint64(len(r))
		}
	}
	for _, x := range p.pieces {
		u.Bytes += uint64(len(x.Data))
	}
	for _, s := range p.steps {
		u.Bytes += uint64(len(s.Data))
	}
	return u, nil
}

// Size returns how many bytes the log keeps, in memory.
func (m *Memory) Size(ctx context.Context) (Size, error) {
	var s Size
	for p := range m.Partitions() {
		u, err := m.Usage(ctx, p)
		if err != nil {
			return Size{}, err
		}
		s.Bytes += u.Bytes
	}
	m.data.mu.Lock()
	defer m.data.mu.Unlock()
	room := m.data.bound.Room()
	s.Kept, s.MaxBytes = uint64(room.Kept), uint64(room.Limit)
	return s, nil
}
