package mcptools

import (
	"context"
	"errors"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto/toolserver"
)

// consented is the answer of a user who was sent to an address: it says nothing about what they do there.
var consented = &mcp.ElicitResult{Action: "accept"}

// isVisit reports whether the user is asked to open an address rather than to fill in a form.
func isVisit(p *mcp.ElicitParams) bool { return p.Mode == "url" || p.Mode == "" && p.URL != "" }

// unvisited returns the answer to a server whose address the user did not get or did not visit in time. An address that is not
// allowed is declined.
func (a *attempt) unvisited(err error) (*mcp.ElicitResult, error) {
	if errors.Is(err, toolserver.ErrAddress) {
		a.log.Warn("an MCP server has named an address that users are not sent to", "server", a.server)
		return declined, nil
	}
	return dismissal(err)
}

// visit sends the user to an address during a call that the server has not answered; the server itself learns what the user does
// there. When visit returns, the request is on its way to the user.
func (a *attempt) visit(request context.Context, s *session, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	sent := make(chan error, 1)
	a.visits.Go(func() {
		done, stop := s.completion(p.ElicitationID)
		defer stop()
		resume := a.hold()
		defer resume()
		asked := false
		err := toolserver.SendTo(a.during, p.URL, func(ctx context.Context) error {
			asked = true
			sent <- nil
			select {
			case <-done:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		switch {
		case !asked:
			sent <- err
		case err != nil && a.during.Err() == nil:
			a.end(err)
		}
	})
	select {
	case err := <-sent:
		if err != nil {
			return a.unvisited(err)
		}
		return consented, nil
	case <-request.Done():
		return nil, context.Cause(request)
	}
}

// completions are the visits that servers have not reported as completed.
type completions struct {
	mu  sync.Mutex
	all map[string]chan struct{}
}

// completion returns a channel that is closed when the server reports the visit with this id as completed. The caller must call
// stop when it no longer waits.
func (s *session) completion(id string) (done <-chan struct{}, stop func()) {
	c := &s.completions
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = make(map[string]chan struct{})
	}
	ch := c.all[id]
	if ch == nil || id == "" {
		ch = make(chan struct{})
		c.all[id] = ch
	}
	return ch, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.all[id] == ch {
			delete(c.all, id)
		}
	}
}

// completed receives the notification that a visit is completed.
func (s *session) completed(_ context.Context, r *mcp.ElicitationCompleteNotificationRequest) {
	c := &s.completions
	c.mu.Lock()
	defer c.mu.Unlock()
	if ch := c.all[r.Params.ElicitationID]; ch != nil && r.Params.ElicitationID != "" {
		delete(c.all, r.Params.ElicitationID)
		close(ch)
	}
}
