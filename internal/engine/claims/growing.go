package claims

import (
	"cmp"
	"reflect"

	"github.com/millrace/millrace/internal/engine"
)

const grows = "the value only grows"

// Growing returns a step that checks that it never makes its state smaller. States are compared by their method Compare or Cmp,
// or else with <, where false is less than true and a NaN is greater than everything. States of other types are not checked.
func Growing[A, T any](op *engine.Op, step func(*A, T)) func(*A, T) {
	w := watcher(op)
	if w == nil {
		return step
	}
	compare := order[A]()
	if compare == nil {
		w.Unchecked(op, "values of type "+typeName[A]()+" have no order")
		return step
	}
	c := newCopier[A, T](op, w)
	return func(acc *A, x T) {
		s, own, ok := c.pair(*acc, x)
		step(acc, x)
		if ok && compare(*acc, s) < 0 {
			panic(w.Broken(Broken{Op: op, Claim: grows, State: s, A: own, One: s, Other: *acc}))
		}
	}
}

// Monotone returns a function that checks that a larger value never has a smaller result. It compares each value with the last
// [Most] ones. If values have no order, they are checked only if ordered says that each value is at least the one before.
func Monotone[T, U any](op *engine.Op, f func(T) U, ordered bool) func(T) U {
	w := watcher(op)
	if w == nil {
		return f
	}
	values, results := order[T](), order[U]()
	if results == nil {
		w.Unchecked(op, "results of type "+typeName[U]()+" have no order")
		return f
	}
	if values == nil {
		if !ordered {
			w.Unchecked(op, "values of type "+typeName[T]()+" have no order")
			return f
		}
		values = func(a, b T) int { return 1 } // a came later
	}
	type call struct {
		x T
		u U
	}
	var last []call
	c := newCopier[U, T](op, w)
	return func(x T) U {
		_, own, ok := c.pair(*new(U), x)
		u := f(x)
		kept, _, same := c.pair(u, *new(T))
		if !ok || !same {
			return u
		}
		for _, p := range last {
			less, more := p, call{own, kept}
			if c := values(own, p.x); c < 0 || c == 0 && results(kept, p.u) > 0 {
				less, more = more, less
			}
			if results(more.u, less.u) < 0 {
				panic(w.Broken(Broken{Op: op, Claim: "a larger value has no smaller result", A: less.x, B: more.x, One: less.u, Other: more.u}))
			}
		}
		if len(last) == Most {
			last = append(last[:0], last[1:]...)
		}
		last = append(last, call{own, kept})
		return u
	}
}

// Distinct returns a comparison that checks that values which compare as equal have the same content.
func Distinct[T any](op *engine.Op, compare func(a, b T) int) func(a, b T) int {
	w := watcher(op)
	if w == nil {
		return compare
	}
	equal := equality[T]()
	return func(a, b T) int {
		c := compare(a, b)
		if c == 0 && !equal(a, b) {
			panic(w.Broken(Broken{Op: op, Claim: "values that compare as equal cannot be told apart", A: a, B: b}))
		}
		return c
	}
}

// order returns a function that compares values of a type, or nil if they have no order.
func order[T any]() func(a, b T) int {
	switch any(*new(T)).(type) {
	case interface{ Compare(T) int }:
		return func(a, b T) int { return any(a).(interface{ Compare(T) int }).Compare(b) }
	case interface{ Cmp(T) int }:
		return func(a, b T) int { return any(a).(interface{ Cmp(T) int }).Cmp(b) }
	}
	of := func(compare func(a, b reflect.Value) int) func(a, b T) int {
		return func(a, b T) int { return compare(reflect.ValueOf(a), reflect.ValueOf(b)) }
	}
	switch t := reflect.TypeFor[T](); {
	case t.Kind() == reflect.Bool:
		return of(func(a, b reflect.Value) int { return number(a.Bool()) - number(b.Bool()) })
	case t.Kind() == reflect.String:
		return of(func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
	case t.Kind() == reflect.Interface || t.Kind() == reflect.Pointer:
		return nil
	case reflect.Zero(t).CanInt():
		return of(func(a, b reflect.Value) int { return cmp.Compare(a.Int(), b.Int()) })
	case reflect.Zero(t).CanUint():
		return of(func(a, b reflect.Value) int { return cmp.Compare(a.Uint(), b.Uint()) })
	case reflect.Zero(t).CanFloat():
		return of(func(a, b reflect.Value) int { return compareFloats(a.Float(), b.Float()) })
	}
	return nil
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// compareFloats orders a NaN after all other values, as Max and Threshold do.
func compareFloats(a, b float64) int {
	if c := number(a != a) - number(b != b); c != 0 || a != a {
		return c
	}
	return cmp.Compare(a, b)
}
