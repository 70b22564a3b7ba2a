package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/internal/edge"
)

// Versions are the revisions of MCP that a [Server] speaks.
var versions = []string{"2026-07-28", "2025-11-25", "2025-06-18"}

// Options are the settings of a [Server]. Calls is required.
type Options struct {
	Calls Calls
	// Sealer makes taskIds. Nil means a key that is forgotten with the server, and all taskIds with it. It may be the one of the
	// runtime's callback URLs: what is sealed for one is not good for the other.
	Sealer host.Sealer

	// Owner returns who a request is from; an error refuses it with 401. Nil means that all requests are from one owner, called
	// "local". Authentication is the caller's: see [Server].
	Owner func(*http.Request) (Owner, error)
	// Thread returns the thread of an owner's calls, which must be no other owner's and always the same. Nil, and "", mean one whose
	// name is made of the owner's.
	Thread func(owner string) string

	// Origins are those of pages, such as https://app.example, that a browser may send requests for. Without it there are none.
	Origins []string
	// Hosts are names that a request may be addressed to besides the address that it came to and, on loopback, localhost.
	Hosts []string

	// Poll is how often a client is told to ask for a task that is new; it is longer for older ones. Zero means 1 s.
	Poll time.Duration
	// Keep is how long the runtime keeps a resolved call, which says how long its task can be asked for. Zero means 24 h.
	Keep time.Duration
	// Fast is how long a call may take that is answered with its result in place of a task. Zero means 300 ms.
	Fast time.Duration
	// AskFirst says which tools ask their user something before they begin. A client that declares tasks is answered with a round of
	// input, and no task, if such a tool asks within Fast. A client that does not come back then has no id to ask for: the call waits for
	// an answer until its time is up. Nil means none. See doc/decisions/0105-forms.md.
	AskFirst func(tool string) bool
	// NeedsTasks says which tools are refused to clients without tasks, such as those that take hours. Nil means none.
	NeedsTasks func(tool string) bool
	// Unasked is how long a choice waits whose client cannot show it. Then its default is taken. Zero means 30 s.
	Unasked time.Duration

	// Body is how many bytes a request may have. Zero means 4 MiB.
	Body int64
	// Held is how many requests of one owner may wait for results at once, and streams of notifications be open. Zero means 64.
	Held int
	// Rate is how many requests of one owner are taken in a second, in the long run; twice as many may come at once. Zero means 100.
	Rate int

	Version string       // of the server, as clients are told; empty means "0"
	Logger  *slog.Logger // nil discards
}

// An Owner is one whose calls nobody else can see.
type Owner struct {
	Name   string // tells owners apart, and is no secret
	UserID string // what tools are told of the end user; empty tells them nothing
}

// A Server serves MCP. Its methods may be used concurrently.
//
// It does not authenticate: put it behind a handler that does, and let [Options].Owner say who that was.
type Server struct {
	opts     Options
	log      *slog.Logger
	allowed  func(*http.Request) bool
	origins  map[string]bool
	closing  chan struct{}
	close    sync.Once
	consents consents

	mu     sync.Mutex
	owners map[string]*owner
}

// maxOwners bounds how many owners there are at once. Beyond it, the one that has sent nothing for longest is forgotten, and with it
// the sessions of its clients, which begin anew; its tasks stay.
const maxOwners = 4096

var (
	errClosing = errors.New("mcpserver: the server is closing")
	errOwners  = errors.New("mcpserver: there are too many owners")
)

// New returns a server.
func New(o Options) (*Server, error) {
	if o.Calls == nil {
		return nil, errors.New("mcpserver: Options.Calls is required")
	}
	if o.Sealer == nil {
		var err error
		if o.Sealer, err = host.NewSealer(); err != nil {
			return nil, err
		}
	}
	if o.Owner == nil {
		o.Owner = func(*http.Request) (Owner, error) { return Owner{Name: "local"}, nil }
	}
	if o.Thread == nil {
		o.Thread = func(string) string { return "" }
	}
	if o.AskFirst == nil {
		o.AskFirst = func(string) bool { return false }
	}
	if o.NeedsTasks == nil {
		o.NeedsTasks = func(string) bool { return false }
	}
	o.Poll, o.Keep, o.Fast = cmp.Or(o.Poll, time.Second), cmp.Or(o.Keep, 24*time.Hour), cmp.Or(o.Fast, 300*time.Millisecond)
	o.Unasked, o.Body, o.Held, o.Rate = cmp.Or(o.Unasked, 30*time.Second), cmp.Or(o.Body, 4<<20), cmp.Or(o.Held, 64), cmp.Or(o.Rate, 100)
	s := &Server{
		opts: o, log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)), allowed: edge.Addressed(o.Hosts...), origins: map[string]bool{},
		closing: make(chan struct{}), owners: map[string]*owner{},
	}
	for _, origin := range o.Origins {
		s.origins[origin] = true
	}
	return s, nil
}

