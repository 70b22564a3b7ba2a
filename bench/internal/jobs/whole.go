package jobs

import (
	"cmp"
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/dataflow"
)

// A wholeRuntime does by hand what the program does, with the same guarantees: exactly
// one resolution for each call in any race, detours with their own timeouts, the
// closing of threads, a limited number of concurrent dispatches outside the locks, and
// every effect in a queue, in order for each call and before the resolution can be
// awaited.
//
// Calls are sharded by thread, so that closing a thread needs one lock. A call has one
// timer, for its lifetime or the current detour. Unlike the program, it cannot be
// tried in every order, and a call cannot be awaited before it is put.
type wholeRuntime struct {
	seed     maphash.Seed
	shards   [64]wholeShard
	slots    chan struct{} // limits the concurrent dispatches
	dispatch agentproto.Dispatch
	effects  chan agentproto.Effect
	posting  sync.WaitGroup
	drained  chan struct{}
}

type wholeShard struct {
	mu      sync.Mutex
	calls   map[agentproto.CallKey]*wholeCall
	threads map[string]*wholeThread
	_       [40]byte // one cache line each
}

type wholeThread struct {
	closed bool
	calls  []*wholeCall // to be resolved when the thread is closed; nil after that
}

// A wholeCall is guarded by the mutex of its shard.
type wholeCall struct {
	key        agentproto.CallKey
	call       *agentproto.Call // nil when it is resolved
	state      agentproto.State
	detours    uint8
	opened     agentproto.Event // the open detour
	timer      *time.Timer
	armed      int // how often the timer was set: a replaced timer may still fire
	resolution agentproto.Resolution
	done       chan struct{}
}

const maxDetours = 5

func newWholeRuntime(dispatch agentproto.Dispatch, perform func(agentproto.Effect)) *wholeRuntime {
	rt := &wholeRuntime{
		seed: maphash.MakeSeed(), slots: make(chan struct{}, 256), dispatch: dispatch,
		effects: make(chan agentproto.Effect, 1024), drained: make(chan struct{}),
	}
	for i := range rt.shards {
		rt.shards[i].calls = make(map[agentproto.CallKey]*wholeCall)
		rt.shards[i].threads = make(map[string]*wholeThread)
	}
	go func() {
		defer close(rt.drained)
		for e := range rt.effects {
			perform(e)
		}
	}()
	return rt
}

func (rt *wholeRuntime) shard(thread string) *wholeShard {
	return &rt.shards[maphash.String(rt.seed, thread)%uint64(len(rt.shards))]
}

// thread returns the thread with a name. The caller holds mu.
func (s *wholeShard) thread(name string) *wholeThread {
	t := s.threads[name]
	if t == nil {
		t = new(wholeThread)
		s.threads[name] = t
	}
	return t
}

func (rt *wholeRuntime) Call(call *agentproto.Call) error {
	s := rt.shard(call.Key.GroupID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls[call.Key] != nil {
		return dataflow.ErrDuplicateKey
	}
	c := &wholeCall{key: call.Key, call: call, done: make(chan struct{})}
	s.calls[call.Key] = c
	t := s.thread(call.Key.GroupID)
	if call.Rejected != "" {
		rt.fail(c, agentproto.ByRejection, call.Rejected)
		return nil
	}
	if t.closed {
		rt.fail(c, agentproto.ByClosure, "the thread was closed")
	} else {
		t.calls = append(t.calls, c)
		rt.arm(s, c, cmp.Or(call.Lifetime, agentproto.DefaultLifetime))
	}
	rt.posting.Add(1)
	go rt.post(s, c, call)
	return nil
}

func (rt *wholeRuntime) post(s *wholeShard, c *wholeCall, call *agentproto.Call) {
	defer rt.posting.Done()
	rt.slots <- struct{}{}
	outcome := rt.dispatch(background, call)
	<-rt.slots
	if outcome.Accepted {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.state == agentproto.Completed {
		return
	}
	rt.fail(c, agentproto.ByDispatch, outcome.Reason)
	if outcome.Ambiguous {
		rt.emit(agentproto.Effect{Kind: agentproto.CancelCall, Key: c.key, State: c.state})
	}
}

// arm sets the timer of a call, and replaces the previous one.
func (rt *wholeRuntime) arm(s *wholeShard, c *wholeCall, d time.Duration) {
	if c.timer != nil {
		c.timer.Stop()
	}
	c.armed++
	armed := c.armed
	c.timer = time.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if c.state != agentproto.Completed && c.armed == armed {
			rt.expired(s, c)
		}
	})
}

