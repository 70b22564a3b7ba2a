package serve

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/millrace/millrace/dataflow"
)

// A requestTable is a router's idempotency table: it knows which requests have come before, and
// which of them have waiting callers.
//
// It maintains, whenever mu is free:
//
//  1. known has, under each id, the call that is not answered yet or whose answer is
//     kept; under an id that a client chose, nil once neither is the case,
//  2. a call that was put and is not answered has waiters or is in abandoned,
//  3. abandonedPending is the number of abandoned calls that count as pending,
//  4. retained holds only calls that were answered, oldest first.
//
// It has no goroutine and no timer: due work is done when the next request comes.
//
// In a durable flow known has only calls with waiters, and abandoned and retained are empty,
// since the flow's history has the answers; see [requestTable.recall].
type requestTable struct {
	name string
	opts Options
	ids  idSource
	fail sync.Once // logs a failure of the flow once

	mu               sync.Mutex
	known            map[RequestID]*call
	serving          int // requests being served
	abandonedPending int
	abandoned        queue[*call]
	retained         queue[*call]
}

func newRequestTable(name string, opts Options) *requestTable {
	t := &requestTable{name: name, opts: opts, ids: idSource{start: time.Now().UnixNano()}, known: make(map[RequestID]*call)}
	t.ids.last.Store(t.ids.start - 1)
	return t
}

// A call is a request and all its repeats.
//
// One of its waiters runs it: it puts the request into the flow, unless that was done, and
// takes the response out. The others wait for that one. When it gives up, another waiter
// takes over.
type call struct {
	id      RequestID
	content content
	named   bool // the client chose the id
	out     *dataflow.EntryOutputPort[RequestID, Response]

	contents *dataflow.EntryOutputPort[RequestID, content] // nil unless the flow is durable

	// guarded by the table's mu
	put       bool          // the request is in the flow; set when the waiter that runs the call leaves
	idKnown   bool          // a client knows the id
	waiters   int           // including the one that runs the call
	running   bool          // a waiter runs the call
	turn      chan struct{} // closed when the waiter that runs the call leaves; nil if no other one waits
	answered  bool
	answer    Response
	abandoned bool // is in requestTable.abandoned
	expired   bool // not answered for Options.Retain, and no longer in known
	since     time.Time
}

// An endpoint connects a route to the flow: it sends requests and receives responses.
type endpoint struct {
	route string // the pattern of the route, "" if it has none
	// accept returns the function that sends a request to the flow, or the reason why it is
	// refused.
	accept   func(*Request, content) (send func(context.Context) error, err error)
	out      *dataflow.EntryOutputPort[RequestID, Response]
	contents *dataflow.EntryOutputPort[RequestID, content] // nil unless the flow is durable
}

// handle serves a request that has come to an endpoint.
func (t *requestTable) handle(w http.ResponseWriter, r *http.Request, e endpoint) {
	if !t.enter() {
		t.refuse(w, t.refused(errPending, false))
		return
	}
	defer t.leave()
	ctx, cancel := context.WithTimeoutCause(r.Context(), t.opts.Timeout, errLate)
	defer cancel()
	id, answer, err := t.serve(ctx, w, r, e)
	if err != nil {
		why := t.refused(err, r.Context().Err() != nil)
		if why == errWait {
			w.Header().Set(t.opts.Header, string(t.opts.Idempotent.name(id)))
		}
		t.refuse(w, why)
		return
	}
	t.send(w, id, answer)
}

// serve returns the response to a request, and the key of the request.
func (t *requestTable) serve(ctx context.Context, w http.ResponseWriter, r *http.Request, e endpoint) (RequestID, Response, error) {
	id, err := named(r.Header, t.opts.Header)
	if err != nil {
		return "", Response{}, err
	}
	if id == "" && t.opts.Idempotent.requires(r) {
		return "", Response{}, errUnnamed
	}
	req, err := read(w, r, t.opts.Body)
	if err != nil {
		return "", Response{}, err
	}
	c := &call{content: contentOf(r, req.Body, t.opts.Same), named: id != "", idKnown: id != "", out: e.out, contents: e.contents, waiters: 1}
	if !c.named {
		id = t.ids.next()
	}
	c.id = t.opts.Idempotent.key(r, e.route, id)
	req.ID = c.id
	send, err := e.accept(req, c.content)
	if err != nil {
		return "", Response{}, err
	}
	if c, err = t.open(c); err != nil {
		return "", Response{}, err
	}
	answer, err := t.await(ctx, c, send)
	return c.id, answer, err
}

