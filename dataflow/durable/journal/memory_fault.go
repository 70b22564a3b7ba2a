package journal

import (
	"context"
	"errors"
	"fmt"
)

// ErrCrashed is the error of every operation on a [Memory] that has crashed, including those in
// progress at that moment.
var ErrCrashed = errors.New("journal: the handle has crashed")

// ErrInjected is the error of an action that a [Hook] let fail before it was done.
var ErrInjected = errors.New("journal: failed on demand")

// An Op is a durable action of a [Memory].
type Op string

// The durable actions.
const (
	OpAppend   Op = "append"
	OpCommit   Op = "commit"
	OpPiece    Op = "piece"
	OpSnapshot Op = "snapshot"
	OpPurge    Op = "purge"
)

// An Action is a durable action about which a [Hook] decides.
type Action struct {
	Op        Op
	Partition int
	Size      int  // bytes that are made durable
	Done      bool // false before the action, true after it; a refused action gets no second call
}

// A Hook decides what happens to an action. It is called without locks, so it may use the log
// itself. Every goroutine that uses the log may call it, at the same time as others.
type Hook func(Action) Fault

// A Fault is the decision of a [Hook]. The zero value is no fault.
type Fault struct {
	// Until delays the action, or its answer, until the channel is closed. Nil means no delay. When
	// the context of the action or the handle ends, the delay ends too, and the action fails as if
	// the connection was lost at that moment.
	Until <-chan struct{}
	// Fail makes the action fail: with ErrInjected before it is done, with ErrUnknown after it. For
	// an append, ErrUnknown means the same as any other error of an append.
	Fail bool
	// Crash ends the handle. If it is set before the action, the action has no effect after the
	// restart. If it is set after the action, it has.
	Crash bool
}

// act does an action and consults the hook before and after it.
func (m *Memory) act(ctx context.Context, a Action, do func(*memoryPartition) error) error {
	if err := m.judge(ctx, a); err != nil {
		return err
	}
	if err := m.do(a, do); err != nil {
		return err
	}
	a.Done = true
	return m.judge(ctx, a)
}

// do does an action, unless the handle has ended.
func (m *Memory) do(a Action, do func(*memoryPartition) error) error {
	m.data.mu.Lock()
	defer m.data.mu.Unlock()
	m.mu.Lock()
	why := m.why
	m.mu.Unlock()
	if why != nil {
		return why
	}
	p := &m.data.partitions[a.Partition]
	if err := do(p); err != nil {
		return err
	}
	close(p.changed)
	p.changed = make(chan struct{})
	return nil
}

func (m *Memory) judge(ctx context.Context, a Action) error {
	m.mu.Lock()
	hook := m.hook
	m.mu.Unlock()
	if hook == nil {
		return nil
	}
	fault := hook(a)
	if fault.Until != nil {
		select {
		case <-fault.Until:
		case <-m.ended:
		case <-ctx.Done():
			if a.Done {
				return fmt.Errorf("%w: %w", ErrUnknown, context.Cause(ctx))
			}
			return context.Cause(ctx)
		}
	}
	if fault.Crash {
		m.Crash()
	}
	m.mu.Lock()
	why := m.why
	m.mu.Unlock()
	switch {
	case why != nil && a.Done:
		return fmt.Errorf("%w: %w", ErrUnknown, why)
	case why != nil:
		return why
	case fault.Fail && a.Done:
		return ErrUnknown
	case fault.Fail:
		return ErrInjected
	}
	return nil
}
