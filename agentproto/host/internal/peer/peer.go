// Package peer sends requests to the tool servers of a runtime. [Peers] holds all of them as configured: where requests may go,
// what signs them, and when a failed one is tried again.
package peer

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/millrace/millrace/agentproto/host/internal/capability"
	"github.com/millrace/millrace/agentproto/host/internal/quote"
	"github.com/millrace/millrace/agentproto/host/internal/tally"
	"github.com/millrace/millrace/agentproto/internal/supervise"
	"github.com/millrace/millrace/internal/edge"
)

// A Server is one configured tool server.
type Server struct {
	Base     string // as configured, without a trailing slash
	ID       capability.ServerID
	origin   string
	origins  map[string]bool // additional ones that are allowed for it
	Secrets  secrets         // shared with it; empty for none
	header   http.Header     // additional headers of requests to it
	Slots    chan struct{}   // one for each request in flight
	notices  chan struct{}   // one for each notification in flight
	Counters tally.Counters
	Command  *supervise.Process // the program that the runtime runs; nil for other servers
}

// Name returns the name of a tool server in the program: see [agentproto.Call].Server.
func (s *Server) Name() string { return s.ID.String() }

// A Config holds the options of a runtime that say which tool servers exist, and how requests may reach them: see host.Options.
type Config struct {
	Toolsets       []string
	AllowOrigins   []string
	ToolsetOrigins map[string][]string
	AllowNetworks  []netip.Prefix
	AllowPlainHTTP bool
	Secrets        map[string][]string
	Headers        map[string]http.Header
	Concurrency    int
	Local          map[string]http.Handler // handlers of this process, by base URL; Toolsets contains these URLs too
	TLS            *tls.Config
	DialContext    func(ctx context.Context, network, addr string) (net.Conn, error)
	Connect        time.Duration // timeout for one connection
	Notify         time.Duration // timeout for one notification
	Discovery      time.Duration // how long a tool server that the runtime starts may take to be up
	Retry          []time.Duration
	Log            *slog.Logger
	// Spawn runs a notification. A notification that has not begun when ctx ends is not sent.
	Spawn func(task func(ctx context.Context))
}

// Peers are the tool servers of a runtime.
type Peers struct {
	config  Config
	All     []*Server // in the order of the configuration
	ByID    map[capability.ServerID]*Server
	origins map[string]bool // allowed in addition to each server's own
	Client  *edge.Client    // set by Connect
	Total   tally.Counters
	Others  tally.Counters // of no known server
}

// New checks the configuration. Requests can be sent after Connect.
func New(c Config) (*Peers, error) {
	ps := &Peers{config: c, ByID: map[capability.ServerID]*Server{}, origins: map[string]bool{}}
	var err error
	if ps.All, err = newServers(c); err != nil {
		return nil, err
	}
	for _, s := range ps.All {
		ps.ByID[s.ID] = s
	}
	for _, raw := range c.AllowOrigins {
		origin, err := ServerOrigin(raw)
		if err != nil {
			return nil, fmt.Errorf("host: allowed origin %s: %w", quote.URL(raw), err)
		}
		ps.origins[origin] = true
	}
	return ps, nil
}

// Named returns the tool server with a name in the program, or nil if it is no longer configured.
func (ps *Peers) Named(name string) *Server {
	if id, ok := capability.ParseServerID(name); ok {
		return ps.ByID[id]
	}
	return nil
}

// Count adds one to a counter, in total and for a server. A nil server means none.
func (ps *Peers) Count(s *Server, n tally.Counter) {
	ps.Total[n].Add(1)
	if s != nil {
		s.Counters[n].Add(1)
	} else {
		ps.Others[n].Add(1)
	}
}

// newServers checks the configured base URLs.
func newServers(opts Config) ([]*Server, error) {
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
	var servers []*Server
	seen := map[string]bool{}
	for _, base := range opts.Toolsets {
		base = strings.TrimSuffix(base, "/")
		origin, err := ServerOrigin(base)
		if err != nil {
			return nil, fmt.Errorf("host: toolset %s: %w", quote.URL(base), err)
		}
		if strings.ContainsAny(base, "?#") {
			return nil, fmt.Errorf("host: toolset %s: base URL has a query or a fragment", quote.Text(base))
		}
		if seen[base] {
			return nil, fmt.Errorf("host: toolset %s is configured twice", quote.Text(base))
		}
		seen[base] = true
		servers = append(servers, &Server{
			Base: base, ID: capability.Identify(base), origin: origin, origins: origins[base], Secrets: shared[base], header: headers[base],
			Slots: make(chan struct{}, opts.Concurrency), notices: make(chan struct{}, MaxNotices),
		})
	}
	return servers, nil
}
