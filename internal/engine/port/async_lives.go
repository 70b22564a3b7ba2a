package port

import (
	"context"
	"maps"
	"sync"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/state"
	"github.com/millrace/millrace/internal/keyed"
)

// A lifeOf is a key in one of its lives. Calls are made for lives, so that the answer to a call of an ended life is not mistaken
// for that of the next life.
type lifeOf[K comparable] struct {
	Key  K
	Life uint64
}

// ErrorKey returns the key that errors show.
func (k lifeOf[K]) ErrorKey() any { return k.Key }

// lives holds the calls of entries that can be forgotten.
type lives[K comparable, V, U any] struct {
	hash  *keyed.Hasher[K]
	table *keyed.Table[K, uint64] // the life of each present key: twice its number, plus 1 once it has its answer
	last  *uint64                 // number of the newest life
	asked *engine.KeyedNode[lifeOf[K], V]
	out   *engine.KeyedNode[K, U]
	calls *LifeCalls
}

// mapLives is MapAsync of entries that can be forgotten: one call for each life. When a life ends, the context of its call is
// canceled; a later answer is dropped, and an earlier one is forgotten.
func mapLives[K comparable, V, U any](n *engine.KeyedNode[K, V], op *engine.Op, f func(context.Context, K, V) U, limit int) *engine.KeyedNode[K, U] {
	h := engine.Same(op.Name, n)
	m := engine.Lasting(op)
	l := &lives[K, V, U]{
		hash: engine.Hasher[K](), table: state.NewTable(m, state.Plain[K], state.Plain[uint64]), last: state.NewVar(m, uint64(0)),
		asked: engine.NewKeyedNode[lifeOf[K], V](h), calls: NewLifeCalls(h.Loc),
	}
	var hs []uint64
	op.Scratch(&hs)
	call := func(ctx context.Context, k lifeOf[K], v V) U {
		return CallOfLife(ctx, l.calls, k.Life, 0, func(ctx context.Context) U { return f(ctx, k.Key, v) })
	}
	answers := CallForLives(l.calls, l.asked, op, call, limit, func(k lifeOf[K]) (uint64, bool) {
		life := l.table.Get(k.Key, l.hash.Hash(k.Key))
		return k.Life, life != nil && *life/2 == k.Life
	})
	l.out = engine.NewKeyedNode[K, U](engine.Same(op.Name, n, answers))
	l.out.Revises, l.out.Forgets = true, true
	n.To(func(b *engine.Batch[K, V]) {
		for i, h := range b.Hashes(l.hash, &hs) {
			if b.Gone != nil && b.Gone[i] {
				l.end(b.K[i], h)
			} else {
				l.begin(b.K[i], b.V[i], h)
			}
		}
	})
	answers.To(func(b *engine.Batch[lifeOf[K], U]) {
		for i, k := range b.K {
			l.answered(k, b.V[i])
		}
	})
	return l.out
}

// begin requests the call of a new life.
func (l *lives[K, V, U]) begin(k K, v V, h uint64) {
	*l.last++
	life, _ := l.table.Put(k, h)
	*life = 2 * *l.last
	l.asked.One(lifeOf[K]{k, *l.last}, v, 0)
}

// end ends the life of k.
func (l *lives[K, V, U]) end(k K, h uint64) {
	life := l.table.Get(k, h)
	if life == nil {
		return
	}
	if *life&1 == 1 {
		gone := engine.Batch[K, U]{K: []K{k}, V: make([]U, 1), H: []uint64{h}, Gone: []bool{true}}
		l.out.Push(&gone)
	} else {
		l.calls.End(*life/2, 1)
	}
	l.table.Delete(k, h)
}

// answered gives the answer of a life, unless the life is over.
func (l *lives[K, V, U]) answered(k lifeOf[K], u U) {
	h := l.hash.Hash(k.Key)
	i, life := l.table.GetIndex(k.Key, h)
	if life == nil || *life/2 != k.Life {
		l.calls.Drop(k.Life)
		return
	}
	l.table.Change(i)
	*life |= 1
	l.out.One(k.Key, u, h)
}

// LifeCalls are the calls that an operator makes for lives of keys. The operator ends lives while holding the token; calls begin
// and return on goroutines of their own.
//
// If the history is kept outside, a life is over when the step that ended it is durable. Until then the step may still not
// happen: its record may be quarantined, or the process may end. The answer of a call whose context was canceled too early would
// be in the history.
type LifeCalls struct {
	mu      sync.Mutex
	kept    bool
	ending  map[uint64]uint32 // number of answers to come, by life that ends with a step that is not durable yet
	over    map[uint64]uint32 // number of answers to come, by life that is over
	running map[lifeCall]context.CancelFunc
	dropped uint64 // answers
}

// A lifeCall is one of the calls of a life.
type lifeCall struct {
	life   uint64
	number uint32
}

// NewLifeCalls returns the calls of an operator of a location.
func NewLifeCalls(at *engine.Location) *LifeCalls {
	return &LifeCalls{kept: at.Graph.Kept(), ending: make(map[uint64]uint32), over: make(map[uint64]uint32), running: make(map[lifeCall]context.CancelFunc)}
}

// CallForLives is MapAsync for an operator whose keys distinguish lives. The operator's function makes the calls with
// [CallOfLife]. Unlike with MapAsync, the operator can also give something at once, such as the end of a life. The function life
// returns the life of a call's key, and whether it is present.
func CallForLives[K comparable, V, U any](
	l *LifeCalls, n *engine.KeyedNode[K, V], op *engine.Op, f func(context.Context, K, V) U, limit int, life func(K) (uint64, bool),
) *engine.KeyedNode[K, U] {
	a, answers := calls(n, op, f, limit)
	a.lives, a.life = l, life
	op.Later = false
	return answers
}

// CallOfLife makes a call of a life, unless the life is over and the answer would be of no use. The context of the call ends with
// the life.
func CallOfLife[Z any](ctx context.Context, l *LifeCalls, life uint64, number uint32, call func(context.Context) Z) (none Z) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := lifeCall{life, number}
	l.mu.Lock()
	_, over := l.over[life]
	if !over {
		l.running[c] = cancel
	}
	l.mu.Unlock()
	if over {
		return none
	}
	defer func() {
		l.mu.Lock()
		delete(l.running, c)
		l.mu.Unlock()
	}()
	return call(ctx)
}

// End records that a life has ended to which this many answers are still to come.
func (l *LifeCalls) End(life uint64, answers uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ending[life] = answers
	if !l.kept {
		l.end()
	}
}

// Drop records that an answer came to a life that is over.
func (l *LifeCalls) Drop(life uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropped++
	for _, lives := range [...]map[uint64]uint32{l.ending, l.over} {
		if n := lives[life]; n > 1 {
			lives[life] = n - 1
		} else {
			delete(lives, life)
		}
	}
}

// resume records which lives are over, with the number of answers to come, when a restored flow makes calls again.
func (l *LifeCalls) resume(over map[uint64]uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.Copy(l.over, over)
}

// droppedSoFar returns the number of answers dropped since the flow started.
func (l *LifeCalls) droppedSoFar() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropped
}

// committed records that the last step is durable.
func (l *LifeCalls) committed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end()
}

// end cancels the calls of ending lives and keeps others of them from beginning. It is called with mu held.
func (l *LifeCalls) end() {
	if len(l.ending) == 0 {
		return
	}
	for c, cancel := range l.running {
		if _, ends := l.ending[c.life]; ends {
			cancel()
		}
	}
	maps.Copy(l.over, l.ending)
	clear(l.ending)
}
