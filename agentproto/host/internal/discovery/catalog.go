// Package discovery finds out which tools the tool servers of a runtime have. A [Catalog] fetches their
// manifests and remembers what each session was offered.
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

// Path is where a tool server describes itself, below its base URL.
const Path = "/.well-known/rap-toolset"

// A toolset is a manifest that was fetched and is good. It is never changed, so sessions
// share it.
type toolset struct {
	sum      [sha256.Size]byte // of the manifest as it was sent
	Manifest *agentproto.Manifest
	tools    []Tool
}

// A Tool is a tool that is offered. What is hidden in its texts was taken out, and what is very
// long was cut.
type Tool struct {
	agentproto.Tool
	Toolset  string // the name in the manifest
	Server   *peer.Server
	Endpoint string

	schema *agentproto.Schema
}

// A Problem is something that keeps a toolset, or one tool, from being offered: see host.Problem.
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

// A source is a tool server, and what is known of its manifest.
type source struct {
	*peer.Server

	mu      sync.Mutex // guards what follows
	flight  *flight    // the fetch of the manifest that is under way
	silent  bool       // the last one got no answer in time
	last    *toolset   // the last manifest that was good
	failure error      // of the last fetch, nil if that was good
	failed  time.Time  // when that was
	gaveUp  time.Time  // when a call last waited for it in vain
}

// Settings are those of a catalog.
type Settings struct {
	Limits    agentproto.Limits // of a manifest
	Discovery time.Duration     // for fetching one
	Dispatch  time.Duration     // how long a call waits for a tool server that cannot be reached
	Sessions  int               // that are remembered
	Log       *slog.Logger
	// Permits reports whether a session may have a tool. Nil permits all.
	Permits func(session, tool string) bool
}

// A Catalog has the tools of tool servers.
type Catalog struct {
	Settings
	peers   *peer.Peers
	ctx     context.Context // of what goes on when nobody waits for it; set by run
	leaving <-chan struct{} // ends what waits for a tool server; set by run
	sources []*source       // one for each tool server
	of      map[*peer.Server]*source
	offers  *offers
}

// New returns a catalog that has asked nobody yet.
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

// Run says until when manifests may be fetched, and what has calls wait for a tool server no longer.
func (c *Catalog) Run(ctx context.Context, leaving <-chan struct{}) { c.ctx, c.leaving = ctx, leaving }

// load fetches and checks the manifest of one server. Either all of its tools are
// good, or it has none.
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

// errNotFetched is what is wrong with a server that does not hand out its manifest. What
// it handed out before is as good then as it was; a manifest that is wrong replaces it.
var errNotFetched = errors.New("manifest not fetched")

// FetchManifest returns the manifest of a tool server as it is now, unchecked.
func (c *Catalog) FetchManifest(ctx context.Context, s *peer.Server) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Discovery)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Base+Path, nil)
	if err != nil {
		return nil, edge.WithoutURL(err)
	}
	req.Header.Set("Accept", "application/json")
	c.peers.Introduce(req, s)
	// The transport inflates gzip while it is read, so the limit bounds a bomb as well.
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
