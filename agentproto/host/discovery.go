package host

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/supervise"
	"github.com/millrace/millrace/internal/edge"
)

// manifestPath is where a tool server describes itself, below its base URL.
const manifestPath = "/.well-known/rap-toolset"

// A server is one configured tool server.
type server struct {
	base     string // as configured, without a trailing slash
	id       serverID
	origin   string
	origins  map[string]bool // allowed for it besides
	secrets  secrets         // shared with it; none if there are none
	header   http.Header     // that requests to it have
	slots    chan struct{}   // requests in flight
	notices  chan struct{}   // notifications in flight
	bodies   chan struct{}   // callbacks that are being read or taken in
	excess   chan struct{}   // the same, of those that exceed their bounds
	memory   *edge.Bytes     // for their bodies
	counters counters
	command  *supervise.Process // that the runtime runs; nil for the others

	mu      sync.Mutex // guards what follows
	flight  *flight    // the fetch of the manifest that is under way
	silent  bool       // the last one got no answer in time
	last    *toolset   // the last manifest that was good
	failure error      // of the last fetch, nil if that was good
	failed  time.Time  // when that was
	gaveUp  time.Time  // when a call last waited for it in vain
}

// A toolset is a manifest that was fetched and is good. It is never changed, so sessions
// share it.
type toolset struct {
	sum      [sha256.Size]byte // of the manifest as it was sent
	manifest *agentproto.Manifest
	tools    []Tool
}

// A Tool is a tool that the runtime offers to the model. Its texts are the tool
// server's and not to be trusted; what is hidden in them was taken out, and what is very
// long was cut.
type Tool struct {
	agentproto.Tool
	Toolset string // the name in the manifest
	Server  string // the base URL of the tool server

	server   *server
	endpoint string
	schema   *agentproto.Schema
}

// newServers checks the configured base URLs. The bodies of their messages share memory.
func newServers(opts Options, bodies *edge.Bytes) ([]*server, error) {
	shared, err := secretsOf(opts)
	if err != nil {
		return nil, err
	}
	headers, err := headersOf(opts)
	if err != nil {
		return nil, err
	}
	origins, err := toolsetOrigins(opts)
	if err != nil {
		return nil, err
	}
	var servers []*server
	seen := map[string]bool{}
	for _, base := range opts.Toolsets {
		base = strings.TrimSuffix(base, "/")
		origin, err := serverOf(base)
		if err != nil {
			return nil, fmt.Errorf("host: toolset %s: %w", withoutPassword(base), err)
		}
		if strings.ContainsAny(base, "?#") {
			return nil, fmt.Errorf("host: toolset %s: base URL has a query or a fragment", quoted(base))
		}
		if seen[base] {
			return nil, fmt.Errorf("host: toolset %s is configured twice", quoted(base))
		}
		seen[base] = true
		servers = append(servers, &server{
			base: base, id: identify(base), origin: origin, origins: origins[base], secrets: shared[base], header: headers[base],
			slots: make(chan struct{}, opts.Concurrency), notices: make(chan struct{}, maxNotices),
			bodies: make(chan struct{}, maxBodies), excess: make(chan struct{}, maxExcess), memory: bodies.Share(opts.Bounds.Bodies / 4),
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

// serverOf is originOf with one name for this machine: a port of it has one server, whether the
// URL says localhost, 127.0.0.1 or [::1].
func serverOf(raw string) (string, error) {
	origin, err := originOf(raw)
	if err != nil {
		return "", err
	}
	for _, name := range []string{"127.0.0.1", "[::1]"} {
		if scheme, port, ok := strings.Cut(origin, "://"+name+":"); ok {
			return scheme + "://localhost:" + port, nil
		}
	}
	return origin, nil
}

// load fetches and checks the manifest of one server. Either all of its tools are
// good, or it has none.
func (rt *Runtime) load(ctx context.Context, s *server) (*toolset, error) {
	s.expect()
	data, err := rt.fetchManifest(ctx, s)
	if err != nil {
		return nil, s.explain(err)
	}
	sum := sha256.Sum256(data)
	if last := s.lastGood(); last != nil && last.sum == sum {
		return last, nil
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
	set := &toolset{sum: sum, manifest: m, tools: make([]Tool, 0, len(m.Tools))}
	for _, t := range m.Tools {
		schema, err := agentproto.CompileSchema(t.InputSchema)
		if err != nil {
			return nil, fmt.Errorf("input schema of tool %s: %w", quoted(t.Name), err)
		}
		set.tools = append(set.tools, Tool{
			Tool: plainTool(t), Toolset: m.Name, Server: s.base, server: s, endpoint: m.Endpoint, schema: schema,
		})
	}
	return set, nil
}

// errNotFetched is what is wrong with a server that does not hand out its manifest. What
// it handed out before is as good then as it was; a manifest that is wrong replaces it.
var errNotFetched = errors.New("manifest not fetched")

func (rt *Runtime) fetchManifest(ctx context.Context, s *server) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, rt.opts.Timeouts.Discovery)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+manifestPath, nil)
	if err != nil {
		return nil, edge.WithoutURL(err)
	}
	req.Header.Set("Accept", "application/json")
	rt.introduce(req, s)
	// The transport inflates gzip while it is read, so the limit bounds a bomb as well.
	a, err := rt.client.Do(req, maxManifest)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errNotFetched, err)
	case !a.OK():
		return nil, fmt.Errorf("%w: status %d", errNotFetched, a.Status)
	case a.Broken != nil:
		return nil, fmt.Errorf("%w: not read: %w", errNotFetched, a.Broken)
	}
	return a.Body, nil
}
