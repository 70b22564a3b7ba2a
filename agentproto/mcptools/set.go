package mcptools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/agentproto/internal/inprocess"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// A Set is the MCP servers of a program, each behind a tool server. Its methods are safe for concurrent use.
type Set struct {
	members   []*member
	callbacks atomic.Pointer[http.Handler]
}

// A member is one MCP server.
type member struct {
	server        *Server
	bounds        Bounds
	clientVersion string
	log           *slog.Logger
	tools         *toolserver.Server
	folder        string // of its state, or empty
	path, dir     string // of its program
	starter       func(s *Server, path, dir string) (*process, error)
	shared        *link    // for all who use the server
	outside       *outside // nil for a program
	pages         string   // the address of its pages; empty for none

	discovering chan struct{} // holds an element while a call discovers the authorization server

	ctx   context.Context // ends when the set is closed
	stop  context.CancelFunc
	tasks sync.WaitGroup

	mu         sync.Mutex
	users      map[string]*link
	known      []registration // never changed in place, set only by the call that discovers; the last one is for the current issuer
	current    string         // the ID of the provider of tokens; empty if none is known
	greeting   greeting
	closed     bool
	refresh    bool // the list of tools must be read again
	refreshing bool
	offered    map[string]string // digests by name
	anew       bool              // the server was requested anew, even if it was given up
	asked      <-chan struct{}   // closed when the server has answered, or failed to
	problems   []error
	listed     *listing // the last list that was offered
}

// Open starts the MCP servers and returns when each has listed its tools, or [Options.Start] has passed. A
// server that is late or down is added later; until then [Set.Problems] says why it is missing. With a
// State, the tools that a server had before are offered at once. Open returns an error if the options are
// invalid, a program is not found, or a State cannot be opened.
//
// Calls that an earlier process had accepted continue when the Set gets its first request, or with
// [Set.Resume].
func Open(ctx context.Context, o Options) (*Set, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	s := new(Set)
	if o.Callbacks != nil {
		s.SetCallbacks(o.Callbacks)
	}
	for i := range o.Servers {
		m, err := s.newMember(&o.Servers[i], o)
		if err != nil {
			return nil, errors.Join(err, s.Close(context.WithoutCancel(ctx)))
		}
		s.members = append(s.members, m)
	}
	waiting, cancel := context.WithTimeout(ctx, o.Start)
	defer cancel()
	var asking []<-chan struct{}
	for _, m := range s.members {
		known := m.offered != nil
		if asked := m.changed(false); !known {
			asking = append(asking, asked)
		}
	}
	for _, asked := range asking {
		select {
		case <-asked:
		case <-waiting.Done():
		}
	}
	return s, ctx.Err()
}

// newMember makes the tool server of an MCP server.
func (s *Set) newMember(server *Server, o Options) (m *member, err error) {
	m = &member{server: server, bounds: o.Bounds, clientVersion: o.Version, log: o.Logger, dir: server.Dir}
	m.users, m.starter, m.discovering = make(map[string]*link), start, make(chan struct{}, 1)
	m.ctx, m.stop = context.WithCancel(context.Background())
	if o.State != "" {
		m.folder, err = filepath.Abs(filepath.Join(o.State, strings.ToLower(server.Name))) // programs have other working directories
		if err != nil {
			return nil, fmt.Errorf("mcptools: server %q: %w", server.Name, err)
		}
		if err := os.MkdirAll(m.folder, 0o700); err != nil {
			return nil, fmt.Errorf("mcptools: server %q: %w", server.Name, err)
		}
	}
	if len(server.Command) > 0 {
		err = m.prepare()
	} else {
		err = m.outbound(o)
	}
	if err != nil {
		return nil, err
	}
	m.shared = m.newLink("")
	state := ""
	if m.folder != "" {
		state = filepath.Join(m.folder, "calls")
	}
	// Only this process reaches the tool server, and what it posts goes to a handler. It never connects to
	// an address from a request, so no network has to be refused.
	everywhere := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	opts := toolserver.Options{
		Name: server.Name, PublicURL: Base(server.Name), State: state, Status: true, AllowNetworks: everywhere,
		CallbackTransport: callbacks{s},
		Authenticate:      func(*http.Request) (string, error) { return "local", nil },
		Logger:            o.Logger,
	}
	opts.Limits.Bytes = o.Bounds.Result
	if m.outside != nil {
		opts.ProviderTransport = m.outside.strange
		if o.PublicURL != "" {
			m.pages = strings.TrimSuffix(o.PublicURL, "/") + "/mcp/" + strings.ToLower(server.Name)
			opts.PagesURL = m.pages
		}
	}
	if m.tools, err = toolserver.Open(opts); err != nil {
		return nil, fmt.Errorf("mcptools: server %q: %w", server.Name, err)
	}
	if err = m.endPrograms(); err == nil { // no other process has the folder open now
		err = m.recallProviders(m.ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("mcptools: server %q: %w", server.Name, err), m.tools.Close(m.ctx))
	}
	if l := m.recall(); l != nil {
		m.greeting = l.greeting
		m.pin(l, l)
		m.take(l)
	}
	return m, nil
}

