package host

import (
	"container/list"
	"context"
	"errors"
	"slices"
	"sync"
)

// An offer is what the tool servers have for a session, as far as they could be asked. It
// is never changed: when another server can be asked, another offer takes its place.
type offer struct {
	sets     []*toolset // for each server; nil for one that could not be asked, or is invalid
	errs     []error    // why a set is nil
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

// An offering is the offer of one session.
type offering struct {
	id string // the session

	mu     sync.Mutex
	offer  *offer        // nil until the servers were asked for the first time
	asking chan struct{} // closed when the servers that are being asked have answered; nil if none is
}

func newOffers(most int) *offers {
	return &offers{known: map[string]*list.Element{}, max: most}
}

// get returns what a session is offered.
func (s *offers) get(id string) *offering {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.known[id]; e != nil {
		s.order.MoveToFront(e)
		return e.Value.(*offering)
	}
	for s.order.Len() >= s.max {
		oldest := s.order.Back()
		delete(s.known, oldest.Value.(*offering).id)
		s.order.Remove(oldest)
	}
	found := &offering{id: id}
	s.known[id] = s.order.PushFront(found)
	return found
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

// offerOf returns what a session is offered. The servers that could not be asked before are
// asked again, if that was a second ago: a failed manifest is not remembered, and one that
// was good is never replaced. Everybody who asks meanwhile waits for the same answers.
func (rt *Runtime) offerOf(ctx context.Context, id string) (*offer, error) {
	s := rt.offers.get(id)
	asking := s.ask(rt)
	select {
	case <-asking:
	default:
		select {
		case <-asking:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-rt.ctx.Done():
			return nil, ErrStopped
		}
	}
	o := s.now()
	if rt.ctx.Err() != nil && len(o.problems) > 0 { // perhaps that is why not all was found
		return nil, ErrStopped
	}
	return o, nil
}

// now returns the offer of the session as it is.
func (s *offering) now() *offer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offer
}

// ask has the servers asked whose manifests the session does not have. It returns what is
// closed when that is over.
func (s *offering) ask(rt *Runtime) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.asking != nil:
		return s.asking
	case s.offer != nil && !rt.mayAskAgain(s.offer):
		return closed
	}
	s.asking = make(chan struct{})
	go func(before *offer) { // which ends with rt.ctx
		o := rt.discover(rt.ctx, rt.ctx, before)
		s.mu.Lock()
		defer s.mu.Unlock()
		close(s.asking)
		s.offer, s.asking = o, nil
	}(s.offer)
	return s.asking
}

// closed is what need not be waited for.
var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

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
// Where there is no good manifest, the session has none of the server's tools for now: the
// manifest is fetched again the next time that the tools are asked for or a call names a
// tool that the session does not have, at most once a second.
// [Bounds].Sessions is how many sessions are remembered: the one that was not used for
// the longest time is new again after that, and so are all after a restart. The error is
// that of ctx, or [ErrStopped]. See doc/protocol.md §3.6.
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

// discover asks the servers whose manifests a session does not have, all at once, and
// decides what is offered. Fetches that it begins go on until life ends, for others who wait
// for them. Before is what was offered before, or nil.
func (rt *Runtime) discover(ctx, life context.Context, before *offer) *offer {
	sets, errs := make([]*toolset, len(rt.servers)), make([]error, len(rt.servers))
	var wg sync.WaitGroup
	for i, s := range rt.servers {
		if before.has(i) {
			sets[i] = before.sets[i]
			continue
		}
		wg.Go(func() { sets[i], errs[i] = rt.toolsetOf(ctx, life, s, before != nil) })
	}
	wg.Wait()
	return rt.offers.share(rt.compose(before, sets, errs))
}

// has reports whether an offer, which may be nil, has the toolset of a server.
func (o *offer) has(server int) bool { return o != nil && o.sets[server] != nil }

// compose decides what is offered: a name that two toolsets have is offered by neither,
// except that what a session was offered before stays as it is.
func (rt *Runtime) compose(before *offer, sets []*toolset, errs []error) *offer {
	o := &offer{sets: sets, errs: errs, byName: map[string]*Tool{}}
	known, offeredBy := map[string]bool{}, map[string]int{}
	for i, set := range sets {
		if set == nil {
			continue
		}
		for j := range set.tools {
			if name := set.tools[j].Name; before.has(i) {
				known[name] = true
			} else {
				offeredBy[name]++
			}
		}
	}
	for i, set := range sets {
		if set == nil {
			rt.report(o, before == nil, Problem{Toolset: rt.servers[i].base, Err: errs[i]})
			continue
		}
		isNew := !before.has(i)
		for j := range set.tools {
			t := &set.tools[j]
			switch {
			case !isNew && before.byName[t.Name] != t, isNew && offeredBy[t.Name] > 1:
				rt.report(o, isNew, Problem{Toolset: t.Server, Tool: t.Name, Err: errShared})
			case isNew && known[t.Name]:
				rt.report(o, true, Problem{Toolset: t.Server, Tool: t.Name, Err: errTaken})
			default:
				o.tools = append(o.tools, *t)
				o.byName[t.Name] = t
			}
		}
		if isNew && before != nil {
			rt.log.Info("tool server can be reached now", "toolset", rt.servers[i].base)
		}
	}
	return o
}

// report adds a problem to an offer, and logs it the first time.
func (rt *Runtime) report(o *offer, isNew bool, p Problem) {
	o.problems = append(o.problems, p)
	if isNew {
		rt.log.Warn("toolset problem", "problem", p.Error())
	}
}

var (
	errShared = errors.New("another toolset has a tool of this name; neither is offered")
	errTaken  = errors.New("the session had a tool of this name from another toolset before; this one is not offered")
)
