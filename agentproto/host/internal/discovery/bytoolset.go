package discovery

import (
	"context"
	"fmt"
	"sync"

	"github.com/millrace/millrace/agentproto/host/internal/peer"
	"github.com/millrace/millrace/agentproto/host/internal/quote"
)

// WithToolset returns the tool server whose toolset has this name, or nil.
func (c *Catalog) WithToolset(ctx context.Context, toolset string) *peer.Server {
	if toolset == "" {
		return nil
	}
	var unknown []*source
	for _, s := range c.sources {
		switch set := s.lastGood(); {
		case set == nil:
			unknown = append(unknown, s)
		case set.Manifest.Name == toolset:
			return s.Server
		}
	}
	for _, s := range unknown {
		if set := c.knownOf(ctx, s); set != nil && set.Manifest.Name == toolset {
			return s.Server
		}
	}
	return nil
}

// ByToolset returns the base URLs of the tool servers that answer now, by the names of their toolsets.
func (c *Catalog) ByToolset(ctx context.Context) (map[string]string, error) {
	sets := make([]*toolset, len(c.sources))
	var wg sync.WaitGroup
	for i, s := range c.sources {
		wg.Go(func() {
			var err error
			if sets[i], err = c.freshOf(ctx, s, false); err != nil {
				c.Log.Warn("tool server is not ready for a session that comes", "toolset", s.Base, "error", err)
			}
		})
	}
	wg.Wait()
	bases := map[string]string{}
	for i, set := range sets {
		if set == nil {
			continue
		}
		if _, twice := bases[set.Manifest.Name]; twice {
			return nil, fmt.Errorf("two tool servers have the toolset %s: which of them is meant cannot be told", quote.Text(set.Manifest.Name))
		}
		bases[set.Manifest.Name] = c.sources[i].Base
	}
	return bases, nil
}

// Last returns the last valid toolset of a tool server, or nil.
func (c *Catalog) Last(s *peer.Server) *toolset { return c.of[s].lastGood() }

// Fresh fetches the toolset of a tool server, as freshOf does.
func (c *Catalog) Fresh(ctx context.Context, s *peer.Server) (*toolset, error) {
	return c.freshOf(ctx, c.of[s], false)
}

// Known returns the last valid toolset of a tool server, as knownOf does.
func (c *Catalog) Known(ctx context.Context, s *peer.Server) *toolset { return c.knownOf(ctx, c.of[s]) }
