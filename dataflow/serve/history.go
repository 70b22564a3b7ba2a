package serve

import (
	"context"
	"errors"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
	"github.com/millrace/millrace/internal/engine/port"
)

// In a durable flow the history has what the desk has in memory: the input of a route takes
// each id once, and two outputs have, under each id, the content of the request and its
// response. The desk asks them, and itself knows only the calls that this process waits for.

// An arrival is a request as it is in the history.
type arrival[V any] struct {
	Content content
	Request V
}

// madeRetain is how long the flow keeps the answer to a request that had no id, at most.
const madeRetain = 5 * time.Minute

// newKeptInput adds the input of a route to a durable flow. It returns how to send a request,
// the requests, and a function that lets out their contents, and drops them together with the
// responses when those were there for long enough.
func newKeptInput[V any](site *engine.Location, op *engine.Op, opts Options) (
	send func(context.Context, RequestID, content, V) error,
	requests *engine.KeyedNode[RequestID, V],
	expire func(*engine.KeyedNode[RequestID, Response], *port.EntryOutput[RequestID, Response]) *dataflow.EntryOutputPort[RequestID, content],
) {
	in, arrived := port.NewEntryInput[RequestID, arrival[V]](site, op, nil)
	send = func(ctx context.Context, id RequestID, c content, v V) error {
		return in.Send(ctx, id, arrival[V]{c, v})
	}
	requests = operators.KMap(arrived, engine.NewOp(site, op.Name+": requests", ""), func(a arrival[V]) V { return a.Request })
	made := func(id RequestID) bool { return formed(opts.Idempotent.name(id)) }
	expire = func(n *engine.KeyedNode[RequestID, Response], out *port.EntryOutput[RequestID, Response]) *dataflow.EntryOutputPort[RequestID, content] {
		contents := operators.KMap(arrived, engine.NewOp(site, op.Name+": contents", ""), func(a arrival[V]) content { return a.Content })
		known := port.NewEntryOutput(contents, engine.NewOp(site, op.Name+": known", ""))
		times := operators.KMapWithKey(n, engine.NewOp(site, op.Name+": retain", ""), func(id RequestID, _ Response) time.Duration {
			if made(id) {
				return min(opts.Retain, madeRetain)
			}
			return opts.Retain
		})
		old := operators.After(times, engine.Reasoned(site, op.Name+": expire", "how long a response is kept is a matter of time"), 0, func(d time.Duration) time.Duration { return d })
		port.DropOn(out, old)
		port.DropOn(known, old)
		port.ForgetOn(in, old, made)
		return newEntryOutputPort(known)
	}
	return send, requests, expire
}

// recall has a durable flow answer a call: it sends the request, unless the history has it
// already, and returns the response.
func (d *desk) recall(ctx context.Context, c *call, send func(context.Context) error) (Response, error) {
	if known, ok := c.contents.Get(c.id); ok {
		return d.compare(ctx, c, known)
	}
	if c.named && formed(d.opts.Idempotent.name(c.id)) {
		return d.find(ctx, c) // it was made here, perhaps by an earlier process: it is not let in again
	}
	switch err := send(ctx); {
	case errors.Is(err, dataflow.ErrDuplicateKey):
		return d.find(ctx, c)
	case err != nil:
		return Response{}, err
	}
	return c.out.Await(ctx, c.id)
}

// find answers a call whose id was used before.
func (d *desk) find(ctx context.Context, c *call) (Response, error) {
	short, cancel := context.WithTimeoutCause(ctx, d.opts.Patience, errUsed)
	defer cancel()
	known, err := c.contents.Await(short, c.id)
	if err != nil {
		return Response{}, err
	}
	return d.compare(ctx, c, known)
}

// compare answers a call whose id is that of a request with the content known.
func (d *desk) compare(ctx context.Context, c *call, known content) (Response, error) {
	if known != c.content {
		return Response{}, errOther
	}
	if d.opts.Idempotent != nil {
		short, cancel := context.WithTimeoutCause(ctx, d.opts.Patience, errRunning)
		defer cancel()
		ctx = short
	}
	return c.out.Await(ctx, c.id)
}
