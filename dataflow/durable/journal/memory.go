package journal

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
)

// MemoryOptions are the settings of a [Memory]. The zero value is one partition with the limits of
// the embedded server and without faults.
type MemoryOptions struct {
	Partitions int // zero means one
	MaxRecord  int // bytes of one Append; zero means 8 MiB
	MaxStep    int // bytes of one step or snapshot; zero means 1 GiB
	MaxBytes   int // bytes kept, of records, steps, pieces and snapshots; zero means no limit
	// Ahead lets records be read before they are durable, see [Ahead]. They become durable with the
	// next step of their partition, or after 10 ms. Records that are not durable when a handle ends
	// are lost, so only one handle may be in use at a time.
	Ahead bool
	// Hook is called before and after each durable action. Nil means no faults.
	Hook Hook
}

// A Memory is a [Log] in memory, for tests and for the simulator. It starts no goroutine and reads
// no clock, so it is deterministic if its caller is.
//
// A Memory is a handle on its data. [Memory.Reopen] returns another handle, like that of a
// restarted process. Closing or crashing a handle does not change the data.
//
// As in a real log, positions and fences grow by more than one when several partitions are in use.
type Memory struct {
	data *memoryData

	mu    sync.Mutex
	hook  Hook
	ended chan struct{} // closed when the handle ends
	why   error         // why the handle has ended
}

// memoryData is shared by all handles. Under its lock:
//
//  1. positions of messages and fences of steps grow strictly, over all partitions,
//  2. the last step of a partition, if there ever was one, is in steps,
//  3. purged is less than the position of each message kept.
type memoryData struct {
	opts     MemoryOptions
	identity Identity
	copying  atomic.Bool

	mu         sync.Mutex
	position   uint64
	bound      *Bound
	partitions []memoryPartition
}

type memoryPartition struct {
	messages  []Message
	undurable []Message     // not durable yet
	durable   chan struct{} // closed when undurable has become durable; nil if it is empty
	readers   int           // readers that read ahead
	steps     []memoryStep
	snapshot  []byte
	at        uint64 // of the snapshot, zero if there is none
	pieces    []Piece
	purged    uint64        // records up to here are gone
	changed   chan struct{} // closed when something was added or forgotten
}

type memoryStep struct {
	Step
	before uint64 // the fence that it was committed with
}

// NewMemory returns a log in memory without any history.
func NewMemory(opts MemoryOptions) *Memory {
	opts.Partitions = orDefault(opts.Partitions, 1)
	opts.MaxRecord = orDefault(opts.MaxRecord, 8<<20)
	opts.MaxStep = orDefault(opts.MaxStep, 1<<30)
	d := &memoryData{opts: opts, bound: NewBound(int64(opts.MaxBytes), 0, 0), partitions: make([]memoryPartition, opts.Partitions)}
	binary.LittleEndian.PutUint64(d.identity[:], memories.Add(1))
	for i := range d.partitions {
		d.partitions[i].changed = make(chan struct{})
	}
	return &Memory{data: d, hook: opts.Hook, ended: make(chan struct{})}
}

// memories counts the logs of this process. So two logs have different identities, and a program
// that makes the same logs in the same order gets the same bytes.
var memories atomic.Uint64

func orDefault(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

// Reopen returns another handle on the same data, with the hook of m. It also works after m was
// closed or has crashed.
func (m *Memory) Reopen() *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Memory{data: m.data, hook: m.hook, ended: make(chan struct{})}
}

// SetHook replaces the hook of this handle. Actions that are waiting for the
// old hook continue to wait.
func (m *Memory) SetHook(h Hook) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hook = h
}

// Crash ends the handle as kill -9 ends a process: every action in progress fails with
// [ErrCrashed], whether it was done or not.
func (m *Memory) Crash() { m.end(ErrCrashed) }

// Close closes the handle.
func (m *Memory) Close() error {
	m.end(ErrClosed)
	return nil
}

func (m *Memory) end(why error) {
	m.mu.Lock()
	first := m.why == nil
	if first {
		m.why = why
		close(m.ended)
	}
	m.mu.Unlock()
	if first && m.data.opts.Ahead {
		m.data.lose()
	}
}

// BeginCopy makes [Opened] refuse the log until EndCopy.
func (m *Memory) BeginCopy(context.Context) error {
	m.data.copying.Store(true)
	return nil
}

