package runtime

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// An offer is what the tool servers had for a session when it began. It is never changed.
type offer struct {
	sets     []*toolset // for each server, nil for one that has nothing to offer
	tools    []Tool     // in the order of the configuration
	byName   map[string]*Tool
	problems []Problem
}

// offers are those of the sessions that were used last.
type offers struct {
	mu    sync.Mutex
	known map[string]*list.Element
	order list.List // of *offering, the one that was used last in front
	max   int
	last  *offer // without problems; most sessions share it
}

// An offering is the offer of one session, or will be.
type offering struct {
	id    string        // the session
	ready chan struct{} // closed when offer is set
	offer *offer
}

func newOffers(most int) *offers {
	return &offers{known: map[string]*list.Element{}, max: most}
}

// get returns what a session is offered, and whether it is new: then the caller finds its offer.
func (s *offers) get(id string) (*offering, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.known[id]; e != nil {
		s.order.MoveToFront(e)
		return e.Value.(*offering), false
	}
	for s.order.Len() >= s.max {
		oldest := s.order.Back()
		delete(s.known, oldest.Value.(*offering).id)
		s.order.Remove(oldest)
	}
	found := &offering{id: id, ready: make(chan struct{})}
	s.known[id] = s.order.PushFront(found)
	return found, true
}

// share returns an offer of the same toolsets if there is one at hand.
func (s *offers) share(o *offer) *offer {
	if len(o.problems) > 0 {
		return o
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil || !slices.Equal(s.last.sets, o.sets) {
		s.last = o
	}
	return s.last
}

// offerOf returns what a session is offered. The first to ask has it found out, and all
// who ask meanwhile wait for that.
func (rt *Runtime) offerOf(ctx context.Context, id string) (*offer, error) {
	s, isNew := rt.offers.get(id)
	if isNew {
		go func() { // which ends with rt.ctx
			defer close(s.ready)
			s.offer = rt.discover(rt.ctx, rt.ctx)
		}()
	}
	select {
	case <-s.ready:
		return s.offer, nil
	default:
	}
	select {
	case <-s.ready:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-rt.ctx.Done():
	}
	if rt.ctx.Err() != nil { // perhaps that is why nothing was found
		return nil, ErrStopped
	}
	return s.offer, nil
}

// Tools returns the tools that were on offer when the runtime started, in the order of
// the configuration. Each session has its own, see [Runtime.ToolsOf].
func (rt *Runtime) Tools() []Tool { return slices.Clone(rt.atStart.tools) }

// Problems returns why toolsets or tools were not on offer when the runtime started.
func (rt *Runtime) Problems() []Problem { return slices.Clone(rt.atStart.problems) }

// ToolsOf returns the tools that a session is offered, in the order of the
// configuration, and why others are not. A session is named by its root thread.
//
// A session that is new has all manifests fetched and keeps them for its life, so that a
// conversation does not see its tools change; a manifest that cannot be fetched is
// replaced by the last good one of its server. That takes no longer than
// [Timeouts].Discovery, and a tenth of it for servers that were silent the last time.
// [Bounds].Sessions is how many sessions are remembered: the one that was not used for
// the longest time is new again after that, and so are all after a restart. The error is
// that of ctx, or [ErrStopped]. Source: protocol part 1.3.
func (rt *Runtime) ToolsOf(ctx context.Context, session string) ([]Tool, []Problem, error) {
	if err := checkID("session", session); err != nil {
		return nil, nil, err
	}
	o, err := rt.offerOf(ctx, session)
	if err != nil {
		return nil, nil, err
	}
	return slices.Clone(o.tools), slices.Clone(o.problems), nil
}

// discover asks all servers at once and decides what is offered. Fetches that it begins
// go on until life ends, for others who wait for them.
func (rt *Runtime) discover(ctx, life context.Context) *offer {
	sets, errs := make([]*toolset, len(rt.servers)), make([]error, len(rt.servers))
	var wg sync.WaitGroup
	for i, s := range rt.servers {
		wg.Go(func() { sets[i], errs[i] = rt.toolsetOf(ctx, life, s) })
	}
	wg.Wait()
	return rt.offers.share(rt.compose(sets, errs))
}

// compose decides what is offered: a name that two toolsets have is offered by neither.
func (rt *Runtime) compose(sets []*toolset, errs []error) *offer {
	o := &offer{sets: sets, byName: map[string]*Tool{}}
	offeredBy := map[string]int{}
	for _, set := range sets {
		if set != nil {
			for i := range set.tools {
				offeredBy[set.tools[i].Name]++
			}
		}
	}
	for i, set := range sets {
		if set == nil {
			o.problems = append(o.problems, Problem{Toolset: rt.servers[i].base, Err: errs[i]})
			continue
		}
		for j := range set.tools {
			t := &set.tools[j]
			if offeredBy[t.Name] > 1 {
				o.problems = append(o.problems, Problem{Toolset: t.Server, Tool: t.Name, Err: errShared})
				continue
			}
			o.tools = append(o.tools, *t)
			o.byName[t.Name] = t
		}
	}
	for _, p := range o.problems {
		rt.log.Warn("toolset problem", "problem", p.Error())
	}
	return o
}

var errShared = errors.New("another toolset has a tool of this name; neither is offered")

// A flight is a fetch of a manifest for all who want it.
type flight struct {
	done chan struct{} // closed when the rest is set
	set  *toolset
	err  error
}

// toolsetOf returns the toolset of a server, as fresh as can be had.
func (rt *Runtime) toolsetOf(ctx, life context.Context, s *server) (*toolset, error) {
	f, silent := rt.join(life, s)
	var enough <-chan time.Time
	if silent { // it gets its time still, but nobody waits for all of it
		timer := time.NewTimer(rt.opts.Timeouts.Discovery / 10)
		defer timer.Stop()
		enough = timer.C
	}
	var set *toolset
	var err error
	select {
	case <-f.done:
		set, err = f.set, f.err
	case <-enough:
		err = errSilent
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if last := s.lastGood(); errors.Is(err, errNotFetched) && last != nil {
		rt.log.Warn("the last good manifest is used", "toolset", s.base, "error", err)
		return last, nil
	}
	return set, err
}

var errSilent = fmt.Errorf("%w: no answer in time, nor to the request before", errNotFetched)

// freshOf returns the toolset of a server as it says now, or why it does not.
func (rt *Runtime) freshOf(ctx context.Context, s *server) (*toolset, error) {
	f, _ := rt.join(rt.ctx, s)
	select {
	case <-f.done:
		return f.set, f.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// join returns the fetch that is under way, or one that it begins, and whether the
// server was silent before.
func (rt *Runtime) join(life context.Context, s *server) (*flight, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flight == nil {
		f := &flight{done: make(chan struct{})}
		s.flight = f
		go func() { // which ends with life, or when the server has had its time
			set, err := rt.load(life, s)
			s.land(f, set, err)
		}()
	}
	return s.flight, s.silent
}

// land ends a flight.
func (s *server) land(f *flight, set *toolset, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.set, f.err = set, err
	s.flight, s.silent = nil, errors.Is(err, context.DeadlineExceeded)
	if set != nil {
		s.last = set
	}
	close(f.done)
}

// lastGood returns the last good toolset of the server, or nil.
func (s *server) lastGood() *toolset {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}
