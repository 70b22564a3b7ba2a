package agentchaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/internal/freeport"
	"github.com/millrace/millrace/internal/idp"
	"github.com/millrace/millrace/internal/natstest"
)

const (
	runtimes = 3
	servers  = 4  // of tools
	callers  = 24 // members that make calls
	talkers  = 9  // members that have conversations
	healed   = 75 * time.Second
	clientID = idp.DefaultClientID
)

// TestChaos kills runtimes and tool servers at random while they work. It catches an accepted
// call that is lost or has two results, a callback that was answered 200 and has no effect,
// and events that are lost, repeated or out of order.
func TestChaos(t *testing.T) {
	t.Run("own", func(t *testing.T) { chaos(t, nil) })
	if !*sharing {
		return
	}
	t.Run("shared", func(t *testing.T) {
		chaos(t, natstest.Start(t, 3, natstest.Config{JetStream: "sync_interval: always", Cluster: "no_advertise: true"}))
	})
}

func chaos(t *testing.T, nats *natstest.Servers) {
	t.Logf("seed %d", *seed)
	r := rand.New(rand.NewPCG(*seed, 1))
	person := idp.User{Name: "ada", Password: "lovelace", Subject: "ada"}
	provider, err := idp.Start(idp.Options{Users: []idp.User{person}})
	if err != nil {
		t.Fatal(err)
	}
	defer provider.Close()
	l := newLedger()
	visits := visitor{provider: provider, person: person, seen: map[string]bool{}}
	defer visits.all.Wait()
	read := func(_ *process, n note) {
		switch n.What {
		case "told":
			l.tell(agentproto.CallKey{GroupID: n.Thread, ID: n.Call}, outcome{n.Cause, n.Text})
		case "ok":
			l.ok(n)
		case "oauth":
			visits.visit(t.Context(), n.AuthURL)
		}
	}
	all := cast(t, nats, provider, read)
	work := &load{ledger: l, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}, shared: nats != nil}
	defer work.client.CloseIdleConnections()
	for _, p := range all {
		p.start()
		defer p.kill()
		if p.config.Kind == "tools" {
			work.tools = append(work.tools, p.config.Name)
		} else {
			work.apis = append(work.apis, "http://"+p.config.API)
		}
	}
	for _, p := range all {
		p.await()
	}

	making, enough := context.WithCancel(t.Context())
	defer enough()
	ctx, stop := context.WithTimeout(t.Context(), *duration+healed)
	defer stop()
	var members sync.WaitGroup
	failures := make(chan error, callers+talkers)
	for i := range callers + talkers {
		luck := rand.New(rand.NewPCG(*seed, uint64(i+2)))
		members.Go(func() {
			if i < callers {
				failures <- work.call(making, ctx, i, luck)
			} else {
				failures <- work.converse(making, ctx, i, luck)
			}
		})
	}
	start := time.Now()
	servers := wreck(t, r, all, nats)
	enough()
	broken := time.Since(start)
	members.Wait()
	close(failures)
	for err := range failures {
		if err != nil {
			t.Error(err)
		}
	}
	t.Logf("everything has its result %v after the last kill", time.Since(start)-broken)

	// What was reported must also be stored.
	kills := map[string]int{}
	for _, p := range all {
		kills[p.config.Kind] += p.kills
		p.kill()
	}
	for _, p := range all {
		p.start()
	}
	for _, p := range all {
		p.await()
	}
	work.readAgain(ctx, t)
	l.report(t)
	t.Logf("%d processes for %v, killed: %v, NATS servers %d", len(all), broken.Round(time.Second), kills, servers)
	for _, p := range all {
		if s := p.said.String(); s != "" && testing.Verbose() {
			t.Logf("%s, last: %.600s", p.config.Name, s)
		}
	}
}

