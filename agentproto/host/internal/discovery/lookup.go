package discovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/millrace/millrace/agentproto/host/internal/quote"
)

// ToolOf returns a tool of a session, or the reason why the session does not have it, in words for the model.
//
// While a server cannot be reached, the tool may be one of that server's. The call then waits as a dispatch would: the server is
// asked again after the pauses of host.Timeouts.Retry, for at most host.Timeouts.Dispatch in total. If that was in vain, other
// calls do not wait for the server for that long afterwards, so that many of them take no longer than one.
func (c *Catalog) ToolOf(ctx context.Context, session, name string) (*Tool, string, error) {
	if !c.permits(session, name) {
		return nil, noTool(name), nil
	}
	budget, cancel := context.WithTimeout(ctx, c.Dispatch)
	defer cancel()
	for attempt := 0; ; attempt++ {
		o, err := c.OfferOf(budget, session)
		switch {
		case ctx.Err() != nil:
			return nil, "", context.Cause(ctx)
		case err != nil && budget.Err() != nil:
			return nil, "the tool servers did not say in time which tools they have; try again later", nil
		case err != nil:
			return nil, "", err
		}
		if tool := o.byName[name]; tool != nil {
			return tool, "", nil
		}
		reason, unreached := c.missing(o, name)
		if !c.worthWaiting(unreached) {
			return nil, reason, nil
		}
		if !c.peers.Retry().Wait(budget, attempt+1, askAgainAfter, c.leaving) {
			if ctx.Err() == nil {
				giveUp(unreached)
			}
			return nil, reason, context.Cause(ctx)
		}
	}
}

// worthWaiting reports whether a call may wait for at least one of the unreachable servers.
func (c *Catalog) worthWaiting(unreached []*source) bool {
	return slices.ContainsFunc(unreached, func(s *source) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.gaveUp.IsZero() || time.Since(s.gaveUp) >= c.Dispatch
	})
}

// giveUp records that a call waited for servers in vain.
func giveUp(unreached []*source) {
	for _, s := range unreached {
		s.mu.Lock()
		s.gaveUp = time.Now()
		s.mu.Unlock()
	}
}

// missing returns why a tool is missing, and which unreachable servers may have it.
func (c *Catalog) missing(o *Offer, name string) (reason string, unreached []*source) {
	var silent, invalid []string
	for i, err := range o.errs {
		switch {
		case err == nil:
		case errors.Is(err, errNotFetched):
			silent, unreached = append(silent, c.sources[i].Base), append(unreached, c.sources[i])
		default:
			invalid = append(invalid, c.sources[i].Base)
		}
	}
	switch {
	case len(silent) > 0:
		return fmt.Sprintf("tool server %s cannot be reached, and no other has a tool %s; try again later",
			strings.Join(silent, ", "), quote.Text(name)), unreached
	case len(invalid) > 0:
		return fmt.Sprintf("there is no tool %s; the manifest of tool server %s is not valid", quote.Text(name), strings.Join(invalid, ", ")), nil
	}
	return noTool(name), nil
}

// noTool says that a tool does not exist. It uses the same words for a tool that the session may not use.
func noTool(name string) string { return "there is no tool " + quote.Text(name) }

func (c *Catalog) permits(session, name string) bool {
	return c.Permits == nil || c.Permits(session, name)
}

// Permitted returns the tools of an offer that a session may use.
func (c *Catalog) Permitted(session string, tools []Tool) []Tool {
	return slices.DeleteFunc(slices.Clone(tools), func(t Tool) bool { return !c.permits(session, t.Name) })
}

// Refuses returns why the tool cannot be called with these arguments, in words for the model, or "".
func (tool *Tool) Refuses(args jsontext.Value) string {
	if !args.IsValid() {
		return "the arguments are not valid JSON"
	}
	if args.Kind() != '{' {
		return "the arguments are not a JSON object"
	}
	if err := tool.schema.Validate(args); err != nil {
		return fmt.Sprintf("the arguments of %s do not fit its schema: %s", quote.Text(tool.Name), withoutPackage(err))
	}
	return ""
}

// withoutPackage returns the text of an error of agentproto without the package's name, for people and models.
func withoutPackage(err error) string { return strings.TrimPrefix(err.Error(), "agentproto: ") }
