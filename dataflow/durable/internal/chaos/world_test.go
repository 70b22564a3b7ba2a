package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/internal/membership"
)

const (
	appName    = "chaos"
	partitions = 8
	callers    = 24
)

// A world holds the servers, the workers, the flow under test and a record of the faults.
type world struct {
	t       testing.TB
	rng     *rand.Rand
	servers *servers
	workers []*worker
	*scenario

	subject  subject
	restores durations
	refused  atomic.Int64

	deaths      []death
	serverKills int
}

// A subject is the flow under test with its callers, in the process of the test.
type subject interface {
	call()                              // starts calling the flow continuously
	begun() uint64                      // number of calls begun
	rest(t testing.TB)                  // starts no more calls and returns when all are answered
	stop(ctx context.Context) error     // ends the flow
	metrics() durable.Metrics           // of this process
	check(w *world, took time.Duration) // verifies everything after the flow has ended
}

// A death is the moment at which partitions lost their owner.
type death struct {
	at         time.Time
	partitions []int
}

const loader = "loader"

// newWorld starts everything and waits until the flow answers calls.
func newWorld(t testing.TB, sc *scenario) *world {
	t.Helper()
	t.Logf("rerun: -seed %d", *seed)
	w := &world{t: t, rng: rand.New(rand.NewPCG(*seed, 0)), scenario: sc}
	began := time.Now()
	w.servers = startServers(t, 3)
	up := time.Since(began)
	for i := range 3 {
		k := &worker{t: t, config: workerConfig{
			Name: appName, Member: fmt.Sprint("worker-", i), Servers: w.servers.URLs(""), Partitions: partitions, Lease: sc.lease, Slow: sc.slow, Bank: sc.bank,
		}, restores: &w.restores, refused: &w.refused}
		if sc.proxied {
			k.proxy = newProxy(t, w.servers)
			k.config.Servers = k.proxy.urls
		}
		w.workers = append(w.workers, k)
		t.Cleanup(k.kill)
		k.start()
	}
	c := workerConfig{Name: appName, Member: loader, Servers: w.servers.URLs(""), Partitions: partitions, Lease: sc.lease}
	o := c.options()
	said := &tail{}
	o.Logger = logTo(said)
	o.Client = !sc.owning
	if sc.bank {
		w.subject = startBank(t, o)
	} else {
		w.subject = startVoting(t, o)
	}
	t.Cleanup(func() {
		stopped(w.subject)
		if t.Failed() {
			t.Logf("the loader says:\n%s", said)
			for _, k := range w.workers {
				t.Logf("%s says:\n%s", k.config.Member, k.said)
			}
		}
	})
	for _, k := range w.workers {
		w.await(k)
	}
	w.subject.call()
	w.progress(2 * callers)
	t.Logf("it works after %v, of which the servers took %v", time.Since(began).Round(time.Millisecond), up.Round(time.Millisecond))
	return w
}

// start starts a flow. It gives up after some time, but not with a context that ends later: that would end the flow.
func start[P any](t testing.TB, build func(*dataflow.Flow) P, o durable.Options) *durable.App[P] {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	late := time.AfterFunc(within, func() { cancel(errors.New("the flow does not start")) })
	app, err := durable.Start(ctx, build, o)
	late.Stop()
	if err != nil {
		t.Fatal(err)
	}
	return app
}

// stopped stops a flow and returns why it ended. A flow that does not stop fails the test with the goroutines that
// have to do with it, instead of with all of them at the end of the go command's patience.
func stopped(s subject) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	defer time.AfterFunc(2*within, func() {
		all := make([]byte, 16<<20)
		var of []string
		for _, g := range strings.Split(string(all[:runtime.Stack(all, true)]), "\n\n") {
			if strings.Contains(g, "millrace/dataflow/durable") {
				of = append(of, g)
			}
		}
		panic("the flow does not stop:\n" + strings.Join(of, "\n\n"))
	}).Stop()
	return s.stop(ctx)
}

