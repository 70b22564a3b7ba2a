package engine

// Partition returns the elements for which pred is true, and the others. It asks once
// for each, and writes an element to both sides before it knows, because a branch on
// the user's answer is mispredicted.
func Partition[T any](in *Node[T], op *Op, pred func(T) bool) (yes, no *Node[T]) {
	h := derived(op, in)
	yes, no = NewNode[T](h), NewNode[T](h)
	var ys, ns []T
	op.scratch(&ys, &ns)
	in.To(func(batch []T) {
		op.enter()
		ys, ns = resize(ys, len(batch)), resize(ns, len(batch))
		i, j := 0, 0
		for _, x := range batch {
			ys[i], ns[j] = x, x
			if pred(x) {
				i++
			} else {
				j++
			}
		}
		if i > 0 {
			yes.push(ys[:i])
		}
		if j > 0 {
			no.push(ns[:j])
		}
	})
	return yes, no
}

// TryMap returns what f returned without an error, and what failed makes of the
// element and the error else.
func TryMap[T, U, F any](in *Node[T], op *Op, f func(T) (U, error), failed func(T, error) F) (values *Node[U], failures *Node[F]) {
	h := derived(op, in)
	values, failures = NewNode[U](h), NewNode[F](h)
	var us []U
	var fs []F
	op.scratch(&us, &fs)
	in.To(func(batch []T) {
		op.enter()
		us, fs = us[:0], fs[:0]
		for _, x := range batch {
			if u, err := f(x); err == nil {
				us = append(us, u)
			} else {
				fs = append(fs, failed(x, err))
			}
		}
		if len(us) > 0 {
			values.push(us)
		}
		if len(fs) > 0 {
			failures.push(fs)
			clear(fs)
		}
	})
	return values, failures
}
