package port

import "github.com/millrace/millrace/internal/engine"

// drop drops the entry of k at the end of the step. A caller that waits for k has what the
// step gave before; nobody has it after the step.
func (out *EntryOutput[K, V]) drop(k K, h uint64) {
	out.drops(k)
	at, added := out.goneAt.Put(k, h)
	if !added {
		return
	}
	*at = len(out.gone.K)
	out.changing()
	out.gone.Append(true, k, struct{}{}, h)
}

// back notes that k has an entry again after it was dropped in the same step: the new one
// takes the place of the one before it.
func (out *EntryOutput[K, V]) back(k K, h uint64) {
	at := out.goneAt.Get(k, h)
	if at == nil {
		return
	}
	i, last := *at, len(out.gone.K)-1
	if i < last {
		out.gone.K[i], out.gone.H[i] = out.gone.K[last], out.gone.H[last]
		*out.goneAt.Get(out.gone.K[i], out.gone.H[i]) = i
	}
	out.gone.K, out.gone.V, out.gone.H = out.gone.K[:last], out.gone.V[:last], out.gone.H[:last]
	out.goneAt.Delete(k, h)
}

// DropOn makes out drop the entry of each key that appears in n, in the step in which it
// appears. So the flow itself can decide how long an entry is kept. A later entry under the
// same key is a new one.
func DropOn[K comparable, V, X any](out *EntryOutput[K, V], n *engine.KeyedNode[K, X]) {
	var hs []uint64
	n.To(func(b *engine.Batch[K, X]) {
		if out.goneAt != nil {
			for i, h := range b.Hashes(out.hash, &hs) {
				out.drop(b.K[i], h)
			}
			return
		}
		for _, k := range b.K {
			out.drops(k)
		}
		out.changing()
		out.gone.K = append(out.gone.K, b.K...)
		out.gone.V = append(out.gone.V, make([]struct{}, len(b.K))...)
		out.gone.H = append(out.gone.H, b.Hashes(out.hash, &hs)...)
	})
}
