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

// In a durable flow the history holds what the table otherwise holds in memory. The input of a
// route takes each id once, and two outputs hold, under each id, the content of the request and
// its response. The table reads them, and itself knows only the calls that this process waits for.

// An arrival is the form of a request in the history.
type arrival[V any] struct {
	Content content
	Request V
}

// madeRetain is the maximum time for which the flow keeps the answer to a request that came
// without an id.
const madeRetain = 5 * time.Minute

// newHistoryInput adds the input of a route to a durable flow. It returns a function that sends a
// request, and the requests. The third result, expire, makes an output of their contents. It
// also drops contents and responses when they have been kept for long enough.
func newHistoryInput[V any](location *engine.Location, op *engine.Op, opts Options) (
	send func(context.Context, RequestID, content, V) error,
	requests *engine.KeyedNode[RequestID, V],
	expire func(*engine.KeyedNode[RequestID, Response], *port.EntryOutput[RequestID, Response]) *dataflow.EntryOutputPort[RequestID, content],
) {
	in, arrived := port.NewEntryInput[RequestID, arrival[V]](location, op, nil)
	send = func(ctx context.Context, id RequestID, c content, v V) error {
		return in.Send(ctx, id, arrival[V]{c, v})
	}
	requests = operators.KMap(arrived, engine.NewOp(location, op.Name+": requests", ""), func(a arrival[V]) V { return a.Request })
	made := func(id RequestID) bool { return formed(opts.Idempotent.name(id)) }
	expire = func(n *engine.KeyedNode[RequestID, Response], out *port.EntryOutput[RequestID, Response]) *dataflow.EntryOutputPort[RequestID, content] {
		contents := operators.KMap(arrived, engine.NewOp(location, op.Name+": contents", ""), func(a arrival[V]) content { return a.Content })
		known := port.NewEntryOutput(contents, engine.NewOp(location, op.Name+": known", ""))
		times := operators.KMapWithKey(n, engine.NewOp(location, op.Name+": retain", ""), func(id RequestID, _ Response) time.Duration {
			if made(id) {
				return min(opts.Retain, madeRetain)
			}
			return opts.Retain
		})
		old := operators.After(times, engine.Reasoned(location, op.Name+": expire", "how long a response is kept is a matter of time"), 0, func(d time.Duration) time.Duration { return d })
		port.DropOn(out, old)
		port.DropOn(known, old)
		port.ForgetOn(in, old, made)
		return newEntryOutputPort(known)
	}
	return send, requests, expire
}

// recall answers a call from a durable flow: it sends the request, unless the history already
// has it, and returns the response.
func (t *requestTable) recall(ctx context.Context, c *call, send func(context.Context) error) (Response, error) {
	if known, ok := c.contents.Get(c.id); ok {
		return t.compare(ctx, c, known)
	}
	if c.named && formed(t.opts.Idempotent.name(c.id)) {
		return t.find(ctx, c) // a router made the id, perhaps in an earlier process: it is not let in again
	}
	switch err := send(ctx); {
	case errors.Is(err, dataflow.ErrDuplicateKey):
		return t.find(ctx, c)
	case err != nil:
		return Response{}, err
	}
	return c.out.Await(ctx, c.id)
}

// find answers a call whose id was used before.
func (t *requestTable) find(ctx context.Context, c *call) (Response, error) {
	short, cancel := context.WithTimeoutCause(ctx, t.opts.Patience, errUsed)
	defer cancel()
	known, err := c.contents.Await(short, c.id)
	if err != nil {
		return Response{}, err
	}
	return t.compare(ctx, c, known)
}

// compare answers a call whose id was used before, by a request with the content known.
func (t *requestTable) compare(ctx context.Context, c *call, known content) (Response, error) {
	if known != c.content {
		return Response{}, errOther
	}
	if t.opts.Idempotent != nil {
		short, cancel := context.WithTimeoutCause(ctx, t.opts.Patience, errRunning)
		defer cancel()
		ctx = short
	}
	return c.out.Await(ctx, c.id)
}