// cast returns the processes, which are not running yet, tool servers first.
func cast(t *testing.T, nats *natstest.Servers, provider *idp.Provider, read func(*process, note)) (all []*process) {
	folder := t.TempDir()
	ports := freePorts(t, servers+2*runtimes)
	var toolsets []string
	for i := range servers {
		c := config{
			Kind: "tools", Name: fmt.Sprintf("tools%d", i), Listen: ports[i],
			Issuer: provider.Issuer(), AuthURL: provider.AuthURL(), TokenURL: provider.TokenURL(), CA: provider.CACertPEM(),
		}
		provider.RegisterRedirect(clientID, "http://"+c.Listen+"/oauth/callback/idp")
		toolsets = append(toolsets, "http://"+c.Listen)
		all = append(all, &process{t: t, config: c, read: read})
	}
	for i := range runtimes {
		c := config{Kind: "runtime", Name: fmt.Sprintf("runtime%d", i), Listen: ports[servers+2*i], API: ports[servers+2*i+1], Toolsets: toolsets}
		if nats != nil {
			c.Servers = nats.URLs("")
		}
		all = append(all, &process{t: t, config: c, read: read})
	}
	for _, p := range all {
		p.config.State = filepath.Join(folder, p.config.Name)
		if err := os.Mkdir(p.config.State, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// wreck kills and restarts each process in each tick with some probability. It returns the
// number of kills of NATS servers, which stay down for a second.
func wreck(t *testing.T, r *rand.Rand, all []*process, nats *natstest.Servers) (servers int) {
	ctx, stop := context.WithTimeout(t.Context(), *duration)
	defer stop()
	var down *natstest.Node // one at a time: two of three are needed
	var since time.Time
	for pass(ctx, *tick) {
		for _, p := range all {
			if r.Float64() < *chance {
				p.kill()
				p.start()
			}
		}
		if nats == nil {
			continue
		}
		if down != nil && time.Since(since) > time.Second {
			nats.Start(down)
			down = nil
		}
		for _, n := range nats.Nodes {
			if down == nil && r.Float64() < *chance {
				nats.Kill(n)
				down, since = n, time.Now()
				servers++
			}
		}
	}
	if down != nil {
		nats.Start(down)
	}
	return servers
}

// readAgain reads all outcomes and histories once more.
func (l *load) readAgain(ctx context.Context, t *testing.T) {
	var all sync.WaitGroup
	turn := make(chan struct{}, 32)
	ask := func(do func()) {
		turn <- struct{}{}
		all.Go(func() { defer func() { <-turn }(); do() })
	}
	for _, key := range l.ledger.keys() {
		// A killed process may have stored a call without reporting it. Such a call is stored
		// like the rest.
		var kept bool
		l.ledger.on(key, func(e *entry) { kept = e.outcome != nil || e.accepted || len(e.results) > 0 })
		if !kept {
			continue
		}
		var member int
		if _, err := fmt.Sscanf(key.GroupID[1:], "%d-", &member); err != nil {
			t.Fatal(err)
		}
		api := l.apis[member%len(l.apis)]
		ask(func() {
			var out outcome
			if err := l.request(ctx, http.MethodGet, func() string { return api }, "/calls/"+key.GroupID+"/"+key.ID, nil, &out); err != nil {
				t.Errorf("%v was accepted or had a result, and has none: %v", key, err)
				return
			}
			l.ledger.tell(key, out)
		})
	}
	for thread, plan := range l.ledger.threads {
		if !plan.said {
			continue
		}
		ask(func() {
			var history []conversation.Message
			err := l.request(ctx, http.MethodGet, func() string { return plan.api }, "/threads/"+thread, nil, &history)
			if err == nil {
				if missing := l.ledger.read(thread, history); missing != "" {
					err = errors.New("missing: " + missing)
				}
			}
			if err != nil {
				t.Errorf("%s: %v", thread, err)
			}
		})
	}
	all.Wait()
}

// A visitor is the user at a browser, who grants every authorization.
type visitor struct {
	provider *idp.Provider
	person   idp.User
	mu       sync.Mutex
	seen     map[string]bool
	all      sync.WaitGroup
}

// visit goes through an authorization. If the tool server is down when the browser returns to
// it, visit reloads the page.
func (v *visitor) visit(ctx context.Context, url string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.seen[url] {
		return
	}
	v.seen[url] = true
	v.all.Go(func() {
		browser := v.provider.NewBrowser()
		next, err := browser.Grant(ctx, url, v.person.Name, v.person.Password)
		for range 50 {
			if err != nil {
				return
			}
			var page *idp.PageError
			if _, err := browser.Open(ctx, next.String()); err == nil || errors.As(err, &page) {
				return
			}
			pass(ctx, 100*time.Millisecond)
		}
	})
}

// freePorts returns addresses at which processes can be restarted.
func freePorts(t *testing.T, n int) []string {
	all, err := freeport.Addresses(n)
	if err != nil {
		t.Fatal(err)
	}
	return all
}
