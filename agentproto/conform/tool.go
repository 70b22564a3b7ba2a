package conform

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/edge"
)

// A ToolTarget is a tool server under test.
type ToolTarget struct {
	// Profile tells what it is.
	Profile ToolProfile
	// Provider controls the OAuth provider that the server uses. Nil means that the
	// runner cannot, and that the cases about a provider that fails are not
	// applicable.
	Provider Provider
	// Output is called for what the server has written, such as its log, if it runs
	// in the process of the runner. It is searched for tokens. It may be nil.
	Output func() string
}

// A Provider is an OAuth provider that does as the runner wants. Its methods are
// called from any goroutine.
type Provider interface {
	// FailTokenEndpoint makes the next n token requests fail with a status. A status
	// below 400 stands for an answer that is HTML.
	FailTokenEndpoint(status, n int)
	// HoldTokenEndpoint makes token requests wait until release is called; each that
	// waits can be received from arrived.
	HoldTokenEndpoint() (arrived <-chan struct{}, release func())
	// ExpireTokens makes the access tokens of a user invalid, and RevokeRefresh the
	// refresh tokens. Both return how many there were.
	ExpireTokens(user string) int
	RevokeRefresh(user string) int
	// SetResponseIssuer changes what the provider calls itself in authorization
	// responses; empty leaves it out, and the argument Issuer returned puts it back.
	SetResponseIssuer(iss string)
	Issuer() string
	// Exchanges, Refreshes and Replays count requests of the token endpoint: for
	// codes, for new tokens, and with something that had been used before.
	Exchanges() int
	Refreshes() int
	Replays() int
	// Secrets returns every code, verifier and token that there has been.
	Secrets() []string
}

// RunTool runs the cases of tool servers against a target. If the profile has a
// command, RunTool starts the server and ends it. The error is a [*UsageError] if the
// profile or the options cannot be used; it is another if the server cannot be
// reached or the context ended, and the report has then what there is, if anything.
func RunTool(ctx context.Context, target ToolTarget, opts Options) (*Report, error) {
	r, err := newToolRun(ctx, target)
	if err != nil {
		return nil, err
	}
	defer r.close()
	return opts.perform(ctx, Tool, target.Profile.URL, r.trials())
}