func (rt *wholeRuntime) expired(s *wholeShard, c *wholeCall) {
	switch c.state {
	case agentproto.ChoicePending:
		rt.emit(agentproto.Effect{Kind: agentproto.Withdraw, Key: c.key, State: c.state, Detour: c.detour()})
		rt.answered(s, c, c.opened.Choice.Default, c.opened.Lifetime)
		return
	case agentproto.OAuthPending:
		rt.fail(c, agentproto.ByTimeout, "the user did not authorize the tool in time")
	default:
		rt.fail(c, agentproto.ByTimeout, "the tool did not answer in time")
	}
	rt.emit(agentproto.Effect{Kind: agentproto.CancelCall, Key: c.key, State: c.state})
}

func (rt *wholeRuntime) Deliver(k agentproto.CallKey, e agentproto.Event) {
	s := rt.shard(k.GroupID)
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.calls[k]
	if c == nil || c.state == agentproto.Completed {
		rt.late(k, c, e.Kind)
		return
	}
	switch e.Kind {
	case agentproto.ResultArrived:
		rt.resolve(c, agentproto.ByResult, e.Result)
	case agentproto.OAuthArrived:
		rt.detourTo(s, c, agentproto.OAuthPending, e, e.OAuth.AuthURL, cmp.Or(e.Timeout, agentproto.DefaultOAuthTimeout))
	case agentproto.ChoiceArrived:
		rt.detourTo(s, c, agentproto.ChoicePending, e, e.Choice.ResponseURL, cmp.Or(e.Timeout, agentproto.DefaultChoiceTimeout))
	case agentproto.ChoiceAnswered:
		if c.state != agentproto.ChoicePending || c.detour() != e.Detour || e.Selected < 0 || e.Selected >= len(c.opened.Choice.Choices) {
			rt.emit(agentproto.Effect{Kind: agentproto.Drop, Key: k, State: c.state, Dropped: agentproto.Repeated, Event: e.Kind})
			return
		}
		rt.answered(s, c, e.Selected, e.Lifetime)
	case agentproto.AnswerFailed:
		rt.fail(c, agentproto.ByAnswerFailed, "the user's choice could not be delivered to the tool server: "+e.Reason)
	case agentproto.Malformed:
		rt.fail(c, agentproto.ByMalformed, "the tool server sent a malformed result: "+e.Reason)
	case agentproto.Interrupted:
		rt.fail(c, agentproto.ByInterruption, "Tool call interrupted by user")
		rt.emit(agentproto.Effect{Kind: agentproto.CancelCall, Key: k, State: c.state})
	}
}

func (rt *wholeRuntime) late(k agentproto.CallKey, c *wholeCall, kind agentproto.EventKind) {
	e := agentproto.Effect{Kind: agentproto.Drop, Key: k, Dropped: agentproto.Late, Event: kind}
	if c != nil {
		e.State = c.state
		if kind == agentproto.ResultArrived && c.resolution.Cause == agentproto.ByResult {
			e.Dropped = agentproto.Duplicate
		}
	}
	rt.emit(e)
}

// detour returns the name of the open detour, or "".
func (c *wholeCall) detour() string {
	switch c.state {
	case agentproto.OAuthPending:
		return c.opened.OAuth.AuthURL
	case agentproto.ChoicePending:
		return c.opened.Choice.ResponseURL
	}
	return ""
}

