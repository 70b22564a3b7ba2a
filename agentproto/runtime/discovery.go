package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/millrace/millrace/agentproto"
)

// manifestPath is where a tool server describes itself, below its base URL.
const manifestPath = "/.well-known/rap-toolset"

// A server is one configured tool server.
type server struct {
	base     string // as configured, without a trailing slash
	id       serverID
	origin   string
	manifest *agentproto.Manifest // nil if there is no valid one
	slots    chan struct{}        // requests in flight
	notices  chan struct{}        // notifications in flight
	counters counters
}

// A Tool is a tool that the runtime offers to the model. Its texts are the tool
// server's and not to be trusted.
type Tool struct {
	agentproto.Tool
	Toolset string // the name in the manifest
	Server  string // the base URL of the tool server

	server *server
	schema *agentproto.Schema
}

// newServers checks the configured base URLs.
func newServers(opts Options) ([]*server, error) {
	var servers []*server
	seen := map[string]bool{}
	for _, base := range opts.Toolsets {
		base = strings.TrimSuffix(base, "/")
		origin, err := originOf(base)
		if err != nil {
			return nil, fmt.Errorf("runtime: toolset %s: %w", withoutPassword(base), err)
		}
		if strings.ContainsAny(base, "?#") {
			return nil, fmt.Errorf("runtime: toolset %s: base URL has a query or a fragment", quoted(base))
		}
		if seen[base] {
			return nil, fmt.Errorf("runtime: toolset %s is configured twice", quoted(base))
		}
		seen[base] = true
		servers = append(servers, &server{
			base: base, id: identify(base), origin: origin,
			slots: make(chan struct{}, opts.Concurrency), notices: make(chan struct{}, maxNotices),
		})
	}
	return servers, nil
}

// originOf returns scheme, host and port of an http or https URL.
func originOf(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return "", errors.New("not a URL")
	}
	port := u.Port()
	switch {
	case u.Scheme == "http" && port == "":
		port = "80"
	case u.Scheme == "https" && port == "":
		port = "443"
	case u.Scheme != "http" && u.Scheme != "https":
		return "", errors.New("not an http or https URL")
	}
	if u.Hostname() == "" {
		return "", errors.New("URL without a host")
	}
	if u.User != nil {
		return "", errors.New("URL with a user name or password")
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port), nil
}

// mayUse reports whether a server may have the runtime send requests to a URL.
func (rt *Runtime) mayUse(s *server, raw string) error {
	origin, err := originOf(raw)
	if err != nil {
		return err
	}
	if origin != s.origin && !rt.origins[origin] {
		return errors.New("URL has another origin than the tool server")
	}
	return nil
}

// discover fetches all manifests at once and decides what is offered.
func (rt *Runtime) discover(ctx context.Context) {
	type finding struct {
		tools []Tool
		err   error
	}
	findings := make([]finding, len(rt.servers))
	var wg sync.WaitGroup
	for i, s := range rt.servers {
		wg.Go(func() {
			findings[i].tools, findings[i].err = rt.load(ctx, s)
		})
	}
	wg.Wait()

	offeredBy := map[string]int{}
	for _, f := range findings {
		for _, t := range f.tools {
			offeredBy[t.Name]++
		}
	}
	rt.tools = map[string]*Tool{}
	for i, f := range findings {
		if f.err != nil {
			rt.problems = append(rt.problems, Problem{Toolset: rt.servers[i].base, Err: f.err})
			continue
		}
		for _, t := range f.tools {
			if offeredBy[t.Name] > 1 {
				err := errors.New("another toolset has a tool of this name; neither is offered")
				rt.problems = append(rt.problems, Problem{Toolset: t.Server, Tool: t.Name, Err: err})
				continue
			}
			rt.offered = append(rt.offered, t)
			rt.tools[t.Name] = &t
		}
	}
	for _, p := range rt.problems {
		rt.log.Warn("toolset problem", "problem", p.Error())
	}
}

// load fetches and checks the manifest of one server. Either all of its tools are
// good, or it has none.
func (rt *Runtime) load(ctx context.Context, s *server) ([]Tool, error) {
	data, err := rt.fetchManifest(ctx, s)
	if err != nil {
		return nil, err
	}
	limits := rt.opts.Limits
	limits.Bytes = maxManifest
	m, err := agentproto.DecodeManifest(data, limits)
	if err != nil {
		return nil, fmt.Errorf("invalid manifest: %w", err)
	}
	if err := rt.mayUse(s, m.Endpoint); err != nil {
		return nil, fmt.Errorf("endpoint %s: %w", quoted(m.Endpoint), err)
	}
	tools := make([]Tool, 0, len(m.Tools))
	for _, t := range m.Tools {
		schema, err := agentproto.CompileSchema(t.InputSchema)
		if err != nil {
			return nil, fmt.Errorf("input schema of tool %s: %w", quoted(t.Name), err)
		}
		tools = append(tools, Tool{Tool: t, Toolset: m.Name, Server: s.base, server: s, schema: schema})
	}
	s.manifest = m
	return tools, nil
}

func (rt *Runtime) fetchManifest(ctx context.Context, s *server) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, rt.opts.Timeouts.Discovery)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+manifestPath, nil)
	if err != nil {
		return nil, redacted(err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "millrace")
	resp, err := rt.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("manifest not fetched: %w", redacted(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, fmt.Errorf("manifest not fetched: status %d", resp.StatusCode)
	}
	// The transport inflates gzip while it is read, so this bounds a bomb as well.
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxManifest+1))
	if err != nil {
		return nil, fmt.Errorf("manifest not read: %w", redacted(err))
	}
	if len(data) > maxManifest {
		return nil, fmt.Errorf("manifest is larger than %d bytes", maxManifest)
	}
	return data, nil
}

// Tools returns the tools that are offered, in the order of the configuration.
func (rt *Runtime) Tools() []Tool { return append([]Tool(nil), rt.offered...) }

// Problems returns why toolsets or tools are not offered.
func (rt *Runtime) Problems() []Problem { return append([]Problem(nil), rt.problems...) }
