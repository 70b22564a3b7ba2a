package discovery

import (
	"container/list"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/millrace/millrace/agentproto/host/internal/peer"
)

// An Offer is what the tool servers offer to a session, as far as they could be asked. It is immutable: when another server
// answers, a new offer replaces it.
type Offer struct {
	sets     []*toolset // for each server; nil if it could not be asked or its manifest is invalid
	errs     []error    // why a set is nil
	Tools    []Tool     // in the order of the configuration
	byName   map[string]*Tool
	Problems []Problem
}

// offers holds the offers of the most recently used sessions.
type offers struct {
	mu    sync.Mutex
	known map[string]*list.Element
	order list.List // of *sessionOffer, the most recently used in front
	max   int
	last  *Offer // the last one without problems; most sessions share it
}

// A sessionOffer is the offer of one session.
type sessionOffer struct {
	id string // the session

	mu     sync.Mutex
	offer  *Offer        // nil until the servers were asked for the first time
	asking chan struct{} // closed when the servers being asked have answered; nil if none is being asked
}

func newOffers(most int) *offers {
	return &offers{known: map[string]*list.Element{}, max: most}
}

// get returns the offer of a session, which it makes if necessary.
func (s *offers) get(id string) *sessionOffer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.known[id]; e != nil {
		s.order.MoveToFront(e)
		return e.Value.(*sessionOffer)
	}
	for s.order.Len() >= s.max {
		oldest := s.order.Back()
		delete(s.known, oldest.Value.(*sessionOffer).id)
		s.order.Remove(oldest)
	}
	found := &sessionOffer{id: id}
	s.known[id] = s.order.PushFront(found)
	return found
}

// Remembered returns the number of sessions whose offers are remembered.
func (c *Catalog) Remembered() int {
	c.offers.mu.Lock()
	defer c.offers.mu.Unlock()
	return c.offers.order.Len()
}

// Forget drops the valid manifests, as a restart does.
func (c *Catalog) Forget() {
	for _, s := range c.sources {
		s.mu.Lock()
		s.last = nil
		s.mu.Unlock()
	}
}

// share returns the last offer if it has the same toolsets, otherwise o.
func (s *offers) share(o *Offer) *Offer {
	if len(o.Problems) > 0 {
		return o
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil || !slices.Equal(s.last.sets, o.sets) {
		s.last = o
	}
	return s.last
}

// OfferOf returns what a session is offered. Servers that could not be asked before are asked again, at most once a second: a
// failed fetch is not remembered, and a valid manifest is never replaced. Concurrent callers wait for the same answers.
func (c *Catalog) OfferOf(ctx context.Context, id string) (*Offer, error) {
	s := c.offers.get(id)
	asking := s.ask(c)
	select {
	case <-asking:
	default:
		select {
		case <-asking:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-c.ctx.Done():
			return nil, peer.ErrStopped
		}
	}
	o := s.now()
	if c.ctx.Err() != nil && len(o.Problems) > 0 { // the end of ctx may be the reason for the problems
		return nil, peer.ErrStopped
	}
	return o, nil
}

// now returns the present offer of the session.
func (s *sessionOffer) now() *Offer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offer
}

// ask asks the servers whose manifests the session does not have. It returns a channel that is closed when they have answered.
func (s *sessionOffer) ask(c *Catalog) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.asking != nil:
		return s.asking
	case s.offer != nil && !c.mayAskAgain(s.offer):
		return closed
	}
	s.asking = make(chan struct{})
	go func(before *Offer) { // ends with c.ctx
		o := c.discover(c.ctx, c.ctx, before)
		s.mu.Lock()
		defer s.mu.Unlock()
		close(s.asking)
		s.offer, s.asking = o, nil
	}(s.offer)
	return s.asking
}

// closed is a closed channel, for nothing to wait for.
var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// discover asks the servers whose manifests a session does not have, all at once, and decides what is offered. Fetches that it
// starts go on until life ends, for others who wait for them. Before is the previous offer, or nil.
func (c *Catalog) discover(ctx, life context.Context, before *Offer) *Offer {
	sets, errs := make([]*toolset, len(c.sources)), make([]error, len(c.sources))
	var wg sync.WaitGroup
	for i, s := range c.sources {
		if before.has(i) {
			sets[i] = before.sets[i]
			continue
		}
		wg.Go(func() { sets[i], errs[i] = c.toolsetOf(ctx, life, s, before != nil) })
	}
	wg.Wait()
	return c.offers.share(c.compose(before, sets, errs))
}

// has reports whether an offer, which may be nil, has the toolset of a server.
func (o *Offer) has(server int) bool { return o != nil && o.sets[server] != nil }

// compose decides what is offered. A name that two toolsets have is offered by neither, but what a session was offered before
// does not change.
func (c *Catalog) compose(before *Offer, sets []*toolset, errs []error) *Offer {
	o := &Offer{sets: sets, errs: errs, byName: map[string]*Tool{}}
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
			c.report(o, before == nil, Problem{Toolset: c.sources[i].Base, Err: errs[i]})
			continue
		}
		isNew := !before.has(i)
		for j := range set.tools {
			t := &set.tools[j]
			switch {
			case !isNew && before.byName[t.Name] != t, isNew && offeredBy[t.Name] > 1:
				c.report(o, isNew, Problem{Toolset: t.Server.Base, Tool: t.Name, Err: errShared})
			case isNew && known[t.Name]:
				c.report(o, true, Problem{Toolset: t.Server.Base, Tool: t.Name, Err: errTaken})
			default:
				o.Tools = append(o.Tools, *t)
				o.byName[t.Name] = t
			}
		}
		if isNew && before != nil {
			c.Log.Info("tool server can be reached now", "toolset", c.sources[i].Base)
		}
	}
	return o
}

// report adds a problem to an offer, and logs it the first time.
func (c *Catalog) report(o *Offer, isNew bool, p Problem) {
	o.Problems = append(o.Problems, p)
	if isNew {
		c.Log.Warn("toolset problem", "problem", p.Error())
	}
}

var (
	errShared = errors.New("another toolset has a tool of this name; neither is offered")
	errTaken  = errors.New("the session had a tool of this name from another toolset before; this one is not offered")
)
