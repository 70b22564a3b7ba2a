package oauth

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"github.com/millrace/millrace/agentproto/internal/authorize"
	"github.com/millrace/millrace/agentproto/internal/leak"
	"github.com/millrace/millrace/agentproto/internal/running"
	"github.com/millrace/millrace/agentproto/internal/vault"
	"github.com/millrace/millrace/internal/edge"
)

// A Vault keeps tokens. Load returns [vault.ErrNoToken] if there is none.
type Vault interface {
	Load(ctx context.Context, key vault.Key) (*vault.Token, error)
	Save(ctx context.Context, key vault.Key, token *vault.Token) error
	Delete(ctx context.Context, key vault.Key) error
}

// Options are the settings of a [Client].
type Options struct {
	Name        string // of the toolset; shown on the start page
	Epoch       string // names the process
	Start       string // the address of the start page without the secret; empty for no page
	Redirect    string // the redirect URI without the ID of the provider
	UserTimeout time.Duration
	Timeout     time.Duration // of a request to a provider
	Transport   http.RoundTripper

	Flow    *running.Flow
	Vault   Vault
	Transit *vault.Entries
	Key     []byte // derives the secrets of authorizations
	Guard   *leak.Guard
	Log     *slog.Logger
}

// maxAnswer is how much of a provider's answer is read. An answer to a token request is held in memory
// as a whole.
const maxAnswer = 1 << 20

// A Client is a client of all providers of a server.
type Client struct {
	o           Options
	ctx         context.Context
	http        *http.Client
	unconfirmed unconfirmeds
	weak        sync.Once // logs once that the guard cannot search for a token

	mu        sync.Mutex
	providers map[string]*Provider
}

// New returns a client without providers. Its requests end with ctx.
func New(ctx context.Context, o Options) *Client {
	return &Client{o: o, ctx: ctx, http: edge.NewClient(o.Transport).Standard(maxAnswer, o.Timeout), providers: make(map[string]*Provider)}
}

// Provider returns a provider by its ID, or nil.
func (c *Client) Provider(id string) *Provider {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.providers[id]
}

// Do executes a job of the authorizations.
func (c *Client) Do(ctx context.Context, runtime string, j authorize.Job) authorize.Outcome {
	done := make(chan authorize.Outcome, 1)
	go func() { // continues when the server ends, since a provider may have issued a token
		done <- c.once(runtime, j)
	}()
	select {
	case o := <-done:
		if o.Class != authorize.Good && c.ctx.Err() != nil {
			<-ctx.Done() // it failed because the server ends
		}
		return o
	case <-ctx.Done():
		return authorize.Outcome{}
	}
}

func (c *Client) once(runtime string, j authorize.Job) authorize.Outcome {
	key, p := vault.Key{Runtime: runtime, User: j.Key.User, Provider: j.Key.Provider}, c.Provider(j.Key.Provider)
	ctx, stop := c.requestContext(p)
	defer stop()
	var t *vault.Token
	class := authorize.Failed
	switch {
	case j.Kind == authorize.Discard:
		c.discard(ctx, p, j)
		return authorize.Outcome{Class: authorize.Good}
	case j.Kind == authorize.Revoke:
		c.giveBack(ctx, p, key)
		return authorize.Outcome{Class: authorize.Good}
	case j.Kind == authorize.Keep:
		class = authorize.Lost
		if u := c.unconfirmed.take(j.ID); u != nil {
			t, class = u.token, c.save(ctx, key, u.token)
		}
	case p == nil:
	case j.Kind == authorize.Fetch:
		t, class = c.fetch(ctx, p, key, j)
	case j.Kind == authorize.Exchange:
		t, class = c.exchange(ctx, p, key, j)
	}
	o := authorize.Outcome{Class: class}
	switch class {
	case authorize.Good:
		o.Access, o.Scopes = c.AccessPrint(t.Access), t.Scopes
	case authorize.Unconfirmed:
		o.Epoch = c.o.Epoch
	}
	return o
}

// requestContext returns the context of a token request to p, which may be nil. It belongs to the server
// rather than to a call, because a token that a provider has issued must not be lost when a call is
// cancelled.
func (c *Client) requestContext(p *Provider) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithTimeout(c.ctx, c.o.Timeout)
	transport := c.o.Transport
	if p != nil && p.Resource != "" {
		transport = &resourceAdder{p.Resource, transport}
	}
	client := edge.NewClient(&answerReader{transport}).Standard(maxAnswer, c.o.Timeout)
	return context.WithValue(ctx, oauth2.HTTPClient, client), stop
}
