package mcpserver

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto/internal/mcptasks"
)

// Every owner has its own server of the SDK, with the tools of its thread. So one owner cannot use another's sessions, and the
// SDK checks the headers that a tool's schema requires.

// refreshEvery is the minimum time between two look-ups of an owner's tools.
const refreshEvery = time.Second

// watchEvery is how often the tools are looked up for a client that listens for changes.
const watchEvery = 15 * time.Second

// toolsFor is how long a client may cache a list of tools.
const toolsFor = time.Minute

// serve makes the owner's server.
func (o *owner) serve() error {
	o.server = mcp.NewServer(&mcp.Implementation{Name: "millrace", Version: cmp.Or(o.s.opts.Version, "0")}, &mcp.ServerOptions{
		Logger:                    o.s.log,
		SupportedProtocolVersions: versions,
		Capabilities: &mcp.ServerCapabilities{
			Tools:      &mcp.ToolCapabilities{ListChanged: true},
			Resources:  &mcp.ResourceCapabilities{Subscribe: true},
			Extensions: map[string]any{mcptasks.Extension: struct{}{}},
		},
		SubscribeHandler: func(ctx context.Context, req *mcp.SubscribeRequest) error {
			_, err := o.events(ctx, req.Params.URI)
			return err
		},
		UnsubscribeHandler: func(_ context.Context, req *mcp.UnsubscribeRequest) error {
			o.watched.remove(req.Session, req.Params.URI)
			return nil
		},
		SetCacheable: func(_ context.Context, req mcp.Request, c *mcp.Cacheable) {
			c.TTLMs, c.CacheScope = int(toolsFor.Milliseconds()), "private"
			switch req.(type) {
			case *mcp.ListResourcesRequest, *mcp.ReadResourceRequest: // resources change at any time
				c.TTLMs = 0
			}
		},
	})
	o.server.AddResourceTemplate(&mcp.ResourceTemplate{
		URITemplate: subscriptionsAt + "{id}", Name: "subscription", MIMEType: "application/json",
		Description: "The last events of a subscription that a call of a tool has opened, as a JSON object: the tool, how many events there were, the last ones with their numbers, and whether it has ended.",
	}, o.readResource)
	err := mcp.AddReceivingCustomMethod(o.server, mcptasks.MethodGet, func(ctx context.Context, _ *mcp.ServerSession, p *mcptasks.IDParams) (*mcptasks.GetTaskResult, error) {
		return o.get(ctx, p.TaskID)
	})
	if err != nil {
		return err
	}
	err = mcp.AddReceivingCustomMethod(o.server, mcptasks.MethodUpdate, func(ctx context.Context, _ *mcp.ServerSession, p *mcptasks.UpdateParams) (*mcptasks.Ack, error) {
		return o.update(ctx, p)
	})
	if err != nil {
		return err
	}
	err = mcp.AddReceivingCustomMethod(o.server, mcptasks.MethodCancel, func(ctx context.Context, _ *mcp.ServerSession, p *mcptasks.IDParams) (*mcptasks.Ack, error) {
		return o.cancel(ctx, p.TaskID)
	})
	if err != nil {
		return err
	}
	o.server.AddReceivingMiddleware(o.receive)
	o.server.AddSendingMiddleware(o.send)
	same := func(*http.Request) *mcp.Server { return o.server }
	// ServeHTTP has checked hosts and origins, and limits bodies.
	o.modern = mcp.NewStreamableHTTPHandler(same, &mcp.StreamableHTTPOptions{
		Stateless: true, Logger: o.s.log, DisableLocalhostProtection: true, MaxRequestBodyBytes: o.s.opts.Body, PropagateRequestCancellation: true,
	})
	o.sessions = mcp.NewStreamableHTTPHandler(same, &mcp.StreamableHTTPOptions{
		Logger: o.s.log, DisableLocalhostProtection: true, MaxRequestBodyBytes: o.s.opts.Body, SessionTimeout: time.Hour,
	})
	return nil
}

