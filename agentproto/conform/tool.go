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
	// Profile describes the server.
	Profile ToolProfile
	// Provider controls the OAuth provider of the server. Nil means that the runner cannot control
	// it, and that the cases about a failing provider are not applicable.
	Provider Provider
	// Output returns what the server has written, such as its log, if the server runs in the
	// runner's process. It is searched for tokens. It may be nil.
	Output func() string
}

// A Provider is an OAuth provider that the runner controls. Its methods are called concurrently.
type Provider interface {
	// FailTokenEndpoint makes the next n token requests fail with a status. A status below 400
	// means an HTML answer.
	FailTokenEndpoint(status, n int)
	// HoldTokenEndpoint makes token requests wait until release is called. Each waiting request
	// sends a value to arrived.
	HoldTokenEndpoint() (arrived <-chan struct{}, release func())
	// ExpireTokens makes the access tokens of a user invalid, and RevokeRefresh the refresh tokens.
	// Both return the number of tokens.
	ExpireTokens(user string) int
	RevokeRefresh(user string) int
	// SetResponseIssuer changes the issuer in authorization responses; the empty string omits it,
	// and the value of Issuer restores it.
	SetResponseIssuer(iss string)
	Issuer() string
	// Exchanges, Refreshes and Replays count requests to the token endpoint: exchanges of codes,
	// refreshes, and requests with a code or token that had been used before.
	Exchanges() int
	Refreshes() int
	Replays() int
	// Secrets returns every code, verifier and token so far.
	Secrets() []string
}

// RunTool runs the cases of tool servers against a target. If the profile has a command, RunTool
// starts the server and stops it at the end. The error is a [*UsageError] if the profile or the
// options are invalid. It is another error if the server cannot be reached or ctx ended; then the
// report, if not nil, contains the results so far.
func RunTool(ctx context.Context, target ToolTarget, opts Options) (*Report, error) {
	r, err := newToolRun(ctx, target)
	if err != nil {
		return nil, err
	}
	defer r.close()
	return opts.perform(ctx, Tool, target.Profile.URL, r.trials())
}

// TestTool runs each case as a subtest named by its id. It skips cases that are not applicable, and
// fails those that fail. Use -run to select cases.
func TestTool(t *testing.T, target ToolTarget) {
	t.Helper()
	r, err := newToolRun(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	subtests(t, Tool, r.trials())
}

// subtests runs the cases of a side: first those that can run in parallel, then the others. It does
// not use parallel subtests, since their number is limited by the number of processors, and cases
// wait more than they compute.
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

// A toolRun is the shared state of the cases of a run.
type toolRun struct {
	target   ToolTarget
	profile  ToolProfile
	limits   Limits
	base     string // URL without a trailing slash
	endpoint string // address for calls
	client   *http.Client
	hubs     [2]*hub // two runtimes
	proc     *process
	dest     *process

	mu    sync.Mutex
	pages []string // answers and pages of the server
	users int      // how many OAuth users were handed out

	asked  sync.Mutex
	absent *bool // whether the server lacks the notifications; nil if not known yet
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

// roots returns the certificate authorities to trust, or nil for the system's.
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

// start starts the server and waits until it serves its manifest.
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

// waits is more than the number of times that any case waits for the server.
const waits = 40

// trials returns the trials of the run's cases.
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

// A toolTrial is the implementation of a case of tool servers.
type toolTrial struct {
	run   func(*toolCase)
	limit time.Duration
	alone bool
}

// A toolCase is passed to the function of such a case.
type toolCase struct {
	*probe
	*toolRun
}

// errNotOurs says that the runner did not start the server, so it cannot kill it.
var errNotOurs = errors.New("the profile has no command to start the server again with")

// restart kills the server, calls meanwhile, and starts the server again.
func (c *toolCase) restart(meanwhile func()) {
	c.proc.kill()
	if meanwhile != nil {
		meanwhile()
	}
	defer c.waiting(millis(c.limits.Restart))()
	c.must(c.start(c.ctx), "start the server again")
	c.client.CloseIdleConnections()
}

// restartable ends the trial as not applicable if the runner cannot start the server again.
func (c *toolCase) restartable() {
	if c.proc == nil {
		c.lacks(errNotOurs.Error())
	}
}
