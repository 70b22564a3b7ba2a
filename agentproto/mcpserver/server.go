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

// versions are the revisions of MCP that a [Server] supports.
var versions = []string{"2026-07-28", "2025-11-25", "2025-06-18"}

// Options are the settings of a [Server]. Calls is required.
type Options struct {
	Calls Calls
	// Sealer makes taskIds. Nil means a key that is lost with the server; all taskIds become invalid with it. The sealer of the
	// runtime's callback URLs may be used here too: what is sealed for one use is not valid for the other.
	Sealer host.Sealer

	// Owner returns the owner of a request. If it returns an error, the request is refused with 401. Nil means that all requests
	// belong to one owner, called "local". Authentication is up to the caller: see [Server].
	Owner func(*http.Request) (Owner, error)
	// Thread returns the thread of an owner's calls. It must always return the same thread for an owner, and different threads
	// for different owners. Nil, or a result of "", means a thread whose name is derived from the owner's.
	Thread func(owner string) string

	// Origins are the origins, such as https://app.example, of pages for which a browser may send requests. Empty means none.
	Origins []string
	// Hosts are host names that a request may be addressed to, in addition to the address it came to and, on loopback, localhost.
	Hosts []string

	// Poll is the poll interval that a client is given for a new task; it is longer for older tasks. Zero means 1 s.
	Poll time.Duration
	// Keep is how long the runtime keeps a resolved call, and so how long its task can be queried. Zero means 24 h.
	Keep time.Duration
	// Fast is how long the server waits for a result before it answers with a task. Zero means 300 ms.
	Fast time.Duration
	// AskFirst reports whether a tool asks its user something before it starts. If such a tool asks within Fast, a client that
	// declares tasks is answered with a round of input requests instead of a task. If that client does not return, it has no id
	// to query, and the call waits for an answer until its timeout. Nil means none. See doc/decisions/0105-forms.md.
	AskFirst func(tool string) bool
	// NeedsTasks reports whether a tool, such as one that takes hours, is refused to clients without tasks. Nil means none.
	NeedsTasks func(tool string) bool
	// Unasked is how long a choice waits if the client cannot show it. After that, its default is taken. Zero means 30 s.
	Unasked time.Duration

	// Body is the maximum size of a request in bytes. Zero means 4 MiB.
	Body int64
	// Held is how many requests waiting for results and notification streams one owner may have at once. Zero means 64.
	Held int
	// Rate is how many requests per second are accepted from one owner, in the long run; a burst may have twice as many. Zero
	// means 100.
	Rate int

	Version string       // of the server, reported to clients; empty means "0"
	Logger  *slog.Logger // nil discards
}

// An Owner is a party whose calls nobody else can see.
type Owner struct {
	Name   string // identifies the owner; not secret
	UserID string // the end user's id, passed to tools; empty passes none
}

// A Server serves MCP. Its methods may be used concurrently.
//
// It does not authenticate: put it behind a handler that does, and return the authenticated party from [Options].Owner.
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

// maxOwners bounds how many owners the server holds at once. Beyond it, the owner that has been idle longest is dropped together
// with the sessions of its clients, which have to start anew; its tasks remain.
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

// Close ends held requests: their clients are told to try again. The calls continue.
func (s *Server) Close() { s.close.Do(func() { close(s.closing) }) }

// ServeStdio serves one client, of the given owner, on a pair of streams, until in or ctx ends. It writes only protocol messages
// to out. When it ends, held calls are cancelled; tasks and calls that have an idempotency key are not.
func (s *Server) ServeStdio(ctx context.Context, from Owner, in io.ReadCloser, out io.WriteCloser) error {
	o, err := s.enter(from)
	if err != nil {
		return err
	}
	defer s.leave(o)
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	go o.watch(watching)
	err = o.run(ctx, &mcp.IOTransport{Reader: in, Writer: out, MaxLineLength: int(s.opts.Body)})
	// The client has left, possibly in the middle of a message.
	for _, gone := range []error{io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, syscall.EPIPE} {
		if errors.Is(err, gone) {
			return nil
		}
	}
	return err
}

// run serves a client until it leaves or ctx ends. The method Run of the SDK does the same and logs an error in both cases.
func (o *owner) run(ctx context.Context, t mcp.Transport) error {
	session, err := o.server.Connect(ctx, t, nil)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- session.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		_ = session.Close() // the reason is ctx
		<-ended
		return ctx.Err()
	}
}

// An owner is the state of an [Owner].
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
	offered map[string]string // digests of the tools added to the server, by name

	clients  clients
	watched  watchedResources
	repeated repeatedCalls

	mu   sync.Mutex
	held int
	user string

	// Under the lock of the server:
	requests int       // in progress
	last     time.Time // when the last one ended
}

// enter returns the state of a request's owner, and counts the request.
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

// forgetOne drops the owner that has been idle longest, and returns false if none is idle.
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

// userID returns the end user's id for tools.
func (o *owner) userID() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.user
}

// claim counts a held request or stream, and returns false if there are too many.
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

// A bucket limits a rate. With only a rate set, it is full.
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

// maxConsents bounds the number of remembered consents. Asking a client again does no harm.
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
