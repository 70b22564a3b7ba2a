package engine

import (
	"encoding/binary"

	"github.com/millrace/millrace/internal/cow"
)

// nothing is the form of the values of a set.
func nothing(*Op) form[struct{}] {
	return form[struct{}]{
		save: func(dst []byte, _ Codec, _ *struct{}) ([]byte, error) { return append(dst, 0), nil },
		load: func(d *decoder, _ Codec, _ *struct{}) { d.byte() },
	}
}

// earlyForm is the form of what FoldEarlyStop has of a key: the aggregate, until that is
// released.
func earlyForm[A any](op *Op) form[early[A]] {
	acc := plain[A](op)
	return form[early[A]]{
		kind: "early " + acc.kind,
		save: func(dst []byte, c Codec, x *early[A]) ([]byte, error) {
			if x.done {
				return append(dst, 1), nil
			}
			return acc.save(append(dst, 0), c, &x.acc)
		},
		load: func(d *decoder, c Codec, x *early[A]) {
			if x.done = d.byte() == 1; !x.done {
				acc.load(d, c, &x.acc)
			}
		},
	}
}

// decisionForm is the form of what ScanFirst has of a key.
func decisionForm[S any](op *Op) form[decision[S]] {
	state := plain[S](op)
	return form[decision[S]]{
		kind: "decision " + state.kind,
		save: func(dst []byte, c Codec, x *decision[S]) ([]byte, error) {
			var done byte
			if x.done {
				done = 1
			}
			return state.save(append(dst, done), c, &x.state)
		},
		load: func(d *decoder, c Codec, x *decision[S]) {
			x.done = d.byte() == 1
			state.load(d, c, &x.state)
		},
	}
}

// bothForm is the form of a key and a value that are one key.
func bothForm[K, V comparable](op *Op) form[both[K, V]] {
	k, v := plain[K](op), plain[V](op)
	return form[both[K, V]]{
		kind: "both " + k.kind + " " + v.kind,
		save: func(dst []byte, c Codec, x *both[K, V]) ([]byte, error) {
			dst, err := k.save(dst, c, &x.k)
			if err != nil {
				return dst, err
			}
			return v.save(dst, c, &x.v)
		},
		load: func(d *decoder, c Codec, x *both[K, V]) {
			k.load(d, c, &x.k)
			v.load(d, c, &x.v)
		},
	}
}

// crossingForm is the form of what KThreshold has of a key.
func crossingForm[V any](op *Op) form[crossing[V]] {
	v := plain[V](op)
	const valued, set, cross = 1, 2, 4
	return form[crossing[V]]{
		kind: "crossing " + v.kind,
		save: func(dst []byte, c Codec, x *crossing[V]) ([]byte, error) {
			var flags byte
			for bit, is := range map[byte]bool{valued: x.valued, set: x.set, cross: x.cross} {
				if is {
					flags |= bit
				}
			}
			return v.save(append(dst, flags), c, &x.x)
		},
		load: func(d *decoder, c Codec, x *crossing[V]) {
			flags := d.byte()
			x.valued, x.set, x.cross = flags&valued != 0, flags&set != 0, flags&cross != 0
			v.load(d, c, &x.x)
		},
	}
}

// An unreadState saves what nobody has read of an output.
type unreadState[T any] struct {
	out   *Outlet[T]
	value form[T]
}

func (s unreadState[T]) kind() string { return "unread(" + s.value.kind + ")" }

func (s unreadState[T]) save(dst []byte, c Codec) (_ []byte, err error) {
	dst = binary.AppendUvarint(dst, s.out.first)
	dst = binary.AppendUvarint(dst, uint64(len(s.out.buf)))
	for i := range s.out.buf {
		if dst, err = s.value.save(dst, c, &s.out.buf[i]); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func (s unreadState[T]) load(d *decoder, c Codec) {
	first := d.uint()
	var buf []T
	for range d.count() {
		var x T
		if s.value.load(d, c, &x); d.err == nil {
			buf = append(buf, x)
		}
	}
	if d.err == nil {
		s.out.first, s.out.buf = first, buf
	}
}

func (s unreadState[T]) describe(w *describer) {
	for i, x := range s.out.buf {
		w.entry("unread %d: %+v", s.out.first+uint64(i), x)
	}
}

// A viewState saves a map from which views are made, and what its cell has.
type viewState[K comparable, V any] struct {
	m     *cow.Map[K, V]
	set   func()
	key   form[K]
	value form[V]
}

func (s viewState[K, V]) kind() string { return "view(" + s.key.kind + "," + s.value.kind + ")" }

func (s viewState[K, V]) save(dst []byte, c Codec) (_ []byte, err error) {
	dst = binary.AppendUvarint(dst, uint64(s.m.Len()))
	for k, v := range s.m.View().All() {
		if dst, err = s.key.save(dst, c, &k); err == nil {
			dst, err = s.value.save(dst, c, &v)
		}
		if err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func (s viewState[K, V]) load(d *decoder, c Codec) {
	*s.m = *cow.NewMap[K, V]()
	for range d.count() {
		var k K
		var v V
		s.key.load(d, c, &k)
		if s.value.load(d, c, &v); d.err == nil {
			s.m.Set(k, v)
		}
	}
	s.set()
}

func (s viewState[K, V]) describe(w *describer) {
	for k, v := range s.m.View().All() {
		w.entry("%v: %+v", k, v)
	}
}
