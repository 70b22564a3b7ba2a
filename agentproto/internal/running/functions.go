package running

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"sync"

	"github.com/millrace/millrace/agentproto/internal/tools"
)

// A Function is a function of a call, or the producer of its subscription, that runs in this
// process.
type Function struct {
	At       tools.Place
	ID       tools.CallID
	Producer bool
	Suspend  func(cause error) // ends the function, because another run continues the call

	credit credit
}

// NewFunction returns the function of a job.
func NewFunction(at tools.Place, j tools.Job, suspend func(cause error)) *Function {
	f := &Function{At: at, ID: j.Call, Producer: j.Kind == tools.Produce, Suspend: suspend, credit: credit{epoch: rand.Text()}}
	f.credit.take(j) // messages from earlier runs
	return f
}

// Spend waits until the function may post a message, and returns the credit to post it with. It
// returns the cause of ctx if that ends first.
func (f *Function) Spend(ctx context.Context, size int) (tools.Credit, error) {
	return f.credit.spend(ctx, size)
}

// Functions contains all functions and producers that run in this process, and the calls whose
// acknowledgement has not been sent.
type Functions struct {
	mu        sync.Mutex
	calls     map[*Function]struct{}
	byID      map[tools.CallID]*Function // the one that started last
	of        map[string]int             // number by runtime
	suspended []tools.Name               // calls that the next process continues
	acks      map[tools.CallID]chan struct{}
	changed   chan struct{} // closed and replaced when there are fewer; nil if nobody waits
}

// Enter records that a function runs.
func (l *Functions) Enter(f *Function) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls == nil {
		l.calls, l.byID, l.of = make(map[*Function]struct{}), make(map[tools.CallID]*Function), make(map[string]int)
	}
	l.calls[f] = struct{}{}
	l.byID[f.ID] = f
	l.of[f.ID.Runtime]++
}

// Leave records that a function has returned.
func (l *Functions) Leave(f *Function) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.calls, f)
	if l.byID[f.ID] == f {
		delete(l.byID, f.ID)
	}
	if l.of[f.ID.Runtime]--; l.of[f.ID.Runtime] == 0 {
		delete(l.of, f.ID.Runtime)
	}
	l.tell()
}

// Suspended records that the next process continues a call. Its function has returned.
func (l *Functions) Suspended(f *Function) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.suspended = append(l.suspended, tools.Name{Runtime: f.At.Runtime, Group: f.ID.Group, ID: f.ID.ID})
	l.tell()
}

// tell wakes waiting goroutines. The caller holds mu.
func (l *Functions) tell() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// Wait returns a channel that is closed when there are fewer functions, the number of functions,
// and the suspended calls.
func (l *Functions) Wait() (changed <-chan struct{}, running int, suspended []tools.Name) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed, len(l.calls), l.suspended[:len(l.suspended):len(l.suspended)]
}

// Attempted records what an attempt to send a message has seen of its call, so that the call's
// function may post more.
func (l *Functions) Attempted(j tools.Job) {
	l.mu.Lock()
	f := l.byID[j.Call]
	l.mu.Unlock()
	if f != nil {
		f.credit.take(j)
	}
}

// Running returns how many functions run, and how many of them belong to a runtime.
func (l *Functions) Running(runtime string) (all, of int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.calls), l.of[runtime]
}

// Each calls do for all functions.
func (l *Functions) Each(do func(*Function)) {
	l.mu.Lock()
	all := slices.Collect(maps.Keys(l.calls))
	l.mu.Unlock()
	for _, f := range all {
		do(f)
	}
}

// Acknowledging makes the function of a call wait for its acknowledgement, and returns a function
// to call when the acknowledgement has been sent.
func (l *Functions) Acknowledging(id tools.CallID) (left func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.acks[id] != nil {
		return func() {} // another request for the same call is in progress
	}
	if l.acks == nil {
		l.acks = make(map[tools.CallID]chan struct{})
	}
	ch := make(chan struct{})
	l.acks[id] = ch
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.acks, id)
		close(ch)
	}
}

// Acknowledged waits until the acknowledgement of a call has been sent.
func (l *Functions) Acknowledged(ctx context.Context, id tools.CallID) {
	l.mu.Lock()
	ch := l.acks[id]
	l.mu.Unlock()
	if ch == nil {
		return
	}
	select {
	case <-ch:
	case <-ctx.Done():
	}
}
