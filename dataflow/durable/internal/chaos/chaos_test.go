package chaos

import (
	"context"
	"io"
	"log/slog"
	"syscall"
	"testing"
	"time"
)

func logTo(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// A scenario injects a fault again and again. The function fault returns when the fault
// is healed, or leaves the healing to the end of the scenario.
type scenario struct {
	name    string
	brief   bool // runs in the short run too
	owning  bool // the test process owns partitions too
	proxied bool
	slow    bool
	bank    bool // the flow is a bank over several locations instead of the vote
	lease   time.Duration
	every   [2]time.Duration // between two faults
	fault   func(ctx context.Context, w *world)
}

func scenarios() []scenario {
	const s = time.Second
	return []scenario{
		{name: "workers", lease: 3 * s, every: [2]time.Duration{2 * s, 5 * s}, fault: killWorker},
		{name: "servers", lease: 3 * s, every: [2]time.Duration{2 * s, 5 * s}, fault: killServer},
		{name: "both", brief: true, owning: true, lease: 3 * s, every: [2]time.Duration{s, 4 * s}, fault: killEither},
		{name: "zombies", brief: true, slow: true, lease: s, every: [2]time.Duration{s, 2 * s}, fault: stopWorker},
		{name: "blackout", owning: true, lease: 2 * s, every: [2]time.Duration{2 * s, 4 * s}, fault: killServers},
		{name: "partition", owning: true, proxied: true, lease: 2 * s, every: [2]time.Duration{s, 3 * s}, fault: cutWorker},
	}
}

// banks returns the scenarios for the flow with several locations.
func banks() []scenario {
	const s = time.Second
	return []scenario{
		{name: "bank", bank: true, brief: true, owning: true, lease: 3 * s, every: [2]time.Duration{s, 4 * s}, fault: killEither},
		{name: "bank zombies", bank: true, owning: true, slow: true, lease: s, every: [2]time.Duration{s, 2 * s}, fault: stopWorker},
		{name: "bank blackout", bank: true, owning: true, lease: 2 * s, every: [2]time.Duration{2 * s, 4 * s}, fault: killServers},
		{name: "bank partition", bank: true, owning: true, proxied: true, lease: 2 * s, every: [2]time.Duration{s, 3 * s}, fault: cutWorker},
	}
}

// TestChaos runs three workers on three servers with three replicas, injects the faults
// of each scenario, and verifies the results.
func TestChaos(t *testing.T) {
	for _, sc := range append(scenarios(), banks()...) {
		t.Run(sc.name, func(t *testing.T) {
			if !sc.brief && !*all {
				t.Skip("a part of the long run: -chaos.all -chaos.duration 60s")
			}
			t.Parallel()
			w := newWorld(t, &sc)
			ctx, cancel := context.WithTimeout(context.Background(), *duration)
			defer cancel()
			began := time.Now()
			for pass(ctx, between(w.rng, sc.every[0], sc.every[1])) {
				w.checkWorkers()
				sc.fault(ctx, w)
			}
			w.finish(began)
			if len(w.deaths)+w.serverKills == 0 {
				t.Error("nothing was broken")
			}
		})
	}
}

// killWorker kills a worker and restarts it a little later.
func killWorker(ctx context.Context, w *world) {
	k := w.workers[w.rng.IntN(len(w.workers))]
	w.lost(k)
	k.kill()
	pass(ctx, between(w.rng, 0, time.Second))
	k.start()
}

// killServer kills one server. A majority remains.
func killServer(ctx context.Context, w *world) {
	nd := w.servers.Nodes[w.rng.IntN(len(w.servers.Nodes))]
	w.servers.Kill(nd)
	w.serverKills++
	pass(ctx, between(w.rng, 0, time.Second))
	w.servers.Start(nd)
	w.servers.healthy() // otherwise the next kill could take the majority
}

func killEither(ctx context.Context, w *world) {
	switch w.rng.IntN(3) {
	case 0:
		killWorker(ctx, w)
	case 1:
		killServer(ctx, w)
	default:
		nd := w.servers.Nodes[w.rng.IntN(len(w.servers.Nodes))]
		w.servers.Kill(nd)
		w.serverKills++
		killWorker(ctx, w)
		w.servers.Start(nd)
		w.servers.healthy()
	}
}

// killServers kills all servers at once, as a power failure does.
func killServers(ctx context.Context, w *world) {
	w.servers.KillAll()
	w.serverKills += len(w.servers.Nodes)
	pass(ctx, between(w.rng, 0, 4*time.Second))
	for _, nd := range w.servers.Nodes {
		w.servers.Start(nd)
	}
	w.progress(callers)
}

// stopWorker stops a worker for longer than its lease, in the middle of whatever it does.
// The worker then continues as a zombie that does not know that it lost its lease.
func stopWorker(_ context.Context, w *world) {
	k := w.workers[w.rng.IntN(len(w.workers))]
	w.lost(k)
	k.signal(syscall.SIGSTOP)
	pass(context.Background(), w.lease+between(w.rng, w.lease/4, w.lease))
	k.signal(syscall.SIGCONT)
}

// cutWorker cuts a worker off from all servers, for a time that may be shorter or longer
// than its lease.
func cutWorker(_ context.Context, w *world) {
	k := w.workers[w.rng.IntN(len(w.workers))]
	w.lost(k)
	k.proxy.cut()
	pass(context.Background(), between(w.rng, w.lease/2, 3*w.lease))
	k.proxy.mend()
}
