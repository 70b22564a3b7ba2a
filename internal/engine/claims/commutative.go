package claims

import (
	"github.com/millrace/millrace/internal/digest"
	"github.com/millrace/millrace/internal/engine"
)

const orderless = "the order does not matter"

// Commutative returns a step that checks that its result does not depend on the order of values. It compares f(f(s, a), b) with
// f(f(s, b), a) for each value b that comes and each of the last [Most] values a that have led to the present state, where s is
// the state before a.
//
// All of it works on copies, so a step may change its state in place. For each value it costs up to four times Most calls of the
// step, and as many copies of the state.
func Commutative[A, T any](op *engine.Op, step func(*A, T)) func(*A, T) {
	w := watcher(op)
	if w == nil {
		return step
	}
	return newCommutes(op, w, step).step
}

// Sessions is Commutative for a step with a function that merges two states: merging must have the same result as the steps that
// made the other state.
func Sessions[A, T any](op *engine.Op, init func() A, step func(*A, T), merge func(*A, A)) (func(*A, T), func(*A, A)) {
	w := watcher(op)
	if w == nil {
		return step, merge
	}
	c := newCommutes(op, w, step)
	return c.step, func(into *A, other A) { c.merged(into, other, init, merge) }
}

// commutes checks the step of one operator.
type commutes[A, T any] struct {
	*copier[A, T]
	f     func(*A, T)
	equal func(a, b A) bool
	all   map[any][]application[A, T] // by key, the last ones
}

// An application is a call of a step that was made.
type application[A, T any] struct {
	before   A // a copy
	x        T // a copy
	from, to uint64
}

func newCommutes[A, T any](op *engine.Op, w Watcher, f func(*A, T)) *commutes[A, T] {
	return &commutes[A, T]{newCopier[A, T](op, w), f, equality[A](), make(map[any][]application[A, T])}
}

// step checks a step and makes it.
func (c *commutes[A, T]) step(acc *A, x T) {
	s, own, ok := c.pair(*acc, x)
	if !ok {
		c.f(acc, x)
		return
	}
	from, k := digest.Of(s), key(c.op)
	c.past(k, from, func(p *application[A, T]) { c.diamond(p, own) })
	c.f(acc, x)
	c.keep(k, application[A, T]{s, own, from, digest.Of(*acc)})
}

// keep adds an application, dropping the oldest one if there are too many.
func (c *commutes[A, T]) keep(k any, p application[A, T]) {
	all := c.all[k]
	if len(all) == Most {
		all = append(all[:0], all[1:]...)
	}
	c.all[k] = append(all, p)
}

// past calls f with the applications that have led to the state with a digest, the last one first, and returns the digest of the
// state before them. States are identified by digests and not by address, since tables move them, and a key may have several.
func (c *commutes[A, T]) past(k any, state uint64, f func(*application[A, T])) uint64 {
	all := c.all[k]
	for i := len(all) - 1; i >= 0; i-- {
		if p := &all[i]; p.to == state {
			f(p)
			state = p.from
		}
	}
	return state
}

// diamond compares both orders of x and the value of p, from the state before p.
func (c *commutes[A, T]) diamond(p *application[A, T], x T) {
	one, other := c.after(p.before, p.x, x), c.after(p.before, x, p.x)
	if c.same(one, other) {
		return
	}
	panic(c.watch.Broken(Broken{c.op, orderless, p.before, p.x, x, one, other}))
}

// after returns the state after the values.
func (c *commutes[A, T]) after(s A, xs ...T) any {
	return try(func() any {
		acc, _, ok := c.pair(s, *new(T))
		if !ok {
			return unknown{}
		}
		for _, x := range xs {
			own, err := c.values(x)
			if err != nil {
				return unknown{}
			}
			c.f(&acc, own)
		}
		return acc
	})
}

// unknown replaces a result that cannot be determined.
type unknown struct{}

// same reports whether two results of after are the same, or one of them is unknown.
func (c *commutes[A, T]) same(one, other any) bool {
	if one == (any)(unknown{}) || other == (any)(unknown{}) {
		return true
	}
	_, fails := one.(panicked)
	_, failsToo := other.(panicked)
	if fails || failsToo {
		return fails && failsToo
	}
	a, _ := one.(A)
	b, _ := other.(A)
	return c.equal(a, b)
}

// merged merges two states. Before that, if the values of the other state are known, it checks that the result is as if they had
// come one by one.
func (c *commutes[A, T]) merged(into *A, other A, init func() A, merge func(*A, A)) {
	s, _, ok := c.pair(*into, *new(T))
	theirs, err := c.states(other)
	if !ok || err != nil {
		merge(into, other)
		return
	}
	var xs []T
	begin := c.past(key(c.op), digest.Of(theirs), func(p *application[A, T]) { xs = append([]T{p.x}, xs...) })
	if begin == digest.Of(init()) && len(xs) > 0 {
		one := c.after(s, xs...)
		merged := try(func() any {
			acc, err := c.states(s)
			own, wrong := c.states(theirs)
			if err != nil || wrong != nil {
				return unknown{}
			}
			merge(&acc, own)
			return acc
		})
		if !c.same(one, merged) {
			panic(c.watch.Broken(Broken{c.op, "merging is like the steps of the other session", s, xs, theirs, one, merged}))
		}
	}
	merge(into, other)
}

// equality returns a function that compares states by their method Equal, or by their content.
func equality[A any]() func(a, b A) bool {
	if _, ok := any(*new(A)).(interface{ Equal(A) bool }); ok {
		return func(a, b A) bool { return any(a).(interface{ Equal(A) bool }).Equal(b) }
	}
	return func(a, b A) bool { return digest.Of(a) == digest.Of(b) }
}
