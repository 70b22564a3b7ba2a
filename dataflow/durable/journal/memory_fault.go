package journal

import (
	"context"
	"errors"
	"fmt"
)

// ErrCrashed is returned by everything that was done or is done with a [Memory] that
// has crashed.
var ErrCrashed = errors.New("journal: the handle has crashed")

// ErrInjected is returned by an action that a [Hook] let fail before it was done.
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

// An Action is what a [Hook] judges.
type Action struct {
	Op        Op
	Partition int
	Size      int  // bytes that are made durable
	Done      bool // false before the action, true after it, when it was not refused
}

// A Hook decides what happens to an action. It is called without locks, so it may use
// the log itself, and by as many goroutines as use the log.
type Hook func(Action) Fault

// A Fault is what a [Hook] lets happen. The zero value is nothing.
type Fault struct {
	// Until delays the action, or its answer, until it is closed; nil means no delay.
	// The context of the action and the end of the handle cut the delay short, and then
	// the action ends as if the connection was lost at that moment.
	Until <-chan struct{}
	// Fail lets the action fail: before it is done with ErrInjected, after it with
	// ErrUnknown. For an append ErrUnknown means what any error of it means.
	Fail bool
	// Crash ends the handle. Judged before an action it is not there after the restart,
	// judged after it, it is.
	Crash bool
}

// act lets an action happen, with what the hook says before and after it.
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