// prepare finds the program of a server.
func (m *member) prepare() error {
	path, err := exec.LookPath(m.server.Command[0])
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return fmt.Errorf("mcptools: server %q: %w", m.server.Name, err)
	}
	m.path = path
	if what := unpinned(m.server.Command); what != "" {
		m.log.Warn("the program of an MCP server is fetched without a version: it may be another one tomorrow", "server", m.server.Name, "package", what)
	}
	if m.folder != "" && m.dir == "" {
		m.dir = filepath.Join(m.folder, workFolder)
		if err := os.MkdirAll(m.dir, 0o700); err != nil {
			return fmt.Errorf("mcptools: server %q: %w", m.server.Name, err)
		}
	}
	m.log.Info("MCP server", "server", m.server.Name, "program", path)
	return nil
}

// endPrograms ends programs that an earlier process left running.
func (m *member) endPrograms() error {
	if m.folder == "" || len(m.server.Command) == 0 {
		return nil
	}
	endLeft(m.folder)
	users, err := os.ReadDir(filepath.Join(m.folder, usersFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, user := range users { // even if PerUser is no longer set
		endLeft(filepath.Join(m.folder, usersFolder, user.Name()))
	}
	return err
}

// callbacks passes what the tools post to the handler of a set.
type callbacks struct{ s *Set }

// RoundTrip implements [http.RoundTripper].
func (c callbacks) RoundTrip(r *http.Request) (*http.Response, error) {
	h := c.s.callbacks.Load()
	if h == nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, errors.New("mcptools: there is no runtime yet")
	}
	return inprocess.Serve(*h, r)
}

// SetCallbacks sets the handler for what the tools post to callback URLs: the callback endpoint of the
// runtime that uses [Set.Local]. Until SetCallbacks is called, results wait.
func (s *Set) SetCallbacks(h http.Handler) { s.callbacks.Store(&h) }

// Local returns the tool servers by their base URLs, for a runtime in this process.
func (s *Set) Local() map[string]http.Handler {
	all := make(map[string]http.Handler, len(s.members))
	for _, m := range s.members {
		all[Base(m.server.Name)] = m
	}
	return all
}

// Resume continues the calls that an earlier process had accepted. Call it once their results can be
// received: see [Set.SetCallbacks].
func (s *Set) Resume() error {
	var errs []error
	for _, m := range s.members {
		errs = append(errs, m.tools.Start())
	}
	return errors.Join(errs...)
}

// Problems returns the current problems of servers and their tools.
func (s *Set) Problems() (all []error) {
	for _, m := range s.members {
		m.mu.Lock()
		problems := slices.Clone(m.problems)
		if l := m.shared; l.failure != nil && l.live == nil && len(problems) == 0 {
			problems = append(problems, l.failure)
		}
		m.mu.Unlock()
		for _, p := range problems {
			all = append(all, fmt.Errorf("MCP server %q: %w", m.server.Name, p))
		}
	}
	return all
}

// Close closes the tool servers, waiting for calls in progress until ctx ends, and then the MCP servers.
// With a State, unfinished calls continue when the set is opened again.
func (s *Set) Close(ctx context.Context) error {
	errs := make([]error, len(s.members))
	var closing sync.WaitGroup
	for i, m := range s.members {
		closing.Go(func() { errs[i] = m.close(ctx) })
	}
	closing.Wait()
	return errors.Join(errs...)
}

func (m *member) close(ctx context.Context) error {
	err := m.tools.Close(ctx)
	m.end()
	if m.outside != nil {
		m.outside.closeIdle()
	}
	if m.folder != "" {
		_ = os.Remove(filepath.Join(m.folder, processFile))
	}
	return err
}

// end closes the connections, those that are being made too, and waits until they have ended.
func (m *member) end() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.stop()
	m.tasks.Wait()
}

// manifestTime is how long a request for the manifest waits for a server that is not connected.
const manifestTime = 8 * time.Second

// ServeHTTP serves the tool server. On a request for the manifest, a server that was given up is tried
// again.
func (m *member) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		m.mu.Lock()
		gone, asked := m.anyLink().live == nil, m.asked
		for _, l := range m.users {
			if l.down != nil && l.connecting == nil { // requested anew
				l.down, l.ends = nil, 0
			}
		}
		m.mu.Unlock()
		if gone {
			asked = m.changed(true)
		}
		ctx, cancel := context.WithTimeout(r.Context(), manifestTime)
		defer cancel()
		select {
		case <-asked:
		case <-ctx.Done():
		}
	}
	m.tools.ServeHTTP(w, r)
}