// EndCopy allows the log to be opened again.
func (m *Memory) EndCopy(context.Context) error {
	m.data.copying.Store(false)
	return nil
}

// Identity returns the number of the log in this process.
func (m *Memory) Identity() Identity { return m.data.identity }

// Partitions returns the number of partitions.
func (m *Memory) Partitions() int { return len(m.data.partitions) }

// ready returns the reason why an operation on a partition cannot start.
func (m *Memory) ready(ctx context.Context, partition int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if partition < 0 || partition >= m.Partitions() {
		return fmt.Errorf("journal: there is no partition %d, only %d of them", partition, m.Partitions())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.why
}

// MaxRecord implements [Limited].
func (m *Memory) MaxRecord() int { return m.data.opts.MaxRecord }

// Append adds records as one message.
func (m *Memory) Append(ctx context.Context, partition int, records ...[]byte) (position uint64, err error) {
	if err := m.ready(ctx, partition); err != nil || len(records) == 0 {
		return 0, err
	}
	size := 0
	for _, r := range records {
		size += len(r)
	}
	if size > m.data.opts.MaxRecord {
		return 0, fmt.Errorf("%w: %d bytes of records, %d can be kept together", ErrTooLarge, size, m.data.opts.MaxRecord)
	}
	a := Action{Op: OpAppend, Partition: partition, Size: size}
	add := func(*memoryPartition) (Message, error) {
		d := m.data
		if err := d.bound.Add(PurposeOf(ctx, ToSend), int64(size)); err != nil {
			return Message{}, err
		}
		d.position++
		position = d.position
		return Message{Position: position, Records: cloned(records)}, nil
	}
	if m.data.opts.Ahead {
		err = m.appendAhead(ctx, a, add)
	} else {
		err = m.act(ctx, a, func(p *memoryPartition) error {
			added, err := add(p)
			if err == nil {
				p.messages = append(p.messages, added)
			}
			return err
		})
	}
	if err != nil {
		return 0, err
	}
	return position, nil
}

// Commit adds a step, if fence is that of the last one.
func (m *Memory) Commit(ctx context.Context, partition int, fence uint64, step []byte) (next uint64, err error) {
	if err := m.ready(ctx, partition); err != nil {
		return 0, err
	}
	if len(step) > m.data.opts.MaxStep {
		return 0, fmt.Errorf("%w: a step of %d bytes, the limit is %d", ErrTooLarge, len(step), m.data.opts.MaxStep)
	}
	err = m.act(ctx, Action{Op: OpCommit, Partition: partition, Size: len(step)}, func(p *memoryPartition) error {
		if fence != p.fence() {
			return fmt.Errorf("%w: it has %d, not %d", ErrFenced, p.fence(), fence)
		}
		if err := m.data.bound.Add(PurposeOf(ctx, ToGoOn), int64(len(step))); err != nil {
			return err
		}
		p.keep()
		m.data.position++
		next = m.data.position
		p.steps = append(p.steps, memoryStep{Step{Fence: next, Data: slices.Clone(step)}, fence})
		return nil
	})
	if err != nil {
		return 0, err
	}
	return next, nil
}

// Restore returns the latest snapshot and the steps after it.
func (m *Memory) Restore(ctx context.Context, partition int) (*History, error) {
	if err := m.ready(ctx, partition); err != nil {
		return nil, err
	}
	m.data.mu.Lock()
	defer m.data.mu.Unlock()
	p := &m.data.partitions[partition]
	h := &History{Snapshot: p.snapshot, At: p.at, Fence: p.fence(), End: p.purged}
	if n := len(p.messages); n > 0 {
		h.End = p.messages[n-1].Position
	}
	for last, s := range p.after(p.at) {
		if s.before != last {
			return nil, fmt.Errorf("%w: no snapshot covers them", ErrPurged)
		}
		h.Steps = append(h.Steps, s.Step)
	}
	return h, nil
}

// SaveSnapshot replaces the latest snapshot.
func (m *Memory) SaveSnapshot(ctx context.Context, partition int, after, at uint64, state []byte) error {
	if err := m.ready(ctx, partition); err != nil {
		return err
	}
	if len(state) > m.data.opts.MaxStep {
		return fmt.Errorf("%w: a snapshot of %d bytes, the limit is %d", ErrTooLarge, len(state), m.data.opts.MaxStep)
	}
	return m.act(ctx, Action{Op: OpSnapshot, Partition: partition, Size: len(state)}, func(p *memoryPartition) error {
		if at > p.fence() {
			return fmt.Errorf("journal: a snapshot at fence %d, the last step made %d", at, p.fence())
		}
		if p.at != after || at <= after && after > 0 {
			return ErrOvertaken
		}
		if err := m.data.bound.Add(ToEnd, int64(len(state)-len(p.snapshot))); err != nil {
			return err
		}
		p.at = at
		p.snapshot = append([]byte{}, state...) // not nil, which would mean none
		return nil
	})
}

// SavePiece keeps a piece.
func (m *Memory) SavePiece(ctx context.Context, partition int, piece []byte) (number uint64, err error) {
	if err := m.ready(ctx, partition); err != nil {
		return 0, err
	}
	if len(piece) > MaxPiece {
		return 0, fmt.Errorf("%w: a piece of %d bytes, the limit is %d", ErrTooLarge, len(piece), MaxPiece)
	}
	err = m.act(ctx, Action{Op: OpPiece, Partition: partition, Size: len(piece)}, func(p *memoryPartition) error {
		if err := m.data.bound.Add(ToSave, int64(len(piece))); err != nil {
			return err
		}
		m.data.position++
		number = m.data.position
		p.pieces = append(p.pieces, Piece{number, slices.Clone(piece)})
		return nil
	})
	if err != nil {
		return 0, err
	}
	return number, nil
}

// Pieces returns pieces by number.
func (m *Memory) Pieces(ctx context.Context, partition int, first, last uint64) (all []Piece, err error) {
	if err := m.ready(ctx, partition); err != nil {
		return nil, err
	}
	m.data.mu.Lock()
	defer m.data.mu.Unlock()
	for _, x := range m.data.partitions[partition].pieces {
		if first <= x.Number && x.Number <= last {
			all = append(all, x)
		}
	}
	return all, nil
}

// PurgePieces deletes the pieces with numbers below before.
func (m *Memory) PurgePieces(ctx context.Context, partition int, before uint64) error {
	if err := m.ready(ctx, partition); err != nil {
		return err
	}
	return m.act(ctx, Action{Op: OpPurge, Partition: partition}, func(p *memoryPartition) error {
		p.pieces = slices.DeleteFunc(slices.Clone(p.pieces), func(x Piece) bool {
			if x.Number < before {
				m.data.bound.Free(int64(len(x.Data)))
			}
			return x.Number < before
		})
		return nil
	})
}

// Purge deletes records and steps, but never the last step.
func (m *Memory) Purge(ctx context.Context, partition int, in, at uint64) error {
	if err := m.ready(ctx, partition); err != nil {
		return err
	}
	return m.act(ctx, Action{Op: OpPurge, Partition: partition}, func(p *memoryPartition) error {
		for len(p.messages) > 0 && p.messages[0].Position <= in {
			p.purged = p.messages[0].Position
			for _, r := range p.messages[0].Records {
				m.data.bound.Free(int64(len(r)))
			}
			p.messages = p.messages[1:]
		}
		for len(p.steps) > 1 && p.steps[0].Fence < at {
			m.data.bound.Free(int64(len(p.steps[0].Data)))
			p.steps = p.steps[1:]
		}
		return nil
	})
}

// fence returns the fence that the next commit must have.
func (p *memoryPartition) fence() uint64 {
	if len(p.steps) == 0 {
		return 0
	}
	return p.steps[len(p.steps)-1].Fence
}

// after yields the steps after a fence, each with the fence of the step before it.
func (p *memoryPartition) after(fence uint64) func(yield func(uint64, memoryStep) bool) {
	return func(yield func(uint64, memoryStep) bool) {
		at := sort.Search(len(p.steps), func(i int) bool { return p.steps[i].Fence > fence })
		for _, s := range p.steps[at:] {
			if !yield(fence, s) {
				return
			}
			fence = s.Fence
		}
	}
}

func cloned(records [][]byte) [][]byte {
	out := make([][]byte, len(records))
	for i, r := range records {
		out[i] = append([]byte{}, r...)
	}
	return out
}
