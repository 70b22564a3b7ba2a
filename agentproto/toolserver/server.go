package toolserver

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/intake"
	"github.com/millrace/millrace/agentproto/internal/leak"
	"github.com/millrace/millrace/agentproto/internal/migrate"
	"github.com/millrace/millrace/agentproto/internal/oauth"
	"github.com/millrace/millrace/agentproto/internal/outgoing"
	"github.com/millrace/millrace/agentproto/internal/purpose"
	"github.com/millrace/millrace/agentproto/internal/running"
	"github.com/millrace/millrace/agentproto/internal/vault"
)

// The paths below [Options.PublicURL].
const (
	manifestPath = "/.well-known/rap-toolset"
	invokePath   = "/invoke"
	closePath    = "/close_thread"
	cancelPath   = "/cancel_tool_call"
	statusPath   = "/tool_call_status"
	choicePath   = "/choice/"
	startPath    = "/oauth/start/"
	redirectPath = "/oauth/callback/"
	migratePath  = "/migrate"
	importPath   = "/migrate/import"
)

// A Server is a tool server. It is an [http.Handler]. Serving it over TLS, and limiting how slowly
// a client may send, is up to the [http.Server] around it. Suitable values are a ReadHeaderTimeout
// of 5 s, a ReadTimeout of 30 s, a WriteTimeout of 40 s and an IdleTimeout of a minute (case W09).
// /migrate, which answers within [Options.MigrationTimeout], sets its own deadlines. Limit the
// number of connections in front of the server.
type Server struct {
	opts     Options
	state    *vault.State
	log      *slog.Logger
	mux      *http.ServeMux
	messages *outgoing.Maker
	delivery *outgoing.Sender

	mover     *migrate.Mover
	own       []*http.Transport // to be closed by Close
	oauth     *oauth.Client
	guard     *leak.Guard
	signers   map[string]signers
	notices   intake.Rates // of cancellations, closures and status requests
	migrating intake.Rates // of migrations
	noticed   *intake.Notices

	ctx     context.Context // ends when Close does
	abort   context.CancelFunc
	leaving chan struct{} // closed when Close begins
	epoch   string        // names the process

	start    sync.Once
	startErr error
	flow     *running.Flow
	local    running.Functions

	mu      sync.Mutex
	tools   []*tool
	byName  map[string]*tool
	pending map[string]int // calls being accepted, by runtime; "" counts all
	closing bool
}

// New is like [Open], but panics where Open returns an error.
func New(opts Options) *Server {
	s, err := Open(opts)
	if err != nil {
		panic(err.Error())
	}
	return s
}

// Open returns a server without tools. It panics if opts are invalid, and returns an error if
// [Options.State] cannot be opened, for example because another process uses it. Nothing runs until
// [Server.Start] or the first request, so that tools can be added before.
func Open(opts Options) (*Server, error) {
	var own []*http.Transport
	opts = opts.withDefaults(&own)
	signers := newSigners("New", opts.Secrets)
	s := &Server{
		own:       own,
		opts:      opts,
		mux:       http.NewServeMux(),
		guard:     new(leak.Guard),
		signers:   signers,
		leaving:   make(chan struct{}),
		epoch:     rand.Text(),
		byName:    make(map[string]*tool),
		pending:   make(map[string]int),
		notices:   intake.Rates{PerSecond: noticeRate, Burst: noticeBurst},
		migrating: intake.Rates{PerSecond: migrateRate, Burst: migrateBurst},
		noticed:   intake.NewNotices(),
	}
	s.log = slog.New(leak.Redact(opts.Logger.Handler(), s.guard))
	s.ctx, s.abort = context.WithCancel(context.Background())
	s.flow = running.New(s.ctx)
	for _, secrets := range opts.Secrets {
		for _, secret := range secrets {
			s.keepInside(secret, "a webhook secret")
		}
	}
	if err := s.openState(); err != nil {
		return nil, err
	}
	s.oauth = s.newOAuth()
	s.messages = outgoing.NewMaker(s.guard, s.log)
	s.delivery = outgoing.NewSender(outgoing.Options{
		Transport: opts.CallbackTransport, Timeout: opts.CallbackTimeout, Rules: s.flowOptions().Rules, Sign: s.sign, Tracer: opts.Tracer, Log: s.log,
	})
	s.mux.HandleFunc("GET "+manifestPath, s.serveManifest)
	s.mux.HandleFunc("POST "+invokePath, s.serveInvocation)
	s.mux.HandleFunc("POST "+closePath, s.serveClose)
	s.mux.HandleFunc("POST "+cancelPath, s.serveCancel)
	if opts.Status {
		s.mux.HandleFunc("POST "+statusPath, s.serveStatus)
	}
	s.mover = s.newMover()
	if opts.Migrator != nil {
		s.keepInside(opts.MigrationKey, "MigrationKey")
		s.mux.HandleFunc("POST "+migratePath, s.serveMigrate)
		s.mux.HandleFunc("POST "+importPath, s.mover.ServeImport)
	}
	s.mux.HandleFunc("POST "+choicePath+"{secret}", s.serveChoice)
	s.mux.HandleFunc("GET "+startPath+"{secret}", s.oauth.ServeStart)
	s.mux.HandleFunc("GET "+redirectPath+"{provider}", s.oauth.ServeRedirect)
	return s, nil
}