// Close ends requests that are held: their clients are told to try again. The calls go on.
func (s *Server) Close() { s.close.Do(func() { close(s.closing) }) }

// ServeStdio serves one client, of an owner, on a pair of streams, until in ends or ctx does. Out has messages of the protocol only.
// Calls that are held then are cancelled, and tasks are not.
func (s *Server) ServeStdio(ctx context.Context, from Owner, in io.ReadCloser, out io.WriteCloser) error {
	o, err := s.enter(from)
	if err != nil {
		return err
	}
	defer s.leave(o)
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	go o.watch(watching)
	err = o.server.Run(ctx, &mcp.IOTransport{Reader: in, Writer: out, MaxLineLength: int(s.opts.Body)})
	for _, gone := range []error{io.EOF, io.ErrClosedPipe, syscall.EPIPE} { // the client has left, in the middle of a message too
		if errors.Is(err, gone) {
			return nil
		}
	}
	return err
}

// An owner is one for whom there are calls.
type owner struct {
	s        *Server
	name     string
	thread   string
	server   *mcp.Server
	modern   http.Handler // of revisions without sessions
	sessions http.Handler // of older ones
	bucket   bucket

	refresh sync.Mutex
	tried   time.Time
	offered map[string]string // digests of the tools that the server has, by name

	watched watchedResources

	mu   sync.Mutex
	held int
	user string

	// Under the lock of the server:
	requests int       // under way
	last     time.Time // when there was one last
}

// enter returns an owner that a request is from, and counts the request.
func (s *Server) enter(from Owner) (*owner, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.owners[from.Name]
	if o == nil {
		if len(s.owners) >= maxOwners && !s.forgetOne() {
			return nil, errOwners
		}
		o = &owner{
			s: s, name: from.Name, thread: cmp.Or(s.opts.Thread(from.Name), threadOf(from.Name)),
			offered: map[string]string{}, bucket: bucket{rate: float64(s.opts.Rate)},
		}
		if err := o.serve(); err != nil {
			return nil, err
		}
		s.owners[from.Name] = o
	}
	o.requests++
	o.mu.Lock()
	defer o.mu.Unlock()
	o.user = from.UserID
	return o, nil
}

// leave ends a request.
func (s *Server) leave(o *owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.requests--
	o.last = time.Now()
}

// forgetOne forgets the owner that was idle for longest, and reports false if none is.
func (s *Server) forgetOne() bool {
	var idle *owner
	for _, o := range s.owners {
		if o.requests == 0 && (idle == nil || o.last.Before(idle.last)) {
			idle = o
		}
	}
	if idle == nil {
		return false
	}
	delete(s.owners, idle.name)
	for session := range idle.server.Sessions() {
		go session.Close()
	}
	return true
}

// userID is what tools are told of the end user.
func (o *owner) userID() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.user
}

// claim counts a request that is held, and reports false if there are too many.
func (o *owner) claim() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.held >= o.s.opts.Held {
		return false
	}
	o.held++
	return true
}

func (o *owner) release() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held--
}

// A bucket bounds requests. The zero value with a rate is full.
type bucket struct {
	rate float64
	mu   sync.Mutex
	used float64
	at   time.Time
}

// take reports whether one more request is within the rate.
func (b *bucket) take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.at.IsZero() {
		b.used = max(0, b.used-now.Sub(b.at).Seconds()*b.rate)
	}
	b.at = now
	if b.used+1 > 2*b.rate {
		return false
	}
	b.used++
	return true
}

// consents are the authorizations that a user has agreed to visit, as far as this process remembers: a client is not asked for
// them again.
type consents struct {
	mu   sync.Mutex
	seen map[consent]bool
}

type consent struct {
	key    agentproto.CallKey
	number int
}

// maxConsents bounds what is remembered: a client that is asked again does no harm.
const maxConsents = 4096

func (c *consents) add(key agentproto.CallKey, number int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil || len(c.seen) >= maxConsents {
		c.seen = map[consent]bool{}
	}
	c.seen[consent{key, number}] = true
}

func (c *consents) has(key agentproto.CallKey, number int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen[consent{key, number}]
}
