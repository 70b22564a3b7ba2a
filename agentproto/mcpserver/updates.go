package mcpserver

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host"
)

// Clients are notified of resources that change. One goroutine watches each resource, however many sessions subscribe to it.

// updateEvery is the minimum time between two notifications about one resource, and the retry interval for a runtime that does
// not answer.
const updateEvery = time.Second

// watchedResources are the resources that an owner's clients subscribe to. The zero value is empty.
type watchedResources struct {
	mu       sync.Mutex
	pairs    int // of sessions and resources
	sessions map[*mcp.ServerSession]map[string]bool
	all      map[string]*watchedResource
}

// A watchedResource is a resource that some sessions subscribe to.
type watchedResource struct {
	sessions int
	stop     context.CancelFunc
}

// add subscribes a session to a resource, and reports whether the session was not subscribed before. If it is the first session
// for the resource, add returns a context for the goroutine that watches it. It returns an error if there are too many
// subscriptions.
func (w *watchedResources) add(session *mcp.ServerSession, uri string, most int) (ctx context.Context, added bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sessions[session][uri] {
		return nil, false, nil
	}
	if w.pairs >= most {
		return nil, false, &jsonrpc.Error{Code: codeBusy, Message: "too many resources of this client are watched"}
	}
	if w.sessions == nil {
		w.sessions, w.all = map[*mcp.ServerSession]map[string]bool{}, map[string]*watchedResource{}
	}
	if w.sessions[session] == nil {
		w.sessions[session] = map[string]bool{}
		go func() {
			_ = session.Wait() // the reason does not matter
			w.leave(session)
		}()
	}
	w.sessions[session][uri] = true
	w.pairs++
	if r := w.all[uri]; r != nil {
		r.sessions++
		return nil, true, nil
	}
	r := &watchedResource{sessions: 1}
	ctx, r.stop = context.WithCancel(context.Background())
	w.all[uri] = r
	return ctx, true, nil
}

// remove unsubscribes a session from a resource.
func (w *watchedResources) remove(session *mcp.ServerSession, uri string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(session, uri)
}

// leave removes all resources of a session that has ended.
func (w *watchedResources) leave(session *mcp.ServerSession) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for uri := range w.sessions[session] {
		w.drop(session, uri)
	}
	delete(w.sessions, session)
}

func (w *watchedResources) drop(session *mcp.ServerSession, uri string) {
	if !w.sessions[session][uri] {
		return
	}
	delete(w.sessions[session], uri)
	w.pairs--
	r := w.all[uri]
	if r.sessions--; r.sessions == 0 {
		r.stop()
		delete(w.all, uri)
	}
}

// watchResource subscribes a session to a resource, until it unsubscribes or ends. The session is notified at once if there are events:
// its client may have read the resource before them.
func (o *owner) watchResource(session *mcp.ServerSession, uri string) error {
	key, ok := o.keyOf(uri)
	if !ok {
		return mcp.ResourceNotFoundError(uri)
	}
	ctx, added, err := o.watched.add(session, uri, o.s.opts.Held)
	switch {
	case ctx != nil:
		go o.tell(ctx, key, uri)
	case added:
		o.updated(uri)
	}
	return err
}

// updated notifies the subscribed sessions that a resource has changed.
func (o *owner) updated(uri string) {
	_ = o.server.ResourceUpdated(context.Background(), &mcp.ResourceUpdatedNotificationParams{URI: uri})
}

// tell notifies sessions of the changes of a resource, until ctx ends or there are no more.
func (o *owner) tell(ctx context.Context, key agentproto.CallKey, uri string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-o.s.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	for last := 0; ; {
		e, err := o.s.opts.Calls.Events(ctx, key, last)
		if ctx.Err() != nil {
			return
		}
		over := err == nil && e.Ended || errors.Is(err, host.ErrUnknownCall) || errors.Is(err, host.ErrElsewhere)
		if err == nil || over {
			last = max(last, e.Last)
			o.updated(uri)
		}
		if over {
			return
		}
		select {
		case <-time.After(updateEvery):
		case <-ctx.Done():
		}
	}
}

// A listening is a subscriptions/listen in progress.
type listening struct {
	session *mcp.ServerSession
	uris    []string
}

type listeningKey struct{}

// listen serves subscriptions/listen. The SDK registers the subscriptions and acknowledges them. The resources are watched only
// from the acknowledgement on, so that no notification precedes it.
func (o *owner) listen(ctx context.Context, req *mcp.SubscriptionsListenRequest, next mcp.MethodHandler) (mcp.Result, error) {
	l := &listening{session: req.Session}
	if n := req.Params.Notifications; n != nil {
		l.uris = n.ResourceSubscriptions
	}
	return next(context.WithValue(ctx, listeningKey{}, l), methodListen, req)
}

// acknowledged is the first notification that the SDK sends for a subscriptions/listen.
const acknowledged = "notifications/subscriptions/acknowledged"

// send is the middleware for every message to a client.
func (o *owner) send(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		res, err := next(ctx, method, req)
		l, ok := ctx.Value(listeningKey{}).(*listening)
		if err == nil && ok && method == acknowledged {
			for _, uri := range l.uris {
				if err := o.watchResource(l.session, uri); err != nil {
					return res, err
				}
			}
		}
		return res, err
	}
}