// await waits until a worker has started.
func (w *world) await(k *worker) {
	w.t.Helper()
	select {
	case <-k.started:
	case <-k.ended:
		w.t.Fatalf("%s did not start: %s", k.config.Member, k.said)
	case <-soon(w.t).Done():
		w.t.Fatalf("%s does not start: %s", k.config.Member, k.said)
	}
}

// progress waits until n more requests have begun.
func (w *world) progress(n uint64) {
	w.t.Helper()
	goal := w.subject.begun() + n
	eventually(w.t, func(context.Context) error {
		if now := w.subject.begun(); now < goal {
			return fmt.Errorf("%d requests are missing", goal-now)
		}
		return nil
	})
}

// lost records that a worker no longer serves its partitions. The partitions are known
// only if all workers started at least a second ago.
func (w *world) lost(k *worker) {
	var live []string
	if w.owning {
		live = append(live, loader)
	}
	for _, other := range w.workers {
		if other.cmd != nil {
			live = append(live, other.config.Member)
		}
	}
	d := death{at: time.Now()}
	settled := d.at.Add(-time.Second).UnixNano()
	if slices.ContainsFunc(w.workers, func(k *worker) bool { return k.since.Load() > settled }) {
		w.deaths = append(w.deaths, d)
		return
	}
	for p, owner := range membership.Owners(partitions, live, nil) {
		if owner == k.config.Member {
			d.partitions = append(d.partitions, p)
		}
	}
	w.deaths = append(w.deaths, d)
}

// checkWorkers reports workers that ended by themselves and restarts them.
func (w *world) checkWorkers() {
	for _, k := range w.workers {
		if !k.alive() {
			k.start()
		}
	}
}

// finish heals all faults, waits for pending calls, stops everything cleanly and verifies
// the results.
func (w *world) finish(began time.Time) {
	w.t.Helper()
	for _, nd := range w.servers.Nodes {
		if !nd.Up() {
			w.servers.Start(nd)
		}
	}
	for _, k := range w.workers {
		if k.proxy != nil {
			k.proxy.mend()
		}
	}
	w.checkWorkers()
	w.subject.rest(w.t)
	took := time.Since(began)
	for _, k := range w.workers {
		k.stop()
	}
	m := w.subject.metrics()
	if err := stopped(w.subject); err != nil {
		w.t.Errorf("the loader ended with %v", err)
	}
	w.servers.healthy()
	w.subject.check(w, took)
	w.t.Logf("%d workers and %d servers were hit; restore %v; %d commits were fenced or got no answer",
		len(w.deaths), w.serverKills, &w.restores, w.refused.Load()+int64(m.Restores))
}

// takeovers measures the time from the loss of an owner to the first commit of the next
// one: the partition's first step that began after the loss.
func (w *world) takeovers(all []history) *durations {
	d := &durations{}
	nc, err := nats.Connect(strings.Join(w.servers.URLs(""), ","))
	if err != nil {
		w.t.Error(err)
		return d
	}
	defer nc.Close()
	js, err := natsjs.New(nc)
	if err != nil {
		w.t.Error(err)
		return d
	}
	ctx := soon(w.t)
	st, err := js.Stream(ctx, "ST_"+appName)
	if err != nil {
		w.t.Error(err)
		return d
	}
	for _, death := range w.deaths {
		for _, p := range death.partitions {
			steps := all[p].steps
			i := slices.IndexFunc(steps, func(s committed) bool { return s.at > death.at.UnixNano() })
			if i < 0 {
				continue
			}
			m, err := st.GetMsg(ctx, steps[i].fence)
			if err != nil {
				w.t.Error(err)
				return d
			}
			d.add(m.Time.Sub(death.at))
		}
	}
	if slices.ContainsFunc(w.deaths, func(d death) bool { return len(d.partitions) > 0 }) && len(d.all) == 0 {
		w.t.Error("owners were lost and nobody took over")
	}
	return d
}