// offer updates the server's tools to those that the thread is offered. If they cannot be looked up, the server keeps the tools
// it has; it is an error only if it has none.
func (o *owner) offer(ctx context.Context) error {
	o.refresh.Lock()
	defer o.refresh.Unlock()
	now := time.Now()
	if !o.tried.IsZero() && now.Sub(o.tried) < refreshEvery && len(o.offered) > 0 {
		return nil
	}
	tools, err := o.s.opts.Calls.Tools(ctx, o.thread)
	if err != nil {
		if len(o.offered) > 0 {
			return nil
		}
		return err
	}
	o.tried = now
	stale := o.offered
	o.offered = make(map[string]string, len(tools))
	for _, t := range tools {
		m, ok := toolOf(t)
		if !ok {
			o.s.log.Warn("a tool cannot be offered over MCP: its schema is not one of an object", "tool", t.Name)
			continue
		}
		text, err := json.Marshal(m)
		if err != nil {
			continue
		}
		sum := sha256.Sum256(text)
		digest := string(sum[:])
		if stale[t.Name] != digest && !o.add(m) {
			continue
		}
		o.offered[t.Name] = digest
		delete(stale, t.Name)
	}
	for name := range stale {
		if o.offered[name] == "" {
			o.server.RemoveTools(name)
		}
	}
	return nil
}

// watch keeps the tools up to date until ctx ends. The SDK notifies clients of each change.
func (o *owner) watch(ctx context.Context) {
	again := time.NewTicker(watchEvery)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.s.closing:
			return
		case <-again.C:
			if err := o.offer(ctx); err != nil && ctx.Err() == nil {
				o.s.log.Debug("the tools of an owner are not known", "error", err)
			}
		}
	}
}

// add adds a tool to the server, and reports whether the SDK accepts it. The SDK panics for a schema that it finds invalid.
func (o *owner) add(m *mcp.Tool) (ok bool) {
	defer func() {
		if p := recover(); p != nil {
			o.s.log.Warn("a tool cannot be offered over MCP", "tool", m.Name, "problem", fmt.Sprint(p))
			ok = false
		}
	}()
	o.server.AddTool(m, o.hold)
	return true
}

// capable is implemented by any request. The capabilities are those of the request, or, before 2026-07-28, of the session.
type capable interface {
	ClientCapabilities() *mcp.ClientCapabilities
	ProtocolVersion() string
}

// A client is what a request declares about its sender.
type client struct {
	tasks bool // the client accepts a task as the answer
	means means
}

type clientKey struct{}

// receive is the middleware for every received message. It recovers panics, which the SDK does not and which would end the
// process.
func (o *owner) receive(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (res mcp.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				o.s.log.Error("a request panicked", "method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				res, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
			}
		}()
		var c client
		if r, ok := req.(capable); ok {
			declared := r.ClientCapabilities()
			c = client{tasks: mcptasks.Declared(declared) && r.ProtocolVersion() >= mcptasks.Since, means: meansOf(declared)}
		}
		ctx = context.WithValue(ctx, clientKey{}, c)
		switch method {
		case "prompts/list", "prompts/get", "completion/complete", "logging/setLevel": // the SDK answers these even without the capability
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "there are no prompts, completions and logs here"}
		case mcptasks.MethodGet, mcptasks.MethodUpdate, mcptasks.MethodCancel:
			if !c.tasks {
				return nil, mcptasks.ErrMissing()
			}
		case "resources/list":
			res, err := next(ctx, method, req)
			if listed, ok := res.(*mcp.ListResourcesResult); ok && err == nil {
				err = o.listResources(ctx, listed)
			}
			return res, err
		case "resources/subscribe":
			res, err := next(ctx, method, req)
			if r, ok := req.(*mcp.SubscribeRequest); ok && err == nil {
				err = o.watchResource(r.Session, r.Params.URI)
			}
			return res, err
		case methodListen:
			if r, ok := req.(*mcp.SubscriptionsListenRequest); ok {
				return o.listen(ctx, r, next)
			}
		case "tools/list":
			if err := o.offer(ctx); err != nil {
				return nil, o.s.errorOf(ctx, err)
			}
		case "tools/call":
			if err := o.offer(ctx); err != nil {
				return nil, o.s.errorOf(ctx, err)
			}
			p, ok := req.GetParams().(*mcp.CallToolParamsRaw)
			if ok && o.s.opts.NeedsTasks(p.Name) && !c.tasks {
				return nil, mcptasks.ErrMissing()
			}
			made := new(mcptasks.CreateTaskResult)
			res, err := next(context.WithValue(ctx, madeKey{}, made), method, req)
			if err == nil && made.TaskID != "" {
				return made, nil
			}
			return res, err
		}
		return next(ctx, method, req)
	}
}

// madeKey is the context key under which the handler of a tool returns a task: the SDK's result type has no place for it.
type madeKey struct{}