// TestTool runs each case as a subtest of its id, skips those that are not
// applicable, and fails those that fail. With -run one can choose some.
func TestTool(t *testing.T, target ToolTarget) {
	t.Helper()
	r, err := newToolRun(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	subtests(t, Tool, r.trials())
}

// subtests runs the cases of a side: those that can beside each other, then the
// others. They wait more than they compute, so that the number of processors, which
// bounds parallel subtests, is no measure for how many may run at once.
func subtests(t *testing.T, side Side, trials map[string]trial) {
	t.Helper()
	room := make(chan struct{}, defaultParallel)
	var beside sync.WaitGroup
	one := func(c Case) {
		t.Run(c.ID, func(t *testing.T) {
			switch r := trials[c.ID].judge(t.Context(), c, 0); r.Status {
			case Passed:
				for _, n := range r.Notes {
					t.Log(n)
				}
			case Inapplicable:
				t.Skip(r.Reason)
			default:
				t.Errorf("%s: %s: %s", c.Action, r.Status, r.Reason)
			}
		})
	}
	for _, alone := range []bool{false, true} {
		for _, c := range Cases() {
			tr, ok := trials[c.ID]
			switch {
			case !ok || !c.For(side) || tr.alone != alone:
			case alone:
				one(c)
			default:
				room <- struct{}{}
				beside.Go(func() {
					defer func() { <-room }()
					one(c)
				})
			}
		}
		beside.Wait()
	}
}

// A toolRun is what the cases of a run share.
type toolRun struct {
	target   ToolTarget
	profile  ToolProfile
	limits   Limits
	base     string // URL without the slash at its end
	endpoint string // where calls go
	client   *http.Client
	hubs     [2]*hub // two runtimes
	proc     *process
	dest     *process

	mu    sync.Mutex
	pages []string // what the server answered
	users int      // how many OAuth users were given away

	asked  sync.Mutex
	absent *bool // whether it has no notifications; nil if that was not asked yet
}

func newToolRun(ctx context.Context, target ToolTarget) (_ *toolRun, err error) {
	p := target.Profile
	if err := p.check(); err != nil {
		return nil, err
	}
	roots, err := p.roots()
	if err != nil {
		return nil, err
	}
	r := &toolRun{
		target: target, profile: p, limits: p.Limits.withDefaults(), base: strings.TrimSuffix(p.URL, "/"),
	}
	peer := edge.NewClient(edge.Outbound{Dial: new(net.Dialer).DialContext, TLS: &tls.Config{RootCAs: roots}}.Transport())
	r.client = peer.Standard(0, max(time.Minute, millis(2*max(r.limits.Migrate, r.limits.Provider))))
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	for i := range r.hubs {
		addr := "127.0.0.1:0"
		if i < len(p.Callbacks) {
			addr = p.Callbacks[i]
		}
		if r.hubs[i], err = newHub(addr); err != nil {
			return nil, err
		}
	}
	if len(p.Command) > 0 {
		r.proc = &process{argv: p.Command}
		if err = r.start(ctx); err != nil {
			return nil, err
		}
	}
	m, err := r.manifest(ctx, r.base, "")
	if err != nil {
		return nil, fmt.Errorf("conform: the tool server cannot be reached: %w", err)
	}
	r.endpoint, _ = m.fields["endpoint"].(string)
	if r.endpoint == "" {
		return nil, fmt.Errorf("conform: %s names no endpoint: status %d, %s", r.base+wellKnown, m.status, clip(m.body, 200))
	}
	if d := p.Destination; d != nil && len(d.Command) > 0 {
		r.dest = &process{argv: d.Command}
		if err = r.dest.start(); err != nil {
			return nil, err
		}
		err = r.dest.ready(ctx, millis(r.limits.Restart), func(ctx context.Context) bool {
			m, err := r.manifest(ctx, d.URL, "")
			return err == nil && m.status == http.StatusOK
		})
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// roots returns the authorities to trust, nil for the system's.
func (p ToolProfile) roots() (*x509.CertPool, error) {
	if p.CA == "" {
		return nil, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(p.CA)) {
		return nil, &UsageError{"profile: ca has no certificate in PEM"}
	}
	return pool, nil
}

// start starts the server and waits until it serves.
func (r *toolRun) start(ctx context.Context) error {
	if err := r.proc.start(); err != nil {
		return err
	}
	return r.proc.ready(ctx, millis(r.limits.Restart), func(ctx context.Context) bool {
		m, err := r.manifest(ctx, r.base, "")
		return err == nil && m.status == http.StatusOK
	})
}

func (r *toolRun) close() {
	for _, p := range []*process{r.proc, r.dest} {
		if p != nil {
			p.kill()
		}
	}
	for _, h := range r.hubs {
		if h != nil && !h.closed() {
			h.shut()
		}
	}
	r.client.CloseIdleConnections()
}

// waits is more often than any case waits for the server.
const waits = 40

// trials binds the cases to the run.
func (r *toolRun) trials() map[string]trial {
	all := make(map[string]trial)
	for id, t := range toolTrials {
		all[id] = trial{
			limit: t.limit, alone: t.alone,
			run: func(p *probe) {
				p.spare = waits * millis(max(r.limits.Result, r.limits.Retry, r.limits.Quiet, r.limits.Migrate, r.limits.Restart))
				t.run(&toolCase{probe: p, toolRun: r})
			},
		}
	}
	return all
}

// A toolTrial is a trial of a case of tool servers.
type toolTrial struct {
	run   func(*toolCase)
	limit time.Duration
	alone bool
}

// A toolCase is what the function of such a case works with.
type toolCase struct {
	*probe
	*toolRun
}

// errNotOurs says that the runner did not start the server, so it cannot kill it.
var errNotOurs = errors.New("the profile has no command to start the server again with")

// restart kills the server and starts it again; between the two, meanwhile is
// called.
func (c *toolCase) restart(meanwhile func()) {
	c.proc.kill()
	if meanwhile != nil {
		meanwhile()
	}
	defer c.waiting(millis(c.limits.Restart))()
	c.must(c.start(c.ctx), "start the server again")
	c.client.CloseIdleConnections()
}

// restartable ends the trial if the runner cannot start the server again.
func (c *toolCase) restartable() {
	if c.proc == nil {
		c.lacks(errNotOurs.Error())
	}
}
