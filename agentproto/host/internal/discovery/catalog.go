// Package discovery determines which tools the tool servers of a runtime offer. A [Catalog] fetches their manifests and remembers
// what each session was offered.
package discovery

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/peer"
	"github.com/millrace/millrace/agentproto/host/internal/quote"
	"github.com/millrace/millrace/internal/edge"
)

// Path is the path of a tool server's manifest, below its base URL.
const Path = "/.well-known/rap-toolset"

// A toolset is a valid manifest. It is immutable, so sessions share it.
type toolset struct {
	sum      [sha256.Size]byte // of the manifest as it was sent
	Manifest *agentproto.Manifest
	tools    []Tool
}

// A Tool is a tool that is offered. Hidden characters were removed from its texts, and very long texts were cut.
type Tool struct {
	agentproto.Tool
	Toolset  string // its name in the manifest
	Server   *peer.Server
	Endpoint string

	schema *agentproto.Schema
}

// A Problem keeps a toolset, or one tool, from being offered: see host.Problem.
type Problem struct {
	Toolset string
	Tool    string
	Err     error
}

// Error returns the problem in one line.
func (p Problem) Error() string {
	if p.Tool != "" {
		return "toolset " + p.Toolset + ": tool " + quote.Text(p.Tool) + ": " + p.Err.Error()
	}
	return "toolset " + p.Toolset + ": " + p.Err.Error()
}

// A source is a tool server and the state of its manifest.
type source struct {
	*peer.Server

	mu       sync.Mutex // guards the fields below
	fetching *fetch     // the fetch of the manifest that is in progress, if any
	silent   bool       // the last fetch got no answer in time
	last     *toolset   // the last valid manifest
	failure  error      // of the last fetch; nil if it succeeded
	failed   time.Time  // when the last fetch failed
	gaveUp   time.Time  // when a call last waited for the server in vain
}

// Settings are the settings of a catalog.
type Settings struct {
	Limits    agentproto.Limits // of a manifest
	Discovery time.Duration     // the timeout for fetching a manifest
	Dispatch  time.Duration     // how long a call waits for an unreachable tool server
	Sessions  int               // how many sessions are remembered
	Log       *slog.Logger
	// Permits reports whether a session may use a tool. Nil permits all.
	Permits func(session, tool string) bool
}

// A Catalog holds the tools of the tool servers.
type Catalog struct {
	Settings
	peers   *peer.Peers
	ctx     context.Context // for work that goes on when nobody waits for it; set by Run
	leaving <-chan struct{} // ends waiting for tool servers; set by Run
	sources []*source       // one for each tool server
	of      map[*peer.Server]*source
	offers  *offers
}

// New returns a catalog that has not asked any server yet.
func New(ps *peer.Peers, s Settings) *Catalog {
	c := &Catalog{Settings: s, peers: ps, of: map[*peer.Server]*source{}, offers: newOffers(s.Sessions)}
	for _, s := range ps.All {
		x := &source{Server: s}
		c.sources, c.of[s] = append(c.sources, x), x
	}
	return c
}

// First asks all tool servers for the first time.
func (c *Catalog) First(ctx context.Context) *Offer { return c.discover(ctx, ctx, nil) }

// Run sets the context that bounds fetches of manifests, and the channel that ends the waiting of calls for tool servers.
func (c *Catalog) Run(ctx context.Context, leaving <-chan struct{}) { c.ctx, c.leaving = ctx, leaving }

// load fetches and checks the manifest of one server. One invalid tool makes the whole manifest invalid.
func (c *Catalog) load(ctx context.Context, s *source) (*toolset, error) {
	s.Expect()
	data, err := c.FetchManifest(ctx, s.Server)
	if err != nil {
		return nil, s.Explain(err)
	}
	sum := sha256.Sum256(data)
	if last := s.lastGood(); last != nil && last.sum == sum {
		return last, nil
	}
	limits := c.Limits
	limits.Bytes = peer.MaxManifest
	m, err := agentproto.DecodeManifest(data, limits)
	if err != nil {
		return nil, fmt.Errorf("invalid manifest: %w", err)
	}
	if err := c.peers.MayUse(s.Server, m.Endpoint); err != nil {
		return nil, fmt.Errorf("endpoint %s: %w", quote.Text(m.Endpoint), err)
	}
	set := &toolset{sum: sum, Manifest: m, tools: make([]Tool, 0, len(m.Tools))}
	for _, t := range m.Tools {
		schema, err := agentproto.CompileSchema(t.InputSchema)
		if err != nil {
			return nil, fmt.Errorf("input schema of tool %s: %w", quote.Text(t.Name), err)
		}
		set.tools = append(set.tools, Tool{
			Tool: plainTool(t), Toolset: m.Name, Server: s.Server, Endpoint: m.Endpoint, schema: schema,
		})
	}
	return set, nil
}

// errNotFetched says that a server does not serve its manifest. Its last valid manifest is then used. After an invalid manifest
// it is not.
var errNotFetched = errors.New("manifest not fetched")

// FetchManifest returns the current manifest of a tool server, unchecked.
func (c *Catalog) FetchManifest(ctx context.Context, s *peer.Server) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Discovery)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Base+Path, nil)
	if err != nil {
		return nil, edge.WithoutURL(err)
	}
	req.Header.Set("Accept", "application/json")
	c.peers.Introduce(req, s)
	// The transport decompresses gzip while reading, so the limit also bounds a decompression bomb.
	a, err := c.peers.Client.Do(req, peer.MaxManifest)
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
