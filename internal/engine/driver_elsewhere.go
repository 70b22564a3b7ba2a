package engine

import (
	"context"
	"time"
)

// elsewhereRun is what the drivers have in common of graphs whose locations this process
// does not run by itself. Nobody ever finds their run token free.
type elsewhereRun struct{}

func (elsewhereRun) prepare(*Graph) {}
func (elsewhereRun) start(*Site)    {}
func (elsewhereRun) retire(*Site)   {}
func (elsewhereRun) arm(*Site)      {}

func (elsewhereRun) perform(*Site, *Plan) bool {
	panic("millrace: internal error: a location was run that is run elsewhere: please report it")
}

func (elsewhereRun) settle(s *Site, _ int) bool {
	s.mu.Unlock()
	return true
}

func (elsewhereRun) handOver(s *Site) { s.mu.Unlock() }

func (elsewhereRun) wait(ctx context.Context, _ *Site, w *waiter) error { return w.wait(ctx) }

func (elsewhereRun) deliver(x delivery) { x.deliver() }

func (elsewhereRun) arrived(l *link) { l.to.mu.Unlock() }

func (elsewhereRun) ask(s *Site) <-chan struct{} {
	s.mu.Unlock()
	return nil
}

func (elsewhereRun) origin(*Site) time.Time { return time.Unix(0, 0) }

func (elsewhereRun) bounded() bool { return true }

func (elsewhereRun) ended(ctx context.Context, g *Graph) error { return g.endOrFail(ctx) }

// A facade is the driver of a graph that has only the ports of a flow that runs elsewhere.
type facade struct{ elsewhereRun }

func (facade) now(*Site) int64 {
	panic("millrace: internal error: a location that runs elsewhere has no time: please report it")
}

func (facade) admit(_ context.Context, in *door) (admission, error) {
	if in.shut.Load() {
		return refused, ErrClosed
	}
	return elsewhere, nil
}

// Facade makes an empty graph one that has only the ports of a flow that runs elsewhere.
func (g *Graph) Facade(codec Codec, remote Remote) {
	g.driver, g.set.Codec, g.set.Remote = facade{}, codec, remote
}