func (rt *wholeRuntime) detourTo(s *wholeShard, c *wholeCall, state agentproto.State, e agentproto.Event, id string, timeout time.Duration) {
	if c.detour() == id {
		rt.emit(agentproto.Effect{Kind: agentproto.Drop, Key: c.key, State: c.state, Dropped: agentproto.Repeated, Event: e.Kind})
		return
	}
	if c.detours++; c.detours > maxDetours {
		rt.fail(c, agentproto.ByMalformed, "the tool server asked the user for more than 5 detours")
		rt.emit(agentproto.Effect{Kind: agentproto.CancelCall, Key: c.key, State: c.state})
		return
	}
	rt.withdraw(c)
	c.state, c.opened = state, e
	kind := agentproto.SurfaceOAuth
	if state == agentproto.ChoicePending {
		kind = agentproto.PromptChoice
	}
	rt.emit(agentproto.Effect{Kind: kind, Key: c.key, State: state, OAuth: e.OAuth, Choice: e.Choice, Detour: id})
	rt.arm(s, c, timeout)
}

// answered sends a choice to the tool. The call has a lifetime again.
func (rt *wholeRuntime) answered(s *wholeShard, c *wholeCall, selected int, lifetime time.Duration) {
	e := agentproto.Effect{Kind: agentproto.AnswerChoice, Key: c.key, Choice: c.opened.Choice, Detour: c.detour(), Selected: selected}
	c.state, c.opened = agentproto.Pending, agentproto.Event{}
	rt.emit(e)
	rt.arm(s, c, cmp.Or(lifetime, agentproto.DefaultLifetime))
}

func (rt *wholeRuntime) withdraw(c *wholeCall) {
	if id := c.detour(); id != "" {
		rt.emit(agentproto.Effect{Kind: agentproto.Withdraw, Key: c.key, State: c.state, Detour: id})
		c.opened = agentproto.Event{}
	}
}

func (rt *wholeRuntime) fail(c *wholeCall, cause agentproto.Cause, text string) {
	rt.resolve(c, cause, agentproto.ErrorResult(c.key, c.call.Invocation.CallID, "%s", text))
}

// resolve gives a pending call its one resolution.
func (rt *wholeRuntime) resolve(c *wholeCall, cause agentproto.Cause, result *agentproto.ToolResult) {
	rt.withdraw(c)
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	c.call, c.state = nil, agentproto.Completed
	c.resolution = agentproto.Resolution{Key: c.key, Cause: cause, Result: result}
	rt.emit(agentproto.Effect{Kind: agentproto.Resolve, Key: c.key, State: c.state, Resolution: &c.resolution})
	close(c.done)
}

// emit queues an effect. It waits while the queue is full.
func (rt *wholeRuntime) emit(e agentproto.Effect) { rt.effects <- e }

func (rt *wholeRuntime) CloseThread(name string) {
	s := rt.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.thread(name)
	for _, c := range t.calls {
		if c.state != agentproto.Completed {
			rt.fail(c, agentproto.ByClosure, "the thread was closed")
		}
	}
	t.calls, t.closed = nil, true
}

// Await waits for the resolution of a call that was put.
func (rt *wholeRuntime) Await(ctx context.Context, k agentproto.CallKey) (*agentproto.Resolution, error) {
	s := rt.shard(k.GroupID)
	s.mu.Lock()
	c := s.calls[k]
	resolved := c.state == agentproto.Completed
	s.mu.Unlock()
	if resolved {
		return &c.resolution, nil
	}
	select {
	case <-c.done:
		return &c.resolution, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Stop waits for the dispatches and the effects. Nothing may be put or delivered after
// that.
func (rt *wholeRuntime) Stop() {
	rt.posting.Wait()
	for i := range rt.shards {
		s := &rt.shards[i]
		s.mu.Lock()
		for _, c := range s.calls {
			if c.timer != nil {
				c.timer.Stop()
				c.armed++
			}
		}
		s.mu.Unlock()
	}
	close(rt.effects)
	<-rt.drained
}

// wholeCore adapts a wholeRuntime to the job.
type wholeCore struct{ rt *wholeRuntime }

func newWholeCore() protocolCore {
	return wholeCore{newWholeRuntime(accept, func(agentproto.Effect) {})}
}

func (w wholeCore) put(c *agentproto.Call)                           { must(w.rt.Call(c)) }
func (w wholeCore) deliver(k agentproto.CallKey, e agentproto.Event) { w.rt.Deliver(k, e) }
func (w wholeCore) stop()                                            { w.rt.Stop() }

func (w wholeCore) await(k agentproto.CallKey) *agentproto.Resolution {
	r, err := w.rt.Await(background, k)
	must(err)
	return r
}
