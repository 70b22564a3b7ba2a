package peer

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/agentproto/host/internal/quote"
)

// toolsetOrigins reads the additional origins of single tool servers, by base URL.
func toolsetOrigins(opts Config) (map[string]map[string]bool, error) {
	all := map[string]map[string]bool{}
	for base, origins := range opts.ToolsetOrigins {
		trimmed := strings.TrimSuffix(base, "/")
		if !slices.ContainsFunc(opts.Toolsets, func(t string) bool { return strings.TrimSuffix(t, "/") == trimmed }) {
			return nil, fmt.Errorf("host: origins of %s: it is not among the toolsets", quote.URL(base))
		}
		if all[trimmed] == nil {
			all[trimmed] = map[string]bool{}
		}
		for _, raw := range origins {
			origin, err := ServerOrigin(raw)
			if err != nil {
				return nil, fmt.Errorf("host: origin %s of %s: %w", quote.URL(raw), quote.URL(base), err)
			}
			all[trimmed][origin] = true
		}
	}
	return all, nil
}

// MayUse returns nil if the runtime may send requests to a URL on behalf of a server, otherwise the reason.
func (ps *Peers) MayUse(s *Server, raw string) error {
	origin, err := ServerOrigin(raw)
	if err != nil {
		return err
	}
	if origin != s.origin && !s.origins[origin] && !ps.origins[origin] {
		return errors.New("URL has another origin than the tool server")
	}
	return nil
}
