package quota

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/millrace/millrace/agentproto/host/internal/capability"
)

// Turns divide the log between tool servers: of what they post, so much is being kept at once, and who is
// next is decided in rounds in which each tool server has as many bytes. So a callback waits for a part of
// what each other tool server has posted, and not for all of it.
type Turns struct {
	mu    sync.Mutex
	out   int64 // bytes that are being kept
	lanes map[capability.ServerID]*lane
	ring  list.List // of *lane: those in which something waits, the next one in front
}

const (
	maxOut  = 256 << 10 // bytes that are being kept at once, at least; small, for calls and sessions come beside them
	quantum = 64 << 10  // bytes of a tool server in one round

	// patience is how long a message has its turn: one that takes longer waits for something else than
	// those before it, such as a part of the log that nobody has at the moment, and holds nobody up.
	patience = 100 * time.Millisecond
)

// A lane has what waits of one tool server.
type lane struct {
	server  capability.ServerID
	waiting list.List // of *turn
	credit  int64
	place   *list.Element
}

type turn struct {
	bytes int64
	ready chan struct{} // closed when it is its turn
}

// NewTurns returns turns in which nobody waits.
func NewTurns() *Turns { return &Turns{lanes: map[capability.ServerID]*lane{}} }

// Wait waits for the turn of a message. The caller calls done when it is kept.
func (t *Turns) Wait(ctx context.Context, s capability.ServerID, bytes int64) (done func(), err error) {
	t.mu.Lock()
	l := t.lanes[s]
	if l == nil {
		l = &lane{server: s}
		t.lanes[s] = l // of which there are as many as were configured
	}
	x := &turn{bytes, make(chan struct{})}
	place := l.waiting.PushBack(x)
	if l.place == nil {
		l.place = t.ring.PushBack(l)
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
	case <-x.ready: // in the same moment
		t.mu.Unlock()
		leave()
	default:
		l.waiting.Remove(place)
		t.leaveIfEmpty(l)
		t.mu.Unlock()
	}
	return nil, context.Cause(ctx)
}

// serve gives turns while there is room.
func (t *Turns) serve() {
	for t.out < maxOut && t.ring.Len() > 0 {
		l := t.ring.Front().Value.(*lane)
		first := l.waiting.Front()
		x := first.Value.(*turn)
		if l.credit < x.bytes {
			l.credit += quantum
			t.ring.MoveToBack(l.place)
			continue
		}
		l.credit -= x.bytes
		l.waiting.Remove(first)
		t.leaveIfEmpty(l)
		t.out += x.bytes
		close(x.ready)
	}
}

// leaveIfEmpty takes a lane in which nothing waits out of the rounds. It saves nothing up.
func (t *Turns) leaveIfEmpty(l *lane) {
	if l.waiting.Len() == 0 && l.place != nil {
		t.ring.Remove(l.place)
		l.place, l.credit = nil, 0
	}
}
