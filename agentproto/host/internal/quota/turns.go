package quota

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/millrace/millrace/agentproto/host/internal/capability"
)

// Turns divide the log among tool servers. Only a limited number of bytes is being stored at once. The next message is chosen in
// rounds, in which each tool server gets the same number of bytes. So a callback waits for a part of what each other tool server
// has posted, and not for all of it.
type Turns struct {
	mu     sync.Mutex
	out    int64 // bytes that are being stored
	queues map[capability.ServerID]*queue
	ring   list.List // of *queue: those with waiting messages, the next one in front
}

const (
	maxOut  = 256 << 10 // bytes being stored at which further messages wait; small, because calls and sessions are stored besides
	quantum = 64 << 10  // bytes of one tool server in a round

	// patience is how long a message keeps its turn. One that takes longer waits for something else than the messages before it
	// did, such as a part of the log that no process owns at the moment, and must not hold up the others.
	patience = 100 * time.Millisecond
)

// A queue holds the waiting messages of one tool server.
type queue struct {
	server  capability.ServerID
	waiting list.List // of *turn
	credit  int64
	place   *list.Element
}

type turn struct {
	bytes int64
	ready chan struct{} // closed when it is its turn
}

// NewTurns returns turns without waiting messages.
func NewTurns() *Turns { return &Turns{queues: map[capability.ServerID]*queue{}} }

// Wait waits for the turn of a message. The caller must call done when the message is stored.
func (t *Turns) Wait(ctx context.Context, s capability.ServerID, bytes int64) (done func(), err error) {
	t.mu.Lock()
	q := t.queues[s]
	if q == nil {
		q = &queue{server: s}
		t.queues[s] = q // at most as many as are configured
	}
	x := &turn{bytes, make(chan struct{})}
	place := q.waiting.PushBack(x)
	if q.place == nil {
		q.place = t.ring.PushBack(q)
	}
	t.serve()
	t.mu.Unlock()

	leave := sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.out -= bytes
		t.serve()
	})
	select {
	case <-x.ready:
		timer := time.AfterFunc(patience, leave)
		return func() {
			timer.Stop()
			leave()
		}, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	select {
	case <-x.ready: // its turn came at the same moment
		t.mu.Unlock()
		leave()
	default:
		q.waiting.Remove(place)
		t.leaveIfEmpty(q)
		t.mu.Unlock()
	}
	return nil, context.Cause(ctx)
}

// serve gives turns to messages while there is room.
func (t *Turns) serve() {
	for t.out < maxOut && t.ring.Len() > 0 {
		q := t.ring.Front().Value.(*queue)
		first := q.waiting.Front()
		x := first.Value.(*turn)
		if q.credit < x.bytes {
			q.credit += quantum
			t.ring.MoveToBack(q.place)
			continue
		}
		q.credit -= x.bytes
		q.waiting.Remove(first)
		t.leaveIfEmpty(q)
		t.out += x.bytes
		close(x.ready)
	}
}

// leaveIfEmpty removes a queue without waiting messages from the rounds. Such a queue saves no credit.
func (t *Turns) leaveIfEmpty(q *queue) {
	if q.waiting.Len() == 0 && q.place != nil {
		t.ring.Remove(q.place)
		q.place, q.credit = nil, 0
	}
}
