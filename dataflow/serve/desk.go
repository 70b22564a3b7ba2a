package serve

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/millrace/millrace/dataflow"
)

// A desk is a router's idempotency table: it knows which requests have come before, and
// which of them have waiting callers.
//
// It maintains, whenever mu is free:
//
//  1. known has, under each id, the call that is not answered yet or whose answer is
//     kept; under an id that a client chose, nil once neither is the case,
//  2. a call that was put and is not answered has waiters or is in strays,
//  3. astray is the number of strays that count as pending,
//  4. kept holds the calls that were answered, oldest first.
//
// It has no goroutine and no timer: due work is done when the next request comes.
//
// In a durable flow known has only calls with waiters, and strays and kept are empty, since
// the flow's history has the answers; see [desk.recall].
type desk struct {
	name string
	opts Options
	ids  idSource
	fail sync.Once // logs a failure of the flow once

	mu     sync.Mutex
	known  map[RequestID]*call
	inside int // requests being served
	astray int
	strays queue[*call]
	kept   queue[*call]
}

func newDesk(name string, opts Options) *desk {
	d := &desk{name: name, opts: opts, ids: idSource{start: time.Now().UnixNano()}, known: make(map[RequestID]*call)}
	d.ids.last.Store(d.ids.start - 1)
	return d
}

// A call is a request and all its repeats.
//
// One of its waiters leads: it puts the request into the flow, unless that was done, and
// takes the response out. The others wait for the leader. When a leader gives up, another
// waiter takes over.
type call struct {
	id      RequestID
	content content
	named   bool // the client chose the id
	out     *dataflow.EntryOutputPort[RequestID, Response]

	contents *dataflow.EntryOutputPort[RequestID, content] // nil unless the flow is durable

	// guarded by the desk's mu
	put      bool          // the request is in the flow; set when the leader leaves
	told     bool          // a client knows the id
	waiters  int           // including the leader
	leading  bool          // a waiter leads
	turn     chan struct{} // closed when the leader leaves; nil if no waiter follows
	answered bool
	answer   Response
	stray    bool // is in strays
	lost     bool // not answered for Options.Retain, and no longer in known
	since    time.Time
}

// A gate connects a route to the flow: it sends requests and receives responses.
type gate struct {
	route string // the pattern of the route, "" if it has none
	// accept returns the function that sends a request to the flow, or the reason why it is
	// refused.
	accept   func(*Request, content) (send func(context.Context) error, err error)
	out      *dataflow.EntryOutputPort[RequestID, Response]
	contents *dataflow.EntryOutputPort[RequestID, content] // nil unless the flow is durable
}

// attend serves a request that has come to a gate.
func (d *desk) attend(w http.ResponseWriter, r *http.Request, g gate) {
	if !d.enter() {
		d.refuse(w, d.refused(errPending, false))
		return
	}
	defer d.leave()
	ctx, cancel := context.WithTimeoutCause(r.Context(), d.opts.Timeout, errLate)
	defer cancel()
	id, answer, err := d.serve(ctx, w, r, g)
	if err != nil {
		why := d.refused(err, r.Context().Err() != nil)
		if why == errWait {
			w.Header().Set(d.opts.Header, string(d.opts.Idempotent.name(id)))
		}
		d.refuse(w, why)
		return
	}
	d.send(w, id, answer)
}

// serve returns the response to a request, and the key of the request.
func (d *desk) serve(ctx context.Context, w http.ResponseWriter, r *http.Request, g gate) (RequestID, Response, error) {
	id, err := named(r.Header, d.opts.Header)
	if err != nil {
		return "", Response{}, err
	}
	if id == "" && d.opts.Idempotent.requires(r) {
		return "", Response{}, errUnnamed
	}
	req, err := read(w, r, d.opts.Body)
	if err != nil {
		return "", Response{}, err
	}
	c := &call{content: contentOf(r, req.Body, d.opts.Same), named: id != "", told: id != "", out: g.out, contents: g.contents, waiters: 1}
	if !c.named {
		id = d.ids.next()
	}
	c.id = d.opts.Idempotent.key(r, g.route, id)
	req.ID = c.id
	send, err := g.accept(req, c.content)
	if err != nil {
		return "", Response{}, err
	}
	if c, err = d.open(c); err != nil {
		return "", Response{}, err
	}
	answer, err := d.await(ctx, c, send)
	return c.id, answer, err
}

// enter counts a request in. It reports false if too many are pending.
func (d *desk) enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tidy(time.Now())
	if d.inside+d.astray >= d.opts.Pending {
		return false
	}
	d.inside++
	return true
}

func (d *desk) leave() {
	d.mu.Lock()
	d.inside--
	d.mu.Unlock()
}

// open adds c to known, or returns the call that c repeats.
func (d *desk) open(c *call) (*call, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	first, ok := d.known[c.id]
	switch {
	case ok && first == nil, !ok && c.contents == nil && c.named && d.ids.made(d.opts.Idempotent.name(c.id)):
		return nil, errUsed
	case !ok:
		d.known[c.id] = c
		return c, nil
	case first.content != c.content && c.contents != nil:
		return c, nil // the history decides which of them came first
	case first.content != c.content:
		return nil, errOther
	case d.opts.Idempotent != nil && !first.answered && !first.ready():
		return nil, errRunning
	}
	first.waiters++
	return first, nil
}

// ready reports whether the response to a call without waiters has come. It must be called
// with the desk's mu held.
func (c *call) ready() bool {
	if c.leading || !c.put {
		return false
	}
	_, ok := c.out.Get(c.id)
	return ok
}

// await returns the answer to a call as soon as there is one.
func (d *desk) await(ctx context.Context, c *call, send func(context.Context) error) (Response, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.quit(c)
	for !c.answered {
		var err error
		if c.leading {
			err = d.follow(ctx, c)
		} else if err = d.lead(ctx, c, send); err == nil {
			break
		}
		if err != nil && !c.answered {
			if late(err) && c.put {
				c.told, err = true, errWait
			}
			return Response{}, err
		}
	}
	return c.answer, nil
}

// follow waits until the leader has the answer or leaves. It is called with mu held and
// returns with mu held.
func (d *desk) follow(ctx context.Context, c *call) error {
	if c.turn == nil {
		c.turn = make(chan struct{})
	}
	turn := c.turn
	d.mu.Unlock()
	defer d.mu.Lock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lead puts the call into the flow and takes its answer out. It is called with mu held and
// returns with mu held.
func (d *desk) lead(ctx context.Context, c *call, send func(context.Context) error) (err error) {
	c.leading = true
	put := c.put || c.contents != nil // a durable flow may have stored a request that it did not acknowledge
	d.mu.Unlock()
	var answer Response
	defer func() {
		d.mu.Lock()
		c.leading, c.put = false, put
		if c.turn != nil {
			close(c.turn)
			c.turn = nil
		}
		if put && err == nil {
			d.settle(c, answer, time.Now())
		}
	}()
	if c.contents != nil {
		answer, err = d.recall(ctx, c, send)
		return err
	}
	if !put {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		room, cancel := context.WithTimeoutCause(ctx, d.opts.Patience, errFull)
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
func (d *desk) quit(c *call) {
	c.waiters--
	switch {
	case c.waiters > 0:
	case c.contents != nil:
		if d.known[c.id] == c {
			delete(d.known, c.id) // the history knows it
		}
	case c.answered:
	case !c.put:
		delete(d.known, c.id) // as if it had never come
	default:
		d.abandon(c, time.Now())
	}
}