// openState opens the vault and its data in transit.
func (s *Server) openState() (err error) {
	if s.opts.State == "" {
		if s.opts.Vault == nil {
			s.opts.Vault = NewMemoryVault()
		}
		s.state, err = vault.NewState()
		return err
	}
	var keys *vault.Keyset
	if s.opts.Keys != nil {
		keys = s.opts.Keys.keys
	}
	s.state, err = vault.OpenState(s.opts.State, keys, s.opts.Vault != nil, s.log)
	if err == nil && s.opts.Vault == nil {
		s.opts.Vault = &FileVault{tokens: s.state.Tokens}
	}
	return err
}

// keepInside makes the guard search everything that leaves for a secret that the operator has
// configured.
func (s *Server) keepInside(secret Secret, what string) {
	if !secret.Empty() && !s.guard.Add(secret.Reveal()) {
		s.log.Warn("a secret is too short or too simple to be looked for in messages", "secret", what)
	}
}

// ServeHTTP answers one request of a runtime or of a user's browser.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if s.Start() != nil {
		http.Error(w, "the state cannot be read", http.StatusServiceUnavailable)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// Manifest returns the server's manifest.
func (s *Server) Manifest() *agentproto.Manifest {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &agentproto.Manifest{
		Name:        s.opts.Name,
		Description: s.opts.Description,
		Endpoint:    s.opts.PublicURL + invokePath,

		NeedsMigration: s.opts.Migrator != nil,
	}
	for _, t := range s.tools {
		m.Tools = append(m.Tools, t.manifest)
	}
	return m
}

func (s *Server) serveManifest(w http.ResponseWriter, r *http.Request) {
	m := s.Manifest()
	if len(m.Tools) == 0 {
		http.Error(w, "this server has no tools", http.StatusServiceUnavailable)
		return
	}
	body, err := agentproto.Encode(m)
	if err != nil {
		s.log.Error("manifest cannot be encoded", "error", err)
		http.Error(w, "the manifest cannot be encoded", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Write(body)
}

// sender returns the runtime that sent r, a message for one of the purposes in package purpose. If
// the sender is refused, sender answers r.
func (s *Server) sender(w http.ResponseWriter, r *http.Request, what string) (runtime string, ok bool) {
	if s.opts.Authenticate == nil {
		return "", true
	}
	body := &readBody{ReadCloser: http.MaxBytesReader(w, r.Body, s.opts.Limits.Bytes)}
	r.Body = body // a signature covers it
	runtime, err := s.opts.Authenticate(r)
	if err != nil && body.err != nil {
		refuseUnread(w, body.err)
		return "", false
	}
	if err != nil {
		s.log.Warn("request refused", "path", r.URL.Path, "error", err)
		http.Error(w, "unauthorized", http.StatusUnauthorized)
		return "", false
	}
	if id := r.Header.Get(standardwebhooks.HeaderWebhookID); !intake.IsFor(id, what) {
		s.log.Warn("request refused: it was made for another path", "path", r.URL.Path, "runtime", runtime, "purpose", purpose.Of(id))
		http.Error(w, "unauthorized", http.StatusUnauthorized)
		return "", false
	}
	return runtime, true
}

// A readBody remembers the error with which reading a body ended.
type readBody struct {
	io.ReadCloser
	err error
}

// Read implements [io.Reader].
func (b *readBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		b.err = err
	}
	return n, err
}

// errBrokenOff says that a body did not arrive as a whole. The sender sends the message again.
var errBrokenOff = errors.New("the body could not be read")

// errRefused says that a message was refused for good.
var errRefused = errors.New("the message was refused")

// refuseUnread answers a message whose body could not be read because of err. A message that was broken off says nothing, so the
// answer is one after which runtimes send it again.
func refuseUnread(w http.ResponseWriter, err error) error {
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		http.Error(w, "the body is too large", http.StatusRequestEntityTooLarge)
		return errRefused
	}
	w.Header().Set("Retry-After", strconv.Itoa(retrySeconds))
	http.Error(w, errBrokenOff.Error(), http.StatusServiceUnavailable)
	return errBrokenOff
}

// body reads the body of a message. If it returns an error, which is errRefused or errBrokenOff, it has answered r. A page in a
// browser cannot post here: its requests carry an Origin header, and the server answers no preflight request for JSON.
func (s *Server) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Header.Get("Origin") != "" {
		http.Error(w, "requests from browsers are not accepted", http.StatusForbidden)
		return nil, errRefused
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if encoding := r.Header.Get("Content-Encoding"); err != nil || media != "application/json" || encoding != "" && !strings.EqualFold(encoding, "identity") {
		http.Error(w, "the body must be plain application/json", http.StatusUnsupportedMediaType)
		return nil, errRefused
	}
	if r.ContentLength > s.opts.Limits.Bytes {
		w.Header().Set("Connection", "close")
		http.Error(w, "the body is too large", http.StatusRequestEntityTooLarge)
		return nil, errRefused
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.opts.Limits.Bytes))
	if err != nil {
		return nil, refuseUnread(w, err)
	}
	return data, nil
}

// refuse answers a message that could not be decoded.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusBadRequest
	var me *agentproto.MessageError
	if errors.As(err, &me) && me.Status >= 400 && me.Status < 500 {
		status = me.Status
	}
	http.Error(w, err.Error(), status)
}
