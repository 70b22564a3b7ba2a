package host

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// toolsetOrigins reads the origins that are allowed for single tool servers, by base URL.
func toolsetOrigins(opts Options) (map[string]map[string]bool, error) {
	all := map[string]map[string]bool{}
	for base, origins := range opts.ToolsetOrigins {
		trimmed := strings.TrimSuffix(base, "/")
		if !slices.ContainsFunc(opts.Toolsets, func(t string) bool { return strings.TrimSuffix(t, "/") == trimmed }) {
			return nil, fmt.Errorf("host: origins of %s: it is not among the toolsets", withoutPassword(base))
		}
		if all[trimmed] == nil {
			all[trimmed] = map[string]bool{}
		}
		for _, raw := range origins {
			origin, err := serverOf(raw)
			if err != nil {
				return nil, fmt.Errorf("host: origin %s of %s: %w", withoutPassword(raw), withoutPassword(base), err)
			}
			all[trimmed][origin] = true
		}
	}
	return all, nil
}

// mayUse reports whether a server may have the runtime send requests to a URL.
func (rt *Runtime) mayUse(s *server, raw string) error {
	origin, err := serverOf(raw)
	if err != nil {
		return err
	}
	if origin != s.origin && !s.origins[origin] && !rt.origins[origin] {
		return errors.New("URL has another origin than the tool server")
	}
	return nil
}
