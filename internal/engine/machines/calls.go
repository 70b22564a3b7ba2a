package machines

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/digest"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/port"
	"github.com/millrace/millrace/internal/engine/state"
)

// A CallKey uniquely identifies a call of a machine, forever.
type CallKey[K comparable] struct {
	Key    K
	Life   uint64
	Number uint32
}

// ErrorKey returns the key that errors show.
func (k CallKey[K]) ErrorKey() any { return k.Key }

// A Call is a request, with the identity of the call.
type Call[K comparable, Q any] struct {
	ID      CallKey[K]
	Request Q
}

// An Answer is the result of a call, with its request.
type Answer[Q, Z any] struct {
	Request Q
	Result  Z
}

// called is the state of a key of a machine that makes calls.
type called[S any] struct {
	state  S
	number uint64 // of the life
	calls  uint32 // requested so far
	open   uint32 // without an answer
}

// State returns a pointer to the state that the functions of the program use, for package lookup.
func (c *called[S]) State() any { return &c.state }

// A Caller is a machine that makes calls, without the function that makes them.
type Caller[K comparable, S, U, A, Q any] struct {
	*machine[K, called[S], U, A]
	numbers  *uint64 // number of lives so far
	requests *[]Q    // of the turn
	asked    *engine.KeyedNode[CallKey[K], Call[K, Q]]
	qs       engine.Columns[CallKey[K], Call[K, Q]]
	qb       engine.Batch[CallKey[K], Call[K, Q]]
	calls    *port.LifeCalls
}

// CallingMachine is [TimedMachine] with calls: the functions append requests to *requests. Answers determines how the calls are
// made.
func CallingMachine[K comparable, V, S, U, A, Q any](
	in *engine.KeyedNode[K, V], op *engine.Op, turn *Turn[K, U, A], requests *[]Q, init func() S, step func(*S, V), fire func(*S, uint8),
) *Caller[K, S, U, A, Q] {
	h := engine.Derived(op, in)
	c := &Caller[K, S, U, A, Q]{requests: requests, calls: port.NewLifeCalls(h.Loc)}
	begin := func() called[S] {
		*c.numbers++
		return called[S]{state: init(), number: *c.numbers}
	}
	c.machine = newTimed(in, op, turn, begin, calledCodec[S], func(s *called[S], id uint8) {
		fire(&s.state, id)
		c.ask(s)
	})
	c.numbers = state.NewVar(engine.Remember(op, &h), uint64(0))
	c.asked = engine.NewKeyedNode[CallKey[K], Call[K, Q]](h)
	op.Holds(&c.qs, requests)
	op.Scratch(&c.qb)
	c.ended = func(s *called[S]) {
		if s.open > 0 {
			c.calls.End(s.number, s.open)
		}
	}
	c.flushed = func() {
		if len(c.qs.K) > 0 {
			engine.PushEntries(c.asked, c.qs, &c.qb)
			engine.ClearEntries(&c.qs)
		}
	}
	takeValues(c.machine, in, func(s *called[S], v V) {
		step(&s.state, v)
		c.ask(s)
	})
	return c
}

// ask requests the calls that a function has appended.
func (c *Caller[K, S, U, A, Q]) ask(s *called[S]) {
	qs := *c.requests
	if len(qs) == 0 {
		return
	}
	if c.turn.forget {
		panic("Forget and Call in one turn: nobody could take the answer")
	}
	for _, q := range qs {
		s.calls++
		s.open++
		id := CallKey[K]{c.turn.key, s.number, s.calls}
		c.qs.K, c.qs.V = append(c.qs.K, id), append(c.qs.V, Call[K, Q]{id, q})
	}
	clear(qs)
	*c.requests = qs[:0]
}

// Answers makes the requests of a machine with call, at most limit at a time. Each call may take up to timeout, if that is not 0.
// answer is called with each result.
func Answers[K comparable, S, U, A, Q, Z any](
	c *Caller[K, S, U, A, Q], call func(context.Context, CallKey[K], Q) Z, answer func(*S, Q, Z), limit int, timeout time.Duration,
) (*engine.KeyedNode[K, U], *engine.KeyedNode[K, A]) {
	made := func(ctx context.Context, _ CallKey[K], x Call[K, Q]) Answer[Q, Z] {
		return Answer[Q, Z]{x.Request, port.CallOfLife(ctx, c.calls, x.ID.Life, x.ID.Number, func(ctx context.Context) Z {
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, timeout)
				defer cancel()
			}
			return call(ctx, x.ID, x.Request)
		})}
	}
	answers := port.CallForLives(c.calls, c.asked, c.op, made, limit, func(id CallKey[K]) (uint64, bool) {
		_, l := c.machine.lives.GetIndex(id.Key, c.hash.Hash(id.Key))
		return id.Life, l != nil && l.state.number == id.Life
	})
	one := func(id CallKey[K], z Answer[Q, Z], settle func(K, uint64, uint32, *life[called[S]])) {
		h := c.hash.Hash(id.Key)
		i, l := c.machine.lives.GetIndex(id.Key, h)
		if l == nil || l.state.number != id.Life {
			c.calls.Drop(id.Life)
			return
		}
		c.machine.lives.Change(i)
		l.state.open--
		c.turn.begin(id.Key)
		if c.watch != nil {
			c.observed(id.Key, digest.Of(fmt.Sprint("answer ", id.Number))+digest.Of(z.Result))
		}
		answer(&l.state.state, z.Request, z.Result)
		c.ask(&l.state)
		settle(id.Key, h, i, l)
	}
	batched, alone := c.settle, c.settleAlone
	answers.To(func(b *engine.Batch[CallKey[K], Answer[Q, Z]]) {
		c.loc.At = c.op.Index
		for i, id := range b.K {
			one(id, b.V[i], batched)
		}
		c.flush()
	}).One = func(id CallKey[K], z Answer[Q, Z], _ uint64) {
		c.loc.At = c.op.Index
		one(id, z, alone)
	}
	return c.emitted, c.decided
}
