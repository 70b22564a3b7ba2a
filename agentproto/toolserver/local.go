package toolserver

import (
	"context"
	"sync"

	"github.com/millrace/millrace/agentproto/internal/tools"
)

// locals are the functions and producers that run in this process, and the calls whose
// acknowledgement has not left.
type locals struct {
	mu        sync.Mutex
	calls     map[*call]struct{}
	byID      map[tools.CallID]*call // the one that began last
	of        map[string]int         // how many there are of each runtime
	suspended []tools.Name           // calls that the next process goes on with
	acks      map[tools.CallID]chan struct{}
	changed   chan struct{} // closed, and made again, when there are fewer; nil if nobody waits
}

func (l *locals) enter(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls == nil {
		l.calls, l.byID, l.of = make(map[*call]struct{}), make(map[tools.CallID]*call), make(map[string]int)
	}
	l.calls[c] = struct{}{}
	l.byID[c.id] = c
	l.of[c.id.Runtime]++
}

func (l *locals) leave(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.calls, c)
	if l.byID[c.id] == c {
		delete(l.byID, c.id)
	}
	if l.of[c.id.Runtime]--; l.of[c.id.Runtime] == 0 {
		delete(l.of, c.id.Runtime)
	}
	l.tell()
}

// suspend notes that the next process goes on with a call. Its function has returned.
func (l *locals) suspend(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.suspended = append(l.suspended, tools.Name{Runtime: c.at.Runtime, Group: c.id.Group, ID: c.id.ID})
	l.tell()
}

// tell wakes who waits. The caller holds mu.
func (l *locals) tell() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// wait returns a channel that is closed when there are fewer, how many there are, and which calls
// are suspended.
func (l *locals) wait() (changed <-chan struct{}, running int, suspended []tools.Name) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed, len(l.calls), l.suspended[:len(l.suspended):len(l.suspended)]
}

func (l *locals) find(id tools.CallID) *call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byID[id]
}

// running returns how many there are, and how many of a runtime.
func (l *locals) running(runtime string) (all, of int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.calls), l.of[runtime]
}

// each calls f for all of them.
func (l *locals) each(f func(*call)) {
	l.mu.Lock()
	var all []*call
	for c := range l.calls {
		all = append(all, c)
	}
	l.mu.Unlock()
	for _, c := range all {
		f(c)
	}
}

// acknowledging notes that a call waits until its acknowledgement has left, and returns what
// says so.
func (l *locals) acknowledging(id tools.CallID) (left func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.acks[id] != nil {
		return func() {} // another request has the same
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

// acknowledged waits until the acknowledgement of a call has left.
func (l *locals) acknowledged(ctx context.Context, id tools.CallID) {
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

// A credit bounds how much a function may have posted that is not delivered.
type credit struct {
	mu    sync.Mutex
	epoch string // names the run of the function
	sent  tools.Credit
	queue int64 // what waits, as an attempt has seen it
	bytes int64
	seen  tools.Credit  // of what has been posted, that was in the queue by then
	space chan struct{} // closed when there is more room; nil if nobody waits
}

// maxQueue and maxQueueBytes are how many messages of one call, and how many bytes, may wait
// for their delivery before a function that posts one more has to wait.
const maxQueue, maxQueueBytes = 1000, 4 << 20

// take notes what an attempt to send a message of the call has seen.
func (c *credit) take(j tools.Job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue, c.bytes, c.seen = int64(j.Queue), j.Bytes, tools.Credit{}
	if j.Credit.Epoch == c.epoch {
		c.seen = j.Credit
	}
	if c.space != nil {
		close(c.space)
		c.space = nil
	}
}

// spend waits until a message may be posted, and returns what to say with it. It returns the
// cause of ctx if that ends before.
func (c *credit) spend(ctx context.Context, size int) (tools.Credit, error) {
	for {
		c.mu.Lock()
		waiting, bytes := c.queue+c.sent.Messages-c.seen.Messages, c.bytes+c.sent.Bytes-c.seen.Bytes
		if waiting < maxQueue && (bytes+int64(size) <= maxQueueBytes || waiting == 0) {
			c.sent = tools.Credit{Epoch: c.epoch, Messages: c.sent.Messages + 1, Bytes: c.sent.Bytes + int64(size)}
			spent := c.sent
			c.mu.Unlock()
			return spent, nil
		}
		if c.space == nil {
			c.space = make(chan struct{})
		}
		space := c.space
		c.mu.Unlock()
		select {
		case <-space:
		case <-ctx.Done():
			return tools.Credit{}, context.Cause(ctx)
		}
	}
}