// enter counts a request in. It reports false if too many are pending.
func (t *requestTable) enter() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tidy(time.Now())
	if t.serving+t.abandonedPending >= t.opts.Pending {
		return false
	}
	t.serving++
	return true
}

func (t *requestTable) leave() {
	t.mu.Lock()
	t.serving--
	t.mu.Unlock()
}

// open adds c to known, or returns the call that c repeats.
func (t *requestTable) open(c *call) (*call, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	first, ok := t.known[c.id]
	switch {
	case ok && first == nil, !ok && c.contents == nil && c.named && t.ids.made(t.opts.Idempotent.name(c.id)):
		return nil, errUsed
	case !ok:
		t.known[c.id] = c
		return c, nil
	case first.content != c.content && c.contents != nil:
		return c, nil // the history decides which of them came first
	case first.content != c.content:
		return nil, errOther
	case t.opts.Idempotent != nil && !first.answered && !first.ready():
		return nil, errRunning
	}
	first.waiters++
	return first, nil
}

// ready reports whether the response to a call without waiters has come. It must be called
// with the table's mu held.
func (c *call) ready() bool {
	if c.running || !c.put {
		return false
	}
	_, ok := c.out.Get(c.id)
	return ok
}

// await returns the answer to a call as soon as there is one.
func (t *requestTable) await(ctx context.Context, c *call, send func(context.Context) error) (Response, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.quit(c)
	for !c.answered {
		var err error
		if c.running {
			err = t.waitTurn(ctx, c)
		} else if err = t.run(ctx, c, send); err == nil {
			break
		}
		if err != nil && !c.answered {
			if late(err) && c.put {
				c.idKnown, err = true, errWait
			}
			return Response{}, err
		}
	}
	return c.answer, nil
}

// waitTurn waits until the waiter that runs the call has the answer or leaves. It is called with mu held and
// returns with mu held.
func (t *requestTable) waitTurn(ctx context.Context, c *call) error {
	if c.turn == nil {
		c.turn = make(chan struct{})
	}
	turn := c.turn
	t.mu.Unlock()
	defer t.mu.Lock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run puts the call into the flow and takes its answer out. It is called with mu held and
// returns with mu held.
func (t *requestTable) run(ctx context.Context, c *call, send func(context.Context) error) (err error) {
	c.running = true
	put := c.put || c.contents != nil // a durable flow may have stored a request that it did not acknowledge
	t.mu.Unlock()
	var answer Response
	defer func() {
		t.mu.Lock()
		c.running, c.put = false, put
		if c.turn != nil {
			close(c.turn)
			c.turn = nil
		}
		if put && err == nil {
			t.settle(c, answer, time.Now())
		}
	}()
	if c.contents != nil {
		answer, err = t.recall(ctx, c, send)
		return err
	}
	if !put {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		room, cancel := context.WithTimeoutCause(ctx, t.opts.Patience, errFull)
		err = send(room)
		cancel()
		if err != nil {
			return err
		}
		put = true
	}
	answer, err = c.out.Take(ctx, c.id)
	return err
}

// quit removes a waiter from a call. It is called with mu held.
func (t *requestTable) quit(c *call) {
	c.waiters--
	switch {
	case c.waiters > 0:
	case c.contents != nil:
		if t.known[c.id] == c {
			delete(t.known, c.id) // the history knows it
		}
	case c.answered:
	case !c.put:
		delete(t.known, c.id) // as if it had never come
	default:
		t.abandon(c, time.Now())
	}
}
