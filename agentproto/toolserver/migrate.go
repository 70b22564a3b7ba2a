package toolserver

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/migrate"
	"github.com/millrace/millrace/agentproto/internal/purpose"
	"github.com/millrace/millrace/agentproto/internal/tools"
	"github.com/millrace/millrace/internal/edge"
	"github.com/millrace/millrace/internal/netguard"
)

// A Migrator moves the tools' own state of a session, such as a working directory or an open document, from
// one instance of the server to another (doc/protocol.md §10.1). A session is named by its root thread, as
// in [agentproto.Invocation]. The name comes from outside and is up to 1024 arbitrary bytes, so do not use
// it as a path.
//
// The server itself moves the calls of the session: the unfinished ones, their undelivered messages, open
// subscriptions with their state, and the keys of finished ones. It does not move tokens; see
// [Options.Vault].
//
// If a Migrator has a method Remove(ctx, session) error, the server calls it to forget a session: at the
// source when the runtime has closed the thread of that name, and at the destination when a migration was
// given up. Its errors are logged.
type Migrator interface {
	// Export returns the state of a session, or nil if there is none. While it runs, no function or
	// producer of the session runs, and none starts. If the migration fails later, the session continues
	// here, so Export must not change it. Errors are logged and not shown to the runtime.
	Export(ctx context.Context, session string) ([]byte, error)
	// Import replaces whatever exists here of the session with the state that Export returned. It may be
	// called again with the same state, or with a newer one of a later attempt. No function of the session
	// runs here until it has returned.
	Import(ctx context.Context, session string, state []byte) error
}

// OwnState is a [Migrator] for tools that keep no state of a session: only calls and subscriptions move.
type OwnState struct{}

// Export returns nil.
func (OwnState) Export(context.Context, string) ([]byte, error) { return nil, nil }

// Import does nothing.
func (OwnState) Import(context.Context, string, []byte) error { return nil }

// newMover returns the mover of the server's sessions.
func (s *Server) newMover() *migrate.Mover {
	o := s.opts
	return migrate.New(s.ctx, migrate.Options{
		Name: o.Name, Endpoint: o.PublicURL + invokePath, Flow: s.flow, Log: s.log,
		Tool: o.Migrator, Key: o.MigrationKey.Reveal(), Client: edge.NewClient(o.MigrationTransport),
		Destinations: o.MigrationDestinations, Networks: o.migrationNetworks(), Timeout: o.MigrationTimeout, Bytes: o.MigrationBytes,
		Closing: s.isClosing, Spare: s.runOnce,
	})
}

// runOnce returns the names of the tools with [ToolOptions.RunOnce], whose functions are never interrupted.
func (s *Server) runOnce() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tools {
		if t.runOnce {
			names = append(names, t.manifest.Name)
		}
	}
	return names
}

// serveMigrate moves a session to another instance.
func (s *Server) serveMigrate(w http.ResponseWriter, r *http.Request) {
	runtime, data, ok := s.notification(w, r, purpose.Migrate)
	if !ok {
		return
	}
	msg, err := agentproto.DecodeMigrate(data, s.opts.Limits)
	if err != nil {
		refuse(w, err)
		return
	}
	s.mover.Serve(w, r, tools.Place{Runtime: runtime, Session: msg.SessionID}, msg.DestinationURL, s.noticed.First(runtime, r))
}

// migrationNetworks are those that a destination may be in. An IP address that the operator wrote may be
// anywhere.
func (o Options) migrationNetworks() netguard.Policy {
	p := o.networks().Trust(o.MigrationDestinations...)
	for _, d := range o.MigrationDestinations {
		if d, ok := strings.CutSuffix(d, ":*"); ok {
			if u, err := url.Parse(d); err == nil && isLoopback(u) {
				p.AllowLoopback = true
			}
		}
	}
	return p
}

// checkMigration panics if the options for migrations cannot work.
func (o Options) checkMigration(public *url.URL) {
	switch {
	case o.Migrator == nil:
		return
	case len(o.MigrationKey.Reveal()) < minMigrationKey:
		panic("toolserver: New: a Migrator needs a MigrationKey of 32 random bytes or more, which every instance has")
	case o.Authenticate == nil && !isLoopback(public):
		panic("toolserver: New: a Migrator needs Authenticate: whoever may call /migrate decides where sessions are")
	}
	for _, d := range o.MigrationDestinations {
		u, err := url.Parse(strings.TrimSuffix(d, ":*"))
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || d != strings.ToLower(u.Scheme+"://"+u.Host)+d[min(len(d), len(u.Scheme+"://"+u.Host)):] {
			panic("toolserver: New: MigrationDestinations: " + strconv.Quote(d) + " is not an origin or base URL, in lower case, such as https://tools-b.example.com or http://127.0.0.1:*")
		}
	}
}

const minMigrationKey = 32
